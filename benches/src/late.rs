//! How late sleeps woke: one reading, and the count of many.

use std::{ops::AddAssign, time::Instant};

use hdrhistogram::Histogram;

/// By how many nanoseconds the deadline has passed; negative if it has not.
pub fn late_by(deadline: Instant) -> i64 {
    let woken = Instant::now();
    match woken.checked_duration_since(deadline) {
        Some(late) => late.as_nanos() as i64,
        None => -((deadline - woken).as_nanos() as i64),
    }
}

/// The distribution of what [`late_by`] read.
pub struct Late {
    /// In nanoseconds; those that were early count as 0.
    histogram: Histogram<u64>,
    early: u64,
}

impl Late {
    /// What such a part of the sleeps is at most late by, in microseconds.
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        micros(self.histogram.value_at_quantile(quantile))
    }

    /// What the latest was late by, in microseconds.
    pub fn max_us(&self) -> f64 {
        micros(self.histogram.max())
    }

    /// How many woke before their deadline.
    pub fn early(&self) -> u64 {
        self.early
    }

    /// Lateness in microseconds, ascending, and the part of the sleeps that is at most so late.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, f64)> {
        let total = self.histogram.len() as f64;
        let mut counted = 0;
        self.histogram.iter_recorded().map(move |step| {
            counted += step.count_since_last_iteration();
            (micros(step.value_iterated_to()), counted as f64 / total)
        })
    }
}

impl Default for Late {
    fn default() -> Self {
        Self {
            histogram: Histogram::new(3).expect("3 digits are allowed"),
            early: 0,
        }
    }
}

impl FromIterator<i64> for Late {
    fn from_iter<T: IntoIterator<Item = i64>>(nanos: T) -> Self {
        let mut late = Self::default();
        for nanos in nanos {
            late.early += u64::from(nanos < 0);
            late.histogram += nanos.max(0) as u64;
        }
        late
    }
}

impl AddAssign for Late {
    fn add_assign(&mut self, other: Self) {
        self.histogram += other.histogram;
        self.early += other.early;
    }
}

fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}
