//! A future that may have a limit: what the services of `tower` and `http` wait for.
//!
//! It does what [`Timeout`](crate::Timeout) does. Without a limit, it sets no timer.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;

use crate::{
    error::Elapsed,
    futures::{Sleep, poll_in_time},
};

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
        poll_in_time(this.future, this.limit.as_mut(), cx)
    }
}
