//! The layer with which a client tells a gRPC server how much time is left.

use std::task::{Context, Poll};

use http::Request;
use tower_layer::Layer;
use tower_service::Service;

use super::{Deadline, format_grpc_timeout, parse_grpc_timeout};

/// Writes what is left until the [`Deadline`] of a request into the header `grpc-timeout`.
///
/// This layer wraps a client in a [`GrpcTimeout`]. Together with [`TimeoutLayer`](super::TimeoutLayer), whose options
/// `grpc` and `deadline` read the header on the next server, a chain of servers shares one deadline. A server
/// then gives a request up at about the time when its client does.
///
/// * The layer reads the [`Deadline`] from the extensions of the outgoing request. A handler must insert it there:
///   tonic hands the extensions of a `tonic::Request` on to the layers around a channel.
/// * If the request already has a valid header with a shorter time, this header stays.
/// * A request without a `Deadline` is not changed.
/// * After the deadline, the header is `0n`.
/// * The layer limits nothing itself. tonic's channel obeys the header, and then fails with `Cancelled` instead of
///   `DeadlineExceeded`.
///
/// The header is a duration, and the time of the transfer adds to it. So the server's deadline is later than the
/// client's by the time that the request travels. [`format_grpc_timeout`] rounds down.
///
/// # Examples
///
/// ```
/// use http::{Request, Response};
/// use tokio_wheel::{sleep, Duration, Instant};
/// use tokio_wheel_util::http::{Deadline, GrpcTimeoutLayer};
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // A handler gets such a deadline from a `TimeoutLayer`.
/// let deadline = Deadline::new(Instant::now() + Duration::from_secs(3));
/// sleep(Duration::from_secs(1)).await;
///
/// let channel = service_fn(async |request: Request<()>| {
///     assert_eq!(request.headers()["grpc-timeout"], "2000000u");
///     Ok::<_, std::io::Error>(Response::new(()))
/// });
/// let mut request = Request::new(());
/// request.extensions_mut().insert(deadline);
/// GrpcTimeoutLayer::new().layer(channel).oneshot(request).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "a layer does nothing unless it wraps a service"]
pub struct GrpcTimeoutLayer(());

impl GrpcTimeoutLayer {
    /// Creates the layer.
    pub const fn new() -> Self {
        Self(())
    }
}

impl<S> Layer<S> for GrpcTimeoutLayer {
    type Service = GrpcTimeout<S>;

    fn layer(&self, inner: S) -> GrpcTimeout<S> {
        GrpcTimeout { inner }
    }
}

/// The service of a [`GrpcTimeoutLayer`].
#[derive(Clone, Debug)]
#[must_use = "a service does nothing unless it is called"]
pub struct GrpcTimeout<S> {
    inner: S,
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for GrpcTimeout<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        let left = request.extensions().get().copied().map(Deadline::remaining);
        if let Some(left) = left {
            let headers = request.headers_mut();
            let given = headers.get("grpc-timeout").and_then(parse_grpc_timeout);
            if given.is_none_or(|given| left < given) {
                headers.insert("grpc-timeout", format_grpc_timeout(left));
            }
        }
        self.inner.call(request)
    }
}
