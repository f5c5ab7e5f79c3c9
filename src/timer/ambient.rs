//! The ambient timer of each runtime: found by the runtime's id, started at first need.
//!
//! # What a thread remembers
//!
//! A registration must not touch what threads share, and `Handle::try_current` does: it clones
//! an `Arc`. But on a thread that works for a multi-thread runtime, the registrar of that runtime
//! may be remembered and used without asking: it drives itself whatever the thread is doing. Any
//! other thread may run one runtime after the other, and a timer left with one that nobody runs
//! would never fire. There the runtime is asked for at every registration, and what is remembered
//! saves only the lock of the registry.
//!
//! The price: while a worker has entered the handle of another runtime, or runs one within
//! `block_in_place`, its futures may register with the worker's own runtime. A former worker 0 that
//! runs a current-thread runtime does the same: tokio's `worker_index` is `Some(0)` there as well.
//! `docs/limitations.md` lists the threads and the consequences. A check would cost twice as much as
//! a registration. When the worker's own runtime shuts down, such a future moves to the runtime that
//! polls it (`Registration::poll_closed`).
//!
//! That a thread is a worker (`worker_index`) and that a multi-thread runtime is current does
//! not prove that it is a worker of *that* runtime: a handle may have been entered. Proof is
//! that a task of the runtime runs on the thread. So a thread that may be a worker spawns a
//! [`witness`], which as a rule runs on the same thread next, and wherever it runs tells the
//! truth (`tests/promises`, `an_entered_handle_leaves_no_trace_on_a_worker`).
//!
//! After `block_in_place` a thread may come back as another worker, with another shard. So the
//! thread remembers which worker it was, and looks its registrar up again when the number changes.
//!
//! A remembered timer whose runtime has shut down refuses the registration; the thread then
//! looks it up afresh.
//!
//! Models: `timer::loom_tests::start_races_start`, `shutdown_races_the_next_ambient_timer` and
//! `runtime_end_races_poll`.

#[cfg(all(feature = "coarse", target_os = "linux"))]
use std::cell::Cell;
use std::{cell::RefCell, collections::HashMap, sync::Arc, time::Duration};

#[cfg(not(tokio_wheel_loom))]
use std::sync::LazyLock;

use tokio::{
    runtime::{self, RuntimeFlavor},
    time::Instant,
};

use super::{Timer, Undriven, builder::Builder};
use crate::{
    driver::{clock, core::Core, ending::End, registrar::Registrar, worker::worker_of},
    error::{BuildError, TryCurrentError},
    ground::sync::{Mutex, thread_local},
};

#[cfg(all(feature = "coarse", target_os = "linux"))]
use crate::driver::clock::{Coarse, is_long};

type Timers = HashMap<runtime::Id, Timer>;

/// The ambient timers of the runtimes that are up.
#[cfg(not(tokio_wheel_loom))]
static TIMERS: LazyLock<Mutex<Timers>> = LazyLock::new(|| Mutex::new(Timers::new()));
#[cfg(tokio_wheel_loom)]
loom::lazy_static! {
    static ref TIMERS: Mutex<Timers> = Mutex::new(Timers::new());
}

thread_local! {
    static REMEMBERED: RefCell<Option<Remembered>> = const { RefCell::new(None) };

    /// The coarse clock, if the remembered timer uses it and the thread is its runtime's worker of
    /// that number. Kept apart: a timeout of a future that is ready looks at nothing else.
    #[cfg(all(feature = "coarse", target_os = "linux"))]
    static COARSE: Cell<Option<(usize, &'static Coarse)>> = const { Cell::new(None) };
}

/// Uses of an unproven memory between one witness and the next.
const USES_PER_WITNESS: u32 = 1_024;

/// The references that a thread keeps for futures. A request has a few limits in each other.
const KEPT: usize = 4;

/// The message of the panic when a future of the default timer is polled outside of a runtime.
const OUTSIDE: &str = "a timer was polled outside of a tokio runtime: poll it in a task or in \
                       `block_on` of a runtime that has time enabled, or make it by a method of a \
                       `tokio_wheel::Timer`, whose futures can be polled anywhere";

/// What a thread remembers of its last look-up.
struct Remembered {
    runtime: runtime::Id,
    registrar: Arc<Registrar>,
    /// Which worker the thread was then, of whatever runtime.
    worker: Option<usize>,
    /// Whether the thread is that worker of that runtime, a multi-thread one: a task of it has shown
    /// that.
    is_proven: bool,
    /// How often the runtime was asked for since the look-up.
    uses: u32,
    /// Up to [`KEPT`] references that dropped futures have [left](leave) for the next ones. Cloning an
    /// `Arc` and dropping it are two locked instructions.
    references: Vec<Arc<Registrar>>,
}

impl Remembered {
    /// The registrar, if it is that of the current runtime and worker, and that runtime if a witness
    /// is wanted.
    #[inline]
    fn get(&mut self) -> Option<(Arc<Registrar>, Option<runtime::Handle>)> {
        // After `block_in_place` a thread may come back as another worker, with another shard.
        if self.worker != runtime::worker_index() {
            return None;
        }
        if self.is_proven {
            return Some((self.reference(), None));
        }
        let current = runtime::Handle::try_current().ok()?;
        if current.id() != self.runtime {
            return None;
        }
        let wants_witness = self.uses % USES_PER_WITNESS == 0
            && self.worker.is_some()
            && current.runtime_flavor() == RuntimeFlavor::MultiThread;
        self.uses = self.uses.wrapping_add(1);
        Some((self.reference(), wants_witness.then_some(current)))
    }

    #[inline]
    fn reference(&mut self) -> Arc<Registrar> {
        let kept = self.references.pop();
        kept.unwrap_or_else(|| self.registrar.clone())
    }

    /// Keeps a reference, if it is one to the registrar that is remembered and there is room for it.
    #[inline]
    fn keep(&mut self, registrar: Arc<Registrar>) -> Option<Arc<Registrar>> {
        if self.references.len() == KEPT || !Arc::ptr_eq(&registrar, &self.registrar) {
            return Some(registrar);
        }
        self.references.push(registrar);
        None
    }
}

/// A task of a multi-thread runtime that shows the thread which runs it whose worker that is.
async fn witness(of: runtime::Id) {
    // During the thread's end there is nothing left to remember.
    let _ = REMEMBERED.try_with(|remembered| {
        if let Some(remembered) = remembered.borrow_mut().as_mut() {
            let worker = runtime::worker_index();
            if remembered.runtime == of && remembered.worker == worker {
                remembered.is_proven = true;
                #[cfg(all(feature = "coarse", target_os = "linux"))]
                COARSE.set(worker.zip(remembered.registrar.clock().coarse()));
            }
        }
    });
}

impl Timer {
    /// The ambient timer of the current runtime, which is started if need be.
    ///
    /// # Panics
    ///
    /// Outside of a runtime, and where the runtime has no time enabled.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// sleep(Duration::from_secs(1)).await;
    /// assert_eq!(Timer::current().metrics().fired(), 1);
    /// # }
    /// ```
    #[track_caller]
    pub fn current() -> Self {
        match Self::try_current() {
            Ok(timer) => timer,
            Err(error) => panic!("{error}"),
        }
    }

    /// The ambient timer of the current runtime, which is started if need be.
    ///
    /// # Panics
    ///
    /// Where the runtime has no time enabled, which cannot be found out in another way.
    ///
    /// # Errors
    ///
    /// Outside of a runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Timer;
    ///
    /// assert!(Timer::try_current().is_err());
    ///
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    /// runtime.block_on(async {
    ///     assert!(Timer::try_current().is_ok());
    /// });
    /// ```
    #[track_caller]
    pub fn try_current() -> Result<Self, TryCurrentError> {
        match runtime::Handle::try_current() {
            Ok(runtime) => Ok(timer(&runtime)),
            Err(_) => Err(TryCurrentError(())),
        }
    }
}

impl Builder {
    /// Builds the timer and makes it the current runtime's ambient one, which the free functions
    /// use.
    ///
    /// # Panics
    ///
    /// Outside of a runtime, and where the runtime has no time enabled, or no I/O for a timer of
    /// high resolution.
    ///
    /// # Errors
    ///
    /// If the tick, the number of shards or the limit is out of range, if there is no alarm for a
    /// timer of high resolution, and if the runtime has an ambient timer already. It has one from the first poll of a free function's future on.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Timer, error::BuildError};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), BuildError> {
    /// let timer = Timer::builder().tick(Duration::from_millis(10)).install()?;
    /// sleep(Duration::from_millis(15)).await;
    /// assert_eq!(timer.metrics().fired(), 1);
    ///
    /// let another = Timer::builder().install();
    /// assert!(matches!(another, Err(BuildError::AlreadyInstalled)));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn install(self) -> Result<Timer, BuildError> {
        insert(Undriven::new(self.parts()?, remove)).map_err(|_| BuildError::AlreadyInstalled)
    }
}

/// The registrar of the calling thread at the ambient timer of the current runtime.
///
/// # Panics
///
/// Outside of a runtime, and where the runtime has no time enabled.
#[inline]
#[track_caller]
pub(crate) fn registrar() -> Arc<Registrar> {
    registrar_or(OUTSIDE)
}

/// Does what [`registrar`] does, and panics with the message `outside` if the caller is outside of a runtime.
#[inline]
#[track_caller]
pub(crate) fn registrar_or(outside: &str) -> Arc<Registrar> {
    let remembered = REMEMBERED
        .try_with(|remembered| remembered.borrow_mut().as_mut().and_then(Remembered::get))
        .unwrap_or_default();
    match remembered {
        Some((registrar, None)) => registrar,
        Some((registrar, Some(runtime))) => {
            runtime.spawn(witness(runtime.id()));
            registrar
        }
        None => look_up_or(outside),
    }
}

/// Takes the reference of a future that is dropped, for the next future that this thread registers. Test:
/// `a_thread_keeps_a_few_references`.
#[inline]
pub(crate) fn leave(registrar: Arc<Registrar>) {
    let surplus = REMEMBERED.try_with(|remembered| match remembered.borrow_mut().as_mut() {
        Some(remembered) => remembered.keep(registrar),
        None => Some(registrar),
    });
    // Outside of the borrow, since that may wake the driver.
    drop(surplus);
}

/// Returns the present, or for a long duration where the thread's timer is coarse an instant shortly
/// after it, which already has the margin.
#[inline]
#[cfg_attr(
    not(all(feature = "coarse", target_os = "linux")),
    expect(unused_variables, reason = "no clock is coarse")
)]
pub(crate) fn present_for(duration: Duration) -> Instant {
    // The duration comes first, so that a short sleep does not look at the thread's memory.
    #[cfg(all(feature = "coarse", target_os = "linux"))]
    if is_long(duration) && COARSE.with(|coarse| coarse.get().is_some()) {
        return coarse_present_for(duration);
    }
    Instant::now()
}

/// Does what [`present_for`] does for a long duration on a thread that has a coarse clock.
// In line, it costs a thread without a coarse clock 19 instructions in a timeout around a future that is
// ready.
#[cfg(all(feature = "coarse", target_os = "linux"))]
#[inline(never)]
fn coarse_present_for(duration: Duration) -> Instant {
    match COARSE.get() {
        // The thread may serve blocking tasks by now, which may run runtimes of their own.
        Some((worker, coarse)) if runtime::worker_index() == Some(worker) => {
            coarse.present_for(duration)
        }
        _ => Instant::now(),
    }
}

/// Returns the instant `duration` after [`present_for`]; saturates as [`clock::after`] does.
#[inline]
pub(crate) fn after(duration: Duration) -> Instant {
    clock::saturating_add(present_for(duration), duration)
}

/// As [`registrar`], but forgets what the thread remembered.
#[cold]
#[track_caller]
pub(crate) fn look_up() -> Arc<Registrar> {
    look_up_or(OUTSIDE)
}

/// Does what [`look_up`] does, and panics with the message `outside` if the caller is outside of a runtime.
#[cold]
#[track_caller]
pub(crate) fn look_up_or(outside: &str) -> Arc<Registrar> {
    let Ok(runtime) = runtime::Handle::try_current() else {
        panic!("{outside}");
    };
    let registrar = timer(&runtime).ambient_registrar();
    let remembered = Remembered {
        runtime: runtime.id(),
        registrar: registrar.clone(),
        worker: runtime::worker_index(),
        is_proven: false,
        uses: 0,
        references: Vec::with_capacity(KEPT),
    };
    #[cfg(all(feature = "coarse", target_os = "linux"))]
    COARSE.set(None);
    // The replaced one is dropped outside of the borrow, since that may wake a driver.
    let replaced = REMEMBERED.try_with(|cell| cell.replace(Some(remembered)));
    drop(replaced);
    registrar
}

/// Whether the calling thread is in another runtime than that one.
pub(crate) fn is_elsewhere(runtime: runtime::Id) -> bool {
    runtime::Handle::try_current().is_ok_and(|current| current.id() != runtime)
}

/// Whether the calling thread is a worker of that runtime, which has time enabled, and that is
/// shutting down.
pub(crate) fn is_shutting_down(runtime: runtime::Id) -> bool {
    let Some(current) = worker_of(runtime) else {
        return false;
    };
    // Such a runtime spawns nothing, so a new timer loses its driver at once.
    loop {
        match timer(&current).end() {
            None => return false,
            Some(End::Runtime) => return true,
            // Somebody was faster, which says nothing of the runtime.
            Some(End::Shutdown) => {}
        }
    }
}

/// The ambient timer of `runtime`, which the calling thread is in.
#[track_caller]
pub(super) fn timer(runtime: &runtime::Handle) -> Timer {
    if let Some(timer) = up(&TIMERS.lock(), runtime.id()) {
        return timer;
    }
    let parts = Timer::builder().parts().expect("the defaults are in range");
    insert(Undriven::new(parts, remove)).unwrap_or_else(|existing| existing)
}

/// Makes a timer the ambient one of its runtime and starts it, unless there is one: returns that,
/// then.
fn insert(undriven: Undriven) -> Result<Timer, Timer> {
    let runtime = undriven.runtime.id();
    let replaced = {
        let mut timers = TIMERS.lock();
        if let Some(existing) = up(&timers, runtime) {
            return Err(existing);
        }
        timers.insert(runtime, undriven.timer.clone())
    };
    drop(replaced);
    Ok(undriven.start())
}

/// Takes a timer out that shuts down.
pub(super) fn remove(core: &Core) {
    let runtime = core.driver().runtime;
    let removed = {
        let mut timers = TIMERS.lock();
        match timers.get(&runtime) {
            Some(timer) if timer.is_of(core) => timers.remove(&runtime),
            _ => None,
        }
    };
    drop(removed);
}

fn up(timers: &Timers, runtime: runtime::Id) -> Option<Timer> {
    timers.get(&runtime).filter(|t| !t.is_shutdown()).cloned()
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use super::*;

    fn kept() -> usize {
        REMEMBERED.with(|remembered| remembered.borrow().as_ref().unwrap().references.len())
    }

    /// References to other registrars are not kept, so no other timer lives longer for it.
    #[tokio::test]
    async fn a_thread_keeps_a_few_references() {
        let references: Vec<_> = (0..KEPT + 2).map(|_| registrar()).collect();
        let timer = Timer::builder().build().unwrap();
        leave(timer.registrar());
        assert_eq!(kept(), 0);
        references.into_iter().for_each(leave);
        assert_eq!(kept(), KEPT);
        let mine = registrar();
        assert_eq!(kept(), KEPT - 1, "it is used again");
        leave(mine);
        assert_eq!(kept(), KEPT);
    }
}
