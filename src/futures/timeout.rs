//! A future that must be ready in time.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::time::Instant;

use crate::{
    error::Elapsed,
    futures::{Sleep, sleep, sleep_until},
    ground::coop,
    timer::Timer,
};

/// Requires a future to complete before `duration` has elapsed.
///
/// The duration is counted from this call. The future is polled first: if it is ready at once,
/// so is the timeout, whatever the duration, and nothing was registered.
///
/// # Cancel safety
///
/// Dropping the timeout drops the inner future and cancels the timer. Whether that loses
/// anything depends on the inner future. [`Timeout::into_inner`] keeps it.
///
/// # Panics
///
/// As the future of [`sleep`], when the inner future is pending.
///
/// # Errors
///
/// The future's output is [`Elapsed`] if the deadline was reached first.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{timeout, Duration};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let limit = Duration::from_secs(30);
/// assert_eq!(timeout(limit, async { "in time" }).await, Ok("in time"));
/// assert!(timeout(limit, std::future::pending::<()>()).await.is_err());
/// # }
/// ```
#[inline]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(sleep(duration), future.into_future())
}

/// Requires a future to complete before `deadline`.
///
/// Otherwise as [`timeout`].
///
/// # Cancel safety
///
/// As [`timeout`].
///
/// # Panics
///
/// As the future of [`sleep`], when the inner future is pending.
///
/// # Errors
///
/// The future's output is [`Elapsed`] if the deadline was reached first.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{timeout_at, Duration, Instant};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let deadline = Instant::now() + Duration::from_secs(30);
/// assert!(timeout_at(deadline, std::future::pending::<()>()).await.is_err());
/// assert!(Instant::now() >= deadline);
/// # }
/// ```
#[inline]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(sleep_until(deadline), future.into_future())
}

pin_project! {
    /// Future of [`timeout`] and [`timeout_at`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        limit: Sleep,
    }
}

impl Timer {
    /// Requires a future to complete in time: [`timeout`](crate::timeout()) on this timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let timer = Timer::current();
    /// assert_eq!(timer.timeout(Duration::from_secs(1), async { 7 }).await, Ok(7));
    /// # }
    /// ```
    #[inline]
    pub fn timeout<F: IntoFuture>(&self, duration: Duration, future: F) -> Timeout<F::IntoFuture> {
        Timeout::new(self.sleep(duration), future.into_future())
    }

    /// Requires a future to complete before `deadline`: [`timeout_at`](crate::timeout_at) on
    /// this timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Instant, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let never = std::future::pending::<()>();
    /// assert!(Timer::current().timeout_at(Instant::now(), never).await.is_err());
    /// # }
    /// ```
    pub fn timeout_at<F: IntoFuture>(
        &self,
        deadline: Instant,
        future: F,
    ) -> Timeout<F::IntoFuture> {
        Timeout::new(self.sleep_until(deadline), future.into_future())
    }
}

impl<F> Timeout<F> {
    #[inline]
    pub(crate) fn new(limit: Sleep, future: F) -> Self {
        Self { future, limit }
    }

    /// The inner future.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{timeout, Duration};
    ///
    /// let timeout = timeout(Duration::from_secs(1), std::future::ready(7));
    /// assert_eq!(timeout.get_ref().clone().into_inner(), 7);
    /// ```
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// The inner future, mutably.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{timeout, Duration};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut timeout = timeout(Duration::from_secs(1), std::future::ready(7));
    /// *timeout.get_mut() = std::future::ready(8);
    /// assert_eq!(timeout.await, Ok(8));
    /// # }
    /// ```
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// Gives up the timeout and keeps the inner future.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{timeout, Duration};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let future = timeout(Duration::from_secs(1), async { 7 }).into_inner();
    /// assert_eq!(future.await, 7);
    /// # }
    /// ```
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    #[inline]
    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        poll_in_time(this.future, Some(this.limit), cx)
    }
}

/// Polls a future, and then its limit, if it has one.
#[inline]
#[track_caller]
pub(crate) fn poll_in_time<F: Future>(
    future: Pin<&mut F>,
    limit: Option<&mut Sleep>,
    cx: &mut Context<'_>,
) -> Poll<Result<F::Output, Elapsed>> {
    let had_budget = coop::has_budget_remaining();
    if let Poll::Ready(output) = future.poll(cx) {
        return Poll::Ready(Ok(output));
    }
    let Some(limit) = limit else {
        return Poll::Pending;
    };
    ready!(limit.poll_as_limit(had_budget, cx));
    Poll::Ready(Err(Elapsed(())))
}
