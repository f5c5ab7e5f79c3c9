//! The registry of default timers: for each runtime, the default timer that has not ended.
//!
//! All runtimes of a process share the lock of its registry. [`default`](super::default) says when a thread takes the
//! lock.
//!
//! # Rules
//!
//! * A runtime has at most one default timer. If two threads make one at the same time, the second thread
//!   drops its timer and uses the timer of the first thread. Model: `timer::loom_tests::start_races_start`.
//! * A timer leaves the registry when it ends, before it closes its first shard. So the registry keeps nothing of a
//!   runtime that has ended. A runtime that gets the id of an earlier runtime gets a timer of its own.
//! * A timer that ends removes only itself, because the runtime may have its next default timer by then.
//! * A runtime that shuts down drops each new driver at once. So a default timer that starts then has ended
//!   when [`timer`] returns it.
//! * No thread makes, starts or drops a timer while it holds the lock. Making a timer panics if time is not enabled on the
//!   runtime. Starting or dropping it runs user code if the runtime is shutting down.
//! * A forked process inherits a lock that another thread of its parent held, and nobody releases that lock. So each
//!   process has a registry of its own. Test: `tests/alone/fork.rs`.

use std::{
    process, ptr,
    sync::atomic::{AtomicU32, Ordering},
};

use tokio::runtime;

use super::Timer;
use crate::{
    driver::{
        shared::{DriverTask, Shared},
        watch::Watch,
    },
    ground::sync::{Mutex, const_fn},
};

/// The default timers of one process.
struct Registry {
    /// The process to which the registry belongs, or 0 if no process has used it.
    process: AtomicU32,
    timers: Mutex<Vec<(runtime::Id, Timer)>>,
    watch: Watch,
}

/// The number of processes that can have a registry of their own: a program, a process that it forks, a process
/// which that one forks, and so on. Later ones share the last registry with their parent.
#[cfg(not(tokio_wheel_loom))]
const GENERATIONS: usize = 8;

#[cfg(not(tokio_wheel_loom))]
static REGISTRIES: [Registry; GENERATIONS] = [const { Registry::new() }; GENERATIONS];
#[cfg(tokio_wheel_loom)]
loom::lazy_static! {
    static ref REGISTRIES: [Registry; 1] = [Registry::new()];
}

impl Registry {
    const_fn! {
        fn new() -> Self {
            Self {
                process: AtomicU32::new(0),
                timers: Mutex::new(Vec::new()),
                watch: Watch::new(),
            }
        }
    }
}

/// Returns the registry of the calling process.
fn registry() -> &'static Registry {
    let process = process::id();
    let is_mine = |registry: &&Registry| {
        let owner = &registry.process;
        let claimed = owner.compare_exchange(0, process, Ordering::Relaxed, Ordering::Relaxed);
        claimed.is_ok() || claimed == Err(process)
    };
    let mine = REGISTRIES.iter().find(is_mine);
    mine.unwrap_or(&REGISTRIES[REGISTRIES.len() - 1])
}

/// Returns the watch of the calling process. A forked process has no threads of its parent, so it starts a watch of its own.
pub(super) fn watch() -> &'static Watch {
    &registry().watch
}

/// Returns the default timer of the current runtime, and starts it if needed.
///
/// # Panics
///
/// Panics if time is not enabled on the runtime.
#[track_caller]
pub(super) fn timer(current: runtime::Id) -> Timer {
    if let Some(timer) = existing(current) {
        return timer;
    }
    let made = Timer::builder().assemble();
    insert(made.expect("the defaults are in range")).unwrap_or_else(|existing| existing)
}

/// Returns the default timer of a runtime, if it has one.
pub(super) fn existing(runtime: runtime::Id) -> Option<Timer> {
    live(&registry().timers.lock(), runtime)
}

/// Makes a new timer the default timer of the current runtime, and starts it. Returns the existing default timer as an
/// error if there is one.
#[track_caller]
pub(super) fn insert((timer, driver): (Timer, DriverTask)) -> Result<Timer, Timer> {
    let runtime = timer.shared().agenda.runtime;
    {
        let mut timers = registry().timers.lock();
        if let Some(existing) = live(&timers, runtime) {
            return Err(existing);
        }
        timers.push((runtime, timer.clone()));
    }
    tokio::spawn(driver.run());
    Ok(timer)
}

/// Removes a timer that ends. A timer that is no default timer has only a watch.
pub(super) fn remove(shared: &Shared) {
    watch().forget(shared);
    let removed = {
        let mut timers = registry().timers.lock();
        let place = (timers.iter()).position(|(_, timer)| ptr::eq(timer.shared(), shared));
        place.map(|place| timers.swap_remove(place))
    };
    drop(removed);
}

/// Returns the default timer of a runtime, unless the timer has ended and is about to remove itself.
fn live(timers: &[(runtime::Id, Timer)], runtime: runtime::Id) -> Option<Timer> {
    let mut its = timers.iter().filter(|(of, _)| *of == runtime);
    let (_, live) = its.find(|(_, timer)| !timer.is_shutdown())?;
    Some(live.clone())
}

#[cfg(all(test, not(tokio_wheel_loom)))]
pub(super) mod tests {
    /// Holds the lock of the registry while it calls `act`.
    pub(crate) fn while_locked<R>(act: impl FnOnce() -> R) -> R {
        let _timers = super::registry().timers.lock();
        act()
    }
}
