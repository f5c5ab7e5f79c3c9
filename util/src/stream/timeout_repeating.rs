//! `TimeoutRepeating`: an error at each tick of an interval while an item is late.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_core::{FusedStream, Stream};
use pin_project_lite::pin_project;

use super::fuse::Fuse;
use crate::{coop::Starved, limit::poll_tick};
use tokio_wheel::{Interval, error::Elapsed};

pin_project! {
    /// The stream returned by [`StreamExt::timeout_repeating`](super::StreamExt::timeout_repeating).
    ///
    /// # Cancel safety
    ///
    /// The stream is cancel safe if the inner stream is cancel safe.
    ///
    /// # Panics
    ///
    /// If the inner stream is pending, a poll panics in the cases that [`Interval::tick`] lists.
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct TimeoutRepeating<S> {
        #[pin]
        stream: Fuse<S>,
        interval: Interval,
        starved: Starved,
    }
}

impl<S: Stream> TimeoutRepeating<S> {
    pub(super) fn new(stream: S, interval: Interval) -> Self {
        Self {
            stream: Fuse::new(stream),
            interval,
            starved: Starved::new(),
        }
    }
}

impl<S: Stream> Stream for TimeoutRepeating<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        let had_budget = this.starved.had_budget();
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            if item.is_some() {
                this.interval.reset();
            }
            return Poll::Ready(item.map(Ok));
        }
        let ticked = poll_tick(this.interval, had_budget, cx);
        ready!(this.starved.record(ticked));
        Poll::Ready(Some(Err(Elapsed::new())))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // The number of errors has no limit.
        (self.stream.size_hint().0, None)
    }
}

impl<S: Stream> FusedStream for TimeoutRepeating<S> {
    fn is_terminated(&self) -> bool {
        self.stream.is_ended()
    }
}
