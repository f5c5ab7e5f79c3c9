//! For tests that change or measure their process: they run one after the other, with an allocator that counts. It also
//! counts what the test harness allocates. So a test creates many objects, repeats its count, or tolerates a few KiB.

#![allow(dead_code, reason = "each test file uses a part")]

use std::{
    alloc::System,
    sync::{Mutex, MutexGuard, PoisonError},
};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
pub(crate) static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Waits until no other test runs. A test calls it first, before it builds a runtime.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the result of `make`, and the number of bytes that it holds.
pub(crate) fn bytes_of<T>(make: impl FnOnce() -> T) -> (T, usize) {
    let region = Region::new(HEAP);
    let made = make();
    let change = region.change();
    let bytes = (change.bytes_allocated).saturating_sub(change.bytes_deallocated);
    (made, bytes)
}
