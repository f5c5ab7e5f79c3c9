//! The handle of all connections of a server.

use std::{fmt, sync::Arc};

use super::{
    counts::Counts, error::OpenError, lifetime::Lifetime, limits::Limits, shared::Shared,
    slot::Slot,
};

/// The connections of a server, which have [`Limits`] in common. Clones are of the same server.
///
/// The first [`Drive`](super::Drive) that is polled starts a timer for all of them on its runtime. Make a `Connections`
/// for each runtime that serves, as in a server of a runtime per core.
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

    /// Shuts down: opens no connection any more, begins the graceful shutdown of all that are open, and waits until the last
    /// of them has ended.
    ///
    /// It takes no longer than [`grace`](Limits::grace), if all connections are driven. Those that are shut down already go
    /// on with what is left of their grace. It may be called more than once, and at the same time.
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

    /// Sets the pressure, from 0 to 1, which is 0 at first: the idle limit is
    /// [`idle`](Limits::idle) at 0, [`min_idle`](Limits::min_idle) at 1, and in proportion in between.
    ///
    /// A number below 0, or that is none, counts as 0; one above 1 counts as 1. It is for servers whose file descriptors or
    /// memory run short: the connections that are idle for longest go first, and no request is lost.
    ///
    /// It has effect on all connections at once, and costs the same with any number of them: they look themselves whether their
    /// time has come. Call it from where the pressure is measured, once in a second or so. Each rise of the pressure wakes the
    /// connections whose deadline is nearer than the rise, those with requests in flight included.
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
