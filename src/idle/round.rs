//! A round is one visit to all shards for one tick. The reaper and a shed work round by round.
//!
//! A round removes the keys that are due at the round's tick or earlier. It visits only the shards
//! that publish this tick or an earlier tick.
//!
//! Invariants:
//!
//! * No key of the set is due before the tick of the round. So the keys of all shards leave the set
//!   in the order of their effective deadlines (`oracle::keys_come_out_as_in_the_model`).
//! * A round handles the entries [behind](super::behind) a shed before it visits the shards.
//! * If the index of a shard is below `next_shard`, no key of the shard is due at the round's tick
//!   or earlier (`split_races_wait`).

use super::{
    core::Core,
    shard::{Reached, Shard},
};
use crate::wheel::Tick;

/// The maximal number of steps that a round makes before it releases a shard's lock.
const BATCH: usize = 64;

/// The progress of a round.
#[derive(Clone, Copy)]
pub(super) struct Round {
    /// The tick of the round, as a tick of the wheels.
    until: Tick,
    /// The index of the next shard that the round visits. If that shard does not exist, the round
    /// takes the next shard that exists.
    next_shard: usize,
}

impl Round {
    pub(super) fn new(until: Tick) -> Self {
        let next_shard = 0;
        Self { until, next_shard }
    }

    /// Returns a round that has ended.
    pub(super) fn ended() -> Self {
        Self {
            until: Tick(0),
            next_shard: usize::MAX,
        }
    }

    /// Continues the round until it finds a due key, the round ends, or no step is left. Removes
    /// and returns the due key.
    pub(super) fn work<K>(&mut self, core: &Core<K>, steps: &mut usize) -> Option<K> {
        while *steps > 0 {
            if let Some((tick, digest)) = core.behind.take(self.until) {
                *steps -= 1;
                let expire = |shard: &Shard<K>| shard.expire_behind(&core.pace, digest, self.until);
                let reached = core.shards.with(digest, expire);
                if !matches!(reached, Reached::Nothing) {
                    // Another entry may have the same tick and digest, so the round adds the pair
                    // again.
                    core.behind.add(tick, digest);
                }
                match reached {
                    Reached::Nothing | Reached::Touched(None) => {}
                    Reached::Touched(Some(later)) => core.behind.add(later, digest),
                    Reached::Due(key) => return Some(key),
                }
                continue;
            }
            let (number, shard) = core.shards.next(self.next_shard)?;
            if shard.next_expiration() > self.until {
                self.next_shard = number + 1;
                continue;
            }
            *steps -= 1;
            let mut batch = BATCH.min(*steps);
            *steps -= batch;
            let due = shard.expire(&core.pace, self.until, &mut batch);
            *steps += batch;
            if due.is_some() {
                return due;
            }
            if batch > 0 {
                self.next_shard = number + 1;
            }
        }
        None
    }
}
