//! Measures memory with a counting allocator.
//!
//! The allocator also counts what the test harness allocates at the same time. So a test creates many objects, or
//! tolerates a few KiB.

#![cfg(feature = "delay_queue")]

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio_wheel_util::delay_queue::DelayQueue;

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The number of bytes that the test harness may allocate.
const LITTLE: usize = 16 * 1_024;

/// Returns the result of `make`, and the number of bytes that it holds.
fn bytes_of<T>(make: impl FnOnce() -> T) -> (T, usize) {
    let region = Region::new(HEAP);
    let made = make();
    let change = region.change();
    let bytes = (change.bytes_allocated).saturating_sub(change.bytes_deallocated);
    (made, bytes)
}

/// A queue never moves its elements, so it allocates memory only when they come.
#[test]
fn reserving_allocates_nothing() {
    const MANY: usize = 1 << 27;
    let mut queue = DelayQueue::<u64>::new();
    let ((), bytes) = bytes_of(|| queue.reserve(MANY));
    assert!(queue.capacity() >= MANY);
    assert!(bytes <= LITTLE, "reserving took {bytes} bytes");
    let (queue, bytes) = bytes_of(|| DelayQueue::<u64>::with_capacity(1 << 31));
    assert_eq!(queue.capacity(), 1 << 31);
    assert!(bytes <= LITTLE, "a new queue took {bytes} bytes");
}

/// A new queue has a wheel on the heap. In a debug build, each function that passes a value on has a copy of it, and a
/// thread whose stack overflows aborts the test.
#[test]
fn a_new_queue_needs_little_stack() {
    const STACK: usize = 24 * 1_024;
    let thread = std::thread::Builder::new().stack_size(STACK);
    let len = thread.spawn(|| DelayQueue::<u8>::new().len());
    assert_eq!(len.unwrap().join().unwrap(), 0);
}
