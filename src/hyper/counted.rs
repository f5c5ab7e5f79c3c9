//! A service that counts its requests while they are in flight.
//!
//! A guard counts a request. The service's future owns it first, then the body of the response. So a future or a body
//! that is dropped ends the request too, and so does a service that panics (`tests/hyper/counting.rs`).

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

/// A service that counts the requests of its connection; made by
/// [`Lifetime::service`](super::Lifetime::service).
#[derive(Clone)]
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
        // Before the call, which may panic.
        let in_flight = Some(InFlight::begin(&self.requests));
        let future = self.service.call(request);
        CountedFuture { future, in_flight }
    }
}

pin_project! {
    /// The future of a [`Counted`] service.
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    #[derive(Debug)]
    pub struct CountedFuture<F> {
        #[pin]
        future: F,
        // Until the response is there.
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
    /// The body of a response from a [`Counted`] service. The request ends when the body has ended, or
    /// is dropped.
    #[derive(Debug)]
    pub struct CountedBody<B> {
        #[pin]
        body: B,
        // Until the body has ended.
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
