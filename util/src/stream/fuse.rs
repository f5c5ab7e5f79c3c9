//! `Fuse`: drops the inner stream when the inner stream ends.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use pin_project_lite::pin_project;

pin_project! {
    /// Holds the inner stream until the inner stream ends.
    #[derive(Debug)]
    pub(super) struct Fuse<S> {
        #[pin]
        stream: Option<S>,
    }
}

impl<S> Fuse<S> {
    pub(super) fn new(stream: S) -> Self {
        let stream = Some(stream);
        Self { stream }
    }

    /// Returns whether the inner stream has ended.
    pub(super) fn is_ended(&self) -> bool {
        self.stream.is_none()
    }
}

impl<S: Stream> Stream for Fuse<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let mut this = self.project();
        let Some(stream) = this.stream.as_mut().as_pin_mut() else {
            return Poll::Ready(None);
        };
        let item = ready!(stream.poll_next(cx));
        if item.is_none() {
            this.stream.set(None);
        }
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.stream {
            Some(stream) => stream.size_hint(),
            None => (0, Some(0)),
        }
    }
}
