//! Tests that change the limits of their process, or that count its allocations, one after the other. The counts
//! include what the test harness allocates, so a test creates many objects, repeats its count, or tolerates a few KiB.

#[cfg(all(feature = "schedule", target_os = "linux"))]
mod ended_runtime;
#[cfg(all(feature = "serve", target_os = "linux"))]
mod few_descriptors;
#[cfg(feature = "http")]
mod http_allocations;
#[cfg(all(feature = "delay_queue", feature = "idle"))]
mod memory;

use std::{
    alloc::System,
    sync::{Mutex, MutexGuard, PoisonError},
};

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Waits until no other test runs. A test calls it first, before it builds a runtime.
#[allow(dead_code, reason = "without features, there are no tests")]
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
