//! Connection limits.

use std::time::Duration;

use crate::limit::setters;

/// Connection limits of a server, for [`Connections::new`](super::Connections::new).
///
/// By default, [`grace`](Self::grace) is 30 s and there is no other limit. The [module](super#the-limits)
/// explains what each limit does.
///
/// # Examples
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::hyper::{Connections, Limits};
///
/// let limits = Limits::new()
///     .idle(Duration::from_secs(60))
///     .max_age(Duration::from_secs(600))
///     .grace(Duration::from_secs(20))
///     .max_connections(100_000);
/// let connections = Connections::new(limits);
/// assert_eq!(connections.counts().open(), 0);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "limits do nothing until they are given to `Connections::new`"]
pub struct Limits {
    pub(super) idle: Option<Duration>,
    pub(super) max_age: Option<Duration>,
    pub(super) jitter: f64,
    pub(super) grace: Duration,
    pub(super) max_connections: usize,
}

impl Limits {
    /// Creates limits with the default [`grace`](Self::grace) and no other limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::hyper::{Connections, Limits};
    ///
    /// let connections = Connections::new(Limits::new());
    /// assert!(connections.open().is_ok());
    /// ```
    pub const fn new() -> Self {
        Self {
            idle: None,
            max_age: None,
            jitter: 0.1,
            grace: Duration::from_secs(30),
            max_connections: usize::MAX,
        }
    }

    setters! {
        /// Limits how long a connection may stay open without a request in flight.
        ///
        /// The time starts when the last request ends. Before the first request, the time starts when the
        /// connection opens. A request ends in these cases:
        ///
        /// * The service fails.
        /// * The connection has written the response, and has flushed its I/O.
        /// * The body of the response is dropped before its end.
        ///
        /// If the client stops reading a response, the connection is not idle: see [slow
        /// clients](super#slow-clients).
        ///
        /// # Examples
        ///
        /// ```
        /// use tokio_wheel::Duration;
        /// use tokio_wheel_util::hyper::Limits;
        ///
        /// let limits = Limits::new().idle(Duration::from_secs(60));
        /// assert!(format!("{limits:?}").contains("idle: Some(60s)"));
        /// ```
        idle: Duration;

        /// Limits the age of a connection.
        ///
        /// Each connection gets a random maximum age. With the default [`jitter`](Self::jitter) of 0.1, this age
        /// is between 90% and 100% of `limit`. When the connection reaches this age, its graceful shutdown
        /// begins, even if requests are in flight.
        ///
        /// # Examples
        ///
        /// ```
        /// use tokio_wheel::Duration;
        /// use tokio_wheel_util::hyper::Limits;
        ///
        /// // Connections end at an age between 540 and 600 s.
        /// let limits = Limits::new().max_age(Duration::from_secs(600));
        /// assert!(format!("{limits:?}").contains("max_age: Some(600s), jitter: 0.1"));
        /// ```
        max_age: Duration;
    }

    /// Sets how much random jitter may shorten the maximum age, as a fraction of [`max_age`](Self::max_age).
    /// The default is 0.1.
    ///
    /// After a restart, many clients connect at the same time. Without jitter, the connections of these
    /// clients would also reach their maximum age at the same time.
    ///
    /// # Panics
    ///
    /// Panics if `fraction` is not between 0 and 1.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::hyper::Limits;
    ///
    /// // Connections end at an age between 300 and 600 s.
    /// let limits = Limits::new().max_age(Duration::from_secs(600)).jitter(0.5);
    /// assert!(format!("{limits:?}").contains("jitter: 0.5"));
    /// ```
    #[track_caller]
    pub fn jitter(mut self, fraction: f64) -> Self {
        assert!(
            (0.0..=1.0).contains(&fraction),
            "jitter must be between 0 and 1, got {fraction}"
        );
        self.jitter = fraction;
        self
    }

    /// Limits how long the graceful shutdown of a connection may take. The default is 30 s.
    ///
    /// The limit is the same for each [reason](super::Reason) of the graceful shutdown. When the grace is
    /// over, the connection is dropped, and its requests in flight are lost. With a grace of
    /// [`Duration::MAX`], no connection is dropped.
    ///
    /// The grace has a default because a graceful shutdown alone does not close every connection. If a client
    /// has sent only part of its first head, the graceful shutdown waits for the rest. On HTTP/2, the
    /// graceful shutdown also waits until the client answers a ping. Without a grace, a silent client could
    /// keep its connection open forever.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::hyper::Limits;
    ///
    /// assert!(format!("{:?}", Limits::new()).contains("grace: 30s"));
    /// let limits = Limits::new().grace(Duration::from_secs(5));
    /// assert!(format!("{limits:?}").contains("grace: 5s"));
    /// ```
    pub const fn grace(mut self, limit: Duration) -> Self {
        self.grace = limit;
        self
    }

    /// Limits how many connections may be open at the same time. By default, there is no such limit.
    ///
    /// # Panics
    ///
    /// Panics if `limit` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::hyper::{Connections, Limits, OpenError};
    ///
    /// let connections = Connections::new(Limits::new().max_connections(1));
    /// let first = connections.open().unwrap();
    /// assert!(matches!(connections.open(), Err(OpenError::Full { limit: 1, .. })));
    /// drop(first);
    /// assert!(connections.open().is_ok());
    /// ```
    #[track_caller]
    pub const fn max_connections(mut self, limit: usize) -> Self {
        assert!(limit > 0, "max_connections must be at least 1, got 0");
        self.max_connections = limit;
        self
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::new()
    }
}
