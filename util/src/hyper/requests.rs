//! Counts the requests in flight of a connection, and stores when the last request ended.
//!
//! A request is in flight until the connection has written its response. hyper does not tell when this happens, so it
//! follows from two events, in this order:
//!
//! 1. hyper has *taken* the response: the last share of the request's guard is dropped. The service's future, the body of
//!    the response and each frame of data share the guard. HTTP/2 holds a frame until the window of its stream allows to
//!    write it. HTTP/1 may copy a frame at once.
//! 2. The connection has flushed its I/O afterwards: see [`CountedIo`](super::CountedIo). So no byte that hyper has copied
//!    waits for the client.
//!
//! HTTP/1 flushes only when its buffer is empty, so a flush ends all requests whose responses are taken. HTTP/2 also
//! flushes while the last frames of taken responses wait in its queue, and a flush does not tell which. So a flush of HTTP/2
//! ends requests only if the connection writes nothing more in the same poll. While one response blocks the connection, the
//! count is then an upper bound.
//!
//! So the count stays correct if the future, the body or a frame is dropped, and if the service panics. The tests are in
//! `tests/hyper/requests.rs` and `tests/hyper/counted_io.rs`.
//!
//! Each connection has a count and a lock of its own, so that the requests of different connections never write to
//! the same memory. If hyper has taken all other responses when it takes a response, the request also reads the clock.

use std::{
    future::Future,
    io::IoSlice,
    mem,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
};

use ::hyper::{
    Response,
    body::{Body, Buf, Bytes, Frame, SizeHint},
    service::Service,
};
use pin_project_lite::pin_project;
use tokio::time::Instant;

use crate::limit::lock;

/// The requests in flight of one connection, and the instant at which the last request ended.
#[derive(Debug)]
pub(super) struct Requests(Mutex<State>);

#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    /// The number of requests in flight.
    pub(super) count: usize,
    /// How many of them have a response that hyper has taken.
    taken: usize,
    /// The instant at which `taken` last became `count`, or at which a blocked connection then wrote the rest.
    pub(super) ended: Instant,
    /// Whether the I/O was flushed after its last write, and after hyper has taken the last response.
    is_flushed: bool,
    /// Whether the I/O could not accept all bytes since it was last flushed.
    is_blocked: bool,
    /// Whether the connection uses HTTP/2. `None` until it has written something.
    pub(super) is_http2: Option<bool>,
    /// The instant at which the head of the first request must be complete. `None` without a limit, and afterwards.
    pub(super) first_head: Option<Instant>,
}

impl State {
    /// Ends the requests whose responses are written.
    fn end(&mut self) {
        self.count -= mem::take(&mut self.taken);
    }
}

impl Requests {
    pub(super) fn new(opened: Instant) -> Self {
        Self(Mutex::new(State {
            count: 0,
            taken: 0,
            ended: opened,
            is_flushed: true,
            is_blocked: false,
            is_http2: None,
            first_head: None,
        }))
    }

    #[cfg(feature = "serve")]
    pub(super) fn limit_first_head(&self, until: Instant) {
        lock(&self.0).first_head = Some(until);
    }

    /// Returns the state at this moment.
    pub(super) fn state(&self) -> State {
        *lock(&self.0)
    }

    /// Ends the requests whose responses are written, and returns whether others are in flight. The connection was
    /// polled, and waits.
    ///
    /// Within the poll, HTTP/2 may flush its I/O and then write the next frame.
    pub(super) fn end_written(&self) -> bool {
        let state = &mut *lock(&self.0);
        if state.is_flushed {
            state.end();
        }
        state.count > 0
    }

    /// Records the result of a write. `bytes` are the first ones that the connection wants to write.
    ///
    /// The first byte tells the protocol: it is the `H` of a status line, or 0 in the length of the SETTINGS frame.
    pub(super) fn wrote(&self, bytes: &[u8], is_pending: bool) {
        let mut state = lock(&self.0);
        state.is_http2 = state.is_http2.or(bytes.first().map(|byte| *byte == 0));
        state.is_flushed = false;
        state.is_blocked |= is_pending;
    }

    /// Records that the I/O was flushed.
    pub(super) fn flushed(&self) {
        let state = &mut *lock(&self.0);
        state.is_flushed = true;
        if mem::take(&mut state.is_blocked) && state.taken > 0 {
            state.ended = Instant::now();
        }
        if state.is_http2 == Some(false) {
            state.end();
        }
    }
}

/// A guard of a request. When it is dropped, hyper has taken the response.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Requests>);

impl InFlight {
    /// Adds a request to the count and returns its guard.
    pub(super) fn begin(requests: &Arc<Requests>) -> Arc<Self> {
        let mut state = lock(&requests.0);
        state.count += 1;
        state.first_head = None;
        drop(state);
        Arc::new(Self(requests.clone()))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let state = &mut *lock(&self.0.0);
        state.taken += 1;
        state.is_flushed = false;
        if state.taken == state.count {
            state.ended = Instant::now();
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
        let in_flight = InFlight::begin(&self.requests);
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
        in_flight: Arc<InFlight>,
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
        let count = |body| CountedBody {
            body,
            in_flight: this.in_flight.clone(),
        };
        Poll::Ready(result.map(|response| response.map(count)))
    }
}

pin_project! {
    /// The body of a response from a [`Counted`] service.
    ///
    /// The request is in flight until this body is dropped, and until all frames are written.
    #[derive(Debug)]
    #[must_use = "the request ends when its body is dropped"]
    pub struct CountedBody<B> {
        #[pin]
        body: B,
        // Not dropped at the end of the body, because HTTP/2 has not queued the end of the response yet.
        in_flight: Arc<InFlight>,
    }
}

impl<B: Body> Body for CountedBody<B> {
    type Data = CountedData<B::Data>;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, B::Error>>> {
        let this = self.project();
        let count = |data| CountedData {
            data,
            _in_flight: this.in_flight.clone(),
        };
        let frame = ready!(this.body.poll_frame(cx));
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(count))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A frame of data of a [`CountedBody`].
///
/// The request is in flight until its frames are written or dropped.
#[derive(Debug)]
pub struct CountedData<D> {
    data: D,
    /// Holds a share of the guard until hyper has written or copied the data.
    _in_flight: Arc<InFlight>,
}

impl<D: Buf> Buf for CountedData<D> {
    fn remaining(&self) -> usize {
        self.data.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.data.chunk()
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.data.chunks_vectored(slices)
    }

    fn advance(&mut self, count: usize) {
        self.data.advance(count);
    }

    fn copy_to_bytes(&mut self, length: usize) -> Bytes {
        self.data.copy_to_bytes(length)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    impl Requests {
        /// Returns how many requests are in flight, and when the last request ended.
        fn in_flight(&self) -> (usize, Instant) {
            (self.state().count, self.state().ended)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_end_counts() {
        let opened = Instant::now();
        let requests = Arc::new(Requests::new(opened));
        let second = Duration::from_secs(1);
        assert_eq!(requests.in_flight(), (0, opened));
        let end = |guard| {
            drop(guard);
            requests.flushed();
            requests.end_written();
        };
        let first = InFlight::begin(&requests);
        tokio::time::advance(second).await;
        let other = InFlight::begin(&requests);
        end(first);
        assert_eq!(requests.in_flight(), (1, opened));
        tokio::time::advance(second).await;
        end(other);
        assert_eq!(requests.in_flight(), (0, opened + 2 * second));
    }

    /// A task drops the last frame, and the connection, which has nothing to write, is polled later.
    #[tokio::test(start_paused = true)]
    async fn a_late_poll_moves_no_end() {
        let opened = Instant::now();
        let requests = Arc::new(Requests::new(opened));
        let second = Duration::from_secs(1);
        let request = InFlight::begin(&requests);
        tokio::time::advance(second).await;
        drop(request);
        requests.end_written();
        assert_eq!(requests.in_flight(), (1, opened + second));
        tokio::time::advance(second).await;
        requests.flushed();
        requests.end_written();
        assert_eq!(requests.in_flight(), (0, opened + second));
    }

    /// A flush of HTTP/2 ends no request if more bytes wait after it, in the same poll.
    #[tokio::test(start_paused = true)]
    async fn a_blocked_connection_is_busy() {
        let opened = Instant::now();
        let requests = Arc::new(Requests::new(opened));
        let second = Duration::from_secs(1);
        drop(InFlight::begin(&requests));
        requests.wrote(b"\0", false);
        requests.flushed();
        requests.wrote(b"", true);
        requests.end_written();
        assert_eq!(requests.in_flight(), (1, opened));
        tokio::time::advance(second).await;
        requests.wrote(b"", false);
        requests.flushed();
        requests.end_written();
        assert_eq!(requests.in_flight(), (0, opened + second));
    }
}
