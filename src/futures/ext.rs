//! `FutureExt`: timeouts as methods of futures.

use std::time::Duration;

use tokio::time::Instant;

use crate::futures::{Timeout, timeout, timeout_at};

/// Adds the methods `timeout` and `timeout_at` to every future.
///
/// The methods are [`timeout()`] and [`timeout_at`] at the end of a chain of calls.
///
/// The trait of the same name in `tokio_util` has both methods too. If both traits are in scope,
/// `future.timeout(..)` is ambiguous and does not compile. Import this trait only, and call other
/// methods of `tokio_util` by their full path, such as
/// `tokio_util::future::FutureExt::with_cancellation_token(future, &token)`.
///
/// `futures::FutureExt` has neither method. You can import it beside this trait with `as _`.
pub trait FutureExt: Future {
    /// Requires the future to complete before `duration` has elapsed.
    ///
    /// This method is [`timeout()`].
    ///
    /// # Cancel safety
    ///
    /// The timeout is cancel safe if the future is.
    ///
    /// # Panics
    ///
    /// If the future is pending, the timeout panics in the cases that [`sleep`](crate::sleep()) lists.
    ///
    /// # Errors
    ///
    /// The output is [`Elapsed`](crate::error::Elapsed) if the future was not ready before the duration
    /// had elapsed.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, FutureExt};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
    /// assert!(receiver.timeout(Duration::from_millis(10)).await.is_err());
    /// assert!(sender.is_closed());
    /// # }
    /// ```
    fn timeout(self, duration: Duration) -> Timeout<Self>
    where
        Self: Sized,
    {
        timeout(duration, self)
    }

    /// Requires the future to complete before `deadline`.
    ///
    /// This method is [`timeout_at`].
    ///
    /// # Cancel safety
    ///
    /// The timeout is cancel safe if the future is.
    ///
    /// # Panics
    ///
    /// If the future is pending, the timeout panics in the cases that [`sleep`](crate::sleep()) lists.
    ///
    /// # Errors
    ///
    /// The output is [`Elapsed`](crate::error::Elapsed) if the future was not ready before the
    /// deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, FutureExt, Instant};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let deadline = Instant::now() + Duration::from_millis(10);
    /// assert!(std::future::pending::<()>().timeout_at(deadline).await.is_err());
    /// assert!(Instant::now() >= deadline);
    /// # }
    /// ```
    fn timeout_at(self, deadline: Instant) -> Timeout<Self>
    where
        Self: Sized,
    {
        timeout_at(deadline, self)
    }
}

impl<F: Future + ?Sized> FutureExt for F {}
