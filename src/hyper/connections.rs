//! The handle for all connections of a server.

use std::{fmt, sync::Arc};

use super::{
    counts::Counts, error::OpenError, lifetime::Lifetime, limits::Limits, shared::Shared,
    slot::Slot,
};

/// All connections of a server, which share their [`Limits`].
///
/// A clone is another handle for the same server. Dropping all handles closes no connection, and the limits stay in
/// force.
///
/// # Runtimes
///
/// All connections share a timer. The first [`Drive`](super::Drive) that is polled starts it on its runtime.
///
/// * If that runtime shuts down, connections on other runtimes start a timer on one of those runtimes.
/// * If that runtime exists but does not run, no limit is kept on any runtime.
///
/// So create one `Connections` for each runtime, for example in a server with a runtime per core.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{hyper::{Connections, Limits}, Duration};
///
/// let connections = Connections::new(Limits::new().idle(Duration::from_secs(60)));
/// let lifetime = connections.open().unwrap();
/// assert_eq!(connections.counts().open(), 1);
/// ```
#[derive(Clone)]
pub struct Connections {
    pub(super) shared: Arc<Shared>,
}

impl Connections {
    /// Creates the handle for a server without connections. This needs no runtime.
    ///
    /// # Panics
    ///
    /// Panics if [`min_idle`](Limits::min_idle) is longer than [`idle`](Limits::idle).
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::hyper::{Connections, Limits};
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

    /// Opens a connection. Its age and its idle time count from now.
    ///
    /// The connection counts as open until its [`Lifetime`] is dropped. [`Lifetime::drive`] turns the lifetime into a
    /// [`Drive`](super::Drive). The connection then counts as open until the `Drive` has ended or is dropped.
    ///
    /// # Errors
    ///
    /// * Returns [`OpenError::Full`] if [`max_connections`](Limits::max_connections) connections are open.
    /// * Returns [`OpenError::ShutDown`] if [`shutdown`](Self::shutdown) has begun.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::hyper::{Connections, Limits, OpenError};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let connections = Connections::new(Limits::new());
    /// connections.shutdown().await;
    /// assert_eq!(connections.open().unwrap_err(), OpenError::ShutDown);
    /// # }
    /// ```
    pub fn open(&self) -> Result<Lifetime, OpenError> {
        Slot::open(&self.shared).map(Lifetime::new)
    }

    /// Shuts down all connections and waits until the last connection has ended.
    ///
    /// The shutdown begins when the future is first polled:
    ///
    /// * [`open`](Self::open) fails from then on.
    /// * The graceful shutdown of every connection begins. A connection whose graceful shutdown began earlier keeps
    ///   the rest of its grace.
    /// * All connections have ended when the [`grace`](Limits::grace) is over, if each of them is driven.
    ///
    /// Any number of tasks may call this method, at the same time or later.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future after its first poll does not stop the shutdown. A second call waits for the end of the
    /// same shutdown. Dropping the future before its first poll has no effect.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::hyper::{Connections, Limits};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let connections = Connections::new(Limits::new());
    /// let lifetime = connections.open().unwrap();
    /// let waiting = tokio::spawn({
    ///     let connections = connections.clone();
    ///     async move { connections.shutdown().await }
    /// });
    /// tokio::task::yield_now().await;
    /// assert!(!waiting.is_finished());
    /// drop(lifetime);
    /// waiting.await.unwrap();
    /// # }
    /// ```
    pub async fn shutdown(&self) {
        self.shared.shut_down();
        self.shared.all_ended().await;
    }

    /// Sets the pressure, from 0 to 1, which shortens the idle limit of all connections.
    ///
    /// Use it when file descriptors or memory run short. The connections that have been idle for the longest time end
    /// first, and no request is lost.
    ///
    /// | pressure | idle limit |
    /// |---|---|
    /// | 0, the default | [`idle`](Limits::idle) |
    /// | between 0 and 1 | in proportion between `idle` and `min_idle` |
    /// | 1 | [`min_idle`](Limits::min_idle) |
    ///
    /// A number below 0 and NaN count as 0. A number above 1 counts as 1.
    ///
    /// The new limit holds at once, also for connections that are idle already.
    ///
    /// The call costs the same with any number of connections. If it shortens the limit by 10 s, it wakes each
    /// connection whose next deadline is within 10 s. So call it about once a second, not more often.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{hyper::{Connections, Limits}, Duration};
    ///
    /// let limits = Limits::new()
    ///     .idle(Duration::from_secs(60))
    ///     .min_idle(Duration::from_secs(10));
    /// let connections = Connections::new(limits);
    /// let (open, allowed) = (900.0, 1_000.0);
    /// connections.set_pressure((open / allowed - 0.8) / 0.2); // 35 s
    /// ```
    pub fn set_pressure(&self, pressure: f64) {
        self.shared.set_pressure(pressure);
    }

    /// Returns how many connections are open, and how many have ended for each reason.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::hyper::{Connections, Limits};
    ///
    /// let connections = Connections::new(Limits::new());
    /// let lifetimes = [(); 3].map(|()| connections.open().unwrap());
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
