//! The limit on the entries of a timer.
//!
//! The count is kept only where a limit is set: it is a cache line that all shards write to. A
//! shard counts an entry under its lock, as it goes in and as it comes out, so that the count is
//! that of the entries whenever no lock is held, whatever cancelling and firing race
//! (`tests/schedule/accounting.rs`; models: `loom_tests::registrations_race_at_the_limit` and
//! `cancel_races_fire_at_the_limit`).

use crate::ground::sync::{AtomicUsize, Ordering};

/// A limit, and the entries of all shards that count towards it.
#[repr(align(128))]
pub(crate) struct Limit {
    max: usize,
    pending: AtomicUsize,
}

impl Limit {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            pending: AtomicUsize::new(0),
        }
    }

    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// Counts an entry, whether or not the limit is reached.
    pub(crate) fn add(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an entry, unless the limit is reached, and says whether it did.
    pub(crate) fn try_add(&self) -> bool {
        let one_more = |pending| (pending < self.max).then_some(pending + 1);
        self.pending
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .is_ok()
    }

    /// Counts entries that came out.
    pub(crate) fn subtract(&self, entries: usize) {
        self.pending.fetch_sub(entries, Ordering::Relaxed);
    }
}
