//! A shard: the records and the wheel of some keys behind one lock. This file locks the shard, moves its table, and
//! publishes the tick at which the shard next has work. [`keys`](super::keys) has the operations on keys.
//!
//! # Rules
//!
//! * No thread allocates or frees a table or the memory of the wheel under the lock, because both can take long. The list
//!   of overtaken entries is small, and allocates under the lock.
//! * Threads write the [published](Shard::published) tick only under the lock. They read this tick without the lock.
//!   Whenever the lock is free, no entry has a deadline before the published tick. So the reaper does not need to visit a
//!   shard before the published tick is reached.
//! * The published tick may be too early, because a removal does not change it. The reaper raises it later.
//! * Only a new entry or a reset lowers the published tick. The thread then also lowers the
//!   [armed tick](crate::ground::armed). All other operations keep the published tick or raise it. A coarse slot may start
//!   before the published tick. These operations still keep the tick, because no deadline in the slot is before it.
//! * A closed shard has no keys and refuses new keys, and no thread gets a guard of it (`touch_races_close`).
//!
//! # Overtaken entries
//!
//! [`Reaper::shed`](super::Reaper::shed) advances wheels beyond the clock. So a wheel may already have passed the tick of a
//! new entry. The wheel stores such an entry in its current slot, which fires too late. So the shard also keeps a *line*
//! with the tick and the key of the entry in a B-tree. The reaper takes the lines whose tick is reached before it advances
//! the wheel.
//!
//! * Each entry whose tick is before the `now` of its wheel has a line.
//! * A line names its entry by the entry's key, which never names another entry. So a line whose entry has left the wheel
//!   has no effect, and the reaper discards it.
//! * If an entry has a line, a touch adds a second line only if the second line has an earlier tick
//!   (`touches_add_no_line_while_one_is_there`).
//! * A line is added and removed under the lock, which allocates or frees at most a few nodes of the B-tree.

use std::{collections::BTreeSet, mem};

use bounded_wheel::{Key as EntryKey, NEVER, Nodes, Refill, Tick};
use hashbrown::HashTable;

use super::{
    digest::Digest,
    table::{Hashed, Table},
};
use crate::ground::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};

#[cfg(not(tokio_wheel_util_loom))]
pub(super) type Wheel<T> = bounded_wheel::Wheel<T>;
#[cfg(tokio_wheel_util_loom)]
pub(super) type Wheel<T> = bounded_wheel::Wheel<T, 3, 4>;

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

/// The keys of a shard. Its wheel has an entry for each key.
///
/// The first fields are those that every operation uses, so they share a cache line with the lock.
#[repr(C)]
pub(super) struct State<K> {
    is_closed: bool,
    pub(super) table: Table<Record<K>>,
    /// The tick and the key of each overtaken entry.
    pub(super) overtaken: BTreeSet<(Tick, EntryKey)>,
    pub(super) wheel: Wheel<Digest>,
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

/// The guard of a shard's lock.
pub(super) type Guard<'a, K> = MutexGuard<'a, State<K>>;

/// The content of a shard that was closed.
pub(super) type Closed<K> = (Table<Record<K>>, BTreeSet<(Tick, EntryKey)>, Nodes<Digest>);

impl<K> Shard<K> {
    /// Creates a shard whose wheel begins at the tick `now`.
    pub(super) fn new(now: Tick) -> Box<Self> {
        Box::new(Self {
            state: Mutex::new(State {
                is_closed: false,
                table: Table::new(),
                overtaken: BTreeSet::new(),
                wheel: Wheel::new(now),
            }),
            published: Published(AtomicU64::new(NEVER)),
        })
    }

    /// Takes the lock. Returns `None` if the shard is closed.
    ///
    /// If records are moving to a new table, the method also moves a few of them.
    #[inline]
    pub(super) fn lock(&self) -> Option<Guard<'_, K>> {
        let mut state = self.lock_open()?;
        if state.table.is_moving() {
            if let Some(emptied) = state.table.step() {
                drop(state);
                drop(emptied);
                return self.lock_open();
            }
        }
        Some(state)
    }

    #[inline]
    fn lock_open(&self) -> Option<Guard<'_, K>> {
        let state = lock(&self.state);
        (!state.is_closed).then_some(state)
    }

    /// Takes the lock as [`lock`](Self::lock) does. There is then memory for one more key.
    ///
    /// If memory is missing, the method releases the lock, allocates memory, and takes the lock again.
    pub(super) fn lock_with_room(&self) -> Option<Guard<'_, K>> {
        loop {
            let mut state = self.lock_open()?;
            if !state.wheel.has_room() {
                let chunks = state.wheel.chunks_wanted();
                drop(state);
                self.refill(chunks);
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

    /// Allocates memory of the wheel without the lock.
    #[cold]
    fn refill(&self, chunks: usize) {
        let refill = Refill::allocate(chunks);
        if let Some(mut state) = self.lock_open() {
            let replaced = state.wheel.refill(refill);
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
        if let Some(mut state) = self.lock_open() {
            let table = &mut state.table;
            if wants(table).is_some_and(|capacity| capacity <= new.capacity()) {
                table.begin(new);
            }
        }
    }

    /// Releases the lock, and then frees memory that the keys no longer need.
    pub(super) fn unlock_and_free(&self, state: Guard<'_, K>) {
        let (has_unused, smaller) = (state.wheel.has_unused(), state.table.is_sparse());
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
        let take = |mut state: Guard<'_, K>| state.wheel.take_unused();
        while let Some(unused) = self.lock_open().and_then(take) {
            drop(unused);
        }
    }

    /// Returns the published tick without taking the lock.
    #[inline]
    pub(super) fn published(&self) -> Tick {
        self.published.0.load(Ordering::Relaxed)
    }

    /// Sets the published tick. The caller holds the lock.
    pub(super) fn publish(&self, tick: Tick) {
        self.published.0.store(tick, Ordering::Relaxed);
    }

    /// Closes the shard. Returns its records and its entries, which the caller drops.
    pub(super) fn close(&self) -> Closed<K> {
        let state = &mut *lock(&self.state);
        state.is_closed = true;
        let (table, lines) = (&mut state.table, &mut state.overtaken);
        let table = mem::replace(table, Table::new());
        (table, mem::take(lines), state.wheel.take())
    }
}

#[cfg(all(test, not(tokio_wheel_util_loom)))]
mod tests {
    use super::*;

    impl<K> Shard<K> {
        /// Returns the number of slots of the table, or `None` while records move.
        pub(in super::super) fn places_at_rest(&self) -> Option<usize> {
            let table = &self.lock_open().unwrap().table;
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
