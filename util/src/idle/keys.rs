//! The operations on the keys of a [shard](super::shard), which has a table of its keys and a wheel
//! with one entry for each key. [`LockedShard`] is the guard of its lock.
//!
//! A record in the table has all data that a touch needs, including the deadline. So a touch
//! usually changes only the record, and the entry in the wheel stays at an earlier tick. When the
//! wheel reaches the tick of the entry, there are two cases. If the key is due, the shard removes
//! it. Otherwise the shard registers a new entry at the tick at which the key is due now.
//! [`pressure`](super::pressure) defines the tick at which a key is due.
//!
//! | Operation | Before it      | Under the lock                           | After it               |
//! |-----------|----------------|------------------------------------------|------------------------|
//! | `touch`   | hash           | find, store the deadline                 |                        |
//! | `touch` with a timeout | hash | find, store both, reset a later entry | follow up              |
//! | `insert`  | clone, memory  | register an entry, insert the record     | follow up              |
//! | `remove`  | hash           | find, remove the record and its entry    | free memory, drop      |
//! | `expire`  |                | fire an entry, remove or move its key    | free memory, follow up |
//!
//! To follow up means that the thread wakes the reaper: see [`Early`].
//!
//! # Invariants
//!
//! These invariants hold whenever the lock is free. `assert_invariants` checks them. The test
//! `idle::tests::shards_keep_their_invariants` calls `assert_invariants` after every operation.
//!
//! * Each record has one entry in the wheel, and each entry has one record. The record stores the
//!   entry's index, and the entry stores the record's digest.
//! * The tick of an entry is at most the tick at which its key is due. A touch resets an entry only
//!   if the entry would fire too late.
//! * An entry whose tick is before the `now` of its wheel has a line in
//!   [`overtaken`](super::overtaken).
//!
//! # Rules
//!
//! * Under the lock, the only user code that runs is `Borrow` and `Eq` of keys. A lookup of a key
//!   needs them. They run before the shard changes, so a panic in them does not change the shard
//!   (`a_panicking_eq_leaves_all_as_it_was`).
//! * No other user code runs under the lock (`tests/idle/user_code.rs`). A thread hashes and clones a
//!   key before it takes the lock. To move a record, the shard uses the stored digest, so it does
//!   not hash the key again. The caller drops removed and unused keys after the lock is released.
//! * No operation holds the lock for long, however many keys the shard has: see
//!   [`table`](super::table).
//! * An expired key stays until [`LockedShard::expire`] returns it. Until then, a task can touch or remove
//!   the key (`keys_come_out_as_in_the_model`).

use std::ops::ControlFlow;

use bounded_wheel::{Key as EntryKey, Order, Removed, Tick};
use hashbrown::hash_table::OccupiedEntry;

use super::{
    digest::Digest,
    pressure::Pressure,
    shard::{Record, Shard, State, Wheel},
    table::Table,
    touched::Touched,
};
use crate::ground::sync::MutexGuard;

/// The guard of a shard's lock, with the operations on the keys.
///
/// The operations find a key by its digest and by `equals`, which runs user code.
pub(super) struct LockedShard<'a, K> {
    state: MutexGuard<'a, State<K>>,
    shard: &'a Shard<K>,
    pressure: &'a Pressure,
    early: Option<Early>,
}

/// An entry that is earlier than the reaper may expect. After the thread has released the lock, it
/// must pass this value to [`Shards::follow_up`](super::shards::Shards::follow_up). Otherwise the
/// reaper may come too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "otherwise the key may be late"]
pub(super) struct Early {
    /// The thread must lower the armed tick to this tick.
    pub(super) tick: Tick,
    /// The entry, if its wheel has passed the tick already. Before the thread lowers the armed tick,
    /// it must add the entry to [`overtaken`](super::overtaken).
    pub(super) overtaken: Option<EntryKey>,
}

#[inline]
fn find<K>(
    table: &mut Table<Record<K>>,
    digest: Digest,
    equals: impl Fn(&K) -> bool,
) -> Option<OccupiedEntry<'_, Record<K>>> {
    table.find(digest.spread(), |record| {
        record.digest == digest && equals(&record.key)
    })
}

impl<'a, K> LockedShard<'a, K> {
    /// Locks a shard, or returns `None` if it is closed.
    #[inline]
    pub(super) fn of(shard: &'a Shard<K>, pressure: &'a Pressure) -> Option<Self> {
        Some(Self::with(shard.state()?, shard, pressure))
    }

    /// Locks a shard, which then has memory for one more key. Returns `None` if the shard is closed.
    pub(super) fn with_room(shard: &'a Shard<K>, pressure: &'a Pressure) -> Option<Self> {
        Some(Self::with(shard.state_with_room()?, shard, pressure))
    }

    #[inline]
    fn with(state: MutexGuard<'a, State<K>>, shard: &'a Shard<K>, pressure: &'a Pressure) -> Self {
        Self {
            state,
            shard,
            pressure,
            early: None,
        }
    }
}

impl<K> LockedShard<'_, K> {
    #[inline]
    fn parts(&mut self) -> (&mut Table<Record<K>>, &mut Wheel) {
        let state = &mut *self.state;
        (&mut state.table, &mut state.wheel)
    }

    pub(super) fn len(&self) -> usize {
        self.state.table.len()
    }

    /// Releases the lock. The caller must follow up: see [`Early`].
    #[inline]
    pub(super) fn unlock(self) -> Option<Early> {
        self.early
    }

    /// Releases the lock, and then frees memory that the keys no longer need. The caller must follow
    /// up: see [`Early`].
    pub(super) fn unlock_and_free(self) -> Option<Early> {
        self.shard.unlock_and_free(self.state);
        self.early
    }

    /// Sets the deadline of a key. The argument of `deadline` is the key's timeout. If `timeout` is
    /// `Some`, first sets the key's timeout to this value.
    // Two places call this method. Without this attribute, the guard passes through memory, and a touch takes
    // 12 more instructions.
    #[inline(always)]
    pub(super) fn touch(
        &mut self,
        digest: Digest,
        equals: impl Fn(&K) -> bool,
        timeout: Option<u64>,
        deadline: impl Fn(u64) -> Tick,
    ) -> Touched {
        let pressure = self.pressure;
        let (table, wheel) = self.parts();
        let Some(mut found) = find(table, digest, equals) else {
            return Touched::Absent;
        };
        let record = found.get_mut();
        let Some(timeout) = timeout else {
            // This thread has read the clock before it took the lock. In between, another touch
            // with a later time may have changed the record.
            record.deadline = record.deadline.max(deadline(record.timeout));
            return Touched::Present;
        };
        (record.timeout, record.deadline) = (timeout, deadline(timeout));
        let due = pressure.due(record.deadline, timeout);
        let entry = wheel.key(record.index);
        if wheel.deadline(entry).is_some_and(|tick| due < tick) {
            wheel.reset(entry, due);
            self.publish(due, entry);
        }
        Touched::Present
    }

    /// Inserts a key, which must be absent. The caller has locked the shard [with
    /// room](LockedShard::with_room).
    pub(super) fn insert(&mut self, digest: Digest, key: K, timeout: u64, deadline: Tick) {
        let due = self.pressure.due(deadline, timeout);
        let entry = self.state.wheel.insert(due, digest);
        self.state.table.insert(Record {
            key,
            deadline,
            timeout,
            digest,
            index: entry.index(),
        });
        self.publish(due, entry);
    }

    /// Publishes the tick of an entry that was registered or reset.
    fn publish(&mut self, tick: Tick, entry: EntryKey) {
        let published = self.shard.publish_earlier(&mut self.state, tick);
        let overtaken = (tick < self.state.wheel.now()).then_some(entry);
        let tick = overtaken.map(|_| tick).or(published);
        self.early = tick.map(|tick| Early { tick, overtaken });
    }

    /// Removes a key, releases the lock, and frees memory. Returns the key.
    pub(super) fn remove(mut self, digest: Digest, equals: impl Fn(&K) -> bool) -> Option<K> {
        let (table, wheel) = self.parts();
        let found = find(table, digest, equals)?;
        wheel.remove(wheel.key(found.get().index));
        let removed = found.remove().0.key;
        let early = self.unlock_and_free();
        debug_assert_eq!(early, None, "a removal makes no entry early");
        Some(removed)
    }

    /// Returns the effective deadline of a key.
    pub(super) fn deadline(&mut self, digest: Digest, equals: impl Fn(&K) -> bool) -> Option<Tick> {
        let found = find(&mut self.state.table, digest, equals)?;
        Some((self.pressure).effective(found.get().deadline, found.get().timeout))
    }

    /// Removes and returns a key that is due at `to` or earlier. `to` is a tick of the wheels.
    ///
    /// The method makes at most `steps` steps. It subtracts the number of steps that it made from
    /// `steps`. If it returns `None` and no step is left, the shard may still have a due key.
    ///
    /// If a task touches a key after the pressure has fallen, the method uses the lower pressure for
    /// this key, because it reads the pressure under the lock.
    pub(super) fn expire(&mut self, to: Tick, steps: &mut usize) -> Option<K> {
        loop {
            let mut fired = None;
            let _ = (self.state.wheel).advance(to, Order::Strict, steps, |entry| {
                fired = Some(entry);
                ControlFlow::Break(())
            });
            let Some(entry) = fired else {
                self.shard.raise(&mut self.state);
                return None;
            };
            let due = self.remove_if_due(&entry, to);
            if due.is_some() {
                return due;
            }
        }
    }

    /// Removes and returns the key of an [overtaken](super::overtaken) entry, if the entry is still
    /// in the wheel and the key is due at `to` or earlier. The tick of the entry is at most `to`.
    pub(super) fn expire_entry(&mut self, entry: EntryKey, to: Tick) -> Option<K> {
        let entry = self.state.wheel.remove(entry)?;
        self.remove_if_due(&entry, to)
    }

    /// Removes and returns the key of an entry that has left the wheel, if the key is due at `to` or
    /// earlier. Otherwise registers a new entry for the key.
    fn remove_if_due(&mut self, entry: &Removed<Digest>, to: Tick) -> Option<K> {
        let pressure = self.pressure;
        let (table, wheel) = self.parts();
        let (digest, index) = (entry.value, entry.key.index());
        let mut found = (table.find(digest.spread(), |record| record.index == index))
            .expect("an entry has a record");
        let due = pressure.due(found.get().deadline, found.get().timeout);
        if due <= to {
            return Some(found.remove().0.key);
        }
        // The wheel reuses the memory of the old entry, so `register` does not allocate. The only
        // exception is a chunk that has had four billion entries.
        let entry = wheel.insert(due, digest);
        found.get_mut().index = entry.index();
        self.publish(due, entry);
        None
    }
}

#[cfg(all(test, not(tokio_wheel_util_loom)))]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use bounded_wheel::CHUNK;

    use super::{
        super::{
            overtaken::Overtaken,
            table::{Hashed, LITTLE},
        },
        *,
    };

    /// Returns the pressure of a set in which pressure has no effect.
    fn pressure() -> Pressure {
        Pressure::new(Duration::from_nanos(1), Duration::ZERO, Duration::ZERO)
    }

    impl<K> Shard<K> {
        pub(in super::super) fn assert_invariants(
            &self,
            pressure: &Pressure,
            overtaken: &Overtaken,
        ) {
            let mut keys = LockedShard::of(self, pressure).unwrap();
            let (table, wheel) = keys.parts();
            assert_eq!(table.len(), wheel.len());
            let published = self.published();
            for record in table.iter() {
                let entry = wheel.key(record.index);
                assert_eq!(wheel.get(entry), Some(&record.digest));
                let tick = wheel.deadline(entry).unwrap();
                assert!(tick <= pressure.due(record.deadline, record.timeout));
                // The wheel stores an overtaken entry in the slot of `now`.
                assert!(published <= tick.max(wheel.now()));
                assert!(tick >= wheel.now() || overtaken.has(tick, entry));
            }
            let hashes: BTreeMap<u32, u64> = table
                .iter()
                .map(|record| (record.index, record.hash()))
                .collect();
            assert_eq!(hashes.len(), table.len());
            for (index, hash) in hashes {
                assert!(table.find(hash, |record| record.index == index).is_some());
            }
        }
    }

    fn with_keys<R>(shard: &Shard<u32>, act: impl FnOnce(&mut LockedShard<'_, u32>) -> R) -> R {
        let pressure = pressure();
        let mut keys = LockedShard::of(shard, &pressure).unwrap();
        let result = act(&mut keys);
        assert_eq!(keys.unlock_and_free(), None);
        result
    }

    fn digest(key: u32) -> Digest {
        Digest::of(key.into())
    }

    fn insert(shard: &Shard<u32>, key: u32) {
        let pressure = pressure();
        let mut keys = LockedShard::with_room(shard, &pressure).unwrap();
        keys.insert(digest(key), key, 0, key.into());
        let _ = keys.unlock();
    }

    fn remove(shard: &Shard<u32>, key: u32) {
        let pressure = pressure();
        let keys = LockedShard::of(shard, &pressure).unwrap();
        assert_eq!(keys.remove(digest(key), |k| *k == key), Some(key));
    }

    fn expire(shard: &Shard<u32>, to: u32, steps: usize) -> Option<u32> {
        let to = to.into();
        with_keys(shard, |keys| keys.expire(to, &mut { steps }))
    }

    fn len(shard: &Shard<u32>) -> usize {
        with_keys(shard, |keys| keys.len())
    }

    #[test]
    fn memory_goes_back_as_keys_go() {
        const KEYS: u32 = 20_000;
        for reaped in [false, true] {
            let shard = Shard::new(0);
            for key in 0..KEYS {
                insert(&shard, key);
            }
            let (places, nodes) = shard.memory();
            assert!(places >= KEYS as usize && nodes >= KEYS as usize);
            for key in 0..KEYS {
                if reaped {
                    assert_eq!(expire(&shard, key, usize::MAX), Some(key));
                } else {
                    remove(&shard, key);
                }
                let (places, nodes) = shard.memory();
                let len = (KEYS - key) as usize - 1;
                assert!(places <= (32 * len).max(LITTLE + 64), "{places}");
                assert!(nodes <= len + 2 * CHUNK, "{nodes}");
            }
        }
    }

    #[test]
    fn keys_that_come_and_go_move_no_table() {
        let shard = Shard::new(0);
        for key in 0..4_000 {
            insert(&shard, key);
        }
        let mut sizes = Vec::from_iter(shard.places_at_rest());
        for key in 0..4_000 {
            for come_and_go in [key, 4_001, 4_002, 4_003] {
                if come_and_go > 4_000 {
                    insert(&shard, come_and_go);
                    sizes.extend(shard.places_at_rest());
                }
                remove(&shard, come_and_go);
                sizes.extend(shard.places_at_rest());
            }
        }
        sizes.dedup();
        assert!(sizes.is_sorted_by(|a, b| a > b), "{sizes:?}");
        assert!(*sizes.last().unwrap() <= LITTLE, "{sizes:?}");
    }

    /// While records move to a new table, every operation moves some of them. So the new table has
    /// room for each insertion, and no table grows under the lock.
    #[test]
    fn all_operations_let_a_move_go_on() {
        fn touch(shard: &Shard<u32>, key: u32) {
            let equals = |k: &u32| *k == key;
            let touched = with_keys(shard, |keys| keys.touch(digest(key), equals, None, |_| 0));
            assert_eq!(touched, Touched::Present);
        }
        fn look_for_due(shard: &Shard<u32>, _: u32) {
            assert_eq!(expire(shard, 0, 1), None);
        }
        fn insert_more(shard: &Shard<u32>, key: u32) {
            insert(shard, 1_000_000 + key);
        }
        for operation in [touch, remove, look_for_due, insert_more] {
            let shard = Shard::new(0);
            let (mut keys, mut places) = (1..=u32::MAX, 1);
            let mut inserted = 0;
            while shard.places_at_rest().is_some() || inserted < 10_000 {
                insert(&shard, keys.next().unwrap());
                inserted += 1;
                match shard.places_at_rest() {
                    // One operation may move all records of a small table.
                    Some(at_rest) if at_rest <= LITTLE => {}
                    Some(at_rest) => {
                        assert!(at_rest <= places, "the table has grown under the lock")
                    }
                    None => places = shard.memory().0,
                }
            }
            for key in 1..=places as u32 / 64 {
                operation(&shard, key);
            }
            assert!(shard.places_at_rest().is_some());
        }
    }

    #[test]
    fn a_closed_shard_keeps_nothing() {
        let shard = Shard::new(0);
        for key in 0..100 {
            insert(&shard, key);
        }
        assert_eq!(len(&shard), 100);
        assert_eq!(shard.close().0.iter().count(), 100);
        let pressure = pressure();
        assert!(LockedShard::of(&shard, &pressure).is_none());
        assert!(LockedShard::with_room(&shard, &pressure).is_none());
        assert_eq!(shard.memory(), (1, 0), "an empty table has one slot");
    }
}
