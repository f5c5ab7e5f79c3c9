//! How many connections are open, and how the others have ended.

use std::sync::atomic::{AtomicU64, Ordering};

use super::ended::Reason;

/// Counts of a server's connections, read by
/// [`Connections::counts`](super::Connections::counts).
///
/// All but [`open`](Self::open) only grow. They are read one after the other: while connections end, their
/// sum is of slightly different times.
///
/// # Examples
///
/// ```
/// use tokio_wheel::hyper::{Connections, Limits};
///
/// let connections = Connections::new(Limits::new());
/// let first = connections.open();
/// assert_eq!(connections.counts().open(), 1);
/// drop(first);
/// assert_eq!((connections.counts().open(), connections.counts().dropped()), (0, 1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    pub fn open(&self) -> u64 {
        self.open
    }

    /// Returns how many have ended for [`Reason::Closed`].
    pub fn closed(&self) -> u64 {
        self.closed
    }

    /// Returns how many have ended for [`Reason::Idle`].
    pub fn idle(&self) -> u64 {
        self.idle
    }

    /// Returns how many have ended for [`Reason::MaxAge`].
    pub fn max_age(&self) -> u64 {
        self.max_age
    }

    /// Returns how many have ended for [`Reason::Shutdown`].
    pub fn shutdown(&self) -> u64 {
        self.shutdown
    }

    /// Returns how many lifetimes and drives were dropped before their connection had ended.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns how many were [cut](super::Ended::is_cut). Each of them also counts for its reason.
    pub fn cut(&self) -> u64 {
        self.cut
    }
}

/// What [`Counts`] are read from.
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
    /// Counts an end: its reason, and whether the connection was cut; `None` if it was dropped.
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
