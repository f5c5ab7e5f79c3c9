//! The layers with which a client tells a server how much time is left.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use http::{HeaderName, HeaderValue, Request};
use tower_layer::Layer;
use tower_service::Service;

use super::{format_grpc_timeout, parse_grpc_timeout};
use crate::{deadline::remaining, limit::nanos};

/// The header with which Envoy tells a server how many milliseconds it waits.
pub const EXPECTED_RQ_TIMEOUT_MS: HeaderName =
    HeaderName::from_static("x-envoy-expected-rq-timeout-ms");

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Writes the remaining time of the [scope](crate::deadline) into a header.
///
/// This layer wraps a client in a [`TimeoutHeader`]. Together with [`TimeoutLayer::grpc`](super::TimeoutLayer::grpc) or
/// [`TimeoutLayer::header`](super::TimeoutLayer::header), which read the header on the next server, a chain of servers shares
/// one deadline. A server then gives up a request at about the same time as its client.
///
/// * The layer reads the scope in which the client is called. A `TimeoutLayer` opens one around each handler. For a task of
///   your own, use [`inherit`](crate::deadline::inherit).
/// * If the request already has a valid header with a shorter time, this header stays.
/// * A request outside of all scopes is not changed.
/// * The layer limits nothing itself.
///
/// The header is a duration, so the server's deadline is later than the client's by the time that the request takes to
/// arrive.
///
/// # Examples
///
/// ```
/// use http::{Request, Response};
/// use tokio_wheel::{sleep, Duration};
/// use tokio_wheel_util::{deadline::within, http::TimeoutHeaderLayer};
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = service_fn(async |request: Request<()>| {
///     assert_eq!(request.headers()["x-envoy-expected-rq-timeout-ms"], "2000");
///     Ok::<_, std::io::Error>(Response::new(()))
/// });
/// let client = TimeoutHeaderLayer::default().layer(client);
/// // In a handler, the scope is that of a `TimeoutLayer`.
/// let handler = async {
///     sleep(Duration::from_secs(1)).await;
///     client.oneshot(Request::new(())).await
/// };
/// within(Duration::from_secs(3), handler).await??;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing unless it wraps a service"]
pub struct TimeoutHeaderLayer(HeaderName);

impl TimeoutHeaderLayer {
    /// Creates a layer that writes the header `grpc-timeout`.
    ///
    /// [`format_grpc_timeout`] rounds the time down, and writes `0n` after the deadline. tonic's channel obeys the header, and
    /// then fails with `Cancelled` instead of `DeadlineExceeded`.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{Request, Response};
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::{deadline::within, http::TimeoutHeaderLayer};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let channel = service_fn(async |request: Request<()>| {
    ///     assert_eq!(request.headers()["grpc-timeout"], "3000000u");
    ///     Ok::<_, std::io::Error>(Response::new(()))
    /// });
    /// let client = TimeoutHeaderLayer::grpc().layer(channel);
    /// within(Duration::from_secs(3), client.oneshot(Request::new(()))).await??;
    /// # Ok(())
    /// # }
    /// ```
    pub const fn grpc() -> Self {
        Self(GRPC_TIMEOUT)
    }

    /// Creates a layer that writes milliseconds into the header `name`. The default is [`EXPECTED_RQ_TIMEOUT_MS`]. For
    /// `grpc-timeout`, this is [`grpc`](Self::grpc).
    ///
    /// The value is rounded down, but is at least 1, because zero means no limit to Envoy.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{HeaderName, Request, Response};
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::{deadline::within, http::TimeoutHeaderLayer};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = service_fn(async |request: Request<()>| {
    ///     assert_eq!(request.headers()["x-timeout-ms"], "3000");
    ///     Ok::<_, std::io::Error>(Response::new(()))
    /// });
    /// let layer = TimeoutHeaderLayer::new(HeaderName::from_static("x-timeout-ms"));
    /// within(Duration::from_secs(3), layer.layer(client).oneshot(Request::new(()))).await??;
    /// # Ok(())
    /// # }
    /// ```
    pub const fn new(name: HeaderName) -> Self {
        Self(name)
    }
}

impl Default for TimeoutHeaderLayer {
    fn default() -> Self {
        Self(EXPECTED_RQ_TIMEOUT_MS)
    }
}

impl<S> Layer<S> for TimeoutHeaderLayer {
    type Service = TimeoutHeader<S>;

    fn layer(&self, inner: S) -> TimeoutHeader<S> {
        let name = self.0.clone();
        TimeoutHeader { inner, name }
    }
}

/// The service of a [`TimeoutHeaderLayer`].
#[derive(Clone, Debug)]
#[must_use = "a service does nothing unless it is called"]
pub struct TimeoutHeader<S> {
    inner: S,
    name: HeaderName,
}

/// Parses milliseconds. Zero is no limit.
pub(super) fn parse_millis(value: &HeaderValue) -> Option<Duration> {
    let millis = value.to_str().ok()?.parse().ok()?;
    (millis > 0).then(|| Duration::from_millis(millis))
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for TimeoutHeader<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        if let Some(left) = remaining() {
            let is_grpc = self.name == GRPC_TIMEOUT;
            let given = request
                .headers()
                .get(&self.name)
                .and_then(|value| match is_grpc {
                    true => parse_grpc_timeout(value),
                    false => parse_millis(value),
                });
            if given.is_none_or(|given| left < given) {
                let value = match is_grpc {
                    true => format_grpc_timeout(left),
                    false => (nanos(left) / 1_000_000).max(1).into(),
                };
                request.headers_mut().insert(&self.name, value);
            }
        }
        self.inner.call(request)
    }
}
