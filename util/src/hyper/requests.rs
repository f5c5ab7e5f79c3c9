//! Counts the requests in flight of a connection, and stores when the last request ended.
//!
//! Each request has a guard, and is in flight until its guard is dropped. At first, the service's future owns the
//! guard. Later, the body of the response owns the guard. So the count stays correct if the future or the body is
//! dropped, and if the service panics. The tests are in `tests/hyper/requests.rs`.
//!
//! Each connection has a count and a lock of its own, so that the requests of different connections never write to
//! the same memory. If no other request is in flight when a request ends, the request also reads the clock.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
};

use ::hyper::{
    Response,
    body::{Body, Frame, SizeHint},
    service::Service,
};
use pin_project_lite::pin_project;
use tokio::time::Instant;

use crate::limit::lock;

/// The number of requests in flight of one connection, and the instant at which it last became 0.
#[derive(Debug)]
pub(super) struct Requests(Mutex<(usize, Instant)>);

impl Requests {
    pub(super) fn new(opened: Instant) -> Self {
        Self(Mutex::new((0, opened)))
    }

    /// Returns whether a request is in flight.
    pub(super) fn is_busy(&self) -> bool {
        self.in_flight().0 > 0
    }

    /// Returns how many requests are in flight, and when the last request ended.
    pub(super) fn in_flight(&self) -> (usize, Instant) {
        *lock(&self.0)
    }
}

/// A guard that counts a request until it is dropped.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Requests>);

impl InFlight {
    /// Adds a request to the count and returns its guard.
    pub(super) fn begin(requests: &Arc<Requests>) -> Self {
        lock(&requests.0).0 += 1;
        Self(requests.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let (count, ended) = &mut *lock(&self.0.0);
        *count -= 1;
        if *count == 0 {
            *ended = Instant::now();
        }
    }
}

/// A service that counts its connection's requests in flight.
///
/// [`ConnectionGuard::serve`](super::ConnectionGuard::serve) passes this service to the connection.
#[derive(Clone, Debug)]
#[must_use = "a service does nothing unless a connection calls it"]
pub struct Counted<S> {
    pub(super) service: S,
    pub(super) requests: Arc<Requests>,
}

impl<S, R, B> Service<R> for Counted<S>
where
    S: Service<R, Response = Response<B>>,
{
    type Response = Response<CountedBody<B>>;
    type Error = S::Error;
    type Future = CountedFuture<S::Future>;

    fn call(&self, request: R) -> Self::Future {
        // The count begins before the call, because the call may panic.
        let in_flight = Some(InFlight::begin(&self.requests));
        let future = self.service.call(request);
        CountedFuture { future, in_flight }
    }
}

pin_project! {
    /// The future that a [`Counted`] service returns.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the inner service's future and ends the request.
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    #[derive(Debug)]
    pub struct CountedFuture<F> {
        #[pin]
        future: F,
        // Holds the guard until the response is ready.
        in_flight: Option<InFlight>,
    }
}

impl<F, B, E> Future for CountedFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<CountedBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let result = ready!(this.future.poll(cx));
        let in_flight = this.in_flight.take();
        Poll::Ready(result.map(|response| response.map(|body| CountedBody { body, in_flight })))
    }
}

pin_project! {
    /// The body of a response from a [`Counted`] service.
    ///
    /// The request is in flight until this body has ended or is dropped.
    #[derive(Debug)]
    #[must_use = "the request ends when its body is dropped"]
    pub struct CountedBody<B> {
        #[pin]
        body: B,
        // Holds the guard until the body has ended.
        in_flight: Option<InFlight>,
    }
}

impl<B: Body> Body for CountedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.body.poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            *this.in_flight = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_last_end_counts() {
        let opened = Instant::now();
        let requests = Arc::new(Requests::new(opened));
        let second = Duration::from_secs(1);
        assert_eq!(requests.in_flight(), (0, opened));
        let first = InFlight::begin(&requests);
        tokio::time::advance(second).await;
        let other = InFlight::begin(&requests);
        drop(first);
        assert_eq!(requests.in_flight(), (1, opened));
        tokio::time::advance(second).await;
        drop(other);
        assert_eq!(requests.in_flight(), (0, opened + 2 * second));
    }
}
