//! Entries that a shed has overtaken: their wheels cannot fire them in time.
//!
//! [`Reaper::shed`](super::Reaper::shed) advances wheels to ticks that the wheels' time has not reached. A new entry may
//! have a tick that its wheel has passed: it is *behind*. The wheel has it in the slot of its `now`, which comes too late. So
//! the set keeps a pair of the entry's tick and its digest here. A [round](super::round) takes the pairs out that it has
//! reached, and looks for the entries in the shards.
//!
//! # Invariants
//!
//! * Each entry whose tick is before the `now` of its wheel has a pair here. The thread that registers or resets the entry adds
//!   the pair once it has released the shard. Then it lowers the armed tick. Model: `insertion_behind_a_shed_races_wait`.
//! * A round takes a pair out *before* it looks for the entry. So a thread that adds the same pair for a new entry does so
//!   after the round took the old pair out, or the round finds the new entry. Model:
//!   `insertion_behind_a_shed_races_a_round`.
//! * A pair may have no entry, because the key was removed, or came out. The round that reaches the pair forgets it.
//!   A key that is touched again and again adds no second pair while its entry is behind, unless its deadline becomes
//!   earlier than the pair's (`touches_add_no_pair_while_one_is_there`).
//!
//! No other lock is taken under the lock, and no user code runs under it. Threads that look only at the earliest tick take no
//! lock. An operation allocates or frees a few nodes of a B-tree.

use std::collections::BTreeSet;

use super::digest::Digest;
use crate::{
    ground::sync::{AtomicU64, Mutex, Ordering},
    wheel::Tick,
};

/// On cache lines of its own: every touch reads the clock beside it.
#[repr(align(128))]
pub(super) struct Behind {
    /// The earliest tick in `pairs`. Written under the lock.
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

    /// Returns the earliest tick, without a lock.
    pub(super) fn next(&self) -> Tick {
        Tick(self.next.load(Ordering::Relaxed))
    }

    pub(super) fn add(&self, tick: Tick, digest: Digest) {
        let mut pairs = self.pairs.lock();
        pairs.insert((tick, digest));
        self.publish(&pairs);
    }

    /// Takes the earliest pair out, if its tick is `until` or before.
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

    /// A server gives a connection a short time for each request, and a longer one between two.
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
        // Another one, whose key goes: both are forgotten.
        set.touch_with_timeout(&10, short);
        set.remove(&10);
        assert_eq!(count(), 2);
        assert!(reaper.reap().await.is_some());
        assert_eq!((count(), behind.next()), (0, Tick::NEVER));
    }
}
