//! A shard: the records and the wheel of some keys behind one lock. This file locks the shard, allocates and frees its
//! memory, and publishes the tick at which its wheel next has work. [`keys`](super::keys) has the operations on keys.
//!
//! # Rules
//!
//! * No thread allocates or frees memory under the lock, because allocating and freeing can take long.
//! * Threads write the [published](Shard::published) tick only under the lock. They read this tick without the lock.
//!   Whenever the lock is free, no entry has a deadline before the published tick, unless it is
//!   [overtaken](super::overtaken). So the reaper does not need to visit a shard before the published tick is reached.
//! * The published tick may be too early, because a removal does not change it. The reaper raises it later.
//! * Only a new entry or a reset lowers the published tick. The thread then also lowers the [armed tick](super::shards).
//!   All other operations keep the published tick or raise it. A coarse slot may start before the published tick. These
//!   operations still keep the tick, because no deadline in the slot is before it.
//! * A closed shard has no keys and refuses new keys, and no thread gets a guard of it (`touch_races_close`).

use std::mem;

use bounded_wheel::{NEVER, Nodes, Refill, Tick};
use hashbrown::HashTable;

use super::{
    digest::Digest,
    table::{Hashed, Table},
};
use crate::ground::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};

#[cfg(not(tokio_wheel_util_loom))]
pub(super) type Wheel = bounded_wheel::Wheel<Digest>;
#[cfg(tokio_wheel_util_loom)]
pub(super) type Wheel = bounded_wheel::Wheel<Digest, 3, 4>;

/// A shard, on its own cache lines.
#[repr(align(128))]
pub(super) struct Shard<K> {
    state: Mutex<State<K>>,
    published: Published,
}

/// The tick that threads read without the lock. Only a thread that holds the lock writes it.
///
/// It has cache lines of its own. So a reaper that reads it does not take the cache line of the lock from a worker.
#[repr(align(128))]
struct Published(AtomicU64);

/// The state that the lock protects.
///
/// The first fields are the fields that every operation uses. So these fields share a cache line with the lock.
#[repr(C)]
pub(super) struct State<K> {
    closed: bool,
    /// A copy of the published tick. A touch that reads this copy needs only the cache line of the lock.
    published: Tick,
    pub(super) table: Table<Record<K>>,
    pub(super) wheel: Wheel,
}

/// A key with its deadline, its timeout and its entry.
///
/// A record takes 32 bytes if its key takes 8 bytes. In a very large set, a touch spends most of
/// its time on loading the record from memory (`a_record_is_small`).
pub(super) struct Record<K> {
    pub(super) key: K,
    pub(super) deadline: Tick,
    /// The timeout in nanoseconds.
    pub(super) timeout: u64,
    pub(super) digest: Digest,
    /// The index of the entry in the wheel.
    pub(super) index: u32,
}

impl<K> Hashed for Record<K> {
    #[inline]
    fn hash(&self) -> u64 {
        self.digest.spread()
    }
}

/// The content of a shard that was closed.
pub(super) type Closed<K> = (Table<Record<K>>, Nodes<Digest>);

impl<K> Shard<K> {
    /// Creates a shard whose wheel begins at the tick `now`.
    pub(super) fn new(now: Tick) -> Box<Self> {
        Box::new(Self {
            state: Mutex::new(State {
                closed: false,
                published: NEVER,
                table: Table::new(),
                wheel: Wheel::new(now),
            }),
            published: Published(AtomicU64::new(NEVER)),
        })
    }

    /// Takes the lock. Returns `None` if the shard is closed.
    ///
    /// If records are moving to a new table, the method also moves a few of them.
    #[inline]
    pub(super) fn state(&self) -> Option<MutexGuard<'_, State<K>>> {
        let mut state = lock(&self.state);
        if state.table.is_moving() {
            if let Some(emptied) = state.table.step() {
                drop(state);
                drop(emptied);
                state = lock(&self.state);
            }
        }
        (!state.closed).then_some(state)
    }

    /// Takes the lock as [`state`](Self::state) does. There is then memory for one more key.
    ///
    /// If memory is missing, the method releases the lock, allocates memory, and takes the lock again.
    pub(super) fn state_with_room(&self) -> Option<MutexGuard<'_, State<K>>> {
        loop {
            let mut state = lock(&self.state);
            if state.closed {
                return None;
            } else if !state.wheel.has_room() {
                let chunks = state.wheel.chunks_wanted();
                drop(state);
                self.refill(Refill::allocate(chunks));
            } else if let Some(capacity) = state.table.lacks_room() {
                drop(state);
                self.replace_table(capacity, Table::lacks_room);
            } else if let Some(emptied) = state.table.step() {
                drop(state);
                drop(emptied);
            } else {
                return Some(state);
            }
        }
    }

    #[cold]
    fn refill(&self, refill: Refill<Digest>) {
        let mut state = lock(&self.state);
        if !state.closed {
            let replaced = state.wheel.refill(refill);
            // This call opens a chunk in the new memory. Otherwise another thread could find the memory unused, and free
            // it.
            state.wheel.has_room();
            drop(state);
            drop(replaced);
        }
    }

    /// Allocates a table without the lock. If `wants` still returns a capacity then, the records
    /// begin to move to the new table.
    ///
    /// The method drops the guard before it drops the new table. So it frees an unused table without
    /// the lock.
    #[cold]
    fn replace_table(&self, capacity: usize, wants: impl Fn(&Table<Record<K>>) -> Option<usize>) {
        let new = HashTable::with_capacity(capacity);
        let mut state = lock(&self.state);
        let wanted = wants(&state.table).filter(|_| !state.closed);
        if wanted.is_some_and(|capacity| capacity <= new.capacity()) {
            state.table.begin(new);
        }
    }

    /// Releases the lock, and then frees memory that the keys no longer need.
    pub(super) fn unlock_and_free(&self, state: MutexGuard<'_, State<K>>) {
        let has_unused = state.wheel.has_unused();
        let smaller = state.table.is_sparse();
        drop(state);
        if has_unused {
            self.free_unused();
        }
        if let Some(capacity) = smaller {
            self.replace_table(capacity, Table::is_sparse);
        }
    }

    #[cold]
    fn free_unused(&self) {
        loop {
            let unused = lock(&self.state).wheel.take_unused();
            if unused.is_none() {
                return;
            }
        }
    }

    /// Returns the published tick, as a tick of the wheels, without taking the lock.
    #[inline]
    pub(super) fn published(&self) -> Tick {
        self.published.0.load(Ordering::Relaxed)
    }

    /// Raises the published tick to the tick at which the wheel next has work. Only the reaper calls this.
    pub(super) fn raise(&self, state: &mut State<K>) {
        let next = state.wheel.next_expiration().unwrap_or(NEVER);
        self.publish(state, next.max(state.published));
    }

    /// Publishes an earlier tick if `deadline` is before the published tick. Returns the new tick.
    ///
    /// The caller has inserted or reset an entry. After this call, the caller must release the lock. Then it must
    /// [lower the armed tick](super::shards) to the returned tick.
    #[inline]
    pub(super) fn publish_earlier(&self, state: &mut State<K>, deadline: Tick) -> Option<Tick> {
        if deadline >= state.published {
            return None;
        }
        let next = state.wheel.next_expiration().unwrap_or(deadline);
        self.publish(state, next);
        Some(next)
    }

    fn publish(&self, state: &mut State<K>, tick: Tick) {
        state.published = tick;
        self.published.0.store(tick, Ordering::Relaxed);
    }

    /// Closes the shard. Returns its records and its entries, which the caller drops.
    pub(super) fn close(&self) -> Closed<K> {
        let mut state = lock(&self.state);
        state.closed = true;
        let table = mem::replace(&mut state.table, Table::new());
        (table, state.wheel.take())
    }
}

#[cfg(all(test, not(tokio_wheel_util_loom)))]
mod tests {
    use super::*;

    impl<K> Shard<K> {
        /// Returns the number of slots of the table, or `None` while records move.
        pub(in super::super) fn places_at_rest(&self) -> Option<usize> {
            let table = &lock(&self.state).table;
            (!table.is_moving()).then(|| table.places())
        }

        /// Returns the number of slots of the table, and the number of nodes of the wheel.
        pub(in super::super) fn memory(&self) -> (usize, usize) {
            let state = lock(&self.state);
            (state.table.places(), state.wheel.capacity())
        }
    }

    #[test]
    fn a_record_is_small() {
        assert_eq!(size_of::<Record<u64>>(), 32);
    }
}
