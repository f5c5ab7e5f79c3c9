//! The handle of all connections of a server.

use std::{fmt, sync::Arc};

use super::{
    counts::Counts, error::OpenError, lifetime::Lifetime, limits::Limits, shared::Shared,
    slot::Slot,
};

/// The connections of a server, which have [`Limits`] in common. Clones are of the same server.
///
/// The first [`Drive`](super::Drive) that is polled starts a timer for all of them on its runtime. If that runtime shuts
/// down, the others go on with a timer on one of their own. If it lives and is not run, no limit holds on any
/// runtime. So make a `Connections` for each runtime that serves, as in a server of a runtime per core.
///
/// Dropping all clones ends no connection: the limits go on to hold.
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
    /// Makes the handle of a server that has no connection yet. This needs no runtime.
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
    #[track_caller]
    pub fn new(limits: Limits) -> Self {
        let shared = Arc::new(Shared::new(limits));
        Self { shared }
    }

    /// Opens a connection: its age and its idle time count from now.
    ///
    /// It counts as open until its [`Lifetime`] is dropped, or the [`Drive`](super::Drive) that this becomes.
    ///
    /// # Errors
    ///
    /// Returns an error if as many connections are open as
    /// [`max_connections`](Limits::max_connections) allows, or if [`shutdown`](Self::shutdown) was called.
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

    /// Shuts down all connections, and waits until the last one has ended.
    ///
    /// From now on, [`open`](Self::open) refuses. The graceful shutdown of all connections begins at once.
    /// Connections whose graceful shutdown has begun before keep the rest of their grace. If all connections
    /// are driven, the last one ends by the end of the [`grace`](Limits::grace).
    ///
    /// This method may be called more than once, and at the same time.
    ///
    /// The shutdown begins when the future is first polled.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after it was polled, the shutdown goes on. Another call waits for its end.
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

    /// Sets the pressure, from 0 to 1, which shrinks the idle limit of all connections.
    ///
    /// The idle limit is [`idle`](Limits::idle) at 0, which is the default, and [`min_idle`](Limits::min_idle)
    /// at 1. In between it is in proportion. A number below 0 counts as 0, and so does NaN. A number above 1
    /// counts as 1.
    ///
    /// Use it where file descriptors or memory run short. The connections that were idle for longest end first,
    /// and no request is lost.
    ///
    /// The new limit holds at once, for connections that are idle already too. The call costs the same with any
    /// number of connections. A rise then wakes the connections whose next deadline is within the rise. So call
    /// it where the pressure is measured, about once a second.
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

    /// Counts the connections that are open, and those that have ended.
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
