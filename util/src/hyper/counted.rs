//! A service that counts its requests in flight.
//!
//! Each request has a guard and counts as in flight until its guard is dropped. At first, the service's
//! future owns the guard. Later, the body of the response owns the guard. So the count stays correct in these
//! cases:
//!
//! * The future or the body is dropped.
//! * The service panics.
//!
//! The tests are in `tests/hyper/counting.rs`.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use ::hyper::{
    Response,
    body::{Body, Frame, SizeHint},
    service::Service,
};
use pin_project_lite::pin_project;

use super::requests::{InFlight, Requests};

/// A service that counts its connection's requests in flight.
///
/// [`Lifetime::service`](super::Lifetime::service) returns this service.
#[derive(Clone)]
#[must_use = "a service does nothing unless a connection calls it"]
pub struct Counted<S> {
    service: S,
    requests: Arc<Requests>,
}

impl<S> Counted<S> {
    pub(super) fn new(service: S, requests: Arc<Requests>) -> Self {
        Self { service, requests }
    }
}

impl<S: fmt::Debug> fmt::Debug for Counted<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Counted").field(&self.service).finish()
    }
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
