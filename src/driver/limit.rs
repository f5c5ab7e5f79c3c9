//! The limit on the number of entries of a timer.
//!
//! Only a timer with a limit counts its entries, because all shards write to the cache line of the count.
//! A shard counts an entry under its lock, both when it registers the entry and when the entry leaves.
//! So the count is exact whenever no lock is held. Test: `tests/schedule/accounting.rs`. Models:
//! `loom_tests::registrations_race_at_the_limit` and `cancel_races_fire_at_the_limit`.

use crate::ground::sync::{AtomicUsize, Ordering};

/// A limit, and the number of entries in all shards that count towards it.
#[repr(align(128))]
pub(crate) struct Limit {
    max: usize,
    /// The number of entries. Each shard changes it under its own lock.
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

    /// Counts an entry, even if the limit is reached.
    pub(crate) fn add(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an entry, unless the limit is reached. Returns whether it counted the entry.
    pub(crate) fn try_add(&self) -> bool {
        let one_more = |pending| (pending < self.max).then_some(pending + 1);
        self.pending
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .is_ok()
    }

    /// Discounts entries that have left a wheel.
    pub(crate) fn subtract(&self, entries: usize) {
        self.pending.fetch_sub(entries, Ordering::Relaxed);
    }
}
