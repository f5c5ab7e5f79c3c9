//! `Timeout` and `TimeoutRepeating`: errors for late items.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_core::Stream;
use pin_project_lite::pin_project;
use tokio::task::coop::{RestoreOnPending, unconstrained};
use tokio_stream::adapters::Fuse;

use crate::limit::Starved;
use tokio_wheel::{Interval, Sleep, error::Elapsed, sleep};

pin_project! {
    /// The stream returned by [`StreamExt::timeout`](super::StreamExt::timeout).
    ///
    /// # Cancel safety
    ///
    /// The stream is cancel safe if the inner stream is cancel safe.
    ///
    /// # Panics
    ///
    /// If the inner stream is pending, a poll panics in the cases that [`sleep`](tokio_wheel::sleep()) lists.
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct Timeout<S> {
        #[pin]
        stream: Fuse<S>,
        limit: Sleep,
        duration: Duration,
        // Whether the stream has already yielded the error for the next item.
        reported: bool,
        starved: Starved,
    }
}

impl<S: Stream> Timeout<S> {
    pub(super) fn new(stream: S, duration: Duration) -> Self {
        Self {
            stream: tokio_stream::StreamExt::fuse(stream),
            limit: sleep(duration),
            duration,
            reported: false,
            starved: Starved::new(),
        }
    }
}

impl<S: Stream> Stream for Timeout<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            if item.is_some() {
                Pin::new(this.limit).reset_after(*this.duration);
                *this.reported = false;
            }
            return Poll::Ready(item.map(Ok));
        }
        if *this.reported {
            return Poll::Pending;
        }
        ready!(this.starved.poll_limit(this.limit, cx));
        *this.reported = true;
        Poll::Ready(Some(Err(Elapsed::new())))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (lower, upper) = self.stream.size_hint();
        // There is at most one error before each item, and at most one error before the end.
        let upper = upper.and_then(|items| items.checked_mul(2)?.checked_add(1));
        (lower, upper)
    }
}

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
            stream: tokio_stream::StreamExt::fuse(stream),
            interval,
            starved: Starved::new(),
        }
    }
}

impl<S: Stream> Stream for TimeoutRepeating<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            if item.is_some() {
                this.interval.reset();
            }
            return Poll::Ready(item.map(Ok));
        }
        let unit = ready!(this.starved.take_unit(cx));
        let tick = unconstrained(poll_fn(|cx| this.interval.poll_tick(cx)));
        ready!(pin!(tick).poll(cx));
        unit.inspect(RestoreOnPending::made_progress);
        Poll::Ready(Some(Err(Elapsed::new())))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // The number of errors has no limit.
        (self.stream.size_hint().0, None)
    }
}
