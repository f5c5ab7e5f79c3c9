//! `IntervalStream`: the ticks of an interval as a stream.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use futures_core::Stream;
use tokio::time::Instant;

use tokio_wheel::Interval;

/// A stream of the ticks of an [`Interval`].
///
/// Each item is the scheduled instant of a tick. The stream never ends.
///
/// # Cancel safety
///
/// The stream is cancel safe. If you stop waiting for a tick and poll again later, you get the tick.
///
/// # Panics
///
/// A poll panics in the cases that [`Interval::tick`] lists.
///
/// # Examples
///
/// ```
/// use tokio_stream::StreamExt;
/// use tokio_wheel::{Duration, Instant, interval};
/// use tokio_wheel_util::stream::IntervalStream;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let start = Instant::now();
/// let period = Duration::from_millis(10);
/// let ticks: Vec<_> = IntervalStream::new(interval(period)).take(3).collect().await;
/// assert_eq!(ticks, [start, start + period, start + 2 * period]);
/// # }
/// ```
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct IntervalStream {
    interval: Interval,
}

impl IntervalStream {
    /// Creates a stream of the ticks of `interval`.
    ///
    /// # Examples
    ///
    /// The stream uses the [`Timer`](tokio_wheel::Timer) of its interval:
    ///
    /// ```
    /// use tokio_stream::StreamExt;
    /// use tokio_wheel::{Duration, Timer};
    /// use tokio_wheel_util::stream::IntervalStream;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let timer = Timer::builder().build().unwrap();
    /// let mut ticks = IntervalStream::new(timer.interval(Duration::from_secs(1)));
    /// let first = ticks.next().await.unwrap();
    /// assert_eq!(ticks.next().await, Some(first + Duration::from_secs(1)));
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # }
    /// ```
    pub fn new(interval: Interval) -> Self {
        Self { interval }
    }

    /// Returns the interval.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, interval};
    /// use tokio_wheel_util::stream::IntervalStream;
    ///
    /// let ticks = IntervalStream::new(interval(Duration::from_secs(1)));
    /// assert_eq!(ticks.into_inner().period(), Duration::from_secs(1));
    /// ```
    pub fn into_inner(self) -> Interval {
        self.interval
    }
}

impl Stream for IntervalStream {
    type Item = Instant;

    #[track_caller]
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.interval.poll_tick(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

impl AsRef<Interval> for IntervalStream {
    fn as_ref(&self) -> &Interval {
        &self.interval
    }
}

impl AsMut<Interval> for IntervalStream {
    fn as_mut(&mut self) -> &mut Interval {
        &mut self.interval
    }
}
