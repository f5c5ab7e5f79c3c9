//! Counters of open and ended connections.

use std::sync::atomic::{AtomicU64, Ordering};

use super::ended::Reason;

/// The numbers of a server's open and ended connections.
///
/// [`Connections::counts`](super::Connections::counts) returns these numbers. All numbers except
/// [`open`](Self::open) only grow. The call reads the numbers one after the other. A connection that ends
/// during the call may be counted twice: as open and as ended.
///
/// # Examples
///
/// ```
/// use tokio_wheel_util::hyper::{Connections, Limits};
///
/// let connections = Connections::new(Limits::new());
/// let first = connections.open();
/// assert_eq!(connections.counts().open(), 1);
/// drop(first);
/// assert_eq!((connections.counts().open(), connections.counts().dropped()), (0, 1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    open: u64,
    closed: u64,
    idle: u64,
    max_age: u64,
    shutdown: u64,
    dropped: u64,
    cut: u64,
}

impl Counts {
    /// Returns how many connections are open now.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.open
    }

    /// Returns how many connections have ended with [`Reason::Closed`].
    #[must_use]
    pub fn closed(&self) -> u64 {
        self.closed
    }

    /// Returns how many connections have ended with [`Reason::Idle`].
    #[must_use]
    pub fn idle(&self) -> u64 {
        self.idle
    }

    /// Returns how many connections have ended with [`Reason::MaxAge`].
    #[must_use]
    pub fn max_age(&self) -> u64 {
        self.max_age
    }

    /// Returns how many connections have ended with [`Reason::Shutdown`].
    #[must_use]
    pub fn shutdown(&self) -> u64 {
        self.shutdown
    }

    /// Returns how many connections were dropped before they had ended.
    ///
    /// The number includes each [`Lifetime`](super::Lifetime) that was dropped and never driven. It also
    /// includes each [`Drive`](super::Drive) that was dropped before it was ready.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns how many connections were [cut](super::Ended::is_cut).
    ///
    /// Each cut connection is also counted by [`idle`](Self::idle), [`max_age`](Self::max_age) or
    /// [`shutdown`](Self::shutdown).
    #[must_use]
    pub fn cut(&self) -> u64 {
        self.cut
    }
}

/// The counters from which [`Counts`] are read.
#[derive(Default)]
pub(super) struct Totals {
    closed: AtomicU64,
    idle: AtomicU64,
    max_age: AtomicU64,
    shutdown: AtomicU64,
    dropped: AtomicU64,
    cut: AtomicU64,
}

impl Totals {
    /// Counts the end of a connection. `end` holds the reason, and whether the connection was cut. If the
    /// connection was dropped before it had ended, `end` is `None`.
    pub(super) fn count(&self, end: Option<(Reason, bool)>) {
        let total = match end {
            Some((Reason::Closed, _)) => &self.closed,
            Some((Reason::Idle, _)) => &self.idle,
            Some((Reason::MaxAge, _)) => &self.max_age,
            Some((Reason::Shutdown, _)) => &self.shutdown,
            None => &self.dropped,
        };
        total.fetch_add(1, Ordering::Relaxed);
        if let Some((_, true)) = end {
            self.cut.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self, open: u64) -> Counts {
        let read = |total: &AtomicU64| total.load(Ordering::Relaxed);
        Counts {
            open,
            closed: read(&self.closed),
            idle: read(&self.idle),
            max_age: read(&self.max_age),
            shutdown: read(&self.shutdown),
            dropped: read(&self.dropped),
            cut: read(&self.cut),
        }
    }
}
