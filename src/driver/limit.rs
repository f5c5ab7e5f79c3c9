//! The limit on the number of entries of a timer.
//!
//! All shards write to the cache line of the count, which is expensive. So only a timer with a limit counts
//! its entries. A shard adds 1 for each entry that it registers, and subtracts 1 for each entry that it
//! removes. The shard changes the count under the lock of the shard. So the count is exact whenever no shard
//! is locked. Test: `tests/schedule/accounting.rs`. Models: `loom_tests::registrations_race_at_the_limit` and
//! `cancel_races_fire_at_the_limit`.

use crate::ground::sync::{AtomicUsize, Ordering};

/// The limit of a timer, and the number of entries in all its shards.
#[repr(align(128))]
pub(crate) struct Limit {
    max: usize,
    /// The number of entries in all shards. Each shard changes this number under its own lock.
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

    /// Adds one entry to the count, even if the limit is reached.
    pub(crate) fn add(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds one entry to the count, unless the limit is reached. Returns whether it added the entry.
    pub(crate) fn try_add(&self) -> bool {
        let one_more = |pending| (pending < self.max).then_some(pending + 1);
        self.pending
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .is_ok()
    }

    /// Subtracts `entries` from the count, after so many entries have left a wheel.
    pub(crate) fn subtract(&self, entries: usize) {
        self.pending.fetch_sub(entries, Ordering::Relaxed);
    }
}
