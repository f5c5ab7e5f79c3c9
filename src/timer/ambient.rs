//! The ambient timer of each runtime: found by the runtime's id, started at first need.
//!
//! # What a thread remembers
//!
//! A registration must not touch what threads share, and `Handle::try_current` does: it clones
//! an `Arc`. So a worker thread of a multi-thread runtime remembers its registrar and uses it
//! whenever it is a worker. Such a thread belongs to that runtime for life, so this can be wrong
//! only while it runs another runtime or has entered another's handle, and is harmless then: the
//! remembered timer is driven by its own runtime all the same. Any other thread may run one
//! runtime after the other, and a timer left with one that nobody runs would never fire. There
//! the runtime is asked for at every registration, and what is remembered saves only the lock of
//! the registry.
//!
//! A remembered timer whose runtime has shut down refuses the registration; the thread then
//! looks it up afresh.

use std::{
    cell::RefCell,
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use tokio::runtime::{self, RuntimeFlavor};

use super::{Core, Timer, Unstarted, builder};
use crate::registrar::Registrar;

/// The ambient timers of the runtimes that are up.
static TIMERS: LazyLock<Mutex<HashMap<runtime::Id, Timer>>> = LazyLock::new(Mutex::default);

thread_local! {
    static REMEMBERED: RefCell<Option<Remembered>> = const { RefCell::new(None) };
}

/// What a thread remembers of its last look-up.
struct Remembered {
    runtime: runtime::Id,
    /// Whether this thread is a worker of that runtime, and that a multi-thread one.
    own_worker: bool,
    registrar: Arc<Registrar>,
}

impl Remembered {
    #[inline]
    fn get(&self) -> Option<Arc<Registrar>> {
        let valid = if self.own_worker {
            runtime::worker_index().is_some()
        } else {
            runtime::Handle::try_current().is_ok_and(|current| current.id() == self.runtime)
        };
        valid.then(|| self.registrar.clone())
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
    let remembered = REMEMBERED
        .try_with(|remembered| remembered.borrow().as_ref().and_then(Remembered::get))
        .unwrap_or_default();
    match remembered {
        Some(registrar) => registrar,
        None => look_up(),
    }
}

/// As [`registrar`], but forgets what the thread remembered.
#[cold]
#[track_caller]
pub(crate) fn look_up() -> Arc<Registrar> {
    let Ok(runtime) = runtime::Handle::try_current() else {
        panic!(
            "a timer was polled outside of a tokio runtime: poll it in a task or in `block_on` of \
             a runtime that has time enabled, or make it by a method of a `tokio_wheel::Timer`, \
             whose futures can be polled anywhere"
        );
    };
    let registrar = timer(&runtime).ambient_registrar();
    let remembered = Remembered {
        runtime: runtime.id(),
        own_worker: runtime::worker_index().is_some()
            && runtime.runtime_flavor() == RuntimeFlavor::MultiThread,
        registrar: registrar.clone(),
    };
    // The replaced one is dropped outside of the borrow, since that may drop a whole timer.
    let replaced = REMEMBERED.try_with(|cell| cell.replace(Some(remembered)));
    drop(replaced);
    registrar
}

/// The ambient timer of `runtime`, which the calling thread is in.
#[track_caller]
pub(super) fn timer(runtime: &runtime::Handle) -> Timer {
    if let Some(timer) = up(&timers(), runtime.id()) {
        return timer;
    }
    let shards = builder::default_shards(runtime);
    let unstarted = Unstarted::new(builder::DEFAULT_TICK, shards, Some(runtime.id()));
    match insert(unstarted, runtime) {
        Ok(timer) => timer,
        Err(existing) => existing,
    }
}

/// Makes a timer the ambient one of `runtime` and starts it, unless there is one: gives that
/// back, then.
pub(super) fn insert(unstarted: Unstarted, runtime: &runtime::Handle) -> Result<Timer, Timer> {
    let replaced = {
        let mut timers = timers();
        if let Some(existing) = up(&timers, runtime.id()) {
            return Err(existing);
        }
        timers.insert(runtime.id(), unstarted.timer.clone())
    };
    drop(replaced);
    Ok(unstarted.start(runtime))
}

/// Takes a timer out whose runtime shuts down.
pub(super) fn remove(runtime: runtime::Id, core: &Core) {
    let removed = {
        let mut timers = timers();
        match timers.get(&runtime) {
            Some(timer) if timer.is_of(core) => timers.remove(&runtime),
            _ => None,
        }
    };
    drop(removed);
}

fn up(timers: &HashMap<runtime::Id, Timer>, runtime: runtime::Id) -> Option<Timer> {
    timers.get(&runtime).filter(|t| !t.is_shutdown()).cloned()
}

fn timers() -> MutexGuard<'static, HashMap<runtime::Id, Timer>> {
    TIMERS.lock().unwrap_or_else(PoisonError::into_inner)
}
