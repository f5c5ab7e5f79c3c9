//! The handle for all connections of a server.

use std::{error::Error, fmt, sync::Arc};

use super::{ended::Counts, guard::ConnectionGuard, server_limits::Limits, shared::Shared};

/// A handle for all connections of a server. These connections share the same [`Limits`].
///
/// A clone is another handle for the same server. If all handles are dropped, the connections stay open and
/// keep their limits.
///
/// Each connection has a sleep of the default timer of its runtime. So a handle may serve on several runtimes.
///
/// # Examples
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::hyper::{Connections, Limits};
///
/// let connections = Connections::new(Limits::new().idle(Duration::from_secs(60)));
/// let guard = connections.open().unwrap();
/// assert_eq!(connections.counts().open(), 1);
/// ```
#[derive(Clone)]
pub struct Connections {
    shared: Arc<Shared>,
}

impl Connections {
    /// Creates a handle for a server that has no connections yet. The call needs no runtime.
    ///
    /// # Panics
    ///
    /// Panics if [`min_idle`](Limits::min_idle) is longer than [`idle`](Limits::idle).
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::hyper::{Connections, Limits};
    ///
    /// let connections = Connections::new(Limits::new());
    /// assert_eq!(connections.counts().open(), 0);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn new(limits: Limits) -> Self {
        let shared = Arc::new(Shared::new(limits));
        Self { shared }
    }

    /// Opens a connection. The age and the idle time of the connection start now.
    ///
    /// The connection counts as open until the [`ConnectionGuard`] is dropped. [`ConnectionGuard::serve`] turns the
    /// guard into a [`Drive`](super::Drive). The connection then counts as open until the `Drive` is ready or is
    /// dropped.
    ///
    /// # Errors
    ///
    /// * Returns [`OpenError::Full`] if [`max_connections`](Limits::max_connections) connections are open.
    /// * Returns [`OpenError::Shutdown`] if [`shutdown`](Self::shutdown) has begun.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::hyper::{Connections, Limits, OpenError};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let connections = Connections::new(Limits::new());
    /// connections.shutdown().await;
    /// assert_eq!(connections.open().unwrap_err(), OpenError::Shutdown);
    /// # }
    /// ```
    pub fn open(&self) -> Result<ConnectionGuard, OpenError> {
        let max_age = self.shared.open()?;
        Ok(ConnectionGuard::new(self.shared.clone(), max_age))
    }

    /// Shuts down all connections and waits until the last connection has ended.
    ///
    /// The shutdown begins when the future is first polled:
    ///
    /// * After the first poll, [`open`](Self::open) fails.
    /// * The graceful shutdown of each connection begins. If the graceful shutdown of a connection has
    ///   already begun, the connection keeps the rest of its grace.
    /// * When the [`grace`](Limits::grace) is over, each connection that is driven has ended.
    ///
    /// Several tasks may call this method, even at the same time.
    ///
    /// With `pipeline_flush` of hyper's HTTP/1 builder, a graceful shutdown loses responses: see
    /// [the limits](super#the-limits).
    ///
    /// # Cancel safety
    ///
    /// If you drop the future before its first poll, the shutdown does not begin. If you drop the future
    /// after its first poll, the shutdown continues. A second call then waits for the end of this shutdown.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::hyper::{Connections, Limits};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let connections = Connections::new(Limits::new());
    /// let guard = connections.open().unwrap();
    /// let waiting = tokio::spawn({
    ///     let connections = connections.clone();
    ///     async move { connections.shutdown().await }
    /// });
    /// tokio::task::yield_now().await;
    /// assert!(!waiting.is_finished());
    /// drop(guard);
    /// waiting.await.unwrap();
    /// # }
    /// ```
    pub async fn shutdown(&self) {
        self.shared.shut_down();
        self.shared.all_ended().await;
    }

    /// Sets the pressure, from 0 to 1. A higher pressure shortens the idle limit of all connections.
    ///
    /// Raise the pressure when the server has too few file descriptors or too little memory. The connections
    /// with the longest idle time end first. A request that the kernel has received by then is answered.
    ///
    /// | pressure | idle limit |
    /// |---|---|
    /// | 0, the default | [`idle`](Limits::idle) |
    /// | between 0 and 1 | between `idle` and `min_idle`, in proportion to the pressure |
    /// | 1 | [`min_idle`](Limits::min_idle) |
    ///
    /// NaN and all numbers below 0 have the same effect as 0. Numbers above 1 have the same effect as 1.
    ///
    /// The new limit applies at once. It also applies to connections that are already idle.
    ///
    /// A call that raises the pressure wakes all connections, because each of them computes its deadline again. The
    /// calling thread takes 1 to 3 µs for each connection. With very many connections, use
    /// [`spawn_blocking`](tokio::task::spawn_blocking), and raise the pressure in few large steps. A call that lowers
    /// the pressure wakes no connection.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::hyper::{Connections, Limits};
    ///
    /// let limits = Limits::new()
    ///     .idle(Duration::from_secs(60))
    ///     .min_idle(Duration::from_secs(10));
    /// let connections = Connections::new(limits);
    /// let (open, allowed) = (900.0, 1_000.0);
    /// connections.set_pressure((open / allowed - 0.8) / 0.2); // The idle limit is 35 s now.
    /// ```
    pub fn set_pressure(&self, pressure: f64) {
        self.shared.set_pressure(pressure);
    }

    /// Returns how many connections are open, and how many have ended for each reason.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::hyper::{Connections, Limits};
    ///
    /// let connections = Connections::new(Limits::new());
    /// let guards = [(); 3].map(|()| connections.open().unwrap());
    /// assert_eq!(connections.counts().open(), 3);
    /// ```
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections")
            .field("limits", &self.shared.limits)
            .field("counts", &self.counts())
            .finish()
    }
}

/// The error of [`Connections::open`](super::Connections::open).
///
/// # Examples
///
/// ```
/// use tokio_wheel_util::hyper::{Connections, Limits};
///
/// let connections = Connections::new(Limits::new().max_connections(1));
/// let _first = connections.open().unwrap();
/// let error = connections.open().unwrap_err();
/// assert_eq!(error.to_string(), "cannot open a connection: at most 1 connections may be open, 1 are open");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// The number of open connections has reached
    /// [`Limits::max_connections`](super::Limits::max_connections).
    #[non_exhaustive]
    Full {
        /// The number of open connections.
        open: usize,
        /// The largest number of connections that may be open.
        limit: usize,
    },
    /// [`Connections::shutdown`](super::Connections::shutdown) has begun.
    Shutdown,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { open, limit } => {
                write!(
                    f,
                    "cannot open a connection: at most {limit} connections may be open, {open} are open"
                )
            }
            Self::Shutdown => f.write_str("cannot open a connection: the server is shutting down"),
        }
    }
}

impl Error for OpenError {}
