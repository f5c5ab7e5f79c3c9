//! The entries whose tick a shed has passed, so that their wheels cannot fire them in time.
//!
//! [`Reaper::shed`](super::Reaper::shed) advances wheels beyond the wheels' time. A new entry may
//! have a tick that its wheel has passed: the entry is *behind*. The wheel stores it in its current
//! slot, which fires too late. So the set also stores a pair of the entry's tick and its digest in
//! this file's B-tree. A [round](super::round) removes the pairs that it reaches, and looks for
//! their entries in the shards.
//!
//! # Invariants
//!
//! * Each entry whose tick is before the `now` of its wheel has a pair. The thread that registers
//!   or resets the entry releases the shard, then adds the pair, then lowers the armed tick. Model:
//!   `insertion_behind_a_shed_races_wait`.
//! * A round removes a pair *before* it looks for the entry. Suppose a thread adds an equal pair
//!   for a new entry. Either the pair stays, because the round removed the old pair first, or the
//!   round finds the new entry. Model: `insertion_behind_a_shed_races_a_round`.
//! * A pair may have no entry, because its key was removed or returned. The round that reaches the
//!   pair discards it.
//! * While an entry is behind, touches add a second pair only if the deadline becomes earlier than
//!   the first pair's tick (`touches_add_no_pair_while_one_is_there`).
//!
//! No thread takes another lock or runs user code under this lock. A thread that reads only the
//! earliest tick takes no lock. An operation allocates or frees a few nodes of the B-tree.

use std::collections::BTreeSet;

use super::digest::Digest;
use crate::{
    ground::sync::{AtomicU64, Mutex, Ordering},
    wheel::Tick,
};

/// The pairs of all entries that are behind.
///
/// It has its own cache lines, because every touch reads the clock next to it.
#[repr(align(128))]
pub(super) struct Behind {
    /// The earliest tick in `pairs`. Threads write it only under the lock.
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

    /// Returns the earliest tick. Takes no lock.
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
    use std::time::Duration;

    use super::{super::IdleSet, *};

    impl Behind {
        pub(in super::super) fn has(&self, tick: Tick, digest: Digest) -> bool {
            self.pairs.lock().contains(&(tick, digest))
        }
    }

    /// A server switches a connection between a short timeout for requests and a long timeout
    /// between them.
    #[tokio::test(start_paused = true)]
    async fn touches_add_no_pair_while_one_is_there() {
        let (long, short) = (Duration::from_secs(60), Duration::from_secs(5));
        let (set, mut reaper) = IdleSet::new(long);
        for key in 0..10 {
            set.touch(&key);
        }
        assert!(reaper.shed(1).next().await.is_some());
        let behind = &set.handle.core.behind;
        let count = || behind.pairs.lock().len();
        for _ in 0..100 {
            set.touch_with_timeout(&9, short);
            tokio::time::advance(Duration::from_millis(1)).await;
            set.touch_with_timeout(&9, long);
            assert_eq!(count(), 1);
        }
        // The round discards the pair of a removed key as well.
        set.touch_with_timeout(&10, short);
        set.remove(&10);
        assert_eq!(count(), 2);
        assert!(reaper.reap().await.is_some());
        assert_eq!((count(), behind.next()), (0, Tick::NEVER));
    }
}
