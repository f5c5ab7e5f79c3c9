//! A future with an optional limit. The response futures of `tower` and `http` contain it.
//!
//! The future works like [`Timeout`](crate::Timeout). A future without a limit registers no entry.

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
