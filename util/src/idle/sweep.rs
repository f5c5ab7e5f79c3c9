//! A sweep visits the shards in turn, and removes the keys that are due at one tick or earlier. The
//! reaper and a shed work sweep by sweep.
//!
//! Invariants:
//!
//! * No key of the set is due before the tick of the sweep. So the keys of all shards leave the set
//!   in the order of their deadlines (`oracle::keys_come_out_as_in_the_model`).
//! * A sweep visits only the shards that publish its tick or an earlier tick
//!   (`very_many_shards_are_visited_in_turns`).

use super::shards::Shards;
use bounded_wheel::Tick;

/// The maximal number of steps that a sweep makes before it releases a shard's lock.
const BATCH: usize = 64;

/// The progress of a sweep.
///
/// The default is a sweep to tick 0, which has passed.
#[derive(Clone, Copy, Default)]
pub(super) struct Sweep {
    /// The tick of the sweep.
    until: Tick,
    /// The number of the next shard that the sweep visits.
    next_shard: usize,
}

impl Sweep {
    pub(super) fn to(until: Tick) -> Self {
        let next_shard = 0;
        Self { until, next_shard }
    }

    /// Removes and returns a due key. Returns `None` if the sweep has ended, or if no step is left.
    ///
    /// The method subtracts the number of steps that it makes from `steps`.
    pub(super) fn next_key<K>(&mut self, shards: &Shards<K>, steps: &mut usize) -> Option<K> {
        while *steps > 0 {
            self.next_shard = shards.next_shard(self.next_shard, self.until)?;
            *steps -= 1;
            let batch = BATCH.min(*steps);
            let mut left = batch;
            let mut keys = shards.lock_shard(shards.shard(self.next_shard)?)?;
            let due = keys.expire(self.until, &mut left);
            keys.unlock_and_free();
            *steps -= batch - left;
            if due.is_some() {
                return due;
            }
            if left > 0 {
                self.next_shard += 1;
            }
        }
        None
    }
}
