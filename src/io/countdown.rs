//! A limit on how long an operation may wait.

use std::{cell::LazyCell, time::Duration};

use tokio::time::Instant;

use crate::driver::clock::saturating_add;

/// The current time, read when it is first used.
pub(super) type Now = LazyCell<Instant>;

/// Counts from when an operation begins to wait, or from the latest restart.
#[derive(Debug, Default)]
pub(super) struct Countdown {
    pub(super) limit: Option<Duration>,
    /// When the limit is reached, while an operation waits.
    due: Option<Instant>,
}

impl Countdown {
    /// Begins to count when an operation is next found to wait.
    pub(super) fn new(limit: Option<Duration>) -> Self {
        Self { limit, due: None }
    }

    /// An operation waits: when the limit is reached.
    #[inline]
    pub(super) fn wait(&mut self, now: &Now) -> Option<Instant> {
        let limit = self.limit?;
        Some(*(self.due).get_or_insert_with(|| saturating_add(**now, limit)))
    }

    /// No operation waits any more.
    #[inline]
    pub(super) fn stop(&mut self) {
        self.due = None;
    }

    /// If an operation waits, it has its full time again.
    #[inline]
    pub(super) fn restart(&mut self, now: &Now) {
        if self.due.take().is_some() {
            self.wait(now);
        }
    }

    /// The limit, if it is reached at `due`.
    pub(super) fn reached_at(&self, due: Instant) -> Option<Duration> {
        self.limit.filter(|_| self.due == Some(due))
    }
}
