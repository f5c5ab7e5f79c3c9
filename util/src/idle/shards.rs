//! The state that the handles and the reaper share. This file also defines how a handle wakes the
//! reaper.
//!
//! # The shards
//!
//! The number of shards is fixed. Some bits of a key's [digest](super::digest) select the shard. A shard exists
//! from the insertion of its first key, so that a small set takes little memory.
//!
//! | State of a slot | Meaning                       | Events that end the state                     |
//! |-----------------|-------------------------------|-----------------------------------------------|
//! | empty           | The shard has never had a key | An insertion allocates the shard, or a close  |
//! | shard           | The shard has its lock        | None. A close only closes the shard           |
//! | `None`          | The set is closed             | None                                          |
//!
//! A slot is a [`OnceLock`], so only one thread sets it. If an insertion and a close race, one of
//! them finds the value of the other. So no shard of a closed set is open, and no key stays in a
//! closed set. Models: `touch_races_touch`, `touch_races_close`.
//!
//! A close takes one lock after another. It first sets a flag, which each operation reads before it takes a lock. So after
//! a thread has seen that the set is closed, the set is closed for this thread. Model: `touches_race_close`.
//!
//! # The locks
//!
//! Each shard has a lock, and the reaper's waker has one. A thread holds at most one of these locks at a time.
//!
//! # How a handle wakes the reaper
//!
//! The reaper waits for the [armed](crate::ground::armed) tick. A thread that may have to wake the reaper makes its work
//! visible first, and then lowers the armed tick:
//!
//! | a thread that | first | lowers the armed tick |
//! |---|---|---|
//! | inserts or resets an entry | publishes the tick in the shard | to this tick, if it was published later before |
//! | drops the last handle | sets a flag | to 0 |
//!
//! The reaper reads the flag after it has armed. Models in `idle/loom_tests.rs`: `touch_races_wait`,
//! `insertion_behind_a_shed_races_wait`, `last_handle_races_wait`.
//!
//! If the reaper's waker panics, the touch still succeeds (`a_panicking_waker_harms_no_touch`). Wakers may use the set
//! (`tests/idle/user_code.rs`, `wakers_may_use_the_set`).

use std::{iter, task::Waker};

use bounded_wheel::{NEVER, Tick};

use super::{
    digest::Digest,
    shard::{Closed, Shard},
};
use crate::ground::{
    armed::Armed,
    clock::Clock,
    sync::{AtomicU64, OnceLock, Ordering},
};

/// The number of shards whose published ticks the reaper can read in the time of one step.
const LOOKS: usize = 64;

/// A place for a shard. It contains `None` if the set was closed before the shard had a key.
type Slot<K> = OnceLock<Option<Box<Shard<K>>>>;

pub(super) struct Shards<K> {
    pub(super) clock: Clock,
    slots: Box<[Slot<K>]>,
    pub(super) armed: Armed,
    /// Not 0 after the last handle was dropped.
    is_abandoned: AtomicU64,
    /// Whether the reaper is dropped: 1 or 0.
    is_closed: AtomicU64,
}

impl<K> Shards<K> {
    /// Creates the state of a set. The number of shards must be a power of two.
    pub(super) fn new(clock: Clock, shards: usize) -> Self {
        Self {
            clock,
            slots: iter::repeat_with(OnceLock::new).take(shards).collect(),
            armed: Armed::new(),
            is_abandoned: AtomicU64::new(0),
            is_closed: AtomicU64::new(0),
        }
    }

    /// Returns the place of a key's shard.
    #[inline]
    pub(super) fn slot(&self, digest: Digest) -> &Slot<K> {
        &self.slots[digest.shard(self.slots.len())]
    }

    /// Returns the shard of a key, and creates the shard if necessary. Returns `None` if the set is closed.
    pub(super) fn shard_of(&self, digest: Digest) -> Option<&Shard<K>> {
        if self.is_closed() {
            return None;
        }
        let slot = self.slot(digest);
        if slot.get().is_none() {
            let shard = Shard::new(self.clock.now());
            // `set` fails if another thread has set the slot in the meantime.
            let _ = slot.set(Some(shard));
        }
        slot.get()?.as_deref()
    }

    /// Returns a shard, if it exists.
    pub(super) fn shard(&self, number: usize) -> Option<&Shard<K>> {
        self.slots[number].get()?.as_deref()
    }

    fn shards(&self) -> impl Iterator<Item = &Shard<K>> {
        (0..self.slots.len()).filter_map(|number| self.shard(number))
    }

    /// Returns the first number from `from` whose shard publishes `until` or an earlier tick.
    pub(super) fn next_shard(&self, from: usize, until: Tick) -> Option<usize> {
        let is_reached = |shard: &Shard<K>| shard.published() <= until;
        (from..self.slots.len()).find(|number| self.shard(*number).is_some_and(is_reached))
    }

    /// Returns the number of keys. Locks each shard in turn.
    pub(super) fn len(&self) -> usize {
        if self.is_closed() {
            return 0;
        }
        let open = self.shards().filter_map(Shard::lock);
        open.map(|state| state.table.len()).sum()
    }

    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire) != 0
    }

    /// Closes all shards. Returns their content.
    pub(super) fn close(&self) -> Vec<Closed<K>> {
        self.is_closed.store(1, Ordering::Release);
        let close = |slot: &Slot<K>| {
            // `set` fails if the shard exists.
            let _ = slot.set(None);
            Some(slot.get()?.as_ref()?.close())
        };
        self.slots.iter().filter_map(close).collect()
    }

    /// Returns the earliest tick of all shards. No key is due before this tick.
    pub(super) fn published(&self) -> Tick {
        let published = self.shards().map(Shard::published);
        published.fold(NEVER, Tick::min)
    }

    /// Returns the cost of [`published`](Self::published), in steps.
    pub(super) fn steps_of_a_look(&self) -> usize {
        1 + self.slots.len() / LOOKS
    }

    /// Arms for the next tick at which the set has work, and returns it. No key of the set is due before this tick.
    ///
    /// The reaper calls this method after a sweep has ended. Returns `None` if the set is empty and its last handle was
    /// dropped.
    pub(super) fn wait(&self, waker: &Waker) -> Option<Tick> {
        let until = self.armed.arm(waker, || self.published());
        if self.is_abandoned.load(Ordering::Acquire) != 0 && self.len() == 0 {
            self.armed.disarm();
            return None;
        }
        Some(until)
    }

    /// Records that no handle is left, and wakes the reaper. The last handle calls this.
    pub(super) fn abandon(&self) {
        self.is_abandoned.store(1, Ordering::Release);
        self.armed.wake_for(0);
    }
}
