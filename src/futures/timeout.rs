//! `Timeout`: a future that must be ready before a deadline.

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
/// The duration counts from this call. Each poll polls the inner future first. A result that is ready
/// therefore wins, even if the duration has elapsed. A future that is ready at once registers nothing.
///
/// # Cancel safety
///
/// The timeout is cancel safe if the inner future is. Dropping the timeout drops the inner future and
/// deregisters the deadline. [`Timeout::into_inner`] keeps the inner future.
///
/// # Panics
///
/// If the inner future is pending, the timeout panics in the cases that [`sleep`] lists.
///
/// # Errors
///
/// The output is [`Elapsed`] if the inner future was not ready before the duration had elapsed.
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
/// Apart from the deadline, the future behaves like the future of [`timeout`].
///
/// # Cancel safety
///
/// The timeout is cancel safe if the inner future is. Dropping the timeout drops the inner future and
/// deregisters the deadline. [`Timeout::into_inner`] keeps the inner future.
///
/// # Panics
///
/// If the inner future is pending, the timeout panics in the cases that [`sleep`] lists.
///
/// # Errors
///
/// The output is [`Elapsed`] if the inner future was not ready before the deadline.
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
    /// The future returned by [`timeout`] and [`timeout_at`].
    ///
    /// Call `fuse` of `futures::FutureExt` to use it in the `select!` of the `futures` crate.
    ///
    /// # Cancel safety
    ///
    /// The timeout is cancel safe if the inner future is.
    ///
    /// # Panics
    ///
    /// If the inner future is pending, the timeout panics in the cases that [`sleep`] lists. The
    /// timeout of a [`Timer`] may be polled outside a runtime. It panics if it is polled after the
    /// timer has shut down and before its deadline.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    // This is no `FusedFuture`, because it does not remember that the inner future was ready. A flag
    // would cost memory and a store in each poll that is ready. `is_terminated` of the inner future
    // does not help. For a `Pending` of the `futures` crate it is always true, but the timeout of a
    // `Pending` elapses.
    pub struct Timeout<F> {
        #[pin]
        future: F,
        limit: Sleep,
    }
}

impl Timer {
    /// Requires a future to complete before `duration` has elapsed, on this timer.
    ///
    /// Apart from the timer, this method does what [`timeout`](crate::timeout()) does.
    ///
    /// # Cancel safety
    ///
    /// The timeout is cancel safe if the inner future is.
    ///
    /// # Panics
    ///
    /// If the inner future is pending, the timeout panics if it is polled after the timer has shut down
    /// and before its deadline.
    ///
    /// # Errors
    ///
    /// The output is [`Elapsed`] if the inner future was not ready before the duration had elapsed.
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

    /// Requires a future to complete before `deadline`, on this timer.
    ///
    /// Apart from the timer, this method does what [`timeout_at`](crate::timeout_at) does.
    ///
    /// # Cancel safety
    ///
    /// The timeout is cancel safe if the inner future is.
    ///
    /// # Panics
    ///
    /// If the inner future is pending, the timeout panics if it is polled after the timer has shut down
    /// and before its deadline.
    ///
    /// # Errors
    ///
    /// The output is [`Elapsed`] if the inner future was not ready before the deadline.
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

    /// Returns the inner future by reference.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{timeout, Duration};
    ///
    /// let timeout = timeout(Duration::from_secs(1), std::future::ready(7));
    /// assert_eq!(timeout.get_ref().clone().into_inner(), 7);
    /// ```
    #[must_use]
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// Returns the inner future by mutable reference.
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

    /// Returns the inner future and drops the timeout.
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

/// Polls `future`. If it is pending and has a limit, polls the limit.
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
