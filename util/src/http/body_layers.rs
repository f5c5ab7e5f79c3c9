//! The layers that limit the bodies of requests and of responses.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tokio_wheel::Timer;
use tower_service::Service;

use super::{body::TimeoutBody, body_limits::BodyLimits};
use crate::tower::service;

/// Defines a layer that limits bodies, and its service.
macro_rules! body_layer {
    (
        $(#[$of_layer:meta])* $Layer:ident
        $(#[$of_service:meta])* $Service:ident
    ) => {
        $(#[$of_layer])*
        #[derive(Clone, Debug)]
        #[must_use = "a layer does nothing unless it wraps a service"]
        pub struct $Layer {
            limits: BodyLimits,
            /// `None` stands for the default timer of the runtime that polls the body.
            timer: Option<Timer>,
        }

        impl $Layer {
            /// Creates a layer that limits the wait for each frame of a body.
            ///
            /// # Examples
            ///
            /// ```
            /// use tokio_wheel::Duration;
            #[doc = concat!("use tokio_wheel_util::http::", stringify!($Layer), " as Layer;")]
            ///
            /// const LAYER: Layer = Layer::new(Duration::from_secs(10));
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
            #[doc = concat!("use tokio_wheel_util::http::{BodyLimits, ", stringify!($Layer), " as Layer};")]
            ///
            /// let limits = BodyLimits::new().body_timeout(Duration::from_secs(60));
            /// let layer = Layer::with_limits(limits);
            /// assert!(format!("{layer:?}").contains("60s"));
            /// ```
            pub const fn with_limits(limits: BodyLimits) -> Self {
                let timer = None;
                Self { limits, timer }
            }

            /// Creates a layer with `limits`, on `timer`.
            ///
            /// # Examples
            ///
            /// ```
            /// use tokio_wheel::{Duration, Timer};
            #[doc = concat!("use tokio_wheel_util::http::{BodyLimits, ", stringify!($Layer), " as Layer};")]
            ///
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// let timer = Timer::builder().tick(Duration::from_millis(10)).build()?;
            /// let limits = BodyLimits::new().body_timeout(Duration::from_secs(60));
            /// let layer = Layer::with_timer(limits, &timer);
            /// assert!(format!("{layer:?}").contains("60s"));
            /// # Ok(())
            /// # }
            /// ```
            pub fn with_timer(limits: BodyLimits, timer: &Timer) -> Self {
                let timer = Some(timer.clone());
                Self { limits, timer }
            }
        }

        service! {
            "http"
            $(#[$of_service])*
            pub struct $Service<S> of $Layer(Duration)
        }
    };
}

body_layer! {
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
    RequestBodyTimeoutLayer

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
    RequestBodyTimeout
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

body_layer! {
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
    ResponseBodyTimeoutLayer

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
    ResponseBodyTimeout
}

impl<S, R, B> Service<R> for ResponseBodyTimeout<S>
where
    S: Service<R, Response = Response<B>>,
{
    type Response = Response<TimeoutBody<B>>;
    type Error = S::Error;
    type Future = ResponseBodyFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
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
