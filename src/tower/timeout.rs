//! The layer, its service and the future of its responses. Each request has the limit that [`Limit`] says.

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

use super::{Limit, limited::Limited};
use crate::{futures::Sleep, timer::Timer};

/// The inner service's error or the crate's `Elapsed`.
type BoxError = Box<dyn Error + Send + Sync>;

/// Puts a [`Timeout`] around services.
///
/// `L` is a [`Duration`], or a closure that says how long each request may take: see [`Limit`].
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
pub struct TimeoutLayer<L = Duration> {
    limit: L,
    /// `None`: the default timer of the runtime that polls the response.
    timer: Option<Timer>,
}

impl<L> TimeoutLayer<L> {
    /// Gives each request the time of `limit`, by the ambient timer of the runtime that polls the response.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{tower::TimeoutLayer, Duration};
    ///
    /// const LAYER: TimeoutLayer = TimeoutLayer::new(Duration::from_secs(30));
    /// assert!(format!("{LAYER:?}").contains("30s"));
    /// ```
    pub const fn new(limit: L) -> Self {
        let timer = None;
        Self { limit, timer }
    }

    /// Gives each request the time of `limit`, by a certain timer.
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
    pub const fn with_timer(limit: L, timer: Timer) -> Self {
        let timer = Some(timer);
        Self { limit, timer }
    }
}

impl<S, L: Clone> Layer<S> for TimeoutLayer<L> {
    type Service = Timeout<S, L>;

    fn layer(&self, service: S) -> Self::Service {
        Timeout {
            inner: service,
            layer: self.clone(),
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
pub struct Timeout<S, L = Duration> {
    inner: S,
    layer: TimeoutLayer<L>,
}

impl<S, L> Timeout<S, L> {
    /// Gives each request the time of `limit`, by the ambient timer of the runtime that polls the response.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{tower::Timeout, Duration};
    ///
    /// let service = Timeout::new("any service", Duration::from_secs(30));
    /// assert_eq!(service.into_inner(), "any service");
    /// ```
    pub const fn new(inner: S, limit: L) -> Self {
        let layer = TimeoutLayer::new(limit);
        Self { inner, layer }
    }

    /// Gives each request the time of `limit`, by a certain timer.
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
    pub const fn with_timer(inner: S, limit: L, timer: Timer) -> Self {
        let layer = TimeoutLayer::with_timer(limit, timer);
        Self { inner, layer }
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
        let limit = limit.map(|limit| Sleep::after(self.layer.timer.as_ref(), limit));
        ResponseFuture {
            response: Limited::new(response, limit),
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
        response: Limited<F>,
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
