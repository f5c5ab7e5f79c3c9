//! The limits of a body.

use std::time::Duration;

/// The limits of a [`TimeoutBody`](super::TimeoutBody).
///
/// `None` means no limit. The [module](super#what-the-limits-of-a-body-measure) explains what each limit
/// measures.
///
/// # Examples
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::http::BodyLimits;
///
/// const LIMITS: BodyLimits = BodyLimits::new()
///     .frame_timeout(Duration::from_secs(10))
///     .body_timeout(Duration::from_secs(60));
/// assert_eq!(LIMITS.frame_timeout, Some(Duration::from_secs(10)));
/// assert_eq!(LIMITS.body_timeout, Some(Duration::from_secs(60)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BodyLimits {
    /// The longest time that a reader may wait for a frame.
    pub frame_timeout: Option<Duration>,
    /// The longest time that a reader may wait for all frames together.
    pub body_timeout: Option<Duration>,
}

impl BodyLimits {
    /// Creates a value without any limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::http::BodyLimits;
    ///
    /// assert_eq!(BodyLimits::new(), BodyLimits::default());
    /// assert_eq!(BodyLimits::new().frame_timeout, None);
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Self {
            frame_timeout: None,
            body_timeout: None,
        }
    }

    /// Limits the wait for each frame.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::http::BodyLimits;
    ///
    /// let limits = BodyLimits::new().frame_timeout(Duration::from_secs(10));
    /// assert_eq!(limits.frame_timeout, Some(Duration::from_secs(10)));
    /// assert_eq!(limits.body_timeout, None);
    /// ```
    #[must_use]
    pub const fn frame_timeout(mut self, timeout: Duration) -> Self {
        self.frame_timeout = Some(timeout);
        self
    }

    /// Limits the sum of all waits.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::http::BodyLimits;
    ///
    /// let limits = BodyLimits::new().body_timeout(Duration::from_secs(60));
    /// assert_eq!(limits.frame_timeout, None);
    /// assert_eq!(limits.body_timeout, Some(Duration::from_secs(60)));
    /// ```
    #[must_use]
    pub const fn body_timeout(mut self, timeout: Duration) -> Self {
        self.body_timeout = Some(timeout);
        self
    }
}
