//! An error at every tick at which an item is late.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use pin_project_lite::pin_project;

use super::fuse::Fuse;
use crate::{error::Elapsed, futures::Interval, ground::coop};

pin_project! {
    /// Stream of [`StreamExt::timeout_repeating`](super::StreamExt::timeout_repeating).
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct TimeoutRepeating<S> {
        #[pin]
        stream: Fuse<S>,
        interval: Interval,
    }
}

impl<S: Stream> TimeoutRepeating<S> {
    pub(super) fn new(stream: S, interval: Interval) -> Self {
        let stream = Fuse::new(stream);
        Self { stream, interval }
    }
}

impl<S: Stream> Stream for TimeoutRepeating<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            if item.is_some() {
                this.interval.reset();
            }
            return Poll::Ready(item.map(Ok));
        }
        ready!(this.interval.poll_as_limit(had_budget, cx));
        Poll::Ready(Some(Err(Elapsed(()))))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Nothing bounds the errors.
        (self.stream.size_hint().0, None)
    }
}
