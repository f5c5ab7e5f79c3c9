//! Records durations and lateness for very many tasks that write at once.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use hdrhistogram::Histogram;
use tokio::time::Instant;

/// Returns an empty histogram of microseconds. It records up to a minute, with three digits.
pub(crate) fn micros() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are valid")
}

/// Durations in several histograms, so that two tasks seldom write to the same one.
pub(crate) struct Durations(Vec<Mutex<Histogram<u64>>>);

impl Durations {
    pub(crate) fn new() -> Self {
        let shards = 4 * thread::available_parallelism().map_or(1, usize::from);
        Self((0..shards).map(|_| Mutex::new(micros())).collect())
    }

    /// Adds a duration that the task with this number has measured.
    pub(crate) fn add(&self, task: usize, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.0[task % self.0.len()]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .saturating_record(micros);
    }

    pub(crate) fn len(&self) -> u64 {
        let len = |shard: &Mutex<Histogram<u64>>| {
            shard.lock().unwrap_or_else(PoisonError::into_inner).len()
        };
        self.0.iter().map(len).sum()
    }

    pub(crate) fn sum(&self) -> Histogram<u64> {
        let mut sum = micros();
        for shard in &self.0 {
            sum += &*shard.lock().unwrap_or_else(PoisonError::into_inner);
        }
        sum
    }
}

/// The lateness of timers, and how many timers fired early.
pub(crate) struct Lateness {
    late: Durations,
    early: AtomicUsize,
}

/// A copy of a [`Lateness`].
pub(crate) struct Late {
    /// How late the timers fired, in microseconds.
    pub(crate) by: Histogram<u64>,
    /// The number of timers that fired before their deadline. There must be none.
    pub(crate) early: usize,
}

impl Lateness {
    pub(crate) fn new() -> Self {
        Self {
            late: Durations::new(),
            early: AtomicUsize::new(0),
        }
    }

    /// Adds a timer that the task with this number saw fire at `fired`.
    pub(crate) fn add(&self, task: usize, deadline: Instant, fired: Instant) {
        match fired.checked_duration_since(deadline) {
            Some(late) => self.late.add(task, late),
            None => {
                self.early.fetch_add(1, Relaxed);
            }
        }
    }

    /// Returns how many timers have fired.
    pub(crate) fn fired(&self) -> usize {
        self.late.len() as usize + self.early.load(Relaxed)
    }

    pub(crate) fn copy(&self) -> Late {
        Late {
            by: self.late.sum(),
            early: self.early.load(Relaxed),
        }
    }
}

/// The round trips of messages, and the longest time in which no client got a reply.
pub(crate) struct Replies {
    round_trips: Durations,
    /// The longest time between two successive replies, in nanoseconds.
    silence: AtomicU64,
}

impl Replies {
    pub(crate) fn new() -> Self {
        Self {
            round_trips: Durations::new(),
            silence: AtomicU64::new(0),
        }
    }

    /// Adds a round trip of a client, whose reply came `silence` after the reply before it.
    pub(crate) fn add(&self, client: usize, round_trip: Duration, silence: Duration) {
        self.round_trips.add(client, round_trip);
        self.silence.fetch_max(silence.as_nanos() as u64, Relaxed);
    }

    pub(crate) fn len(&self) -> u64 {
        self.round_trips.len()
    }

    pub(crate) fn copy(&self) -> RoundTrips {
        RoundTrips {
            micros: self.round_trips.sum(),
            silence: Duration::from_nanos(self.silence.load(Relaxed)),
        }
    }
}

/// A copy of [`Replies`].
pub(crate) struct RoundTrips {
    pub(crate) micros: Histogram<u64>,
    pub(crate) silence: Duration,
}
