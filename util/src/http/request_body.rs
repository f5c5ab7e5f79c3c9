//! The layer that limits the bodies of requests.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use http::Request;
use tower_layer::Layer;
use tower_service::Service;

use super::{body::TimeoutBody, inner_service, limits::BodyLimits};
use tokio_wheel::Timer;

/// Limits how long the handler waits for the body of a request.
///
/// This layer wraps a service in a [`RequestBodyTimeout`].
///
/// # Examples
///
/// ```
/// use axum::{body::{Body, Bytes}, http::{Request, StatusCode}, routing::post, Router};
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::http::RequestBodyTimeoutLayer;
/// use tower::ServiceExt as _;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let app = Router::new()
///     .route("/", post(async |body: Bytes| body))
///     .layer(RequestBodyTimeoutLayer::new(Duration::from_secs(10)));
///
/// let never = Body::from_stream(tokio_stream::pending::<Result<Bytes, std::io::Error>>());
/// let answer = app.oneshot(Request::post("/").body(never).unwrap()).await.unwrap();
/// assert_eq!(answer.status(), StatusCode::BAD_REQUEST); // For 408, see `LimitExceeded`.
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing unless it wraps a service"]
pub struct RequestBodyTimeoutLayer {
    limits: BodyLimits,
    /// `None` stands for the default timer of the runtime that polls the body.
    timer: Option<Timer>,
}

impl RequestBodyTimeoutLayer {
    /// Creates a layer that limits the wait for each frame of a request's body.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::http::RequestBodyTimeoutLayer;
    ///
    /// const LAYER: RequestBodyTimeoutLayer = RequestBodyTimeoutLayer::new(Duration::from_secs(10));
    /// assert!(format!("{LAYER:?}").contains("10s"));
    /// ```
    pub const fn new(timeout: Duration) -> Self {
        Self::with_limits(BodyLimits::new().frame_timeout(timeout))
    }

    /// Creates a layer with `limits`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::http::{BodyLimits, RequestBodyTimeoutLayer};
    ///
    /// let limits = BodyLimits::new().body_timeout(Duration::from_secs(60));
    /// let layer = RequestBodyTimeoutLayer::with_limits(limits);
    /// assert!(format!("{layer:?}").contains("60s"));
    /// ```
    pub const fn with_limits(limits: BodyLimits) -> Self {
        let timer = None;
        Self { limits, timer }
    }

    /// Creates a layer with `limits`. The bodies use `timer`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    /// use tokio_wheel_util::http::{BodyLimits, RequestBodyTimeoutLayer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().tick(Duration::from_millis(10)).build()?;
    /// let limits = BodyLimits::new().body_timeout(Duration::from_secs(60));
    /// let layer = RequestBodyTimeoutLayer::with_timer(limits, &timer);
    /// assert!(format!("{layer:?}").contains("60s"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_timer(limits: BodyLimits, timer: &Timer) -> Self {
        let timer = Some(timer.clone());
        Self { limits, timer }
    }
}

impl<S> Layer<S> for RequestBodyTimeoutLayer {
    type Service = RequestBodyTimeout<S>;

    fn layer(&self, service: S) -> Self::Service {
        RequestBodyTimeout {
            inner: service,
            layer: self.clone(),
        }
    }
}

/// A service that limits how long its inner service waits for the bodies of requests.
///
/// The inner service gets the body of each request as a [`TimeoutBody`].
///
/// # Errors
///
/// * If the inner service fails, the request fails with the error of the inner service.
/// * If a limit is exceeded, the body of the request fails with a [`LimitExceeded`](super::LimitExceeded).
///   The inner service gets this error.
///
/// # Examples
///
/// ```
/// use http::{Request, Response};
/// use http_body_util::BodyExt as _;
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::http::{RequestBodyTimeout, TimeoutBody};
/// use tower::{ServiceExt as _, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let length = service_fn(async |request: Request<TimeoutBody<String>>| {
///     let body = request.into_body().collect().await?;
///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Response::new(body.to_bytes().len()))
/// });
/// let service = RequestBodyTimeout::new(length, Duration::from_secs(10));
/// let response = service.oneshot(Request::new("a body".to_owned())).await.unwrap();
/// assert_eq!(response.into_body(), 6);
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a service does nothing unless it is called"]
pub struct RequestBodyTimeout<S> {
    inner: S,
    layer: RequestBodyTimeoutLayer,
}

impl<S> RequestBodyTimeout<S> {
    /// Wraps `inner` and limits the wait for each frame of a request's body.
    ///
    /// Use a [`RequestBodyTimeoutLayer`] for other limits or another timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::http::RequestBodyTimeout;
    ///
    /// let service = RequestBodyTimeout::new("any service", Duration::from_secs(10));
    /// assert!(format!("{service:?}").contains("10s"));
    /// ```
    pub const fn new(inner: S, timeout: Duration) -> Self {
        let layer = RequestBodyTimeoutLayer::new(timeout);
        Self { inner, layer }
    }

    inner_service!("RequestBodyTimeout");
}

impl<S, B> Service<Request<B>> for RequestBodyTimeout<S>
where
    S: Service<Request<TimeoutBody<B>>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let RequestBodyTimeoutLayer { limits, timer } = &self.layer;
        let limited = |body| TimeoutBody::on(*limits, body, timer.clone());
        self.inner.call(request.map(limited))
    }
}
