//! `Timeout`: a future that must be ready before a deadline.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::{task::coop, time::Instant};

use crate::{
    driver::clock,
    error::Elapsed,
    futures::{Sleep, sleep_until},
    timer::Timer,
};

/// Requires a future to complete before `duration` has elapsed.
///
/// The duration starts when `into_future` returns. Each poll polls the inner future first. If the inner future is ready,
/// the timeout returns the output of the inner future, even if the duration has elapsed. A timeout whose
/// inner future is ready at the first poll registers no entry.
///
/// # Cancel safety
///
/// The timeout is cancel safe if the inner future is cancel safe. Dropping the timeout drops the inner future
/// and deregisters the deadline. Call [`Timeout::into_inner`] to keep the inner future.
///
/// # Panics
///
/// If the inner future is pending, the timeout panics in the cases that [`sleep`](crate::sleep()) lists.
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
#[cfg_attr(feature = "call-sites", track_caller)]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    // The compiler copies a large future less often if a literal begins with the future, before the clock is read. In a
    // database driver, this saves 500 instructions for each request (benches/programs/instructions.sh).
    Timeout {
        future: future.into_future(),
        // If `duration` ends after the latest `Instant`, the deadline is beyond the clock's reach. A paused clock
        // does not move to this deadline. In tokio, such a timeout never elapses.
        limit: Sleep::new(None, clock::after(duration)),
    }
}

/// Requires a future to complete before `deadline`.
///
/// Apart from the deadline, this function does what [`timeout`] does.
///
/// # Cancel safety
///
/// The timeout is cancel safe if the inner future is cancel safe. Dropping the timeout drops the inner future
/// and deregisters the deadline. Call [`Timeout::into_inner`] to keep the inner future.
///
/// # Panics
///
/// If the inner future is pending, the timeout panics in the cases that [`sleep`](crate::sleep()) lists.
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
#[cfg_attr(feature = "call-sites", track_caller)]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout {
        future: future.into_future(),
        limit: sleep_until(deadline),
    }
}

pin_project! {
    /// The future returned by [`timeout`] and [`timeout_at`].
    ///
    /// To use the future in the `select!` of the `futures` crate, call `fuse` of `futures::FutureExt`.
    ///
    /// # Cancel safety
    ///
    /// The timeout is cancel safe if the inner future is cancel safe.
    ///
    /// # Panics
    ///
    /// If the inner future is pending, the timeout panics in the cases that [`sleep`](crate::sleep()) lists.
    /// The timeout of a [`Timer`] may be polled outside a runtime. If that timer has shut down, a poll before
    /// the deadline panics.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    // A timeout is no `FusedFuture`, because it does not store whether the inner future was ready. A flag
    // would cost memory, and each ready poll would have to write the flag. `is_terminated` of the inner
    // future cannot replace the flag. For example, `is_terminated` of the `futures` crate's `Pending` is
    // always true, but a timeout of a `Pending` elapses.
    pub struct Timeout<F> {
        #[pin]
        future: F,
        limit: Sleep,
    }
}

impl Timer {
    /// Requires a future to complete before `duration` has elapsed, on this timer.
    ///
    /// Works like [`timeout`](crate::timeout()), but uses this timer instead of the default timer.
    ///
    /// # Cancel safety
    ///
    /// The timeout is cancel safe if the inner future is cancel safe.
    ///
    /// # Panics
    ///
    /// If the timer has shut down and the inner future is pending, a poll before the deadline panics.
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
    #[cfg_attr(feature = "call-sites", track_caller)]
    pub fn timeout<F: IntoFuture>(&self, duration: Duration, future: F) -> Timeout<F::IntoFuture> {
        self.timeout_at(clock::after(duration), future)
    }

    /// Requires a future to complete before `deadline`, on this timer.
    ///
    /// Works like [`timeout_at`](crate::timeout_at), but uses this timer instead of the default timer.
    ///
    /// # Cancel safety
    ///
    /// The timeout is cancel safe if the inner future is cancel safe.
    ///
    /// # Panics
    ///
    /// If the timer has shut down and the inner future is pending, a poll before the deadline panics.
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
    #[cfg_attr(feature = "call-sites", track_caller)]
    pub fn timeout_at<F: IntoFuture>(
        &self,
        deadline: Instant,
        future: F,
    ) -> Timeout<F::IntoFuture> {
        Timeout {
            future: future.into_future(),
            limit: self.sleep_until(deadline),
        }
    }
}

impl<F> Timeout<F> {
    /// Returns a reference to the inner future.
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

    /// Returns a mutable reference to the inner future.
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
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        ready!(this.limit.poll_limit(had_budget, cx));
        Poll::Ready(Err(Elapsed(())))
    }
}
