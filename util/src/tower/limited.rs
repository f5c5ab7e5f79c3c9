//! A future with an optional limit. The response futures of `tower` and `http` contain it.
//!
//! The future works like [`Timeout`](tokio_wheel::Timeout). A future without a limit registers no entry.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;

use crate::{coop, limit::poll_limit};
use tokio_wheel::{Sleep, error::Elapsed};

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
        ready!(poll_limit(limit, had_budget, cx));
        Poll::Ready(Err(Elapsed::new()))
    }
}
