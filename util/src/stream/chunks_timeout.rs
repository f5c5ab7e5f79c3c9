//! `ChunksTimeout`: chunks of items, limited in size and in time.

use std::{
    mem,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_core::Stream;
use pin_project_lite::pin_project;
use tokio::{task::yield_now, time::Instant};
use tokio_stream::adapters::Fuse;

use crate::limit::Starved;
use tokio_wheel::{Sleep, sleep};

/// When the first item of a chunk arrives, the stream allocates memory for at most this many items. When more
/// items arrive, the stream allocates more memory. This limit is needed because a user may set a huge
/// `max_size` to limit chunks by time only.
const MAX_RESERVED: usize = 1_024;

pin_project! {
    /// The stream returned by [`StreamExt::chunks_timeout`](super::StreamExt::chunks_timeout).
    ///
    /// # Cancel safety
    ///
    /// The stream is cancel safe if the inner stream is cancel safe. If you drop the stream, you lose the
    /// items of the current chunk. Call [`into_remainder`](Self::into_remainder) first to keep these items.
    ///
    /// # Panics
    ///
    /// If the current chunk has items and the inner stream is pending, a poll panics in the cases that
    /// [`sleep`](tokio_wheel::sleep()) lists.
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct ChunksTimeout<S: Stream> {
        #[pin]
        stream: Fuse<S>,
        // The sleep until the end of the current chunk. It is valid only while `items` is not empty.
        limit: Sleep,
        duration: Duration,
        // The items of the current chunk.
        items: Vec<S::Item>,
        max_size: usize,
        starved: Starved,
    }
}

impl<S: Stream> ChunksTimeout<S> {
    #[track_caller]
    pub(super) fn new(stream: S, max_size: usize, duration: Duration) -> Self {
        assert!(max_size > 0, "`max_size` must be 1 or more, got 0");
        Self {
            stream: tokio_stream::StreamExt::fuse(stream),
            limit: sleep(duration),
            duration,
            items: Vec::new(),
            max_size,
            starved: Starved::new(),
        }
    }

    /// Removes the items of the current chunk and returns them.
    ///
    /// You may poll the stream afterwards. The next item of the inner stream begins a new chunk.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{pin::pin, task::{Context, Poll, Waker}};
    /// use tokio_stream::{Stream, StreamExt, iter, pending};
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::stream;
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
        while let Poll::Ready(item) = this.stream.as_mut().poll_next(cx) {
            let Some(item) = item else {
                let last = mem::take(this.items);
                return Poll::Ready((!last.is_empty()).then_some(last));
            };
            if this.items.is_empty() {
                Pin::new(&mut *this.limit).reset_after(*this.duration);
                this.items.reserve_exact((*this.max_size).min(MAX_RESERVED));
            }
            this.items.push(item);
            if this.items.len() >= *this.max_size {
                return Poll::Ready(Some(mem::take(this.items)));
            }
            // An inner stream that is always ready must not delay the end of the chunk. Such a stream must
            // not delay other tasks either.
            if this.items.len() % MAX_RESERVED == 0 {
                if Instant::now() >= this.limit.deadline() {
                    return Poll::Ready(Some(mem::take(this.items)));
                }
                // The worker polls this task again after it has checked its I/O.
                let _: Poll<()> = pin!(yield_now()).poll(cx);
                return Poll::Pending;
            }
        }
        if this.items.is_empty() {
            return Poll::Pending;
        }
        ready!(this.starved.poll_limit(this.limit, cx));
        Poll::Ready(Some(mem::take(this.items)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let begun = usize::from(!self.items.is_empty());
        let (lower, upper) = self.stream.size_hint();
        // The lower bound assumes that every chunk is full. The upper bound assumes one item in each chunk.
        let lower = (lower / self.max_size).saturating_add(begun);
        let upper = upper.and_then(|items| items.checked_add(begun));
        (lower, upper)
    }
}
