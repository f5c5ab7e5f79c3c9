//! Checks that each epoch frees its memory and ends its threads.
//!
//! A counting allocator counts the heap to the byte. So it distinguishes a leak from memory that
//! the system's allocator keeps.

use std::{alloc::System, fmt, fs};

use indicatif::HumanBytes;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use crate::faults;

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// How much more heap than the first epoch an epoch may leave. The timers that live through all epochs keep the lists of their chunks, which take about 100
/// bytes for each 256 sleeps of the largest storm so far. A list doubles in any epoch in which more
/// sleeps than before happen to be on one worker, so the heap may rise in steps to 210 KiB.
const TOLERANCE: u64 = 512 * 1024;

/// What the first epoch, a warm-up, has left. No later epoch may leave much more.
pub struct Floor {
    threads: usize,
    first: Option<u64>,
    last: u64,
}

impl Floor {
    /// Counts the threads before the first epoch. All of them will stay.
    pub fn new() -> Self {
        Self {
            threads: threads(),
            first: None,
            last: 0,
        }
    }

    pub fn check(&mut self) {
        if !faults::eventually(|| threads() <= self.threads) {
            let (now, before) = (threads(), self.threads);
            faults::found(format!("{now} threads after an epoch, {before} before"));
        }
        let first = *self.first.get_or_insert_with(heap);
        // In the first 100 ms after an epoch, up to 120 KiB were still in use.
        let is_free = faults::eventually(|| heap() <= first + TOLERANCE);
        self.last = heap();
        if !is_free {
            faults::found(format!("the heap has grown: {self}"));
        }
    }
}

impl fmt::Display for Floor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.first.unwrap_or_default(), self.last);
        let (first, last) = (HumanBytes(first), HumanBytes(last));
        write!(f, "{last} of heap, {first} after the first epoch")
    }
}

fn heap() -> u64 {
    let stats = HEAP.stats();
    (stats.bytes_allocated - stats.bytes_deallocated) as u64
}

fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("needs Linux's /proc");
    tasks.count()
}
