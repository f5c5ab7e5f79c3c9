//! The entries at ticks that a shed has passed. Their wheels cannot fire these entries in time.
//!
//! [`Reaper::shed`](super::Reaper::shed) advances wheels beyond the wheels' time. So a wheel may
//! already have passed the tick of a new entry. Such an entry is *behind*. The wheel stores the
//! entry in the wheel's current slot, and this slot fires too late. So the set also stores a pair
//! in a B-tree. The pair consists of the tick and the digest of the entry. When a
//! [round](super::round) reaches a pair, it removes the pair and looks for the entry in the shards.
//!
//! # Invariants
//!
//! * Each entry whose tick is before the `now` of its wheel has a pair. A thread registers or
//!   resets the entry, and releases the lock of the shard. Then it adds the pair. Then it lowers
//!   the armed tick. Model: `insertion_behind_a_shed_races_wait`.
//! * A round removes a pair *before* it looks for the entry. Suppose that another thread registers
//!   a new entry and then adds an equal pair. If the thread adds the pair after the removal, the
//!   pair stays. If the thread adds the pair before the removal, the round finds the new entry.
//!   Model: `insertion_behind_a_shed_races_a_round`.
//! * A pair may have no entry, because its key was removed or returned. The round that reaches the
//!   pair discards it.
//! * If an entry has a pair, a touch adds a second pair only if the second pair has an earlier tick
//!   (`touches_add_no_pair_while_one_is_there`).
//!
//! The B-tree has its own lock. A thread that holds this lock takes no other lock and runs no user
//! code. A thread that reads only the earliest tick takes no lock. Each operation allocates or
//! frees at most a few nodes of the B-tree.

use std::collections::BTreeSet;

use super::digest::Digest;
use crate::{
    ground::sync::{AtomicU64, Mutex, Ordering},
    wheel::Tick,
};

/// The pairs of all entries that are behind.
///
/// `Behind` has its own cache lines. Otherwise its changes would slow down touches, which read the
/// clock next to it.
#[repr(align(128))]
pub(super) struct Behind {
    /// The earliest tick in `pairs`. A thread writes this tick only while it holds the lock of
    /// `pairs`.
    next: AtomicU64,
    pairs: Mutex<BTreeSet<(Tick, Digest)>>,
}

impl Behind {
    pub(super) fn new() -> Self {
        Self {
            next: AtomicU64::new(Tick::NEVER.0),
            pairs: Mutex::new(BTreeSet::new()),
        }
    }

    /// Returns the earliest tick of all pairs, without the lock.
    pub(super) fn next(&self) -> Tick {
        Tick(self.next.load(Ordering::Relaxed))
    }

    pub(super) fn add(&self, tick: Tick, digest: Digest) {
        let mut pairs = self.pairs.lock();
        pairs.insert((tick, digest));
        self.publish(&pairs);
    }

    /// Removes and returns the earliest pair, if its tick is `until` or earlier.
    pub(super) fn take(&self, until: Tick) -> Option<(Tick, Digest)> {
        if self.next() > until {
            return None;
        }
        let mut pairs = self.pairs.lock();
        let pair = pairs.pop_first();
        self.publish(&pairs);
        pair
    }

    fn publish(&self, pairs: &BTreeSet<(Tick, Digest)>) {
        let next = pairs.first().map_or(Tick::NEVER, |(tick, _)| *tick);
        self.next.store(next.0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use super::*;

    impl Behind {
        pub(in super::super) fn has(&self, tick: Tick, digest: Digest) -> bool {
            self.pairs.lock().contains(&(tick, digest))
        }

        pub(in super::super) fn len(&self) -> usize {
            self.pairs.lock().len()
        }
    }
}
