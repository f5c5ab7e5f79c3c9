//! What a timer tells of itself.

use std::time::Duration;

use crate::timer::Timer;

/// Counts of a [`Timer`](crate::Timer), read by [`Timer::metrics`](crate::Timer::metrics).
///
/// A timer that was ready when it was first polled, or was never polled, was not registered and
/// is not counted.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{sleep, Duration, Timer};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// sleep(Duration::from_millis(1)).await;
/// let metrics = Timer::current().metrics();
/// assert_eq!(metrics.registered(), 1);
/// assert_eq!(metrics.fired(), 1);
/// assert_eq!(metrics.cancelled() + metrics.pending(), 0);
/// assert!(metrics.driver_wakeups() >= 1);
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Metrics {
    pending: u64,
    cancelled: u64,
    fired: u64,
    driver_wakeups: u64,
    worst_lateness: Duration,
}

impl Timer {
    /// Counts of what the timer has done and holds, and how late it was.
    ///
    /// Locks each shard in turn for a moment, so the sum is of slightly different times. The worst
    /// lateness starts anew with each call, by whichever handle: call it in one place.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{timeout, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let answer = async { tokio::task::yield_now().await };
    /// timeout(Duration::from_secs(30), answer).await.unwrap();
    ///
    /// let metrics = Timer::current().metrics();
    /// assert_eq!((metrics.registered(), metrics.cancelled()), (1, 1));
    /// # }
    /// ```
    pub fn metrics(&self) -> Metrics {
        let core = self.core();
        let mut metrics = Metrics {
            pending: 0,
            cancelled: 0,
            fired: 0,
            driver_wakeups: core.wakeups(),
            worst_lateness: Duration::ZERO,
        };
        for shard in core.shards() {
            let counts = shard.take_counts();
            let worst_lateness = core.clock().duration(counts.worst_lateness);
            metrics.pending += counts.pending;
            metrics.cancelled += counts.cancelled;
            metrics.fired += counts.fired;
            metrics.worst_lateness = metrics.worst_lateness.max(worst_lateness);
        }
        metrics
    }
}

impl Metrics {
    /// Timers that are registered now.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// Registrations since the start: those cancelled, fired and pending.
    pub fn registered(&self) -> u64 {
        self.cancelled + self.fired + self.pending
    }

    /// Timers that were deregistered before they fired, by drop, by cancelling or by the end of
    /// the timer.
    pub fn cancelled(&self) -> u64 {
        self.cancelled
    }

    /// Timers that fired.
    pub fn fired(&self) -> u64 {
        self.fired
    }

    /// How often the driver woke up: because a slot of the wheel was due, which may hold only
    /// timers that were put off or be empty by then; because something was due at once, or a thread
    /// that is no worker of the timer's runtime set an earlier deadline; or to shut down.
    pub fn driver_wakeups(&self) -> u64 {
        self.driver_wakeups
    }

    /// How late the latest timer fired since the last reading, that is, since the last call of
    /// [`Timer::metrics`](crate::Timer::metrics) by any handle, or since the start. Zero if none
    /// fired.
    ///
    /// Measured from the deadline to when the driver takes the timer out, just before it wakes
    /// its task, in whole ticks: less than two of them below the truth. A timer that was given a
    /// deadline in the past is late from then on.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let sleep = tokio::spawn(sleep(Duration::from_millis(10)));
    /// tokio::task::yield_now().await;
    /// // The paused clock leaps, and the driver has to catch up.
    /// tokio::time::advance(Duration::from_millis(25)).await;
    /// sleep.await.unwrap();
    ///
    /// let timer = Timer::current();
    /// assert_eq!(timer.metrics().worst_lateness(), Duration::from_millis(15));
    /// assert_eq!(timer.metrics().worst_lateness(), Duration::ZERO);
    /// # }
    /// ```
    pub fn worst_lateness(&self) -> Duration {
        self.worst_lateness
    }
}
