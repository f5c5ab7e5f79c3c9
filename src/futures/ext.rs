//! Timeouts as methods of futures.

use std::time::Duration;

use tokio::time::Instant;

use crate::futures::{Timeout, timeout, timeout_at};

/// Timeouts as methods of futures: [`timeout()`] and [`timeout_at`] at the end of a chain of
/// calls.
///
/// The methods are those of `tokio_util`'s trait of the same name. With both in scope, under
/// whatever name, `future.timeout(..)` is ambiguous and does not compile: import only this one,
/// and call the other's methods by its full name,
/// `tokio_util::future::FutureExt::with_cancellation_token(future, &token)`. `futures::FutureExt`
/// has no method of these names, so that one can be imported too, `as _`.
pub trait FutureExt: Future {
    /// Requires the future to complete before `duration` has elapsed.
    ///
    /// This is [`timeout()`].
    ///
    /// # Cancel safety
    ///
    /// As [`timeout()`].
    ///
    /// # Panics
    ///
    /// As [`timeout()`].
    ///
    /// # Errors
    ///
    /// As [`timeout()`].
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
    /// This is [`timeout_at`].
    ///
    /// # Cancel safety
    ///
    /// As [`timeout_at`].
    ///
    /// # Panics
    ///
    /// As [`timeout_at`].
    ///
    /// # Errors
    ///
    /// As [`timeout_at`].
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
