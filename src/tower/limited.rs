//! A future that may have a limit: what the services of `tower` and `http` wait for.
//!
//! It does what [`Timeout`](crate::Timeout) does, and costs no timer without a limit.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;

use crate::{error::Elapsed, futures::Sleep, ground::coop};

pin_project! {
    #[derive(Debug)]
    pub(crate) struct Limited<F> {
        #[pin]
        future: F,
        limit: Option<Sleep>,
    }
}

impl<F> Limited<F> {
    #[inline]
    pub(crate) fn new(future: F, limit: Option<Sleep>) -> Self {
        Self { future, limit }
    }
}

impl<F: Future> Future for Limited<F> {
    type Output = Result<F::Output, Elapsed>;

    #[inline]
    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        let Some(limit) = this.limit else {
            return Poll::Pending;
        };
        ready!(limit.poll_as_limit(had_budget, cx));
        Poll::Ready(Err(Elapsed(())))
    }
}
