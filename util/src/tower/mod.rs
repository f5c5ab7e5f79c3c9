//! A timeout for requests, as a [tower layer](tower_layer::Layer) that replaces `tower::timeout`.
//!
//! If the response to a request is not ready in time, the request fails with a boxed [`Elapsed`]. In axum, put
//! `HandleErrorLayer` around the timeout, to turn this error into a response:
//!
//! ```
//! use axum::{
//!     body::Body, error_handling::HandleErrorLayer, http::{Request, StatusCode}, routing::get,
//!     BoxError, Router,
//! };
//! use tokio_wheel::{error::Elapsed, sleep, Duration};
//! use tokio_wheel_util::tower::TimeoutLayer;
//! use tower::ServiceExt as _;
//!
//! async fn status(error: BoxError) -> StatusCode {
//!     if error.is::<Elapsed>() {
//!         StatusCode::GATEWAY_TIMEOUT // Use REQUEST_TIMEOUT if the client was slow.
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
//! The limit applies until the future of the service is ready. For an HTTP service, that is when the head of the response is
//! ready, so the limit does not cover the body of the response.
//!
//! The module `http` (feature `http`) has a layer that responds with a status code instead of an error, and layers that limit
//! bodies.
//!
//! # Coming from `tower::timeout`
//!
//! The types keep their names. Three things are different:
//!
//! * `ServiceBuilder::timeout(limit)` becomes `ServiceBuilder::layer(TimeoutLayer::new(limit))`.
//! * The error is [`Elapsed`] of `tokio_wheel`, so code that downcasts must name this type.
//! * The timeout also elapses if the inner service uses up the task's budget at every poll.
//!
//! # A limit for each request
//!
//! [`TimeoutLayer`] and [`Timeout`] also accept a closure instead of a [`Duration`]. The
//! closure gets the request and returns how long the request may take. `None` means no limit:
//!
//! ```
//! use tokio_wheel::{error::Elapsed, sleep, Duration};
//! use tokio_wheel_util::tower::TimeoutLayer;
//! use tower::{Layer as _, Service as _, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let limit = |command: &&str| match *command {
//!     "backup" => None,
//!     _ => Some(Duration::from_secs(1)),
//! };
//! let slow = service_fn(async |command: &str| {
//!     sleep(Duration::from_secs(60)).await;
//!     Ok::<_, String>(command.len())
//! });
//!
//! let mut service = TimeoutLayer::new(limit).layer(slow);
//! assert_eq!(service.call("backup").await?, 6);
//! assert!(service.call("ping").await.unwrap_err().is::<Elapsed>());
//! # Ok(())
//! # }
//! ```

mod service;

use std::{
    error::Error,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio_wheel::{Sleep, error::Elapsed, sleep};
use tower_service::Service;

use crate::limit::Starved;
pub(crate) use service::service;

/// A boxed error: the error of the inner service, or an `Elapsed`.
type BoxError = Box<dyn Error + Send + Sync>;

/// A layer that wraps a service in a [`Timeout`].
///
/// `L` is a [`Duration`], or a closure that returns the limit of each request. The trait [`Limit`] has the
/// details.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{error::Elapsed, Duration};
/// use tokio_wheel_util::tower::TimeoutLayer;
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
#[must_use = "a layer does nothing unless it is put around a service"]
pub struct TimeoutLayer<L = Duration> {
    limit: L,
}

impl<L> TimeoutLayer<L> {
    /// Creates a layer that limits each request to `limit`.
    ///
    /// The layer uses the default timer of the runtime that polls the response.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::tower::TimeoutLayer;
    ///
    /// const LAYER: TimeoutLayer = TimeoutLayer::new(Duration::from_secs(30));
    /// assert!(format!("{LAYER:?}").contains("30s"));
    /// ```
    pub const fn new(limit: L) -> Self {
        Self { limit }
    }
}

service! {
    "tower"
    /// A service that limits how long its inner service may take to respond.
    ///
    /// The limit starts when the inner service returns from [`call`](Service::call). The limit does not cover the
    /// time before the call, for example the wait in [`poll_ready`](Service::poll_ready).
    ///
    /// # Errors
    ///
    /// If the limit elapses first, the request fails with a boxed [`Elapsed`]. If the
    /// inner service fails first, the request fails with the error of the inner service. Call
    /// `error.is::<Elapsed>()` to distinguish these two errors.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::tower::Timeout;
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
    pub struct Timeout<S, L = Duration> of TimeoutLayer(L)
}

impl<S, L, Request> Service<Request> for Timeout<S, L>
where
    S: Service<Request>,
    L: Limit<Request>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let limit = self.layer.limit.limit(&request);
        let response = self.inner.call(request);
        let limit = limit.map(sleep);
        ResponseFuture {
            response,
            limit,
            starved: Starved::new(),
        }
    }
}

pin_project! {
    /// The future that a [`Timeout`] returns.
    ///
    /// A poll first polls the future of the inner service. If the response is ready, the poll returns it,
    /// even if the limit has elapsed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the future of the inner service and deregisters the limit. The inner service
    /// determines whether data is lost.
    ///
    /// # Panics
    ///
    /// If the request has a limit and the inner service's future is pending, a poll panics in the cases that
    /// [`sleep`](tokio_wheel::sleep()) lists.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct ResponseFuture<F> {
        #[pin]
        response: F,
        // `None` means no limit. Then the future registers no entry.
        limit: Option<Sleep>,
        starved: Starved,
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
        let this = self.project();
        if let Poll::Ready(response) = this.response.poll(cx) {
            return Poll::Ready(response.map_err(Into::into));
        }
        let Some(limit) = this.limit else {
            return Poll::Pending;
        };
        (this.starved.poll_limit(limit, cx)).map(|()| Err(Elapsed::new().into()))
    }
}

/// Decides how long each request may take.
///
/// A [`Duration`] gives all requests the same limit. A closure returns a limit for each request. The closure
/// must name the type of its argument, for example `|request: &Request| ..`. Without the type, the closure
/// accepts references with only one lifetime, and the compiler rejects the closure as a limit.
///
/// # Examples
///
/// This type gives each query a limit that grows with the number of rows in the query:
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::tower::Limit;
///
/// struct Query {
///     rows: u32,
/// }
///
/// struct PerRow(Duration);
///
/// impl Limit<Query> for PerRow {
///     fn limit(&self, query: &Query) -> Option<Duration> {
///         Some(self.0 * query.rows)
///     }
/// }
///
/// let query = Query { rows: 3 };
/// let second = Duration::from_secs(1);
/// assert_eq!(PerRow(second).limit(&query), Some(3 * second));
/// assert_eq!(second.limit(&query), Some(second));
/// let closure = |query: &Query| (query.rows > 5).then_some(second);
/// assert_eq!(closure.limit(&query), None);
/// ```
pub trait Limit<Request> {
    /// Returns how long `request` may take. `None` means no limit.
    fn limit(&self, request: &Request) -> Option<Duration>;
}

impl<Request> Limit<Request> for Duration {
    fn limit(&self, _request: &Request) -> Option<Duration> {
        Some(*self)
    }
}

impl<Request, F> Limit<Request> for F
where
    F: Fn(&Request) -> Option<Duration>,
{
    fn limit(&self, request: &Request) -> Option<Duration> {
        self(request)
    }
}
