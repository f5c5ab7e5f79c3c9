//! Counts how late sleeps woke.

use std::{ops::AddAssign, time::Instant};

use hdrhistogram::Histogram;

/// Returns how many nanoseconds have passed since the deadline.
pub fn late_by(deadline: Instant) -> i64 {
    nanos_late(deadline, Instant::now())
}

/// Returns how many nanoseconds after the deadline a sleep woke. An early sleep has a negative value.
pub fn nanos_late(deadline: Instant, woken: Instant) -> i64 {
    let late = woken.saturating_duration_since(deadline).as_nanos() as i64;
    late - deadline.saturating_duration_since(woken).as_nanos() as i64
}

#[derive(Clone)]
pub struct Late {
    /// Lateness in nanoseconds. Early sleeps count as 0.
    histogram: Histogram<u64>,
    early: u64,
}

impl Late {
    /// Returns the lateness that a share `quantile` of the sleeps does not exceed, in milliseconds.
    pub fn ms(&self, quantile: f64) -> f64 {
        self.histogram.value_at_quantile(quantile) as f64 / 1e6
    }

    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    pub fn early(&self) -> u64 {
        self.early
    }
}

impl Default for Late {
    fn default() -> Self {
        let histogram = Histogram::new(3).expect("3 digits are allowed");
        Self {
            histogram,
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
