//! One tick of the wheels, over all shards: what the reaper and a shed do again and again.
//!
//! A *round* takes the keys that are due up to one tick out of every shard. It visits only shards that publish that
//! tick or an earlier one. No key of the set is due before that tick. So keys come out in the order of their effective
//! deadlines, whatever shard they are in (`oracle::keys_come_out_as_in_the_model`).
//!
//! Entries [behind](super::behind) a shed come first.

use super::{
    core::Core,
    shard::{Reached, Shard},
};
use crate::wheel::Tick;

/// Steps under one hold of a shard's lock.
const BATCH: usize = 64;

/// A round that has come to some shard.
#[derive(Clone, Copy)]
pub(super) struct Round {
    /// The tick, in the time of the wheels.
    until: Tick,
    /// The lowest number that the shard may have that comes next. The shards before it have no key
    /// that is due up to that tick.
    next_shard: usize,
}

impl Round {
    pub(super) fn new(until: Tick) -> Self {
        let next_shard = 0;
        Self { until, next_shard }
    }

    /// A round that has ended.
    pub(super) fn ended() -> Self {
        Self {
            until: Tick(0),
            next_shard: usize::MAX,
        }
    }

    /// Goes on until a key is due, the round ends, or no step is left.
    pub(super) fn work<K>(&mut self, core: &Core<K>, steps: &mut usize) -> Option<K> {
        while *steps > 0 {
            if let Some((tick, digest)) = core.behind.take(self.until) {
                *steps -= 1;
                let expire = |shard: &Shard<K>| shard.expire_behind(&core.pace, digest, self.until);
                let reached = core.shards.with(digest, expire);
                if !matches!(reached, Reached::Nothing) {
                    // Another entry may have the same tick and digest.
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
