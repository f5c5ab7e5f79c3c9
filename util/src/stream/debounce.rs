//! `Debounce`: the latest item after a pause.

use std::{
    pin::{Pin, pin},
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_core::Stream;
use pin_project_lite::pin_project;
use tokio::task::yield_now;
use tokio_stream::adapters::Fuse;

use crate::limit::{Starved, has_budget_remaining};
use tokio_wheel::{Sleep, sleep};

/// The number of items that one poll takes at most. Then other tasks run, because an inner stream may always be ready.
const MAX_ITEMS: usize = 1_024;

pin_project! {
    /// The stream returned by [`StreamExt::debounce`](super::StreamExt::debounce).
    ///
    /// # Cancel safety
    ///
    /// The stream is cancel safe if the inner stream is cancel safe. If you drop the stream, you lose the latest item.
    ///
    /// # Panics
    ///
    /// If the stream has an item and the inner stream is pending, a poll panics in the cases that
    /// [`sleep`](tokio_wheel::sleep()) lists.
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct Debounce<S: Stream> {
        #[pin]
        stream: Fuse<S>,
        // The latest item, unless the stream has yielded it.
        latest: Option<S::Item>,
        // The sleep until the stream yields `latest`. It is valid only while there is such an item.
        pause: Sleep,
        duration: Duration,
        starved: Starved,
    }
}

impl<S: Stream> Debounce<S> {
    pub(super) fn new(stream: S, duration: Duration) -> Self {
        Self {
            stream: tokio_stream::StreamExt::fuse(stream),
            latest: None,
            pause: sleep(duration),
            duration,
            starved: Starved::new(),
        }
    }
}

impl<S: Stream> Stream for Debounce<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let mut this = self.project();
        let mut items = 0;
        while let Poll::Ready(item) = this.stream.as_mut().poll_next(cx) {
            if item.is_none() {
                return Poll::Ready(this.latest.take());
            }
            *this.latest = item;
            items += 1;
            if items == MAX_ITEMS {
                break;
            }
        }
        if items > 0 {
            Pin::new(&mut *this.pause).reset_after(*this.duration);
            // An inner stream without budget is pending although it has items. Only the next poll tells whether it pauses.
            if items == MAX_ITEMS || !has_budget_remaining() {
                // The worker polls this task again after it has checked its I/O.
                let _: Poll<()> = pin!(yield_now()).poll(cx);
                return Poll::Pending;
            }
        }
        if this.latest.is_none() {
            return Poll::Pending;
        }
        ready!(this.starved.poll_limit(this.pause, cx));
        Poll::Ready(this.latest.take())
    }
}
