//! Items in chunks that are bounded in size and in time.

use std::{
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_core::Stream;
use pin_project_lite::pin_project;
use tokio::time::Instant;

use super::fuse::Fuse;
use crate::{
    futures::Sleep,
    ground::{coop, give_way::yield_now},
    timer::Timer,
};

/// For how many items a chunk's memory is allocated at once, at most. Beyond that it grows with
/// the items: a huge `max_size` stands for "bounded by time only".
const MAX_RESERVED: usize = 1_024;

pin_project! {
    /// Stream of [`StreamExt::chunks_timeout`](super::StreamExt::chunks_timeout).
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct ChunksTimeout<S: Stream> {
        #[pin]
        stream: Fuse<S>,
        // Counts from the first of `items`; without items it means nothing.
        limit: Sleep,
        duration: Duration,
        items: Vec<S::Item>,
        max_size: usize,
    }
}

impl<S: Stream> ChunksTimeout<S> {
    #[track_caller]
    pub(super) fn new(stream: S, max_size: usize, duration: Duration, limit: Sleep) -> Self {
        assert!(
            max_size > 0,
            "`max_size` must be non-zero: give the size of the largest chunk, 1 or more"
        );
        Self {
            stream: Fuse::new(stream),
            limit,
            duration,
            items: Vec::new(),
            max_size,
        }
    }

    /// [`StreamExt::chunks_timeout`](super::StreamExt::chunks_timeout) on a certain timer.
    ///
    /// # Panics
    ///
    /// If `max_size` is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_stream::{StreamExt, iter, pending};
    /// use tokio_wheel::{Duration, Timer, stream::ChunksTimeout};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let timer = Timer::builder().build().unwrap();
    /// let three = iter([1, 2, 3]).chain(pending());
    /// let mut chunks = ChunksTimeout::with_timer(three, 2, Duration::from_secs(1), &timer);
    /// assert_eq!(chunks.next().await, Some(vec![1, 2]));
    /// assert_eq!(chunks.next().await, Some(vec![3]));
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # }
    /// ```
    #[track_caller]
    pub fn with_timer(stream: S, max_size: usize, duration: Duration, timer: &Timer) -> Self {
        Self::new(stream, max_size, duration, timer.sleep(duration))
    }

    /// Takes the items of the chunk that is begun.
    ///
    /// The stream can be polled further; its next item begins a new chunk.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{pin::pin, task::{Context, Poll, Waker}};
    /// use tokio_stream::{Stream, StreamExt, iter, pending};
    /// use tokio_wheel::{Duration, stream};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let two = iter([1, 2]).chain(pending());
    /// let chunks = stream::StreamExt::chunks_timeout(two, 3, Duration::from_secs(1));
    /// let mut chunks = pin!(chunks);
    /// let mut cx = Context::from_waker(Waker::noop());
    /// assert_eq!(chunks.as_mut().poll_next(&mut cx), Poll::Pending);
    /// assert_eq!(chunks.into_remainder(), [1, 2]);
    /// # }
    /// ```
    pub fn into_remainder(self: Pin<&mut Self>) -> Vec<S::Item> {
        mem::take(self.project().items)
    }
}

impl<S: Stream> Stream for ChunksTimeout<S> {
    type Item = Vec<S::Item>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        let had_budget = coop::has_budget_remaining();
        while let Poll::Ready(item) = this.stream.as_mut().poll_next(cx) {
            let Some(item) = item else {
                let last = mem::take(this.items);
                return Poll::Ready((!last.is_empty()).then_some(last));
            };
            if this.items.is_empty() {
                this.limit.reset_duration(*this.duration);
                this.items.reserve_exact((*this.max_size).min(MAX_RESERVED));
            }
            this.items.push(item);
            if this.items.len() >= *this.max_size {
                return Poll::Ready(Some(mem::take(this.items)));
            }
            // A stream that is always ready must not keep the chunk's end, nor other tasks, waiting.
            if this.items.len() % MAX_RESERVED == 0 {
                if Instant::now() >= this.limit.deadline() {
                    return Poll::Ready(Some(mem::take(this.items)));
                }
                yield_now(cx);
                return Poll::Pending;
            }
        }
        if this.items.is_empty() {
            return Poll::Pending;
        }
        ready!(this.limit.poll_as_limit(had_budget, cx));
        Poll::Ready(Some(mem::take(this.items)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let begun = usize::from(!self.items.is_empty());
        let (lower, upper) = self.stream.size_hint();
        // At best every chunk is full, at worst every item has one of its own.
        let lower = (lower / self.max_size).saturating_add(begun);
        let upper = upper.and_then(|items| items.checked_add(begun));
        (lower, upper)
    }
}
