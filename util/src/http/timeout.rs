//! The layer that limits the time until the head of a response.
//!
//! The limit starts when the service is called. A poll first polls the inner service's future. So the poll
//! returns a response that is ready, even if the limit is over.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::{Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tokio::time::Instant;
use tokio_wheel::Timer;
use tower_service::Service;

use super::grpc;
use crate::{
    limit::sleep,
    tower::{self, Limit, service},
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
    /// Whether the layer puts a [`Deadline`] into the extensions of each request.
    inserts_deadline: bool,
    /// `None` stands for the default timer of the runtime that polls the response.
    timer: Option<Timer>,
}

impl<L> TimeoutLayer<L> {
    /// Creates a layer that responds with 408, Request Timeout, when `limit` is over.
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
    pub const fn new(limit: L) -> Self {
        Self::with_status_code(StatusCode::REQUEST_TIMEOUT, limit)
    }

    /// Creates a layer that responds with `status_code` when `limit` is over.
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
    pub const fn with_status_code(status_code: StatusCode, limit: L) -> Self {
        Self {
            limit,
            status: status_code,
            grpc: false,
            inserts_deadline: false,
            timer: None,
        }
    }

    /// Creates a layer that responds with 408, Request Timeout, when `limit` is over. The layer uses `timer`.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{Request, Response};
    /// use tokio_wheel::{Duration, Timer};
    /// use tokio_wheel_util::http::TimeoutLayer;
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().tick(Duration::from_millis(10)).build()?;
    /// let layer = TimeoutLayer::with_timer(Duration::from_secs(1), &timer);
    ///
    /// let never = service_fn(async |_: Request<()>| {
    ///     std::future::pending::<Result<Response<()>, std::io::Error>>().await
    /// });
    /// assert_eq!(layer.layer(never).oneshot(Request::new(())).await?.status(), 408);
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_timer(limit: L, timer: &Timer) -> Self {
        Self {
            timer: Some(timer.clone()),
            ..Self::new(limit)
        }
    }

    /// Sets the status of the response to a request that takes too long.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::StatusCode;
    /// use tokio_wheel::{Duration, Timer};
    /// use tokio_wheel_util::http::TimeoutLayer;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().tick(Duration::from_millis(10)).build()?;
    /// let layer = TimeoutLayer::with_timer(Duration::from_secs(30), &timer)
    ///     .status_code(StatusCode::SERVICE_UNAVAILABLE);
    /// assert!(format!("{layer:?}").contains("503"));
    /// # Ok(())
    /// # }
    /// ```
    pub const fn status_code(mut self, status_code: StatusCode) -> Self {
        self.status = status_code;
        self
    }

    /// Makes the layer obey the header `grpc-timeout`, and respond to gRPC requests in the protocol of gRPC.
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

    /// Inserts a [`Deadline`] into the extensions of each request that has a limit.
    ///
    /// If an outer layer has set an earlier deadline, the earlier deadline stays. By default, the layer
    /// does not store a deadline in the extensions, because storing it allocates memory.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{Request, Response};
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::http::{Deadline, TimeoutLayer};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let remaining = service_fn(async |request: Request<()>| {
    ///     let deadline = request.extensions().get::<Deadline>().unwrap();
    ///     Ok::<_, std::io::Error>(Response::new(deadline.remaining().as_secs()))
    /// });
    /// let service = TimeoutLayer::new(Duration::from_secs(30)).insert_deadline().layer(remaining);
    /// assert_eq!(service.oneshot(Request::new(())).await?.into_body(), 30);
    /// # Ok(())
    /// # }
    /// ```
    pub const fn insert_deadline(mut self) -> Self {
        self.inserts_deadline = true;
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
    /// not cover the time before the call, for example the wait in [`poll_ready`](Service::poll_ready). If the
    /// response is ready, a poll returns the response even after the limit is over.
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

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let layer = &self.layer;
        let mut limit = layer.limit.limit(&request);
        let mut grpc = None;
        if layer.grpc {
            let headers = request.headers();
            let of_client = headers
                .get("grpc-timeout")
                .and_then(grpc::parse_grpc_timeout);
            limit = limit.into_iter().chain(of_client).min();
            grpc = grpc::content_type_in(headers);
        }
        let limit = limit.map(|limit| sleep(layer.timer.as_ref(), limit));
        if let (true, Some(limit)) = (layer.inserts_deadline, &limit) {
            let deadline = Deadline(limit.deadline());
            let extensions = request.extensions_mut();
            if extensions.get().is_none_or(|earlier| deadline < *earlier) {
                extensions.insert(deadline);
            }
        }
        ResponseFuture {
            status: layer.status,
            grpc,
            response: tower::ResponseFuture {
                response: self.inner.call(request),
                limit,
            },
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
    /// A poll can panic if the request has a limit and the inner service's future is pending. With the
    /// default timer, the poll then panics in the cases that [`sleep`](tokio_wheel::sleep()) lists.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct ResponseFuture<F> {
        #[pin]
        response: tower::ResponseFuture<F>,
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
        let response = ready!(this.response.poll_response(cx));
        Poll::Ready(response.unwrap_or_else(|_elapsed| {
            let mut response = Response::new(B::default());
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

/// The instant by which a request must be answered.
///
/// The method [`TimeoutLayer::insert_deadline`](super::TimeoutLayer::insert_deadline) makes the layer insert a
/// `Deadline` into the extensions of each request that has a limit. [`GrpcTimeoutLayer`](super::GrpcTimeoutLayer) tells it to the
/// servers that the handler calls.
///
/// # Examples
///
/// This handler keeps one second for its own work. The handler gives the rest of the time to an upstream:
///
/// ```
/// use axum::{Extension, Router, body::Body, http::{Request, StatusCode}, routing::get};
/// use tokio_wheel::{sleep, timeout, Duration, Instant};
/// use tokio_wheel_util::http::{Deadline, TimeoutLayer};
/// use tower::ServiceExt as _;
///
/// async fn upstream() -> &'static str {
///     sleep(Duration::from_secs(60)).await;
///     "an answer"
/// }
///
/// async fn handler(Extension(deadline): Extension<Deadline>) -> Result<&'static str, StatusCode> {
///     sleep(Duration::from_secs(2)).await;
///     let left = deadline.remaining().saturating_sub(Duration::from_secs(1));
///     timeout(left, upstream()).await.map_err(|_| StatusCode::GATEWAY_TIMEOUT)
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let limit = TimeoutLayer::new(Duration::from_secs(10)).insert_deadline();
/// let app = Router::new().route("/", get(handler)).layer(limit);
///
/// let start = Instant::now();
/// let answer = app.oneshot(Request::new(Body::empty())).await.unwrap();
/// assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
/// assert_eq!(start.elapsed(), Duration::from_secs(9));
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline(Instant);

impl Deadline {
    /// Creates a deadline at `instant`.
    ///
    /// Use this function in tests of a handler, and in layers that get a deadline from another source.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Instant;
    /// use tokio_wheel_util::http::Deadline;
    ///
    /// let now = Instant::now();
    /// assert_eq!(Deadline::new(now).instant(), now);
    /// ```
    pub const fn new(instant: Instant) -> Self {
        Self(instant)
    }

    /// Returns the instant by which the request must be answered.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{timeout_at, Instant};
    /// use tokio_wheel_util::http::Deadline;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let deadline = Deadline::new(Instant::now());
    /// let never = std::future::pending::<()>();
    /// assert!(timeout_at(deadline.instant(), never).await.is_err());
    /// # }
    /// ```
    pub const fn instant(self) -> Instant {
        self.0
    }

    /// Returns the time until the deadline. Returns zero after the deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Instant};
    /// use tokio_wheel_util::http::Deadline;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let deadline = Deadline::new(Instant::now() + Duration::from_secs(3));
    /// sleep(Duration::from_secs(1)).await;
    /// assert_eq!(deadline.remaining(), Duration::from_secs(2));
    /// sleep(Duration::from_secs(5)).await;
    /// assert_eq!(deadline.remaining(), Duration::ZERO);
    /// # }
    /// ```
    pub fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}
