//! `JitteredInterval`: ticks whose periods a closure chooses.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_core::Stream;
use tokio::time::Instant;

use tokio_wheel::{Sleep, sleep};

use crate::limit::saturating_add;

/// An interval whose periods a closure chooses, for example at random.
///
/// If many clients start at the same time and poll a server once a minute, they all poll it in the same second. With
/// jitter, their polls spread over the minute. The closure may use any source of random numbers.
///
/// The first tick comes after the first period. A tick is the instant at which its period ends, and the next period starts
/// at this instant, so a tick that is returned late does not delay the ticks after it. But if the next period has also
/// ended by then, it starts again at that time, so that ticks never come in bursts. The stream never ends.
///
/// # Cancel safety
///
/// If you stop waiting for a tick and wait again later, you get the tick, and its period does not start again.
///
/// # Panics
///
/// A poll panics in the cases that [`sleep`](tokio_wheel::sleep()) lists, and if the closure panics.
///
/// # Examples
///
/// Each period is a minute, plus or minus up to 10%:
///
/// ```
/// use tokio_wheel::{Duration, Instant};
/// use tokio_wheel_util::stream::JitteredInterval;
///
/// /// Returns a number from 0 to 1. A program would use a crate for random numbers.
/// fn random() -> f64 {
///     0.75
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let start = Instant::now();
/// let minute = Duration::from_secs(60);
/// let mut ticks = JitteredInterval::new(|| minute.mul_f64(0.9 + 0.2 * random()));
/// ticks.tick().await;
/// assert_eq!(start.elapsed(), Duration::from_secs(63));
/// # }
/// ```
#[must_use = "an interval does nothing unless polled"]
pub struct JitteredInterval<F> {
    sleep: Sleep,
    period: F,
}

impl<F: FnMut() -> Duration> JitteredInterval<F> {
    /// Creates an interval whose periods are the results of `period`. The first period starts now.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_stream::StreamExt;
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::stream::JitteredInterval;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let mut secs = 1..;
    /// let ticks = JitteredInterval::new(|| Duration::from_secs(secs.next().unwrap()));
    /// let ticks: Vec<_> = ticks.take(3).collect().await;
    /// assert_eq!(ticks[2] - ticks[0], Duration::from_secs(2 + 3));
    /// # }
    /// ```
    pub fn new(mut period: F) -> Self {
        let sleep = sleep(period());
        Self { sleep, period }
    }

    /// Waits for the next tick and returns its instant.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant};
    /// use tokio_wheel_util::stream::JitteredInterval;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let start = Instant::now();
    /// let second = Duration::from_secs(1);
    /// assert_eq!(JitteredInterval::new(|| second).tick().await, start + second);
    /// # }
    /// ```
    pub fn tick(&mut self) -> impl Future<Output = Instant> {
        Tick(self)
    }

    #[track_caller]
    fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        ready!(Pin::new(&mut self.sleep).poll(cx));
        let (tick, period) = (self.sleep.deadline(), (self.period)());
        let now = Instant::now();
        let is_late = saturating_add(tick, period) < now;
        let next = saturating_add(if is_late { now } else { tick }, period);
        Pin::new(&mut self.sleep).reset(next);
        Poll::Ready(tick)
    }
}

/// The future of [`JitteredInterval::tick`]. Its panics have the caller's location, unlike those of an `async fn`.
struct Tick<'a, F>(&'a mut JitteredInterval<F>);

impl<F: FnMut() -> Duration> Future for Tick<'_, F> {
    type Output = Instant;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Instant> {
        self.0.poll_tick(cx)
    }
}

/// The closure is never pinned.
impl<F> Unpin for JitteredInterval<F> {}

impl<F: FnMut() -> Duration> Stream for JitteredInterval<F> {
    type Item = Instant;

    #[track_caller]
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.poll_tick(cx).map(Some)
    }
}

impl<F> fmt::Debug for JitteredInterval<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JitteredInterval")
            .field("sleep", &self.sleep)
            .finish_non_exhaustive()
    }
}
