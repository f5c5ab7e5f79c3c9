//! How much time the pending timers of a timer have left.

use std::{fmt, time::Duration};

use tokio::time::Instant;

use crate::{driver::clock::saturating_add, timer::Timer, wheel};

/// The buckets, by the most time left in them. The last one has what is beyond the others' bounds.
const BUCKETS: [(Duration, &str); 11] = [
    (Duration::ZERO, "due"),
    (Duration::from_millis(1), "<= 1 ms"),
    (Duration::from_millis(10), "<= 10 ms"),
    (Duration::from_millis(100), "<= 100 ms"),
    (Duration::from_secs(1), "<= 1 s"),
    (Duration::from_secs(10), "<= 10 s"),
    (Duration::from_secs(60), "<= 1 min"),
    (Duration::from_secs(10 * 60), "<= 10 min"),
    (Duration::from_secs(60 * 60), "<= 1 h"),
    (Duration::from_secs(24 * 60 * 60), "<= 1 day"),
    (Duration::MAX, "more"),
];

/// A histogram of a [`Timer`](crate::Timer)'s pending timers by the time left to their deadlines,
/// taken by [`Timer::time_left`](crate::Timer::time_left).
///
/// The time left is measured to the timer's tick: to the tick at which the timer fires, which is
/// that of its deadline or the next one.
///
/// [`Display`](fmt::Display) prints a table of a line per bucket, [`Debug`] the same in one line.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{sleep, Duration, Timer};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let mut idle = tokio_test::task::spawn(sleep(Duration::from_secs(30)));
/// assert!(idle.poll().is_pending());
///
/// let time_left = Timer::current().time_left();
/// assert_eq!(time_left.total(), 1);
/// assert!(time_left.to_string().contains(" <= 1 min  1\n"));
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct TimeLeft {
    counts: [u64; BUCKETS.len()],
}

impl Timer {
    /// A histogram of the pending timers by the time left to their deadlines.
    ///
    /// Looks at every pending timer, which takes a few milliseconds per million of them, on the
    /// calling thread: [`metrics`](Self::metrics) has the mere number for much less. A shard's lock
    /// is held for at most 256 timers at a time, so others can use it meanwhile.
    ///
    /// The time left is that at the beginning of the call. A timer that is pending from then to
    /// the end is counted once. One that is registered, fires or is cancelled meanwhile may be
    /// missed, and one that is cancelled and registered anew may be counted twice.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_test::task;
    /// use tokio_wheel::{sleep, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let mut sleeps = [3, 9, 700].map(|ms| task::spawn(sleep(Duration::from_millis(ms))));
    /// assert!(sleeps.iter_mut().all(|sleep| sleep.poll().is_pending()));
    ///
    /// let time_left = Timer::current().time_left();
    /// let soon = time_left.buckets().find(|(bound, _)| *bound == Duration::from_millis(10));
    /// assert_eq!(soon, Some((Duration::from_millis(10), 2)));
    /// assert_eq!(time_left.total(), 3);
    /// # }
    /// ```
    #[doc(alias = "histogram")]
    pub fn time_left(&self) -> TimeLeft {
        let now = Instant::now();
        let clock = self.core().clock();
        // Of each bucket, the last tick that is reached within its bound.
        let last = BUCKETS.map(|(bound, _)| clock.reached(saturating_add(now, bound)));
        let mut counts = [0; BUCKETS.len()];
        // Large enough that it does not grow under a lock.
        let mut deadlines = Vec::with_capacity(wheel::CHUNK);
        for shard in self.core().shards() {
            let mut chunk = 0;
            while shard.deadlines(chunk, &mut deadlines) {
                for deadline in deadlines.drain(..) {
                    let bucket = last.partition_point(|last| deadline > *last);
                    counts[bucket.min(BUCKETS.len() - 1)] += 1;
                }
                chunk += 1;
            }
        }
        TimeLeft { counts }
    }
}

impl TimeLeft {
    /// The buckets by time left: the most time that is left to a timer in it, and the number of
    /// timers in it, which have more time left than the bucket before allows.
    ///
    /// The first bucket, whose bound is zero, has the timers that are due but which the driver has
    /// yet to fire. The bounds of the others are 1, 10 and 100 ms, 1 and 10 s, 1 and 10 min, 1 h
    /// and 1 day, and [`Duration::MAX`] for all that is beyond.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        self.labelled().map(|((bound, _), count)| (bound, count))
    }

    /// The number of timers in all buckets.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The buckets with their labels.
    fn labelled(&self) -> impl Iterator<Item = ((Duration, &'static str), u64)> {
        BUCKETS.into_iter().zip(self.counts)
    }
}

impl fmt::Display for TimeLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((bound, label), count) in self.labelled() {
            let line_break = if bound.is_zero() { "" } else { "\n" };
            write!(f, "{line_break}{label:>9}  {count}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for TimeLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TimeLeft ")?;
        let mut map = f.debug_map();
        for ((_, label), count) in self.labelled() {
            map.entry(&format_args!("{label}"), &count);
        }
        map.finish()
    }
}
