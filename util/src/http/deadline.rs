//! The deadline of a request, for its handler.

use std::time::Duration;

use http::Extensions;
use tokio::time::Instant;

/// The instant by which a request must be answered.
///
/// The method [`TimeoutLayer::deadline`](super::TimeoutLayer::deadline) makes the layer put a `Deadline` into
/// the extensions of each request that has a limit.
///
/// # Examples
///
/// This handler keeps one second for its own work. The handler gives the rest of the time to an upstream:
///
/// ```
/// use axum::{Extension, Router, body::Body, http::{Request, StatusCode}, routing::get};
/// use tokio_wheel::{sleep, timeout, Duration, Instant};
/// use tokio_wheel_util::http::{Deadline, TimeoutLayer};
/// use tower::ServiceExt as _;
///
/// async fn upstream() -> &'static str {
///     sleep(Duration::from_secs(60)).await;
///     "an answer"
/// }
///
/// async fn handler(Extension(deadline): Extension<Deadline>) -> Result<&'static str, StatusCode> {
///     sleep(Duration::from_secs(2)).await;
///     let left = deadline.remaining().saturating_sub(Duration::from_secs(1));
///     timeout(left, upstream()).await.map_err(|_| StatusCode::GATEWAY_TIMEOUT)
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let limit = TimeoutLayer::new(Duration::from_secs(10)).deadline();
/// let app = Router::new().route("/", get(handler)).layer(limit);
///
/// let start = Instant::now();
/// let answer = app.oneshot(Request::new(Body::empty())).await.unwrap();
/// assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
/// assert_eq!(start.elapsed(), Duration::from_secs(9));
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline(Instant);

impl Deadline {
    /// Creates a deadline at `instant`.
    ///
    /// Use this function in tests of a handler, and in layers that get a deadline from another source.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Instant;
    /// use tokio_wheel_util::http::Deadline;
    ///
    /// let now = Instant::now();
    /// assert_eq!(Deadline::new(now).instant(), now);
    /// ```
    #[must_use]
    pub const fn new(instant: Instant) -> Self {
        Self(instant)
    }

    /// Returns the instant by which the request must be answered.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{timeout_at, Instant};
    /// use tokio_wheel_util::http::Deadline;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let deadline = Deadline::new(Instant::now());
    /// let never = std::future::pending::<()>();
    /// assert!(timeout_at(deadline.instant(), never).await.is_err());
    /// # }
    /// ```
    #[must_use]
    pub const fn instant(self) -> Instant {
        self.0
    }

    /// Returns the time until the deadline. Returns zero after the deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Instant};
    /// use tokio_wheel_util::http::Deadline;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let deadline = Deadline::new(Instant::now() + Duration::from_secs(3));
    /// sleep(Duration::from_secs(1)).await;
    /// assert_eq!(deadline.remaining(), Duration::from_secs(2));
    /// sleep(Duration::from_secs(5)).await;
    /// assert_eq!(deadline.remaining(), Duration::ZERO);
    /// # }
    /// ```
    #[must_use]
    pub fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Puts the deadline into a request's extensions, unless they contain an earlier deadline.
    pub(super) fn put_into(self, extensions: &mut Extensions) {
        if extensions.get().is_none_or(|earlier| self < *earlier) {
            extensions.insert(self);
        }
    }
}
