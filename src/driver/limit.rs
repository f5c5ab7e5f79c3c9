//! The limit on the number of entries of a timer.
//!
//! All shards write to the cache line of the count, which is expensive. So only a timer with a limit counts
//! its entries. A shard adds 1 for each entry that it registers, and subtracts 1 for each entry that it
//! removes. The shard changes the count under the lock of the shard. So the count is exact whenever no shard
//! is locked. Test: `tests/schedule/accounting.rs`. Models: `loom_tests::registrations_race_at_the_limit` and
//! `cancel_races_fire_at_the_limit`.

use crate::ground::sync::{AtomicUsize, Ordering};

/// Whether the timer's limit can refuse a registration.
///
/// A timer with a limit counts all its entries, including entries that the limit cannot refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Limited,
    Unlimited,
}

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

    /// Adds one entry to the count. If the limit is reached and `admission` is limited, does not add the entry,
    /// and returns the limit as an error.
    pub(crate) fn add(&self, admission: Admission) -> Result<(), usize> {
        if admission == Admission::Unlimited {
            self.pending.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let one_more = |pending| (pending < self.max).then_some(pending + 1);
        let added = (self.pending).fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        added.map(drop).map_err(|_| self.max)
    }

    /// Subtracts `entries` from the count, after so many entries have left a wheel.
    pub(crate) fn subtract(&self, entries: usize) {
        self.pending.fetch_sub(entries, Ordering::Relaxed);
    }
}
