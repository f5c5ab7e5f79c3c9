//! What the process takes of memory: at the start, at most, and again after every epoch.
//!
//! The heap is counted to the byte by the allocator, so it tells a leak from what the system's
//! allocator keeps for itself; that is in the resident memory, which is only told.

use std::{alloc::System, fs, thread};

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio_wheel::{Duration, Instant};
use tokio_wheel_benches::process::resident_bytes;

use crate::faults;

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// How much more than the floor an epoch may leave: what threads and runtimes of no life still hold,
/// and lists that are as long as they ever were.
const TOLERANCE: usize = 512 * 1024;

/// How much the floor may rise from the first quarter of the epochs to the last.
const TREND: usize = 64 * 1024;

/// So many epochs show a trend. The first large storm of each kind leaves lists of up to 43 KiB. With fewer
/// epochs these storms may all come after the first quarter, and look like a trend.
const ENOUGH: usize = 16;

/// How long threads and memory may take to go after an epoch.
const LIMIT: Duration = Duration::from_secs(10);

/// A look at the memory in use.
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

    /// The larger of each.
    pub fn max(self, other: Self) -> Self {
        Self {
            heap: self.heap.max(other.heap),
            resident: self.resident.max(other.resident),
        }
    }
}

/// The memory after each epoch. The first is for warming up.
#[derive(Default)]
pub struct Floors {
    threads: usize,
    readings: Vec<Reading>,
}

impl Floors {
    /// Before the first epoch, with all threads that are to stay.
    pub fn new() -> Self {
        Self {
            threads: threads(),
            readings: Vec::new(),
        }
    }

    /// Waits until the threads of an epoch are gone, and notes the memory in use.
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

    /// After the first epoch.
    pub fn start(&self) -> Option<Reading> {
        self.readings.first().copied()
    }

    /// After the last.
    pub fn end(&self) -> Option<Reading> {
        self.readings.last().copied()
    }

    /// The mean heap after the epochs of the first quarter and of the last, if there were enough.
    pub fn trend(&self) -> Option<(usize, usize)> {
        if self.readings.len() < ENOUGH {
            return None;
        }
        let quarter = self.readings.len() / 4;
        let mean = |readings: &[Reading]| readings.iter().map(|r| r.heap).sum::<usize>() / quarter;
        let last = &self.readings[self.readings.len() - quarter..];
        Some((mean(&self.readings[..quarter]), mean(last)))
    }

    /// Looks whether the floor rises.
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
