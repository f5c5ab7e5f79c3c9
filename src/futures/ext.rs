//! `FutureExt`: the methods `timeout` and `timeout_at` of every future.

use std::time::Duration;

use tokio::time::Instant;

use crate::futures::{Timeout, timeout, timeout_at};

/// Adds the methods `timeout` and `timeout_at` to every future.
///
/// The methods do what the functions [`timeout()`] and [`timeout_at`] do. Use the methods at the end of a
/// chain of calls.
///
/// `tokio_util::future::FutureExt` also has methods with these two names. If both traits are in scope,
/// `future.timeout(..)` is ambiguous and does not compile. Import only the trait of this crate. Call the
/// other methods of `tokio_util`'s trait by their full path, for example
/// `tokio_util::future::FutureExt::with_cancellation_token(future, &token)`.
///
/// `futures::FutureExt` has neither of the two methods. You can import `futures::FutureExt as _` together
/// with this trait.
pub trait FutureExt: Future {
    /// Requires the future to complete before `duration` has elapsed.
    ///
    /// This method does what the function [`timeout()`] does.
    ///
    /// # Cancel safety
    ///
    /// The timeout is cancel safe if the future is cancel safe.
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
    #[cfg_attr(feature = "call-sites", track_caller)]
    fn timeout(self, duration: Duration) -> Timeout<Self>
    where
        Self: Sized,
    {
        timeout(duration, self)
    }

    /// Requires the future to complete before `deadline`.
    ///
    /// This method does what the function [`timeout_at`] does.
    ///
    /// # Cancel safety
    ///
    /// The timeout is cancel safe if the future is cancel safe.
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
    #[cfg_attr(feature = "call-sites", track_caller)]
    fn timeout_at(self, deadline: Instant) -> Timeout<Self>
    where
        Self: Sized,
    {
        timeout_at(deadline, self)
    }
}

impl<F: Future + ?Sized> FutureExt for F {}
