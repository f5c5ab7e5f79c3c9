//! The layer that limits the time until the head of a response.
//!
//! The limit starts when the service is called. When it is over, the inner service's future is not polled any more.

use std::{
    future::Future,
    panic::Location,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::{HeaderName, Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::{grpc, parse_grpc_timeout, timeout_header::parse_millis};
use crate::{
    deadline::Within,
    tower::{Limit, service},
};

/// Limits how long a service may take to respond to a request.
///
/// This layer wraps a service in a [`Timeout`]. `L` is a [`Duration`], or a closure that returns the limit of
/// each request. The trait [`Limit`] has the details.
///
/// # Examples
///
/// An upload may take longer than other requests. One path has no limit:
///
/// ```
/// use axum::{extract::Request, http::{Method, StatusCode}, routing::get, Router};
/// use tokio_wheel::{sleep, Duration};
/// use tokio_wheel_util::http::TimeoutLayer;
/// # use tower::ServiceExt as _;
///
/// fn limit(request: &Request) -> Option<Duration> {
///     match (request.method(), request.uri().path()) {
///         (_, "/events") => None,
///         (&Method::PUT, _) => Some(Duration::from_secs(300)),
///         _ => Some(Duration::from_secs(10)),
///     }
/// }
///
/// async fn slow() {
///     sleep(Duration::from_secs(60)).await
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let app = Router::new()
///     .route("/events", get(slow))
///     .route("/file", get(slow).put(slow))
///     .layer(TimeoutLayer::new(limit));
///
/// let mut statuses = Vec::new();
/// for (method, path) in [("GET", "/events"), ("PUT", "/file"), ("GET", "/file")] {
///     let request = Request::builder().method(method).uri(path);
///     let request = request.body(axum::body::Body::empty()).unwrap();
///     statuses.push(app.clone().oneshot(request).await.unwrap().status());
/// }
/// assert_eq!(statuses, [StatusCode::OK, StatusCode::OK, StatusCode::REQUEST_TIMEOUT]);
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing unless it wraps a service"]
pub struct TimeoutLayer<L = Duration> {
    limit: L,
    /// The status of the response when the limit is over.
    status: StatusCode,
    /// Whether the layer obeys `grpc-timeout` and responds in the protocol of gRPC.
    grpc: bool,
    /// The header of the client's limit in milliseconds.
    header: Option<HeaderName>,
    /// Where the layer was made, for the error of its scope.
    set_at: &'static Location<'static>,
}

impl<L> TimeoutLayer<L> {
    /// Creates a layer that responds with 408, Request Timeout, after `limit`.
    ///
    /// The status 408 tells a client that the client was too slow and may send the request again. If your
    /// handlers may be slow, use [`with_status_code`](Self::with_status_code) with 503 or 504.
    ///
    /// The layer uses the default timer of the runtime that polls the response.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::http::TimeoutLayer;
    ///
    /// const LAYER: TimeoutLayer = TimeoutLayer::new(Duration::from_secs(30));
    /// assert!(format!("{LAYER:?}").contains("408"));
    /// ```
    #[track_caller]
    pub const fn new(limit: L) -> Self {
        Self::with_status_code(StatusCode::REQUEST_TIMEOUT, limit)
    }

    /// Creates a layer that responds with `status_code` after `limit`.
    ///
    /// The layer uses the default timer of the runtime that polls the response.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::StatusCode;
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::http::TimeoutLayer;
    ///
    /// const LAYER: TimeoutLayer =
    ///     TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, Duration::from_secs(30));
    /// assert!(format!("{LAYER:?}").contains("504"));
    /// ```
    #[track_caller]
    pub const fn with_status_code(status_code: StatusCode, limit: L) -> Self {
        Self {
            limit,
            status: status_code,
            grpc: false,
            header: None,
            set_at: Location::caller(),
        }
    }

    /// Also applies the limit in the header `grpc-timeout`, and responds to gRPC requests with a gRPC status.
    ///
    /// * The header has a limit, and the layer may have another limit. The layer uses the shorter limit. The
    ///   layer ignores a header that [`parse_grpc_timeout`](super::parse_grpc_timeout) rejects.
    /// * A request is a gRPC request if its content type is gRPC or gRPC-Web. When the limit of a gRPC
    ///   request is over, the response has the status 200. Its content type is the content type of the
    ///   request, without a suffix like `+proto`. The response also has a `grpc-message` and the
    ///   `grpc-status` 4, which means `DEADLINE_EXCEEDED`.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{Request, Response};
    /// use tokio_wheel::{Duration, Instant};
    /// use tokio_wheel_util::http::TimeoutLayer;
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let never = service_fn(async |_: Request<()>| {
    ///     std::future::pending::<Result<Response<()>, std::io::Error>>().await
    /// });
    /// let service = TimeoutLayer::new(Duration::from_secs(30)).grpc().layer(never);
    ///
    /// let start = Instant::now();
    /// let request = Request::post("/greeter/hello")
    ///     .header("content-type", "application/grpc")
    ///     .header("grpc-timeout", "250m")
    ///     .body(())?;
    /// let response = service.oneshot(request).await?;
    /// assert_eq!(response.status(), 200);
    /// assert_eq!(response.headers()["grpc-status"], "4");
    /// assert_eq!(start.elapsed(), Duration::from_millis(250));
    /// # Ok(())
    /// # }
    /// ```
    pub const fn grpc(mut self) -> Self {
        self.grpc = true;
        self
    }

    /// Also applies the limit in a header with milliseconds, such as Envoy's `x-envoy-expected-rq-timeout-ms`.
    ///
    /// The layer uses the shortest of all limits. It ignores a value that is no number, and zero, which means no limit to
    /// Envoy. [`TimeoutHeaderLayer`](super::TimeoutHeaderLayer) writes such a header.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{Request, Response};
    /// use tokio_wheel::{Duration, Instant};
    /// use tokio_wheel_util::http::{EXPECTED_RQ_TIMEOUT_MS, TimeoutLayer};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let never = service_fn(async |_: Request<()>| {
    ///     std::future::pending::<Result<Response<()>, std::io::Error>>().await
    /// });
    /// let layer = TimeoutLayer::new(Duration::from_secs(30)).header(EXPECTED_RQ_TIMEOUT_MS);
    ///
    /// let start = Instant::now();
    /// let request = Request::get("/").header(EXPECTED_RQ_TIMEOUT_MS, "250").body(())?;
    /// assert_eq!(layer.layer(never).oneshot(request).await?.status(), 408);
    /// assert_eq!(start.elapsed(), Duration::from_millis(250));
    /// # Ok(())
    /// # }
    /// ```
    pub fn header(mut self, name: HeaderName) -> Self {
        self.header = Some(name);
        self
    }
}

service! {
    "http"
    /// A service that limits how long its inner service may take to respond.
    ///
    /// When the limit is over, the service responds with a status and an empty body.
    ///
    /// The limit covers the time from the call of the service until the head of the response is ready. It does
    /// not cover the time before the call, for example the wait in [`poll_ready`](Service::poll_ready). A response
    /// that is ready at the first poll is returned, even if the limit is zero. After the limit, nothing is polled.
    ///
    /// The service opens a [scope](crate::deadline) with the name `request`: what the handler calls is within the same
    /// limit, and can ask for the [remaining time](crate::deadline::remaining). The response to a late request has the
    /// [`Exceeded`](crate::deadline::Exceeded) in its extensions.
    ///
    /// # Errors
    ///
    /// If the inner service fails, the request fails with the error of the inner service. The service has no
    /// other error. So axum's `Router::layer` accepts the layer without `HandleErrorLayer`.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{Request, Response};
    /// use tokio_wheel::{sleep, Duration};
    /// use tokio_wheel_util::http::Timeout;
    /// use tower::{ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let wait = service_fn(async |request: Request<u64>| {
    ///     sleep(Duration::from_secs(request.into_body())).await;
    ///     Ok::<_, std::io::Error>(Response::new("done"))
    /// });
    /// let service = Timeout::new(wait, Duration::from_secs(10));
    /// assert_eq!(service.clone().oneshot(Request::new(9)).await?.status(), 200);
    /// assert_eq!(service.oneshot(Request::new(11)).await?.status(), 408);
    /// # Ok(())
    /// # }
    /// ```
    pub struct Timeout<S, L = Duration> of TimeoutLayer(L)
}

impl<S, L, B, ResponseBody> Service<Request<B>> for Timeout<S, L>
where
    S: Service<Request<B>, Response = Response<ResponseBody>>,
    L: Limit<Request<B>>,
    ResponseBody: Default,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let layer = &self.layer;
        let headers = request.headers();
        let header = layer.header.as_ref().and_then(|name| headers.get(name));
        let grpc = layer.grpc.then_some(headers);
        let grpc_timeout = grpc.and_then(|headers| headers.get("grpc-timeout"));
        let limits = [
            layer.limit.limit(&request),
            header.and_then(parse_millis),
            grpc_timeout.and_then(parse_grpc_timeout),
        ];
        let grpc = grpc.and_then(grpc::content_type_in);
        let limit = limits.into_iter().flatten().min();
        let (set_at, inner) = (layer.set_at, &mut self.inner);
        ResponseFuture {
            status: layer.status,
            grpc,
            response: Within::of_call(limit, set_at, || inner.call(request)),
        }
    }
}

pin_project! {
    /// The future that a [`Timeout`] returns.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the inner service's future and deregisters the entry of the limit.
    ///
    /// # Panics
    ///
    /// If the request has a limit and the inner service's future is pending, a poll panics in the cases that
    /// [`sleep`](tokio_wheel::sleep()) lists.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct ResponseFuture<F> {
        #[pin]
        response: Within<F>,
        status: StatusCode,
        // The content type of a gRPC request, without a suffix.
        grpc: Option<&'static str>,
    }
}

impl<F, B, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Default,
{
    type Output = F::Output;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.response.poll(cx));
        Poll::Ready(response.unwrap_or_else(|exceeded| {
            let mut response = Response::new(B::default());
            response.extensions_mut().insert(exceeded);
            match this.grpc {
                Some(content_type) => {
                    response
                        .headers_mut()
                        .extend(grpc::deadline_exceeded(content_type));
                }
                None => *response.status_mut() = *this.status,
            }
            Ok(response)
        }))
    }
}
