//! The layer that limits the bodies of responses.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::Response;
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::{body::TimeoutBody, inner_service, limits::BodyLimits};
use tokio_wheel::Timer;

/// Limits how long the server waits for the body of a response.
///
/// This layer wraps a service in a [`ResponseBodyTimeout`].
///
/// # Examples
///
/// ```
/// use axum::{body::{Body, Bytes}, http::Request, routing::get, Router};
/// use http_body_util::BodyExt as _;
/// use tokio_wheel_util::http::{LimitExceeded, ResponseBodyTimeoutLayer};
/// use tokio_wheel::Duration;
/// use tower::ServiceExt as _;
///
/// async fn stuck() -> Body {
///     Body::from_stream(tokio_stream::pending::<Result<Bytes, std::io::Error>>())
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let limit = Duration::from_secs(10);
/// let app = Router::new()
///     .route("/", get(stuck))
///     .layer(ResponseBodyTimeoutLayer::new(limit));
///
/// let answer = app.oneshot(Request::new(Body::empty())).await.unwrap();
/// let error = answer.collect().await.unwrap_err();
/// assert_eq!(LimitExceeded::find(&error), Some(LimitExceeded::Frame(limit)));
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing unless it wraps a service"]
pub struct ResponseBodyTimeoutLayer {
    limits: BodyLimits,
    /// `None` stands for the default timer of the runtime that polls the body.
    timer: Option<Timer>,
}

impl ResponseBodyTimeoutLayer {
    /// Creates a layer that limits the wait for each frame of a response's body.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::http::ResponseBodyTimeoutLayer;
    ///
    /// const LAYER: ResponseBodyTimeoutLayer = ResponseBodyTimeoutLayer::new(Duration::from_secs(10));
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
    /// use tokio_wheel_util::http::{BodyLimits, ResponseBodyTimeoutLayer};
    ///
    /// let limits = BodyLimits::new().body_timeout(Duration::from_secs(60));
    /// let layer = ResponseBodyTimeoutLayer::with_limits(limits);
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
    /// use tokio_wheel_util::http::{BodyLimits, ResponseBodyTimeoutLayer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().tick(Duration::from_millis(10)).build()?;
    /// let limits = BodyLimits::new().body_timeout(Duration::from_secs(60));
    /// let layer = ResponseBodyTimeoutLayer::with_timer(limits, &timer);
    /// assert!(format!("{layer:?}").contains("60s"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_timer(limits: BodyLimits, timer: &Timer) -> Self {
        let timer = Some(timer.clone());
        Self { limits, timer }
    }
}

impl<S> Layer<S> for ResponseBodyTimeoutLayer {
    type Service = ResponseBodyTimeout<S>;

    fn layer(&self, service: S) -> Self::Service {
        ResponseBodyTimeout {
            inner: service,
            layer: self.clone(),
        }
    }
}

/// A service that limits how long the server waits for the bodies of its responses.
///
/// The body of each response is a [`TimeoutBody`].
///
/// # Errors
///
/// * If the inner service fails, the request fails with the error of the inner service.
/// * If a limit is exceeded, the body of the response fails with a [`LimitExceeded`](super::LimitExceeded).
///
/// # Examples
///
/// ```
/// use http::{Request, Response};
/// use http_body_util::BodyExt as _;
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::http::ResponseBodyTimeout;
/// use tower::{ServiceExt as _, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let echo = service_fn(async |request: Request<String>| {
///     Ok::<_, std::io::Error>(Response::new(request.into_body()))
/// });
/// let service = ResponseBodyTimeout::new(echo, Duration::from_secs(10));
/// let response = service.oneshot(Request::new("a body".to_owned())).await?;
/// assert_eq!(response.collect().await?.to_bytes(), "a body");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a service does nothing unless it is called"]
pub struct ResponseBodyTimeout<S> {
    inner: S,
    layer: ResponseBodyTimeoutLayer,
}

impl<S> ResponseBodyTimeout<S> {
    /// Wraps `inner` and limits the wait for each frame of a response's body.
    ///
    /// Use a [`ResponseBodyTimeoutLayer`] for other limits or another timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::http::ResponseBodyTimeout;
    ///
    /// let service = ResponseBodyTimeout::new("any service", Duration::from_secs(10));
    /// assert!(format!("{service:?}").contains("10s"));
    /// ```
    pub const fn new(inner: S, timeout: Duration) -> Self {
        let layer = ResponseBodyTimeoutLayer::new(timeout);
        Self { inner, layer }
    }

    inner_service!("ResponseBodyTimeout");
}

impl<S, Request, B> Service<Request> for ResponseBodyTimeout<S>
where
    S: Service<Request, Response = Response<B>>,
{
    type Response = Response<TimeoutBody<B>>;
    type Error = S::Error;
    type Future = ResponseBodyFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        ResponseBodyFuture {
            response: self.inner.call(request),
            layer: self.layer.clone(),
        }
    }
}

pin_project! {
    /// The future that a [`ResponseBodyTimeout`] returns.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the inner service's future.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct ResponseBodyFuture<F> {
        #[pin]
        response: F,
        layer: ResponseBodyTimeoutLayer,
    }
}

impl<F, B, E> Future for ResponseBodyFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<TimeoutBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.response.poll(cx))?;
        let ResponseBodyTimeoutLayer { limits, timer } = this.layer;
        let limited = |body| TimeoutBody::on(*limits, body, timer.take());
        Poll::Ready(Ok(response.map(limited)))
    }
}
