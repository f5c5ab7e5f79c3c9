//! Measures the memory of the process: at the start, at its peak, and after every epoch.
//!
//! A counting allocator counts the heap to the byte. So it distinguishes a leak from memory that
//! the system's allocator keeps. The resident memory contains such memory, and is only reported.

use std::{alloc::System, fs, thread};

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio_wheel::{Duration, Instant};
use tokio_wheel_benches::process::resident_bytes;

use crate::faults;

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// How much more than the floor an epoch may leave. Ended threads and runtimes may still hold
/// memory, and some lists keep their greatest length.
const TOLERANCE: usize = 512 * 1024;

/// How much the floor may rise from the first quarter of the epochs to the last quarter.
const TREND: usize = 64 * 1024;

/// The number of epochs that is enough to show a trend. The first large storm of each kind leaves
/// lists of up to 43 KiB. With fewer epochs, these storms may all come after the first quarter and
/// look like a trend.
const ENOUGH: usize = 16;

/// How long threads may take to end after an epoch, and memory to be freed.
const LIMIT: Duration = Duration::from_secs(10);

/// A reading of the memory in use.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    pub heap: usize,
    pub resident: u64,
}

impl Reading {
    pub fn take() -> Self {
        let stats = HEAP.stats();
        Self {
            heap: stats
                .bytes_allocated
                .saturating_sub(stats.bytes_deallocated),
            resident: resident_bytes(),
        }
    }
}

/// The memory after each epoch. The first epoch is a warm-up.
#[derive(Default)]
pub struct Floors {
    threads: usize,
    readings: Vec<Reading>,
}

impl Floors {
    /// Reads the memory before the first epoch, with all threads that will stay.
    pub fn new() -> Self {
        Self {
            threads: threads(),
            readings: Vec::new(),
        }
    }

    /// Waits until the threads of an epoch have ended, and records the memory in use.
    pub fn note(&mut self) {
        let until = Instant::now() + LIMIT;
        while threads() > self.threads {
            if Instant::now() > until {
                let (now, before) = (threads(), self.threads);
                return faults::found(format!("{now} threads after an epoch, {before} before"));
            }
            thread::sleep(Duration::from_millis(1));
        }
        let reading = Reading::take();
        self.readings.push(reading);
        if let Some(start) = self.start()
            && reading.heap > start.heap + TOLERANCE
        {
            let (now, before) = (reading.heap, start.heap);
            faults::found(format!(
                "{now} bytes of heap after an epoch, {before} at first"
            ));
        }
    }

    /// Returns the reading after the first epoch.
    pub fn start(&self) -> Option<Reading> {
        self.readings.first().copied()
    }

    /// Returns the reading after the last epoch.
    pub fn end(&self) -> Option<Reading> {
        self.readings.last().copied()
    }

    /// Returns the mean heap after the epochs of the first quarter and of the last quarter, if
    /// there were enough epochs.
    pub fn trend(&self) -> Option<(usize, usize)> {
        if self.readings.len() < ENOUGH {
            return None;
        }
        let quarter = self.readings.len() / 4;
        let mean = |readings: &[Reading]| readings.iter().map(|r| r.heap).sum::<usize>() / quarter;
        let last = &self.readings[self.readings.len() - quarter..];
        Some((mean(&self.readings[..quarter]), mean(last)))
    }

    /// Checks whether the floor rises.
    pub fn look_at_trend(&self) {
        if let Some((first, last)) = self.trend()
            && last > first + TREND
        {
            faults::found(format!(
                "the heap rises: {first} bytes after an epoch of the first quarter, {last} of the last"
            ));
        }
    }
}

fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("needs Linux's /proc");
    tasks.count()
}
