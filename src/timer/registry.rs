//! The registry of default timers: for each runtime, the default timer that has not ended.
//!
//! All runtimes share the lock of the registry. [`default`](super::default) says when a thread takes the lock.
//!
//! # Rules
//!
//! * A runtime has at most one default timer. If two threads make one at the same time, the second thread
//!   drops its timer and uses the timer of the first thread. Model: `timer::loom_tests::start_races_start`.
//! * A timer leaves the registry when it ends, before it closes its first shard: at a shutdown, or when the
//!   runtime drops its driver. So the registry keeps nothing of a runtime that has ended. A runtime that gets
//!   the id of an earlier runtime gets a timer of its own.
//! * A timer that ends removes only itself, because the runtime may have its next default timer by then.
//!   Model: `timer::loom_tests::shutdown_races_the_next_default_timer`.
//! * A runtime that shuts down drops each new driver at once. So a default timer that starts then has ended
//!   when [`timer`] returns it. [`is_shutting_down`] relies on this.
//! * No thread makes, starts or drops a timer while it holds the lock.

use std::{collections::HashMap, ptr};

#[cfg(not(tokio_wheel_loom))]
use std::sync::LazyLock;

use tokio::runtime;

use super::{Parts, Timer};
use crate::{
    driver::{ending::End, shared::Shared},
    ground::{sync::Mutex, thread::is_worker_of},
};

type Timers = HashMap<runtime::Id, Timer>;

#[cfg(not(tokio_wheel_loom))]
static TIMERS: LazyLock<Mutex<Timers>> = LazyLock::new(|| Mutex::new(Timers::new()));
#[cfg(tokio_wheel_loom)]
loom::lazy_static! {
    static ref TIMERS: Mutex<Timers> = Mutex::new(Timers::new());
}

/// Returns the default timer of the current runtime, and starts it if needed.
///
/// # Panics
///
/// Panics if time is not enabled on the runtime.
#[track_caller]
pub(super) fn timer(current: runtime::Id) -> Timer {
    if let Some(timer) = live(&TIMERS.lock(), current) {
        return timer;
    }
    let parts = Timer::builder().parts();
    let parts = parts.expect("the defaults are in range");
    insert(parts).unwrap_or_else(|existing| existing)
}

/// Returns whether the calling thread is a worker of `runtime`, and this runtime is shutting down.
///
/// The runtime must have time enabled.
pub(crate) fn is_shutting_down(runtime: runtime::Id) -> bool {
    is_worker_of(runtime) && timer(runtime).end() == Some(End::DriverDropped)
}

/// Makes a timer, makes it the default timer of the current runtime, and starts it. Returns the existing default
/// timer as an error if there is one.
#[track_caller]
pub(super) fn insert(parts: Parts) -> Result<Timer, Timer> {
    let runtime = parts.runtime;
    let (timer, driver) = parts.assemble(remove);
    let replaced = {
        let mut timers = TIMERS.lock();
        if let Some(existing) = live(&timers, runtime) {
            return Err(existing);
        }
        timers.insert(runtime, timer.clone())
    };
    drop(replaced);
    tokio::spawn(driver.run());
    Ok(timer)
}

/// Removes a timer that ends.
pub(super) fn remove(shared: &Shared) {
    let runtime = shared.runtime;
    let removed = {
        let mut timers = TIMERS.lock();
        match timers.get(&runtime) {
            Some(timer) if ptr::eq(timer.shared(), shared) => timers.remove(&runtime),
            _ => None,
        }
    };
    drop(removed);
}

/// Returns the default timer of a runtime, unless the timer has ended and is about to remove itself.
fn live(timers: &Timers, runtime: runtime::Id) -> Option<Timer> {
    timers.get(&runtime).filter(|t| !t.is_shutdown()).cloned()
}

#[cfg(all(test, not(tokio_wheel_loom)))]
pub(super) mod tests {
    /// Holds the lock of the registry while it calls `act`.
    pub(crate) fn while_locked<R>(act: impl FnOnce() -> R) -> R {
        let _timers = super::TIMERS.lock();
        act()
    }
}
