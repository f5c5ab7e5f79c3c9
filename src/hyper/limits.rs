//! The limits of a server's connections, as a value.

use std::time::Duration;

/// How long what is in flight may take after a graceful shutdown began, unless it is set.
pub(super) const DEFAULT_GRACE: Duration = Duration::from_secs(30);

/// The fraction of the maximum age by which connections differ, unless it is set.
pub(super) const DEFAULT_JITTER: f64 = 0.1;

/// The limits of a server's connections, for [`Connections::new`](super::Connections::new).
///
/// Without a call of the method, no limit applies, except for [`grace`](Self::grace). The
/// [module](super#the-limits) says what each limit covers.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{hyper::{Connections, Limits}, Duration};
///
/// let limits = Limits::new()
///     .idle(Duration::from_secs(60))
///     .max_age(Duration::from_secs(600))
///     .grace(Duration::from_secs(20))
///     .max_connections(100_000);
/// let connections = Connections::new(limits);
/// assert_eq!(connections.counts().open(), 0);
/// ```
#[derive(Clone, Debug)]
#[must_use = "limits do nothing until they are given to `Connections::new`"]
pub struct Limits {
    pub(super) idle: Option<Duration>,
    pub(super) min_idle: Option<Duration>,
    pub(super) max_age: Option<Duration>,
    pub(super) jitter: f64,
    pub(super) grace: Duration,
    pub(super) max_connections: usize,
}

impl Limits {
    /// Sets no limit but the default [`grace`](Self::grace).
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::hyper::{Connections, Limits};
    ///
    /// let connections = Connections::new(Limits::new());
    /// assert!(connections.open().is_ok());
    /// ```
    pub const fn new() -> Self {
        Self {
            idle: None,
            min_idle: None,
            max_age: None,
            jitter: DEFAULT_JITTER,
            grace: DEFAULT_GRACE,
            max_connections: usize::MAX,
        }
    }

    /// Limits how long a connection may have no request in flight.
    ///
    /// The time counts from the opening of the connection, or from the end of its last request. A request is in
    /// flight until the body of its response has ended or was dropped, or its service has failed.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{hyper::Limits, Duration};
    ///
    /// let limits = Limits::new().idle(Duration::from_secs(60));
    /// assert!(format!("{limits:?}").contains("idle: Some(60s)"));
    /// ```
    pub const fn idle(mut self, limit: Duration) -> Self {
        self.idle = Some(limit);
        self
    }

    /// Sets what the idle limit shrinks to under the highest
    /// [pressure](super::Connections::set_pressure).
    ///
    /// By default, it does not shrink. Without [`idle`](Self::idle), this value has no effect.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{hyper::{Connections, Limits}, Duration};
    ///
    /// let limits = Limits::new()
    ///     .idle(Duration::from_secs(60))
    ///     .min_idle(Duration::from_secs(5));
    /// Connections::new(limits).set_pressure(1.0); // 5 s from now on
    /// ```
    pub const fn min_idle(mut self, limit: Duration) -> Self {
        self.min_idle = Some(limit);
        self
    }

    /// Limits the age of a connection, whatever is in flight.
    ///
    /// Each connection has an age of its own, at random between this one, less the
    /// [jitter](Self::jitter), and this one. No connection gets older than this before its graceful
    /// shutdown begins.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{hyper::Limits, Duration};
    ///
    /// // From 540 to 600 s.
    /// let limits = Limits::new().max_age(Duration::from_secs(600));
    /// assert!(format!("{limits:?}").contains("max_age: Some(600s), jitter: 0.1"));
    /// ```
    pub const fn max_age(mut self, limit: Duration) -> Self {
        self.max_age = Some(limit);
        self
    }

    /// Sets the fraction of the maximum age by which connections differ. The default is 0.1.
    ///
    /// Without jitter, clients that connect at the same time, as after a restart, must leave and connect again at the
    /// same time.
    ///
    /// # Panics
    ///
    /// Panics if `fraction` is not between 0 and 1.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{hyper::Limits, Duration};
    ///
    /// // From 300 to 600 s.
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

    /// Limits how long a connection may take to end after its graceful shutdown began. The default is
    /// 30 s.
    ///
    /// This limit holds for each graceful shutdown, whatever the reason. At its end the connection is dropped,
    /// and what is in flight is lost. With [`Duration::MAX`], no connection is dropped.
    ///
    /// There is a limit by default, since a graceful shutdown alone does not close every connection. It waits
    /// for the rest of a first request's head, and for the answer to a ping of HTTP/2. A client that sends
    /// neither would stay forever.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{hyper::Limits, Duration};
    ///
    /// assert!(format!("{:?}", Limits::new()).contains("grace: 30s"));
    /// let limits = Limits::new().grace(Duration::from_secs(5));
    /// assert!(format!("{limits:?}").contains("grace: 5s"));
    /// ```
    pub const fn grace(mut self, limit: Duration) -> Self {
        self.grace = limit;
        self
    }

    /// Limits how many connections may be open. By default there is no limit.
    ///
    /// # Panics
    ///
    /// Panics if `limit` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::hyper::{Connections, Limits, OpenError};
    ///
    /// let connections = Connections::new(Limits::new().max_connections(1));
    /// let first = connections.open().unwrap();
    /// assert_eq!(connections.open().unwrap_err(), OpenError::Full { open: 1, limit: 1 });
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
