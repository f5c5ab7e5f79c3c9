//! An error, once, when an item is late.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_core::Stream;
use pin_project_lite::pin_project;

use super::fuse::Fuse;
use crate::{error::Elapsed, futures::Sleep, ground::coop, timer::Timer};

pin_project! {
    /// Stream of [`StreamExt::timeout`](super::StreamExt::timeout).
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct Timeout<S> {
        #[pin]
        stream: Fuse<S>,
        limit: Sleep,
        duration: Duration,
        // Whether the item that is waited for was reported late.
        reported: bool,
    }
}

impl<S: Stream> Timeout<S> {
    pub(super) fn new(stream: S, duration: Duration, limit: Sleep) -> Self {
        Self {
            stream: Fuse::new(stream),
            limit,
            duration,
            reported: false,
        }
    }

    /// [`StreamExt::timeout`](super::StreamExt::timeout) on a certain timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_stream::pending;
    /// use tokio_wheel::{Duration, Timer, stream::Timeout};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let timer = Timer::builder().build().unwrap();
    /// let mut stream = Timeout::with_timer(pending::<()>(), Duration::from_secs(1), &timer);
    /// assert!(tokio_stream::StreamExt::next(&mut stream).await.unwrap().is_err());
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # }
    /// ```
    pub fn with_timer(stream: S, duration: Duration, timer: &Timer) -> Self {
        Self::new(stream, duration, timer.sleep(duration))
    }
}

impl<S: Stream> Stream for Timeout<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            if item.is_some() {
                this.limit.reset_duration(*this.duration);
                *this.reported = false;
            }
            return Poll::Ready(item.map(Ok));
        }
        if *this.reported {
            return Poll::Pending;
        }
        ready!(this.limit.poll_as_limit(had_budget, cx));
        *this.reported = true;
        Poll::Ready(Some(Err(Elapsed(()))))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (lower, upper) = self.stream.size_hint();
        // At most one error before each item, and one before the end.
        let upper = upper.and_then(|items| items.checked_mul(2)?.checked_add(1));
        (lower, upper)
    }
}
