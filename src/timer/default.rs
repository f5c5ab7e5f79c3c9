//! Which timer a thread uses for a future of a free function, such as `sleep`.
//!
//! [`registrar`] answers this. It returns the default timer that the thread remembers, if this is the timer of the
//! current runtime. Otherwise [`look_up`] asks the [`registry`], which starts the timer if needed, and the thread
//! remembers the answer.
//!
//! A registration must not write to memory that threads share, and asking tokio for the current runtime is
//! such a write: `Handle::try_current` clones an `Arc`. So a thread remembers the default timer of its last
//! look-up, in one of these states:
//!
//! | state | the thread | a registration |
//! |---|---|---|
//! | (nothing) | has not used a default timer | looks the timer up |
//! | asks | may be a worker of another runtime whose task has entered the remembered runtime's handle, or may run one runtime after another | asks which runtime is current, and looks the timer up if it is another one |
//! | is a worker | is a worker of the remembered runtime | uses the timer |
//!
//! # Rules
//!
//! * A look-up replaces the memory. The thread then asks.
//! * A thread that asks becomes a worker when it runs a [`witness`]. `worker_index` only shows that the thread is
//!   a worker of some runtime, but a runtime runs its tasks on its own workers. So a worker of a multi-thread runtime
//!   spawns a task on the remembered runtime, which usually runs next on the same thread. Test:
//!   `an_entered_handle_leaves_no_trace_on_a_worker` in `tests/promises`.
//! * A thread that has another worker index than at the look-up looks the timer up again. After
//!   `block_in_place` it may be another worker, with another shard.
//! * Such a worker keeps the entries of dropped futures for the next futures (see
//!   [`entry`](crate::driver::entry)). A thread in another state may never register again.
//! * A remembered timer may have ended. It refuses the registration, and the future looks the timer up again
//!   (`Sleep::poll_elsewhere`).
//! * [`Timer::current`] always asks which runtime is current.
//!
//! A worker of a runtime may run code of another runtime. On a thread that is known as a worker, these futures register with the
//! worker's own runtime instead of the current runtime:
//!
//! * futures that a worker polls after it has entered the handle of another runtime
//! * futures of a second runtime, if the worker runs this runtime inside `block_in_place`
//! * futures of a current-thread runtime, if its thread was worker 0 of another runtime before: tokio's
//!   `worker_index` is `Some(0)` inside each current-thread runtime
//!
//! Asking for the current runtime would cost twice as much as a registration. So only a registration that reads the
//! clock anyway, because its deadline is the first of its shard or would be in a coarse slot, asks (`register_near` in `driver/registrar.rs`). It
//! looks the timer up again. Test: `a_thread_that_was_a_worker_uses_the_runtime_that_it_runs_now` in `tests/promises`.
//! The worker's own timer fires the other futures, as long as its runtime runs. `docs/limitations.md` lists the
//! consequences. When the worker's own runtime shuts down, such a future moves to the runtime that polls it
//! (`Sleep::poll_elsewhere`).
//!
//! A debug build with the feature `tracing` asks, and emits a warning (`trace::other_runtime`). Test:
//! `a_worker_that_uses_its_own_timer_for_another_runtime_warns` in `tests/tracing.rs`.
//!
//! Models: `timer::loom_tests::start_races_start`, `runtime_end_races_poll` and `driver_panic_races_poll`.

use std::{
    cell::{Cell, RefCell},
    ptr,
    sync::Arc,
};

use bounded_wheel::Key;
use tokio::runtime::{self, RuntimeFlavor, worker_index};

use super::{Timer, registry};
use crate::{
    driver::registrar::Registrar,
    error::TryCurrentError,
    ground::{sync::thread_local, unwind},
};

#[cfg(all(debug_assertions, feature = "tracing"))]
use crate::ground::trace;

thread_local! {
    static MEMORY: RefCell<Option<Memory>> = const { RefCell::new(None) };
    /// The registrar in the memory if the thread is known as a worker, otherwise null.
    static MINE: Cell<*const Registrar> = const { Cell::new(ptr::null()) };
}

/// A worker that asks spawns a witness at its first registration after the look-up, and then after this
/// many registrations: another worker may have run the witness.
const REGISTRATIONS_PER_WITNESS: u32 = 1_024;

/// The maximum number of references that a thread keeps. A few are enough, because a request usually has only
/// a few nested timeouts.
const KEPT: usize = 4;

/// The message of the panic when a task polls a future of a free function outside a runtime. It ends in tokio's
/// message, which a program's tests may expect.
const OUTSIDE: &str = "a sleep, timeout or interval was polled outside of a tokio runtime; poll it within a \
                       runtime, or after `Handle::enter`, or use a method of a `tokio_wheel::Timer`, whose \
                       futures need no runtime (there is no reactor running, must be called from the context \
                       of a Tokio 1.x runtime)";

/// The result of a thread's last look-up.
struct Memory {
    runtime: runtime::Id,
    timer: Timer,
    registrar: Arc<Registrar>,
    /// References for later futures, at most [`KEPT`]. A future [leaves](leave) its reference here when it is
    /// dropped. Each kept reference saves two locked instructions: one for cloning an `Arc`, and one for
    /// dropping it.
    // With an array of `Option`s, a registration took 2 ns more (`compare ops --workload churn`).
    references: Vec<Arc<Registrar>>,
    /// The worker index of the thread at the look-up.
    worker: Option<usize>,
    /// The number of registrations while it asks, if the thread is a worker of a multi-thread runtime.
    registrations: Option<u32>,
}

impl Memory {
    /// Returns the registrar, if it belongs to the current runtime and worker. If the second value is a runtime, the
    /// caller must also spawn a witness there.
    #[inline]
    fn registrar(&mut self) -> Option<(Arc<Registrar>, Option<runtime::Handle>)> {
        if self.worker != worker_index() {
            return None;
        }
        let mut witnessed = None;
        if !is_mine(&self.registrar) {
            let current = runtime::Handle::try_current().ok();
            let current = current.filter(|current| current.id() == self.runtime)?;
            if let Some(registrations) = &mut self.registrations {
                let is_turn = *registrations % REGISTRATIONS_PER_WITNESS == 0;
                *registrations = registrations.wrapping_add(1);
                witnessed = is_turn.then_some(current);
            }
        }
        let kept = self.references.pop();
        Some((kept.unwrap_or_else(|| self.registrar.clone()), witnessed))
    }

    /// Keeps the reference of a dropped future, if there is room. Returns the reference if it was not kept.
    #[inline]
    fn keep(&mut self, registrar: Arc<Registrar>) -> Option<Arc<Registrar>> {
        if self.references.len() == KEPT || !Arc::ptr_eq(&registrar, &self.registrar) {
            return Some(registrar);
        }
        self.references.push(registrar);
        None
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = MINE.try_with(|mine| mine.set(ptr::null()));
        if let Some(spares) = &self.registrar.spares {
            self.registrar.shard.dismiss(spares);
        }
    }
}

/// Returns whether the calling thread is the worker to which a registrar belongs.
#[inline]
fn is_mine(registrar: &Registrar) -> bool {
    // The access fails only in a loom model, at the end of a thread.
    MINE.try_with(Cell::get)
        .is_ok_and(|mine| ptr::eq(mine, registrar))
}

/// Records that the thread which runs this task is a worker of the multi-thread runtime `of`.
async fn witness(of: runtime::Id) {
    // The access fails only if the thread is ending.
    let _ = MEMORY.try_with(|memory| {
        if let Some(memory) = memory.borrow_mut().as_mut() {
            if memory.runtime == of && memory.worker == worker_index() {
                MINE.with(|mine| mine.set(&*memory.registrar));
            }
        }
    });
}

impl Timer {
    /// Returns a handle to the current runtime's default timer, and starts that timer if needed.
    ///
    /// The calling thread remembers the handle, so this function usually takes no lock. But it asks tokio for the
    /// current runtime, and clones two references that all threads of the runtime share. If you need the handle often,
    /// keep it.
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

    /// Returns a handle to the current runtime's default timer, or an error outside a runtime. See
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
        let current = runtime::Handle::try_current().map_err(|_| TryCurrentError(()))?;
        let remembered = MEMORY.try_with(|memory| {
            let memory = memory.borrow();
            let memory = memory.as_ref().filter(|it| it.runtime == current.id())?;
            Some(memory.timer.clone())
        });
        match remembered.ok().flatten() {
            // While the runtime shuts down, each look-up would make another timer, which has ended.
            Some(timer) if !timer.is_shutdown() || timer.shared().ending.is_awaited() => Ok(timer),
            _ => Ok(look_up(&current).0),
        }
    }
}

/// Returns the calling thread's registrar of the current runtime's default timer.
///
/// # Panics
///
/// Panics if the thread is not in a runtime, or if time is not enabled on the runtime.
#[inline]
#[track_caller]
pub(crate) fn registrar() -> Arc<Registrar> {
    let remembered = MEMORY.try_with(|memory| memory.borrow_mut().as_mut()?.registrar());
    let Some((registrar, witnessed)) = remembered.ok().flatten() else {
        return look_up_registrar();
    };
    if let Some(runtime) = witnessed {
        runtime.spawn(witness(runtime.id()));
    }
    #[cfg(all(debug_assertions, feature = "tracing"))]
    if !registrar.shared.agenda.is_here() {
        trace::other_runtime();
    }
    registrar
}

/// Looks the registrar up, even if the thread remembers one.
///
/// # Panics
///
/// Panics as [`registrar`] does.
#[cold]
#[track_caller]
pub(crate) fn look_up_registrar() -> Arc<Registrar> {
    match runtime::Handle::try_current() {
        Ok(current) => look_up(&current).1,
        Err(_) => panic!("{OUTSIDE}"),
    }
}

/// Looks the default timer of the current runtime up in the registry, and remembers it.
#[cold]
#[track_caller]
fn look_up(current: &runtime::Handle) -> (Timer, Arc<Registrar>) {
    let timer = registry::timer(current.id());
    let worker = worker_index();
    let flavor = current.runtime_flavor();
    let may_be_worker = worker.is_some() && flavor == RuntimeFlavor::MultiThread;
    let registrar = match flavor {
        RuntimeFlavor::CurrentThread => timer.handle.of_current_thread.clone(),
        _ => timer.default_registrar(may_be_worker),
    };
    let memory = Memory {
        runtime: current.id(),
        timer: timer.clone(),
        registrar: registrar.clone(),
        references: Vec::with_capacity(KEPT),
        worker,
        registrations: may_be_worker.then_some(0),
    };
    // Dropping the replaced memory drops wakers and may wake a driver, so the borrow must have ended.
    let replaced = MEMORY.try_with(|cell| cell.replace(Some(memory)));
    drop(replaced);
    (timer, registrar)
}

/// Ends a future's use of its registrar: releases its entry if it was dropped, and takes over its reference. The next
/// future that this thread registers can use both. Tests: `a_thread_keeps_a_few_references`,
/// `tests/promises/p15_dropped.rs`.
#[inline]
pub(crate) fn leave(registrar: Arc<Registrar>, key: Option<Key>) {
    // A thread that was this worker until it blocked in place also keeps the entry.
    let waker = key.and_then(|key| registrar.release(key, is_mine(&registrar)));
    let unused = MEMORY.try_with(|memory| match &mut *memory.borrow_mut() {
        Some(memory) => memory.keep(registrar),
        None => Some(registrar),
    });
    // Dropping a waker runs user code, and dropping the last reference may wake the driver. So the borrow must
    // have ended. The waker may belong to another task, whose panic would harm this task.
    unwind::discard((waker, unused));
}

#[cfg(all(test, not(tokio_wheel_loom)))]
pub(crate) mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use super::*;

    /// Returns the number of references that the thread keeps.
    pub(crate) fn kept() -> usize {
        MEMORY.with(|memory| memory.borrow().as_ref().unwrap().references.len())
    }

    /// A thread keeps references only to the remembered registrar, so it keeps no other timer alive.
    #[tokio::test]
    async fn a_thread_keeps_a_few_references() {
        let references: Vec<_> = (0..KEPT + 2).map(|_| registrar()).collect();
        let timer = Timer::builder().build().unwrap();
        leave(timer.registrar().clone(), None);
        assert_eq!(kept(), 0);
        references.into_iter().for_each(|it| leave(it, None));
        assert_eq!(kept(), KEPT);
        let mine = registrar();
        assert_eq!(kept(), KEPT - 1, "it is used again");
        leave(mine, None);
        assert_eq!(kept(), KEPT);
    }

    /// A thread that has looked its timer up takes no lock that runtimes share.
    #[test]
    fn a_thread_that_remembers_its_timer_does_not_lock_the_registry() {
        let (ready, is_ready) = mpsc::channel();
        let (go, goes) = mpsc::channel::<()>();
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || {
            let mut runtime = runtime::Builder::new_current_thread();
            runtime.enable_time().build().unwrap().block_on(async {
                drop(Timer::current());
                ready.send(()).unwrap();
                goes.recv().unwrap();
                drop((Timer::current(), registrar()));
                done.send(()).unwrap();
            });
        });
        is_ready.recv().unwrap();
        registry::tests::while_locked(|| {
            go.send(()).unwrap();
            is_done.recv_timeout(Duration::from_secs(60)).unwrap();
        });
    }
}
