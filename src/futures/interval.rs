//! `Interval`: ticks at a fixed period.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, MissedTickBehavior};

use crate::{
    driver::clock,
    futures::{Sleep, sleep_until},
    timer::Timer,
};

/// The missed-tick behavior applies if the interval returns a tick late by more than this duration. tokio
/// also uses 5 ms.
const TOLERANCE: Duration = Duration::from_millis(5);

/// Creates an [`Interval`] that ticks immediately, and then every `period`.
///
/// As in tokio, tasks that are ready run before the first tick: see [`sleep`](crate::sleep()).
///
/// If ticks are missed, the interval uses [`MissedTickBehavior::Burst`]. Call
/// [`Interval::set_missed_tick_behavior`] to choose another behavior.
///
/// # Panics
///
/// Panics if `period` is zero.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{interval, Duration, Instant};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let start = Instant::now();
/// let mut interval = interval(Duration::from_millis(10));
/// for n in 0..3 {
///     assert_eq!(interval.tick().await, start + n * Duration::from_millis(10));
/// }
/// assert!(start.elapsed() >= Duration::from_millis(20));
/// # }
/// ```
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    interval_at(Instant::now(), period)
}

/// Creates an [`Interval`] that ticks at `start`, and then every `period`.
///
/// Apart from the instant of the first tick, this function does what [`interval`] does.
///
/// # Panics
///
/// Panics if `period` is zero.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{interval_at, Duration, Instant};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let start = Instant::now() + Duration::from_millis(50);
/// let mut interval = interval_at(start, Duration::from_millis(10));
/// assert_eq!(interval.tick().await, start);
/// assert_eq!(interval.tick().await, start + Duration::from_millis(10));
/// # }
/// ```
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    Interval::new(sleep_until(start), period)
}

/// A sequence of ticks, created by [`interval`] and [`interval_at`].
///
/// Work between two ticks does not delay the later ticks. In a loop that calls [`sleep`](crate::sleep()),
/// such work delays all later iterations.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{interval, sleep, Duration, Instant};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let start = Instant::now();
/// let mut interval = interval(Duration::from_millis(10));
/// interval.tick().await; // The first tick is immediate.
/// sleep(Duration::from_millis(7)).await; // Some work.
/// interval.tick().await;
/// assert_eq!(start.elapsed(), Duration::from_millis(10));
/// # }
/// ```
#[derive(Debug)]
#[must_use = "an interval does nothing unless its ticks are awaited"]
pub struct Interval {
    /// The sleep until the next tick.
    next: Sleep,
    period: Duration,
    missed_tick_behavior: MissedTickBehavior,
}

impl Timer {
    /// Creates an [`Interval`] that uses this timer. The interval ticks immediately, and then every `period`.
    ///
    /// Works like [`interval`](crate::interval()), but uses this timer instead of the default timer.
    ///
    /// # Panics
    ///
    /// Panics if `period` is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let mut interval = Timer::current().interval(Duration::from_secs(1));
    /// let first = interval.tick().await;
    /// assert_eq!(interval.tick().await, first + Duration::from_secs(1));
    /// # }
    /// ```
    #[track_caller]
    pub fn interval(&self, period: Duration) -> Interval {
        self.interval_at(Instant::now(), period)
    }

    /// Creates an [`Interval`] that uses this timer. The interval ticks at `start`, and then every `period`.
    ///
    /// Works like [`interval_at`], but uses this timer instead of the default timer.
    ///
    /// # Panics
    ///
    /// Panics if `period` is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let start = Instant::now() + Duration::from_millis(50);
    /// let mut interval = Timer::current().interval_at(start, Duration::from_secs(1));
    /// assert_eq!(interval.tick().await, start);
    /// # }
    /// ```
    #[track_caller]
    pub fn interval_at(&self, start: Instant, period: Duration) -> Interval {
        Interval::new(self.sleep_until(start), period)
    }
}

impl Interval {
    #[track_caller]
    pub(crate) fn new(first: Sleep, period: Duration) -> Self {
        assert!(!period.is_zero(), "`period` must be non-zero.");
        Self {
            next: first,
            period,
            missed_tick_behavior: MissedTickBehavior::Burst,
        }
    }

    /// Waits for the next tick and returns the scheduled instant of the tick.
    ///
    /// If the future is polled again after it has returned ready, it waits for the tick after that. tokio's future panics then.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. If you drop the future before it is ready, the next call waits for the
    /// same tick.
    ///
    /// # Panics
    ///
    /// Panics in the cases that [`sleep`](crate::sleep()) lists. An interval of a [`Timer`] panics if the
    /// timer has shut down and the next tick is in the future.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{interval, timeout, Duration};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let mut interval = interval(Duration::from_secs(2));
    /// let first = interval.tick().await;
    /// assert!(timeout(Duration::from_secs(1), interval.tick()).await.is_err());
    /// assert_eq!(interval.tick().await, first + Duration::from_secs(2));
    /// # }
    /// ```
    pub fn tick(&mut self) -> impl Future<Output = Instant> {
        Tick(self)
    }

    /// Polls for the next tick, and returns the scheduled instant of the tick.
    ///
    /// If this method returns [`Poll::Pending`], the next tick wakes the task that called this method last.
    ///
    /// # Panics
    ///
    /// Panics in the cases that [`sleep`](crate::sleep()) lists. An interval of a [`Timer`] panics if the
    /// timer has shut down and the next tick is in the future.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{future::poll_fn, task::Poll};
    /// use tokio_wheel::{interval, Duration, Instant};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let start = Instant::now();
    /// let mut interval = interval(Duration::from_secs(1));
    /// poll_fn(|cx| {
    ///     assert_eq!(interval.poll_tick(cx), Poll::Ready(start));
    ///     assert!(interval.poll_tick(cx).is_pending());
    ///     Poll::Ready(())
    /// })
    /// .await;
    /// # }
    /// ```
    #[track_caller]
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        ready!(Pin::new(&mut self.next).poll(cx));
        let due = self.next.deadline();
        let now = Instant::now();
        let next = self.next_tick(due, now);
        self.next.reset_deadline(next);
        if next <= now {
            // A sleep whose deadline has just passed would wait for the next millisecond.
            self.next.finish();
        }
        Poll::Ready(due)
    }

    /// Sets the next tick to one period from now.
    ///
    /// A task that already waits for the next tick wakes at the new instant.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{interval, sleep, Duration, Instant};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let mut interval = interval(Duration::from_millis(100));
    /// interval.tick().await;
    /// sleep(Duration::from_millis(50)).await;
    /// interval.reset();
    /// let expected = Instant::now() + Duration::from_millis(100);
    /// assert_eq!(interval.tick().await, expected);
    /// # }
    /// ```
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Sets the next tick to now.
    ///
    /// This call wakes a task that waits for the tick, and the next poll is then ready. [`Sleep::reset`]
    /// describes one exception. If no task waits, the next tick gives way, as the first tick of [`interval`] does.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{interval, sleep, Duration, Instant};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let mut interval = interval(Duration::from_millis(100));
    /// interval.tick().await;
    /// sleep(Duration::from_millis(50)).await;
    /// interval.reset_immediately();
    /// let now = Instant::now();
    /// assert_eq!(interval.tick().await, now);
    /// assert_eq!(interval.tick().await, now + Duration::from_millis(100));
    /// # }
    /// ```
    pub fn reset_immediately(&mut self) {
        self.reset_at(Instant::now());
    }

    /// Sets the next tick to now plus `after`.
    ///
    /// If `after` is zero, this method behaves like [`reset_immediately`](Self::reset_immediately).
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{interval, Duration};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let mut interval = interval(Duration::from_millis(100));
    /// let first = interval.tick().await;
    /// interval.reset_after(Duration::from_millis(20));
    /// assert_eq!(interval.tick().await, first + Duration::from_millis(20));
    /// # }
    /// ```
    pub fn reset_after(&mut self, after: Duration) {
        self.next.reset_deadline(clock::after(after));
    }

    /// Sets the next tick to `deadline`.
    ///
    /// The interval does not return ticks that were missed before this call.
    ///
    /// If `deadline` has passed, this call wakes a task that waits for the tick. The next poll is then ready.
    /// [`Sleep::reset`] describes one exception. The missed-tick behavior decides which ticks follow.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{interval, Duration};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let mut interval = interval(Duration::from_millis(100));
    /// let deadline = interval.tick().await + Duration::from_millis(30);
    /// interval.reset_at(deadline);
    /// assert_eq!(interval.tick().await, deadline);
    /// # }
    /// ```
    pub fn reset_at(&mut self, deadline: Instant) {
        self.next.reset_deadline(deadline);
    }

    /// Returns the period.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{interval, Duration};
    ///
    /// let interval = interval(Duration::from_secs(1));
    /// assert_eq!(interval.period(), Duration::from_secs(1));
    /// ```
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Returns the behavior for missed ticks.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{interval, Duration, MissedTickBehavior};
    ///
    /// let interval = interval(Duration::from_secs(1));
    /// assert_eq!(interval.missed_tick_behavior(), MissedTickBehavior::Burst);
    /// ```
    #[must_use]
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed_tick_behavior
    }

    /// Sets the behavior for missed ticks.
    ///
    /// A tick is missed if the interval returns it more than 5 ms late.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{interval, sleep, Duration, MissedTickBehavior};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let period = Duration::from_millis(100);
    /// let mut interval = interval(period);
    /// interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ///
    /// let first = interval.tick().await;
    /// sleep(Duration::from_millis(250)).await;
    /// assert_eq!(interval.tick().await, first + period);
    /// assert_eq!(interval.tick().await, first + 3 * period);
    /// # }
    /// ```
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed_tick_behavior = behavior;
    }

    /// Returns the instant of the next tick. The last tick was scheduled for `due`, and the interval returned it
    /// at `now`.
    #[inline]
    fn next_tick(&self, due: Instant, now: Instant) -> Instant {
        let on_time = clock::saturating_add(due, self.period);
        if now <= clock::saturating_add(due, TOLERANCE) {
            return on_time;
        }
        match self.missed_tick_behavior {
            MissedTickBehavior::Delay => clock::saturating_add(now, self.period),
            MissedTickBehavior::Skip => {
                let late = now.duration_since(due).as_nanos() % self.period.as_nanos();
                let late = Duration::from_nanos(u64::try_from(late).unwrap_or(u64::MAX));
                clock::saturating_add(now, self.period.saturating_sub(late))
            }
            _ => on_time,
        }
    }
}

/// The future of [`Interval::tick`]. Its panics have the caller's location, unlike those of an `async fn`.
struct Tick<'a>(&'a mut Interval);

impl Future for Tick<'_> {
    type Output = Instant;

    #[inline]
    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Instant> {
        self.0.poll_tick(cx)
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use super::*;
    use crate::timer::default::{leave, registrar, tests::kept};

    /// A future that registers again uses its reference again, and takes none of the references that the thread keeps.
    #[tokio::test(start_paused = true)]
    async fn an_interval_uses_its_reference_again() {
        let references = [(); 4].map(|()| registrar());
        for reference in references {
            leave(reference, None);
        }
        let before = kept();
        let mut interval = interval(Duration::from_millis(1));
        for _ in 0..10 {
            interval.tick().await;
            assert!(kept() + 1 >= before, "{} of {before} references", kept());
        }
    }
}
