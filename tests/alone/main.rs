//! Tests that fork their process, or that change its limits or measure its memory. They run one after the other.

#[path = "../support/mod.rs"]
mod support;

#[cfg(unix)]
mod fork;
mod memory;
#[cfg(all(feature = "high-resolution", target_os = "linux"))]
mod no_descriptor_left;
mod watch;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits until no other test runs. A test calls it first, before it builds a runtime.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
