//! What a stream can do with time: `tokio-stream`'s adapters on the timing wheel.
//!
//! [`StreamExt`] adds [`timeout`], [`timeout_repeating`], [`throttle`] and [`chunks_timeout`] to
//! every [`Stream`], and [`IntervalStream`] makes a stream of an [`Interval`]. Each means what
//! `tokio-stream`'s of the same name does.
//!
//! ```
//! use tokio_stream::iter;
//! use tokio_wheel::{Duration, Instant, stream::StreamExt};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let start = Instant::now();
//! let slow = iter(["a", "b", "c"]).throttle(Duration::from_millis(10));
//! let items: Vec<_> = tokio_stream::StreamExt::collect(slow).await;
//! assert_eq!(items, ["a", "b", "c"]);
//! assert!(start.elapsed() >= Duration::from_millis(20));
//! # }
//! ```
//!
//! # Together with other traits of that name
//!
//! `futures::StreamExt` has none of these methods, so a file can import both, one of them
//! `as _`.
//!
//! `tokio_stream::StreamExt` has all of them, unless its feature `time` is off in the whole
//! build. With both traits in scope, under whatever name, `stream.timeout(..)` is ambiguous and
//! does not compile. There are two ways around that. Where a file needs little else of
//! `tokio_stream::StreamExt`, import only the trait of this crate and name the other in full, as
//! the example above does. Else import only the other and name this one in full:
//!
//! ```
//! use std::pin::pin;
//! use tokio_stream::StreamExt;
//! use tokio_wheel::{Duration, stream};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let numbers = tokio_stream::iter(1..).filter(|n| n % 2 == 0);
//! let mut numbers = pin!(stream::StreamExt::timeout(numbers, Duration::from_secs(1)));
//! assert_eq!(numbers.next().await, Some(Ok(2)));
//! assert_eq!(numbers.next().await, Some(Ok(4)));
//! # }
//! ```
//!
//! # Which timer an adapter uses
//!
//! One made by a method of [`StreamExt`] uses the ambient timer of the runtime that polls it.
//! [`Timeout::with_timer`], [`Throttle::with_timer`] and [`ChunksTimeout::with_timer`] take a
//! [`Timer`](crate::Timer) instead. [`TimeoutRepeating`] and [`IntervalStream`] use that of their
//! [`Interval`].
//!
//! # What differs from `tokio-stream`
//!
//! | | `tokio-stream` | here |
//! |---|---|---|
//! | an adapter of a stream that is [`Unpin`] | `!Unpin` | `Unpin` |
//! | making an adapter outside of a runtime | panics, except `chunks_timeout` | is fine |
//! | a duration of [`Duration::MAX`] | panics, except in `chunks_timeout` | never ends |
//! | an inner stream that uses up the task's [budget] whenever it is polled | no timeout expires, and no chunk ends before it is full | timeouts expire, and chunks end in time |
//! | [`chunks_timeout`]'s memory | for `max_size` items, from when the adapter is made; a huge `max_size` panics | from a chunk's first item, for more than 1,024 only as they come; any `max_size` is fine |
//! | the error | `tokio_stream::Elapsed` | [`error::Elapsed`](crate::error::Elapsed) |
//! | [`Throttle`], [`IntervalStream`] | `Throttle` cannot be named; `IntervalStream` is not `must_use` | can be; is |
//!
//! [`timeout`]: StreamExt::timeout
//! [`timeout_repeating`]: StreamExt::timeout_repeating
//! [`throttle`]: StreamExt::throttle
//! [`chunks_timeout`]: StreamExt::chunks_timeout
//! [budget]: tokio::task::coop

mod chunks_timeout;
mod fuse;
mod interval;
mod throttle;
mod timeout;
mod timeout_repeating;

use std::time::Duration;

use futures_core::Stream;

use crate::futures::{Interval, sleep};

pub use chunks_timeout::ChunksTimeout;
pub use interval::IntervalStream;
pub use throttle::Throttle;
pub use timeout::Timeout;
pub use timeout_repeating::TimeoutRepeating;

/// What every [`Stream`] can do with time.
///
/// The [module](self) says how to use it together with other traits of this name.
pub trait StreamExt: Stream {
    /// Reports it, once, when the next item takes longer than `duration`.
    ///
    /// Items are passed on as `Ok`. If none is there when `duration` has elapsed since the last
    /// one, or since this call, the stream yields one [`Elapsed`] as `Err`. The inner stream goes
    /// on: its next item is passed on however late it is, and the time for the one after that
    /// counts from there. An item that is there counts, even if the time is over. The stream ends
    /// with the inner stream.
    ///
    /// For an error after every `duration`, see [`timeout_repeating`](Self::timeout_repeating).
    ///
    /// # Cancel safety
    ///
    /// Waiting for the next item can be given up and begun again: no item, error or time is lost.
    ///
    /// # Panics
    ///
    /// When polled, as the future of [`sleep`](crate::sleep()), if the inner stream is pending.
    ///
    /// # Errors
    ///
    /// The stream yields [`Elapsed`] if an item was not there in time.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::stream::{IntervalStream, StreamExt};
    /// use tokio_wheel::{Duration, interval};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// // An item at once, and every 100 ms.
    /// let items = IntervalStream::new(interval(Duration::from_millis(100)));
    /// let items = items.timeout(Duration::from_millis(30));
    ///
    /// let first = tokio_stream::StreamExt::take(items, 5);
    /// let in_time = tokio_stream::StreamExt::map(first, |item| item.is_ok());
    /// let in_time: Vec<bool> = tokio_stream::StreamExt::collect(in_time).await;
    /// assert_eq!(in_time, [true, false, true, false, true]);
    /// # }
    /// ```
    ///
    /// [`Elapsed`]: crate::error::Elapsed
    fn timeout(self, duration: Duration) -> Timeout<Self>
    where
        Self: Sized,
    {
        Timeout::new(self, duration, sleep(duration))
    }

    /// Reports it, again and again, when the next item takes longer than the period of
    /// `interval`.
    ///
    /// Items are passed on as `Ok`. Whenever `interval` ticks while there is none, the stream
    /// yields an [`Elapsed`] as `Err`. Each item [resets](Interval::reset) the interval to one
    /// period from then. The stream ends with the inner stream.
    ///
    /// The first tick is the interval's own: that of [`interval`](crate::interval()) is at once,
    /// so that it is an error if the stream has no item at the first poll. Use
    /// [`interval_at`](crate::interval_at) to give the first item time too. When polls are
    /// late, the interval's missed-tick behavior decides how many errors follow.
    ///
    /// # Cancel safety
    ///
    /// Waiting for the next item can be given up and begun again: no item, error or time is lost.
    ///
    /// # Panics
    ///
    /// When polled, as the future of [`sleep`](crate::sleep()), if the inner stream is pending.
    ///
    /// # Errors
    ///
    /// The stream yields [`Elapsed`] at each tick without an item.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::stream::{IntervalStream, StreamExt};
    /// use tokio_wheel::{Duration, interval};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// // An item at once, and every 100 ms.
    /// let items = IntervalStream::new(interval(Duration::from_millis(100)));
    /// let items = items.timeout_repeating(interval(Duration::from_millis(40)));
    ///
    /// let first = tokio_stream::StreamExt::take(items, 6);
    /// let in_time = tokio_stream::StreamExt::map(first, |item| item.is_ok());
    /// let in_time: Vec<bool> = tokio_stream::StreamExt::collect(in_time).await;
    /// assert_eq!(in_time, [true, false, false, true, false, false]);
    /// # }
    /// ```
    ///
    /// [`Elapsed`]: crate::error::Elapsed
    fn timeout_repeating(self, interval: Interval) -> TimeoutRepeating<Self>
    where
        Self: Sized,
    {
        TimeoutRepeating::new(self, interval)
    }

    /// Leaves at least `duration` between one item and the next.
    ///
    /// The first item is not delayed, nor is the end of the stream, other than by the wait after
    /// the last item. The time counts from when an item was yielded. Until it is over, the inner
    /// stream is not polled, so items may queue up in whatever is behind it. A `duration` of zero
    /// changes nothing.
    ///
    /// # Cancel safety
    ///
    /// Waiting for the next item can be given up and begun again: no item or time is lost.
    ///
    /// # Panics
    ///
    /// When polled, as the future of [`sleep`](crate::sleep()), within `duration` of an item.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_stream::iter;
    /// use tokio_wheel::{Duration, Instant, stream::StreamExt};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let start = Instant::now();
    /// let slow = iter(0..3).throttle(Duration::from_secs(2));
    /// let times = tokio_stream::StreamExt::map(slow, |_| start.elapsed().as_secs());
    /// let times: Vec<u64> = tokio_stream::StreamExt::collect(times).await;
    /// assert_eq!(times, [0, 2, 4]);
    /// # }
    /// ```
    fn throttle(self, duration: Duration) -> Throttle<Self>
    where
        Self: Sized,
    {
        Throttle::new(self, duration, sleep(duration))
    }

    /// Collects items into chunks of at most `max_size`, each within at most `duration`.
    ///
    /// The stream yields a chunk when it has `max_size` items, when `duration` has elapsed since
    /// its first item, or when the inner stream ends. A chunk is never empty: the time counts
    /// only from its first item. Items that are there are taken first, even if the time is over.
    ///
    /// # Cancel safety
    ///
    /// Waiting for the next chunk can be given up and begun again: no item or time is lost.
    /// Dropping the stream drops the items of the chunk that it has begun;
    /// [`ChunksTimeout::into_remainder`] keeps them.
    ///
    /// # Panics
    ///
    /// If `max_size` is zero.
    ///
    /// When polled, as the future of [`sleep`](crate::sleep()), if a chunk is begun and the inner
    /// stream is pending.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_stream::iter;
    /// use tokio_wheel::stream::{IntervalStream, StreamExt};
    /// use tokio_wheel::{Duration, interval};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let five = iter(0..5).chunks_timeout(2, Duration::from_secs(1));
    /// let chunks: Vec<_> = tokio_stream::StreamExt::collect(five).await;
    /// assert_eq!(chunks, [vec![0, 1], vec![2, 3], vec![4]]);
    ///
    /// // At 0, 10, 20, .. ms, and at most 25 ms from a chunk's first item to its end.
    /// let ticks = IntervalStream::new(interval(Duration::from_millis(10)));
    /// let chunks = ticks.chunks_timeout(100, Duration::from_millis(25));
    /// let sizes = tokio_stream::StreamExt::map(chunks, |chunk| chunk.len());
    /// let sizes = tokio_stream::StreamExt::take(sizes, 3);
    /// let sizes: Vec<usize> = tokio_stream::StreamExt::collect(sizes).await;
    /// assert_eq!(sizes, [3, 3, 3]);
    /// # }
    /// ```
    #[track_caller]
    fn chunks_timeout(self, max_size: usize, duration: Duration) -> ChunksTimeout<Self>
    where
        Self: Sized,
    {
        ChunksTimeout::new(self, max_size, duration, sleep(duration))
    }
}

impl<S: Stream + ?Sized> StreamExt for S {}
