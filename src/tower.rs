//! A timeout as a [tower layer](tower_layer::Layer), as that of `tower::timeout`.
//!
//! A request that is not answered in time fails with an [`Elapsed`](crate::error::Elapsed) in a
//! box. An axum application has to turn that into a response; `HandleErrorLayer` goes around the
//! timeout and does it:
//!
//! ```
//! use axum::{
//!     body::Body, error_handling::HandleErrorLayer, http::{Request, StatusCode}, routing::get,
//!     BoxError, Router,
//! };
//! use tokio_wheel::{error::Elapsed, sleep, tower::TimeoutLayer, Duration};
//! use tower::ServiceExt as _;
//!
//! async fn status(error: BoxError) -> StatusCode {
//!     if error.is::<Elapsed>() {
//!         StatusCode::GATEWAY_TIMEOUT // Or 408, REQUEST_TIMEOUT, if the client was the slow one.
//!     } else {
//!         StatusCode::INTERNAL_SERVER_ERROR
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let app = Router::new()
//!     .route("/fast", get(async || "done"))
//!     .route("/slow", get(async || sleep(Duration::from_secs(60)).await))
//!     .layer((
//!         HandleErrorLayer::new(status),
//!         TimeoutLayer::new(Duration::from_secs(10)),
//!     ));
//!
//! let request = |path| Request::get(path).body(Body::empty()).unwrap();
//! let answer = app.clone().oneshot(request("/fast")).await.unwrap();
//! assert_eq!(answer.status(), StatusCode::OK);
//! let answer = app.oneshot(request("/slow")).await.unwrap();
//! assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
//! # }
//! ```
//!
//! The limit is on the service's future, which for HTTP is ready with the head of the response: a
//! body that is streamed afterwards takes as long as it likes.

use std::{
    error::Error,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    futures::{self, Sleep},
    timer::Timer,
};

/// The inner service's error or the crate's `Elapsed`.
type BoxError = Box<dyn Error + Send + Sync>;

/// Puts a [`Timeout`] around services.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{error::Elapsed, tower::TimeoutLayer, Duration};
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let never = service_fn(async |()| std::future::pending::<Result<(), String>>().await);
/// let service = TimeoutLayer::new(Duration::from_secs(1)).layer(never);
/// assert!(service.oneshot(()).await.unwrap_err().is::<Elapsed>());
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TimeoutLayer {
    timeout: Duration,
    /// `None`: the default timer of the runtime that polls the response.
    timer: Option<Timer>,
}

impl TimeoutLayer {
    /// Gives each request `timeout`, by the ambient timer of the runtime that polls the response.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{tower::TimeoutLayer, Duration};
    ///
    /// const LAYER: TimeoutLayer = TimeoutLayer::new(Duration::from_secs(30));
    /// assert!(format!("{LAYER:?}").contains("30s"));
    /// ```
    pub const fn new(timeout: Duration) -> Self {
        let timer = None;
        Self { timeout, timer }
    }

    /// Gives each request `timeout`, by a certain timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{tower::TimeoutLayer, Duration, Timer};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().tick(Duration::from_millis(10)).build()?;
    /// let layer = TimeoutLayer::with_timer(Duration::from_secs(1), timer.clone());
    ///
    /// let never = service_fn(async |()| std::future::pending::<Result<(), String>>().await);
    /// assert!(layer.layer(never).oneshot(()).await.is_err());
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub const fn with_timer(timeout: Duration, timer: Timer) -> Self {
        let timer = Some(timer);
        Self { timeout, timer }
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, service: S) -> Self::Service {
        Timeout {
            inner: service,
            limit: self.clone(),
        }
    }
}

/// A service whose requests have to be answered in time.
///
/// The time is counted from when the inner service returns from [`call`](Service::call). Waiting
/// until it is ready for a request does not count.
///
/// # Panics
///
/// The response future, as [`timeout`](crate::timeout()).
///
/// # Errors
///
/// A request fails with [`Elapsed`](crate::error::Elapsed) if there is no response in time, else with
/// what the inner service fails with. The error's `is` tells which.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{tower::Timeout, Duration};
/// use tower::{ServiceExt as _, service_fn};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let double = service_fn(async |n: u32| n.checked_mul(2).ok_or("too large"));
/// let service = Timeout::new(double, Duration::from_secs(1));
/// assert_eq!(service.clone().oneshot(4).await.unwrap(), 8);
/// assert_eq!(service.oneshot(u32::MAX).await.unwrap_err().to_string(), "too large");
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Timeout<S> {
    inner: S,
    limit: TimeoutLayer,
}

impl<S> Timeout<S> {
    /// Gives each request `timeout`, by the ambient timer of the runtime that polls the response.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{tower::Timeout, Duration};
    ///
    /// let service = Timeout::new("any service", Duration::from_secs(30));
    /// assert_eq!(service.into_inner(), "any service");
    /// ```
    pub const fn new(inner: S, timeout: Duration) -> Self {
        let limit = TimeoutLayer::new(timeout);
        Self { inner, limit }
    }

    /// Gives each request `timeout`, by a certain timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{tower::Timeout, Duration, Timer};
    /// use tower::{ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().tick(Duration::from_millis(10)).build()?;
    /// let never = service_fn(async |()| std::future::pending::<Result<(), String>>().await);
    /// let service = Timeout::with_timer(never, Duration::from_secs(1), timer.clone());
    /// assert!(service.oneshot(()).await.is_err());
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub const fn with_timer(inner: S, timeout: Duration, timer: Timer) -> Self {
        let limit = TimeoutLayer::with_timer(timeout, timer);
        Self { inner, limit }
    }

    /// The inner service.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{tower::Timeout, Duration};
    ///
    /// let service = Timeout::new("any service", Duration::from_secs(30));
    /// assert_eq!(*service.get_ref(), "any service");
    /// ```
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The inner service, mutably.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{tower::Timeout, Duration};
    ///
    /// let mut service = Timeout::new("any service", Duration::from_secs(30));
    /// *service.get_mut() = "another";
    /// assert_eq!(service.into_inner(), "another");
    /// ```
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Gives up the timeout and keeps the inner service.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{tower::Timeout, Duration};
    ///
    /// let service = Timeout::new("any service", Duration::from_secs(30));
    /// assert_eq!(service.into_inner(), "any service");
    /// ```
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, Request> Service<Request> for Timeout<S>
where
    S: Service<Request>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let response = self.inner.call(request);
        let limit = Sleep::after(self.limit.timer.as_ref(), self.limit.timeout);
        ResponseFuture {
            response: futures::Timeout::new(limit, response),
        }
    }
}

pin_project! {
    /// Future of [`Timeout`]'s responses.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the inner service's future and cancels the timer.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct ResponseFuture<F> {
        #[pin]
        response: futures::Timeout<F>,
    }
}

impl<F, T, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(self.project().response.poll(cx)) {
            Ok(response) => response.map_err(Into::into),
            Err(elapsed) => Err(elapsed.into()),
        })
    }
}
