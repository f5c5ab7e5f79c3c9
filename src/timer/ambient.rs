//! The default timer of each runtime, which starts when the runtime first needs it.
//!
//! A registry maps the id of each runtime to its default timer. All runtimes share the lock of the registry.
//!
//! # What a thread remembers
//!
//! A registration must not write to memory that threads share. `Handle::try_current` writes to such memory,
//! because it clones an `Arc`. So each thread remembers the registrar of its last registration.
//!
//! A worker of a multi-thread runtime uses the remembered registrar, and does not check which runtime is
//! current. The worker's runtime always runs, so its timer always fires. Any other thread can run one runtime
//! after another. If a sleep used the timer of a runtime that does not run, the sleep would never fire. So a
//! thread that is not such a worker checks the current runtime at every registration. The remembered
//! registrar then only avoids the lock of the registry.
//!
//! As a consequence, these futures may register with the worker's own runtime instead of the current runtime:
//!
//! * futures that a worker polls after it has entered the handle of another runtime
//! * futures of a second runtime, if the worker runs this runtime inside `block_in_place`
//! * futures of a current-thread runtime, if its thread was worker 0 of another runtime before: tokio's
//!   `worker_index` is `Some(0)` inside each current-thread runtime
//!
//! `docs/limitations.md` lists the consequences. Checking the current runtime would cost twice as much as a
//! registration. When the worker's own runtime shuts down, such a future moves to the runtime that polls the
//! future (`Registration::poll_closed`).
//!
//! # How a thread proves that it is a worker
//!
//! `worker_index` only shows that the thread is a worker of some runtime. The current runtime may be another
//! multi-thread runtime, whose handle the thread has entered. But if a task of the current runtime runs on
//! the thread, the thread is a worker of the current runtime. So a thread that may be such a worker spawns a
//! task of the current runtime, called the [`witness`]. The witness usually runs next on the thread that
//! spawned it. Every thread that runs a witness has the proof. Test:
//! `an_entered_handle_leaves_no_trace_on_a_worker` in `tests/promises`.
//!
//! # When a thread forgets
//!
//! * After `block_in_place` a thread may become another worker, with another shard. So the thread remembers
//!   its worker index, and looks the registrar up again when the index changes.
//! * If a runtime has shut down, its timer refuses the registration. The thread then looks the default timer
//!   up again.
//!
//! Models: `timer::loom_tests::start_races_start`, `shutdown_races_the_next_ambient_timer` and
//! `runtime_end_races_poll`.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

#[cfg(not(tokio_wheel_loom))]
use std::sync::LazyLock;

use tokio::runtime::{self, RuntimeFlavor};

use super::{Parts, Timer, Undriven, builder::Builder};
use crate::{
    driver::{core::Core, ending::End, handle::worker_of, registrar::Registrar},
    error::{BuildError, TryCurrentError},
    ground::sync::{Mutex, thread_local},
};

type Timers = HashMap<runtime::Id, Timer>;

/// The default timers, by the id of their runtime.
#[cfg(not(tokio_wheel_loom))]
static TIMERS: LazyLock<Mutex<Timers>> = LazyLock::new(|| Mutex::new(Timers::new()));
#[cfg(tokio_wheel_loom)]
loom::lazy_static! {
    static ref TIMERS: Mutex<Timers> = Mutex::new(Timers::new());
}

thread_local! {
    static REMEMBERED: RefCell<Option<Remembered>> = const { RefCell::new(None) };
}

/// As long as no witness has run, the thread spawns another witness after this many uses of the remembered
/// registrar.
const USES_PER_WITNESS: u32 = 1_024;

/// The maximum number of references that a thread keeps. A few are enough, because a request usually has only
/// a few nested timeouts.
const KEPT: usize = 4;

/// The message of the panic when a task polls a future of the default timer outside a runtime.
const OUTSIDE: &str = "a future of the default timer was polled outside of a tokio runtime; only a \
                       future made by a `tokio_wheel::Timer` can be polled there";

/// The result of a thread's last look-up.
struct Remembered {
    runtime: runtime::Id,
    registrar: Arc<Registrar>,
    /// The worker index of the thread at the time of the look-up. The thread may have been a worker of any
    /// runtime.
    worker: Option<usize>,
    /// Whether a witness has proved that the thread is a worker of `runtime`.
    is_proven: bool,
    /// The number of uses since the look-up, until a witness has run.
    uses: u32,
    /// The references for later futures, at most [`KEPT`]. A future [leaves](leave) its reference here when
    /// it is dropped. Each kept reference saves two locked instructions: one for cloning an `Arc`, and one
    /// for dropping it.
    references: Vec<Arc<Registrar>>,
}

impl Remembered {
    /// Returns the registrar, if it belongs to the current runtime and worker. If the caller must spawn a
    /// witness, also returns the runtime.
    #[inline]
    fn get(&mut self) -> Option<(Arc<Registrar>, Option<runtime::Handle>)> {
        // After `block_in_place` the thread may be another worker, with another shard.
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

    /// Keeps a reference to the remembered registrar, if there is room. Returns the reference if it was not
    /// kept.
    #[inline]
    fn keep(&mut self, registrar: Arc<Registrar>) -> Option<Arc<Registrar>> {
        if self.references.len() == KEPT || !Arc::ptr_eq(&registrar, &self.registrar) {
            return Some(registrar);
        }
        self.references.push(registrar);
        None
    }
}

/// Records that the thread which runs this task is a worker of the multi-thread runtime `of`.
async fn witness(of: runtime::Id) {
    // The access fails only if the thread is ending.
    let _ = REMEMBERED.try_with(|remembered| {
        if let Some(remembered) = remembered.borrow_mut().as_mut() {
            if remembered.runtime == of && remembered.worker == runtime::worker_index() {
                remembered.is_proven = true;
            }
        }
    });
}

impl Timer {
    /// Returns a handle of the current runtime's default timer, and starts that timer if needed.
    ///
    /// The free functions of this crate need no handle, and usually take no lock that runtimes share. This
    /// function takes a lock that all runtimes share. So keep the handle if you need it often.
    ///
    /// All tasks of the runtime share the default timer. So this handle and its clones cannot [shut the timer
    /// down](Self::shutdown). Only the handle that [`Builder::install`] returned can shut the timer down.
    ///
    /// # Panics
    ///
    /// Panics if the thread is not in a runtime, or if time is not enabled on the runtime.
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
    #[must_use]
    #[track_caller]
    pub fn current() -> Self {
        match Self::try_current() {
            Ok(timer) => timer,
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns a handle of the current runtime's default timer, or an error outside a runtime. See
    /// [`current`](Self::current).
    ///
    /// # Panics
    ///
    /// Panics if time is not enabled on the runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread is not in a runtime.
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
            Ok(runtime) => Ok(timer(&runtime).without_shutdown()),
            Err(_) => Err(TryCurrentError(())),
        }
    }
}

impl Builder {
    /// Builds the timer and makes it the default timer of the current runtime.
    ///
    /// On that runtime, the free functions then use this timer. Install the timer before a future of a free
    /// function is polled. Otherwise, the first poll starts an ordinary default timer.
    ///
    /// # Panics
    ///
    /// Panics if time is not enabled on the runtime. A timer of high resolution also needs I/O enabled.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`build`](Self::build), or [`AlreadyInstalled`](BuildError::AlreadyInstalled) if
    /// the runtime already has a default timer.
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
        install(self.parts(None)?)
    }

    /// Builds the timer and makes it the default timer of the given runtime.
    ///
    /// You can call this method on any thread, for example before the runtime runs its first task.
    ///
    /// # Panics
    ///
    /// Panics if time is not enabled on the runtime. A timer of high resolution also needs I/O enabled.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`install`](Self::install), except [`NoRuntime`](BuildError::NoRuntime).
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Timer, error::BuildError};
    ///
    /// # fn main() -> Result<(), BuildError> {
    /// let runtime = tokio::runtime::Runtime::new().unwrap();
    /// let timer = Timer::builder().shards(2).install_on(runtime.handle())?;
    /// runtime.block_on(sleep(Duration::from_millis(1)));
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn install_on(self, runtime: &runtime::Handle) -> Result<Timer, BuildError> {
        install(self.parts(Some(runtime))?)
    }
}

fn install(parts: Parts) -> Result<Timer, BuildError> {
    let installed = insert(Undriven::new(parts, remove));
    installed
        .map_err(|_| BuildError::AlreadyInstalled)?
        .if_running()
}

/// Returns the calling thread's registrar of the current runtime's default timer.
///
/// # Panics
///
/// Panics if the thread is not in a runtime, or if time is not enabled on the runtime.
#[inline]
#[track_caller]
pub(crate) fn registrar() -> Arc<Registrar> {
    let remembered = REMEMBERED
        .try_with(|remembered| remembered.borrow_mut().as_mut().and_then(Remembered::get))
        .unwrap_or_default();
    match remembered {
        Some((registrar, None)) => registrar,
        Some((registrar, Some(runtime))) => {
            runtime.spawn(witness(runtime.id()));
            registrar
        }
        None => look_up(),
    }
}

/// Takes over the reference of a dropped future. The next future that this thread registers can use the
/// reference. Test: `a_thread_keeps_a_few_references`.
#[inline]
pub(crate) fn leave(registrar: Arc<Registrar>) {
    let surplus = REMEMBERED.try_with(|remembered| match remembered.borrow_mut().as_mut() {
        Some(remembered) => remembered.keep(registrar),
        None => Some(registrar),
    });
    // Dropping the last reference may wake the driver, so the borrow must have ended.
    drop(surplus);
}

/// Looks the calling thread's registrar up in the registry, and remembers it.
///
/// # Panics
///
/// Panics if the thread is not in a runtime, or if time is not enabled on the runtime.
#[cold]
#[track_caller]
pub(crate) fn look_up() -> Arc<Registrar> {
    let runtime = runtime::Handle::try_current().unwrap_or_else(|_| panic!("{OUTSIDE}"));
    let registrar = timer(&runtime).ambient_registrar();
    let remembered = Remembered {
        runtime: runtime.id(),
        registrar: registrar.clone(),
        worker: runtime::worker_index(),
        is_proven: false,
        uses: 0,
        references: Vec::with_capacity(KEPT),
    };
    // Dropping the replaced registrar may wake a driver, so the borrow must have ended.
    let replaced = REMEMBERED.try_with(|cell| cell.replace(Some(remembered)));
    drop(replaced);
    registrar
}

/// Returns whether the calling thread is in a runtime other than `runtime`.
pub(crate) fn is_elsewhere(runtime: runtime::Id) -> bool {
    runtime::Handle::try_current().is_ok_and(|current| current.id() != runtime)
}

/// Returns whether the calling thread is a worker of `runtime` and `runtime` is shutting down.
///
/// The runtime must have time enabled.
pub(crate) fn is_shutting_down(runtime: runtime::Id) -> bool {
    let Some(current) = worker_of(runtime) else {
        return false;
    };
    // If the runtime is shutting down, it drops each new driver at once. The timer of a dropped driver ends.
    loop {
        match timer(&current).end() {
            None => return false,
            Some(End::Runtime) => return true,
            // Another thread has shut this timer down. The loop then checks the next default timer.
            Some(End::Shutdown) => {}
        }
    }
}

/// Returns the default timer of a runtime, and starts it if needed.
#[track_caller]
pub(super) fn timer(runtime: &runtime::Handle) -> Timer {
    if let Some(timer) = up(&TIMERS.lock(), runtime.id()) {
        return timer;
    }
    let parts = Timer::builder().parts(Some(runtime));
    let parts = parts.expect("the defaults are in range");
    insert(Undriven::new(parts, remove)).unwrap_or_else(|existing| existing)
}

/// Makes a timer the default timer of its runtime and starts it. Returns the existing default timer if there
/// is one.
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

/// Removes a timer from the registry when the timer shuts down.
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

/// Returns the default timer of a runtime. Returns `None` if the runtime has no default timer, or if the
/// timer has shut down.
fn up(timers: &Timers, runtime: runtime::Id) -> Option<Timer> {
    timers.get(&runtime).filter(|t| !t.is_shutdown()).cloned()
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use super::*;

    fn kept() -> usize {
        REMEMBERED.with(|remembered| remembered.borrow().as_ref().unwrap().references.len())
    }

    /// A thread keeps references only to the remembered registrar, so it keeps no other timer alive.
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
