//! Timeouts, throttling, debouncing and chunking for streams.
//!
//! [`StreamExt`] adds [`timeout`], [`timeout_repeating`], [`throttle`] and [`chunks_timeout`] to every
//! [`Stream`], and [`IntervalStream`] turns an [`Interval`] into a stream. These work like the adapters of the same names in
//! `tokio-stream`. Two things are new: [`debounce`] yields the latest item after a pause, and a [`JitteredInterval`] takes its
//! periods from a closure.
//!
//! ```
//! use tokio_stream::iter;
//! use tokio_wheel::{Duration, Instant};
//! use tokio_wheel_util::stream::StreamExt;
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
//! # Other traits named `StreamExt`
//!
//! `futures::StreamExt` has none of these methods. To import both traits, import one of them with `as _`.
//!
//! `tokio_stream::StreamExt` has all of them except `debounce`, if a crate in the build enables its feature `time`. If both
//! traits are in scope, `stream.timeout(..)` is ambiguous and does not compile. So import only one trait, and call the methods
//! of the other one by their full path. The example above imports this crate's trait. This one imports that of `tokio-stream`:
//!
//! ```
//! use std::pin::pin;
//! use tokio_stream::StreamExt;
//! use tokio_wheel::Duration;
//! use tokio_wheel_util::stream;
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
//! An adapter uses the default timer of the runtime that polls it. [`TimeoutRepeating`] and [`IntervalStream`] use the
//! timer of their [`Interval`].
//!
//! # Differences from `tokio-stream`
//!
//! | | `tokio-stream` | here |
//! |---|---|---|
//! | an adapter of an [`Unpin`] stream | is not `Unpin` | is `Unpin` |
//! | creating an adapter outside a runtime | panics, except for `chunks_timeout` | works |
//! | a duration of [`Duration::MAX`] | panics, except for `chunks_timeout` | ends after 100 years |
//! | an inner stream that uses the task's whole [budget] in each poll | timeouts do not expire, and chunks end only when they are full | timeouts expire, and chunks end in time |
//! | another future that uses the task's whole budget before each poll of the adapter | timeouts do not expire, and chunks end only when they are full | timeouts expire at the second poll, and chunks end then |
//! | memory of [`chunks_timeout`] | for `max_size` items from the start; panics if that is too much | for at most 1,024 items when the first item of a chunk arrives, and more as needed |
//! | the error type | `tokio_stream::Elapsed` | [`error::Elapsed`](tokio_wheel::error::Elapsed) |
//! | an item from another task and a deadline in one millisecond, on a paused clock | in a fixed order | nearly always in the same order; if a test needs an order, use times that differ by 1 ms |
//! | the type [`Throttle`] | has no public name | is public |
//! | the attribute `must_use` | not on `IntervalStream` | on all adapters |
//!
//! [`debounce`]: StreamExt::debounce
//! [`timeout`]: StreamExt::timeout
//! [`timeout_repeating`]: StreamExt::timeout_repeating
//! [`throttle`]: StreamExt::throttle
//! [`chunks_timeout`]: StreamExt::chunks_timeout
//! [budget]: tokio::task::coop

mod chunks_timeout;
mod debounce;
mod interval;
mod jittered_interval;
mod throttle;
mod timeout;

use std::time::Duration;

use futures_core::Stream;

use tokio_wheel::Interval;

pub use chunks_timeout::ChunksTimeout;
pub use debounce::Debounce;
pub use interval::IntervalStream;
pub use jittered_interval::JitteredInterval;
pub use throttle::Throttle;
pub use timeout::{Timeout, TimeoutRepeating};

/// Adds timeouts, throttling, chunks and debouncing to every [`Stream`].
///
/// The [module](self) explains how to use this trait together with other traits of this name.
pub trait StreamExt: Stream + Sized {
    /// Yields an error when the next item takes longer than `duration`.
    ///
    /// The stream yields each item as `Ok`. The time for an item starts when the stream yields the previous
    /// item. The time for the first item starts with this call. If the time elapses before the item is ready,
    /// the stream yields one [`Elapsed`] as `Err`. If the time has elapsed but the item is ready at the next
    /// poll, the stream yields the item.
    ///
    /// The inner stream continues after an error. The stream yields the next item as `Ok`, however late the
    /// item is. The stream ends when the inner stream ends.
    ///
    /// To get an error after every `duration`, use [`timeout_repeating`](Self::timeout_repeating).
    ///
    /// # Cancel safety
    ///
    /// The stream is cancel safe if the inner stream is cancel safe. If you stop waiting for an item and poll
    /// again later, no item or error is lost, and the deadline does not change.
    ///
    /// # Panics
    ///
    /// If the inner stream is pending, a poll panics in the cases that [`sleep`](tokio_wheel::sleep()) lists.
    ///
    /// # Errors
    ///
    /// The stream yields [`Elapsed`] once for each item that was not ready in time.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::stream::{IntervalStream, StreamExt};
    /// use tokio_wheel::{Duration, interval};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// // There is an item at once, and then one every 100 ms.
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
    /// [`Elapsed`]: tokio_wheel::error::Elapsed
    fn timeout(self, duration: Duration) -> Timeout<Self> {
        Timeout::new(self, duration)
    }

    /// Yields an error at each tick of `interval` at which the next item is not ready.
    ///
    /// The stream yields each item as `Ok`. Each item [resets](Interval::reset) the interval: the next tick
    /// is then one period later. If the interval ticks before an item is ready, the stream yields one
    /// [`Elapsed`] as `Err`. The stream ends when the inner stream ends.
    ///
    /// An interval that [`interval`](tokio_wheel::interval()) creates ticks immediately. With such an interval, the
    /// stream begins with an error if the first item is not ready at the first poll. To give the first item
    /// some time, use [`interval_at`](tokio_wheel::interval_at). If polls are late, the missed-tick behavior of the
    /// interval decides how many errors follow.
    ///
    /// # Cancel safety
    ///
    /// The stream is cancel safe if the inner stream is cancel safe. If you stop waiting for an item and poll
    /// again later, no item or error is lost, and the next tick does not change.
    ///
    /// # Panics
    ///
    /// If the inner stream is pending, a poll panics in the cases that [`Interval::tick`] lists.
    ///
    /// # Errors
    ///
    /// The stream yields [`Elapsed`] at each tick at which the next item is not ready.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::stream::{IntervalStream, StreamExt};
    /// use tokio_wheel::{Duration, interval};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// // There is an item at once, and then one every 100 ms.
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
    /// [`Elapsed`]: tokio_wheel::error::Elapsed
    fn timeout_repeating(self, interval: Interval) -> TimeoutRepeating<Self> {
        TimeoutRepeating::new(self, interval)
    }

    /// Leaves at least `duration` between two consecutive items.
    ///
    /// A pause of `duration` starts when the stream yields an item. During the pause, the adapter does not
    /// poll the inner stream, so items may accumulate in the inner stream. The first item has no delay. The
    /// stream ends only after the pause that follows the last item. If `duration` is zero, there are no
    /// pauses.
    ///
    /// # Cancel safety
    ///
    /// The stream is cancel safe if the inner stream is cancel safe. If you stop waiting for an item and poll
    /// again later, no item is lost, and the pause does not start again.
    ///
    /// # Panics
    ///
    /// During a pause, a poll panics in the cases that [`sleep`](tokio_wheel::sleep()) lists.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_stream::iter;
    /// use tokio_wheel::{Duration, Instant};
    /// use tokio_wheel_util::stream::StreamExt;
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
    fn throttle(self, duration: Duration) -> Throttle<Self> {
        Throttle::new(self, duration)
    }

    /// Collects items into chunks that are limited in size and in time.
    ///
    /// The stream yields a chunk:
    ///
    /// * when the chunk has `max_size` items;
    /// * when `duration` has elapsed since the chunk's first item;
    /// * when the inner stream ends.
    ///
    /// A chunk is never empty. A ready item joins the chunk, even if the time has elapsed.
    ///
    /// # Cancel safety
    ///
    /// The stream is cancel safe if the inner stream is cancel safe. If you stop waiting for a chunk and poll
    /// again later, no item is lost, and the deadline of the chunk does not change. If you drop the stream,
    /// you lose the items of the current chunk. Call [`ChunksTimeout::into_remainder`] first to keep these
    /// items.
    ///
    /// # Panics
    ///
    /// Panics if `max_size` is zero.
    ///
    /// If the current chunk has items and the inner stream is pending, a poll panics in the cases that
    /// [`sleep`](tokio_wheel::sleep()) lists.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_stream::iter;
    /// use tokio_wheel_util::stream::{IntervalStream, StreamExt};
    /// use tokio_wheel::{Duration, interval};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let five = iter(0..5).chunks_timeout(2, Duration::from_secs(1));
    /// let chunks: Vec<_> = tokio_stream::StreamExt::collect(five).await;
    /// assert_eq!(chunks, [vec![0, 1], vec![2, 3], vec![4]]);
    ///
    /// // Ticks come at 0, 10, 20, .. ms. A chunk ends 25 ms after its first tick.
    /// let ticks = IntervalStream::new(interval(Duration::from_millis(10)));
    /// let chunks = ticks.chunks_timeout(100, Duration::from_millis(25));
    /// let sizes = tokio_stream::StreamExt::map(chunks, |chunk| chunk.len());
    /// let sizes = tokio_stream::StreamExt::take(sizes, 3);
    /// let sizes: Vec<usize> = tokio_stream::StreamExt::collect(sizes).await;
    /// assert_eq!(sizes, [3, 3, 3]);
    /// # }
    /// ```
    #[track_caller]
    fn chunks_timeout(self, max_size: usize, duration: Duration) -> ChunksTimeout<Self> {
        ChunksTimeout::new(self, max_size, duration)
    }

    /// Yields the latest item when no further item has come for `duration`.
    ///
    /// The stream keeps only the latest item, and drops the items before it:
    ///
    /// * Each item replaces the latest item, and the time starts again.
    /// * If the time elapses, the stream yields the latest item.
    /// * If the inner stream ends, the stream yields the latest item at once, and ends.
    ///
    /// The time of an item starts when a poll of this stream receives the item. An item that is ready at a poll replaces
    /// the latest item, even if the time has elapsed, so a late poll never yields an item that a ready one replaces. An
    /// inner stream that is always ready, or whose pauses are all shorter than `duration`, yields only its last item.
    ///
    /// # Cancel safety
    ///
    /// The stream is cancel safe if the inner stream is cancel safe. If you stop waiting for an item and poll
    /// again later, the latest item is not lost, and its time does not start again. If you drop the stream, you
    /// lose the latest item.
    ///
    /// # Panics
    ///
    /// If the stream has an item and the inner stream is pending, a poll panics in the cases that
    /// [`sleep`](tokio_wheel::sleep()) lists.
    ///
    /// # Examples
    ///
    /// A file is read again when it has not changed for 100 ms:
    ///
    /// ```
    /// use tokio_stream::{iter, StreamExt as _};
    /// use tokio_wheel::{sleep, Duration, Instant};
    /// use tokio_wheel_util::stream;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let start = Instant::now();
    /// // The pauses before the changes, in milliseconds.
    /// let changes = iter([0, 20, 20, 500, 50]).then(async |pause| {
    ///     sleep(Duration::from_millis(pause)).await;
    ///     start.elapsed().as_millis()
    /// });
    /// let settled = stream::StreamExt::debounce(changes, Duration::from_millis(100));
    /// let reads = settled.map(|change| (change, start.elapsed().as_millis()));
    /// let reads: Vec<_> = reads.collect().await;
    /// // After the last change, the stream of the changes ends.
    /// assert_eq!(reads, [(40, 140), (590, 590)]);
    /// # }
    /// ```
    fn debounce(self, duration: Duration) -> Debounce<Self> {
        Debounce::new(self, duration)
    }
}

impl<S: Stream> StreamExt for S {}
