//! The shards of a set. The number of shards grows with the number of keys and with contention.
//!
//! A set begins with one shard, so that a small set takes little memory. A shard *splits* when it
//! has many keys, or when threads often wait for its lock. Half of its keys then move to a new
//! shard. A [`Part`] describes which keys belong to a shard. Shards never
//! merge.
//!
//! | Step | Split of shard `n`, whose part has `d` bits                              | Lock of `n` |
//! |------|--------------------------------------------------------------------------|-------------|
//! | 1    | allocate the new shard, with memory for all keys that may move           | free        |
//! | 2    | check that the shard must still split, and that it is open               | held        |
//! | 3    | move the keys whose numbers have bit `d` set, and narrow the part of `n` | held        |
//! | 4    | publish the new shard as shard `n + 2^d`                                 | held        |
//!
//! # How a thread finds the shard of a key
//!
//! Each key has a number: see [`digest`](super::digest). A thread takes the lowest bits of this
//! number as the index of a shard. If that shard does not exist yet, the thread clears the highest
//! set bit of the index and looks again. When the thread locks the shard that it has found, that
//! shard may have split already. So every operation checks under the lock that the key still
//! belongs to the shard. If the key belongs to another shard, the operation looks for that shard.
//! The operation then sees the new shard, because the split published the new shard under the lock.
//! Model: `split_races_touch`.
//!
//! # How a thread visits all shards
//!
//! [`Shards::iter`] visits the shards in the order of their numbers. It looks for a shard only
//! after it has visited all shards with lower numbers. A split moves keys only to a shard with a
//! higher number. So a key that the thread has not visited yet never moves to a shard that the
//! thread has passed.
//!
//! Invariants, before, during and after a split:
//!
//! * The reaper misses no key, neither in a round nor when it looks for the next expiration
//!   (`split_races_wait`).
//! * After the set is closed, no shard is open, because a closed shard does not split
//!   (`split_races_close`).
//! * [`Shards::len`] is 0 only if there are no keys (`split_races_wait`).
//! * Each shard keeps the invariants of [`shard`](super::shard) (`shards_keep_their_invariants`).

use std::iter;

use super::{
    digest::{Digest, Part},
    shard::{Retry, Shard},
};
use crate::{ground::sync::OnceLock, wheel::Tick};

pub(super) struct Shards<K> {
    /// The maximal number of shards, a power of two.
    most: usize,
    /// The other shards. The index of a shard is its number. The first split allocates the slots.
    /// Slot 0 stays empty.
    others: OnceLock<Box<[Slot<K>]>>,
    /// Shard 0, which always exists.
    first: Shard<K>,
}

/// A slot for a shard.
type Slot<K> = OnceLock<Box<Shard<K>>>;

impl<K> Shards<K> {
    /// Creates one shard, which can split into up to `most` shards. `most` must be a power of two.
    pub(super) fn new(now: Tick, most: usize) -> Self {
        Self {
            most,
            others: OnceLock::new(),
            first: Shard::new(now, Part::whole(most)),
        }
    }

    /// Calls `operation` with the shard of a key. Repeats the call until `operation` succeeds.
    #[inline]
    pub(super) fn with<R>(
        &self,
        digest: Digest,
        mut operation: impl FnMut(&Shard<K>) -> Result<R, Retry>,
    ) -> R {
        loop {
            let shard = self.find(digest);
            match operation(shard) {
                Ok(done) => return done,
                Err(Retry::Elsewhere) => {}
                Err(Retry::Crowded) => self.split(shard),
            }
        }
    }

    /// Returns the shard of a key. This shard may already have split when the caller locks it.
    #[inline]
    fn find(&self, digest: Digest) -> &Shard<K> {
        let Some(others) = self.others.get() else {
            return &self.first;
        };
        let number = digest.number() as usize & (others.len() - 1);
        match others[number].get() {
            Some(shard) => shard,
            None => self.find_lower(others, number),
        }
    }

    /// Returns the shard that has the keys of shard `number` until shard `number` exists.
    #[inline(never)]
    fn find_lower<'a>(&'a self, others: &'a [Slot<K>], mut number: usize) -> &'a Shard<K> {
        while number > 0 {
            number ^= 1 << number.ilog2();
            if let Some(shard) = others[number].get() {
                return shard;
            }
        }
        &self.first
    }

    #[cold]
    fn split(&self, shard: &Shard<K>) {
        let others = loop {
            match self.others.get() {
                Some(others) => break others,
                // `set` fails if another thread has set `others` in the meantime.
                None => _ = self.others.set(self.no_others()),
            }
        };
        shard.split(Box::new(Shard::half()), |number, half| {
            let published = others[number].set(half);
            debug_assert!(published.is_ok(), "each part is published only once");
        });
    }

    fn no_others(&self) -> Box<[Slot<K>]> {
        iter::repeat_with(OnceLock::new).take(self.most).collect()
    }

    /// Returns the first shard whose index is `from` or higher, and the index of this shard.
    pub(super) fn next(&self, from: usize) -> Option<(usize, &Shard<K>)> {
        if from == 0 {
            return Some((0, &self.first));
        }
        let others = self.others.get()?;
        (from..others.len()).find_map(|number| Some((number, &**others[number].get()?)))
    }

    /// Iterates over the shards: see the [module](self).
    pub(super) fn iter(&self) -> impl Iterator<Item = &Shard<K>> {
        let mut from = 0;
        iter::from_fn(move || {
            let (number, shard) = self.next(from)?;
            from = number + 1;
            Some(shard)
        })
    }

    /// Returns the number of keys. Locks each shard in turn.
    pub(super) fn len(&self) -> usize {
        loop {
            let shards = self.iter().count();
            let len = self.iter().map(Shard::len).sum();
            // If a shard has split in the meantime, the sum may count some keys twice.
            if self.iter().count() == shards {
                return len;
            }
        }
    }
}
