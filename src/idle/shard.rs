//! One locked part of a set: a table of the keys, and a wheel of when to look at them.
//!
//! A record in the table has all that a touch needs, including the deadline, so a touch changes
//! only the table. The wheel lags behind: for each key it holds a deadline that the key once had.
//! When that comes, either the key is due, or its entry moves to where its deadline is by then.
//!
//! # Invariants
//!
//! Whenever the lock is free (`assert_invariants`, which `shards_keep_their_invariants` calls
//! after every operation):
//!
//! * Each record has one entry of the wheel, and each entry one record. The record has the
//!   entry's index and the entry what the record keeps of the hash, by which they find each other.
//! * No entry's deadline is after its record's. A deadline that moves to an earlier one resets
//!   the entry; one that moves to a later one does not.
//!
//! # Ground rules
//!
//! * The only foreign code that runs under the lock is the `Borrow` and the `Eq` of keys: there
//!   is no other way to find one. It runs before anything is changed, so a panic leaves all as it
//!   was (`a_panicking_eq_leaves_all_as_it_was`).
//! * No other foreign code does (`tests/idle/foreign.rs`). Keys are hashed and made before the
//!   lock is taken. What is kept of the hash suffices to move a record. A key that is taken out, or
//!   is not taken, is returned for the caller to drop.
//! * A hold of the lock is short, however many keys there are: see [`table`](super::table).
//! * A key that is due stays until [`Shard::expire`] returns it. Until then a touch or a removal
//!   wins.

use std::ops::ControlFlow;

use hashbrown::{HashTable, hash_table::OccupiedEntry};

use super::table::{Hashed, Table};
use crate::{
    driver::locked::{self, LockedWheel, Wheel},
    ground::sync::MutexGuard,
    wheel::{Order, Tick},
};

/// A table and a wheel under a lock, on cache lines of their own.
#[repr(align(128))]
pub(super) struct Shard<K>(LockedWheel<Digest, Table<Record<K>>>);

type State<K> = locked::State<Digest, Table<Record<K>>>;

/// A key and what belongs to it. 32 bytes if the key has 8: a touch over very many keys waits for
/// this memory and for little else.
struct Record<K> {
    key: K,
    deadline: Tick,
    /// In nanoseconds.
    timeout: u64,
    digest: Digest,
    /// Where in the wheel the entry is.
    index: u32,
}

/// What is kept of a key's hash. It tells nearly all keys apart without looking at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digest(u32);

/// What became of a touch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Touched {
    /// The key is not there.
    Absent,
    /// Nor is any other: the shard is closed.
    Closed,
    /// Its deadline is not earlier than it was.
    PutOff,
    /// Its deadline is this one, and was later.
    Earlier(Tick),
    /// It was not there before. Its deadline is this one.
    Inserted(Tick),
}

impl Digest {
    /// An odd number without pattern: 2^64 divided by the golden ratio.
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

    /// Splits a hash into a digest and 32 other bits, which choose a shard. Each of them depends on
    /// the whole of it, as some hashers leave half of their bits alone.
    #[inline]
    pub(super) fn split(hash: u64) -> (Self, u32) {
        let product = u128::from(hash) * u128::from(Self::FACTOR);
        let folded = (product >> 64) as u64 ^ product as u64;
        (Self(folded as u32), (folded >> 32) as u32)
    }

    /// The hash that the table goes by: it uses the highest bits and the lowest.
    #[inline]
    fn spread(self) -> u64 {
        u64::from(self.0).wrapping_mul(Self::FACTOR)
    }
}

impl<K> Hashed for Record<K> {
    #[inline]
    fn hash(&self) -> u64 {
        self.digest.spread()
    }
}

impl<K> Table<Record<K>> {
    #[inline]
    fn find_key(
        &mut self,
        digest: Digest,
        is_it: impl Fn(&K) -> bool,
    ) -> Option<OccupiedEntry<'_, Record<K>>> {
        self.find(digest.spread(), |record| {
            record.digest == digest && is_it(&record.key)
        })
    }
}

/// As [`Shard::touch`].
#[inline]
fn touch<K>(
    state: &mut State<K>,
    digest: Digest,
    is_it: impl Fn(&K) -> bool,
    timeout: Option<u64>,
    deadline: impl Fn(u64) -> Tick,
) -> Touched {
    let Some(mut record) = state.extra.find_key(digest, is_it) else {
        return match state.closed {
            true => Touched::Closed,
            false => Touched::Absent,
        };
    };
    let record = record.get_mut();
    record.timeout = timeout.unwrap_or(record.timeout);
    let deadline = deadline(record.timeout);
    if timeout.is_some() && deadline < record.deadline {
        record.deadline = deadline;
        state.wheel.reset(state.wheel.key(record.index), deadline);
        return Touched::Earlier(deadline);
    }
    // Without a `timeout`, the clock was read before the lock was taken. A later touch may have been
    // faster.
    record.deadline = record.deadline.max(deadline);
    Touched::PutOff
}

/// The methods find a key by its digest and by `is_it`, which is user code.
impl<K> Shard<K> {
    pub(super) fn new(now: Tick) -> Self {
        Self(LockedWheel::new(now, Table::new()))
    }

    /// Locks the shard and moves a few records, if records move. First begins to move them to a new
    /// table, if `wants` says of which capacity.
    ///
    /// Allocates and frees tables without the lock. Then it starts over, as others may have had the
    /// lock in between: under the hold that is returned, the table has all it needs.
    #[inline]
    #[cfg_attr(tokio_wheel_lock_times, track_caller)]
    fn lock(&self, wants: impl Fn(&State<K>) -> Option<usize>) -> MutexGuard<'_, State<K>> {
        loop {
            let mut state = self.0.lock();
            if let Some(capacity) = wants(&state) {
                drop(state);
                self.begin(HashTable::with_capacity(capacity), &wants);
                continue;
            }
            if !state.extra.is_moving() {
                return state;
            }
            let Some(emptied) = state.extra.step() else {
                return state;
            };
            drop(state);
            drop(emptied);
        }
    }

    /// Has the table move to a new one, if that is still wanted. If not, `new` is dropped after the
    /// lock, as it is an argument.
    #[cold]
    fn begin(&self, new: HashTable<Record<K>>, wants: impl Fn(&State<K>) -> Option<usize>) {
        let mut state = self.0.lock();
        if wants(&state).is_some_and(|capacity| capacity <= new.capacity()) {
            state.extra.begin(new);
        }
    }

    /// Puts a key off to the deadline that its timeout gives it, first setting that if there is
    /// a `timeout`.
    #[inline]
    pub(super) fn touch(
        &self,
        digest: Digest,
        is_it: impl Fn(&K) -> bool,
        timeout: Option<u64>,
        deadline: impl Fn(u64) -> Tick,
    ) -> Touched {
        let mut state = self.lock(|_| None);
        let touched = touch(&mut state, digest, is_it, timeout, deadline);
        if let Touched::Earlier(deadline) = touched {
            self.0.publish_earlier(&mut state, deadline);
        }
        touched
    }

    /// As [`touch`](Self::touch), and inserts the key if it is not there: `new`, with `timeout` or
    /// else with the `usual` one.
    pub(super) fn touch_or_insert(
        &self,
        digest: Digest,
        is_it: impl Fn(&K) -> bool,
        timeout: Option<u64>,
        deadline: impl Fn(u64) -> Tick,
        new: K,
        usual: u64,
    ) -> Touched {
        let lacks_room = |state: &State<K>| state.extra.lacks_room().filter(|_| !state.closed);
        // If `new` is not inserted, it is dropped after the lock, as it is an argument.
        let mut state = self.0.lock_with_room(|| self.lock(lacks_room));
        let touched = touch(&mut state, digest, is_it, timeout, &deadline);
        if let Touched::Earlier(deadline) = touched {
            self.0.publish_earlier(&mut state, deadline);
        }
        if touched != Touched::Absent {
            return touched;
        }
        let timeout = timeout.unwrap_or(usual);
        let deadline = deadline(timeout);
        let place = state.wheel.place(deadline);
        let index = (state.wheel.register_at(place, deadline, digest)).index();
        state.extra.insert(Record {
            key: new,
            deadline,
            timeout,
            digest,
            index,
        });
        self.0.publish_earlier(&mut state, deadline);
        Touched::Inserted(deadline)
    }

    /// Takes a key out.
    pub(super) fn remove(&self, digest: Digest, is_it: impl Fn(&K) -> bool) -> Option<K> {
        self.take(|table, wheel| {
            let record = table.find_key(digest, is_it)?;
            wheel.deregister(wheel.key(record.get().index));
            Some(record.remove().0.key)
        })
    }

    /// Takes out a key whose deadline is `to` or before, in at most `steps`, and lowers them by
    /// those that it did. If no step is left, there may be such a key though none is returned.
    pub(super) fn expire(&self, to: Tick, steps: &mut usize) -> Option<K> {
        self.take(|table, wheel| {
            loop {
                let mut reached = None;
                wheel.advance(to, Order::Strict, steps, |entry| {
                    reached = Some(entry);
                    ControlFlow::Break(())
                });
                let entry = reached?;
                let (digest, index) = (entry.value, entry.key.index());
                let mut record = table
                    .find(digest.spread(), |record| record.index == index)
                    .expect("an entry has a record");
                let deadline = record.get().deadline;
                if deadline <= to {
                    return Some(record.remove().0.key);
                }
                // The entry that came out has left room, unless it was the last of four billion of its chunk.
                record.get_mut().index = wheel.register(deadline, digest).index();
            }
        })
    }

    /// Takes a key out under the lock, and then frees the memory that is not used any more.
    fn take(
        &self,
        take: impl FnOnce(&mut Table<Record<K>>, &mut Wheel<Digest>) -> Option<K>,
    ) -> Option<K> {
        let mut guard = self.lock(|state| state.extra.is_sparse());
        let state = &mut *guard;
        let taken = take(&mut state.extra, &mut state.wheel);
        self.0.publish(state);
        let has_unused = state.wheel.has_unused();
        drop(guard);
        if has_unused {
            self.0.free_unused();
        }
        taken
    }

    /// The deadline of a key.
    pub(super) fn deadline(&self, digest: Digest, is_it: impl Fn(&K) -> bool) -> Option<Tick> {
        let mut state = self.0.lock();
        Some(state.extra.find_key(digest, is_it)?.get().deadline)
    }

    /// The tick at which [`expire`](Self::expire) next has something to do.
    pub(super) fn next_expiration(&self) -> Tick {
        self.0.next_expiration()
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().extra.len()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.lock().closed
    }

    /// Closes the shard for good and returns the keys that it held.
    pub(super) fn close(&self) -> impl Iterator<Item = K> + use<K> {
        let (table, _wheel) = {
            let mut state = self.0.lock();
            let wheel = state.close();
            (std::mem::replace(&mut state.extra, Table::new()), wheel)
        };
        table.into_records().map(|record| record.key)
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use std::collections::BTreeMap;

    use proptest::{collection::vec, prelude::*};

    use super::{super::table::LITTLE, *};

    impl<K> Shard<K> {
        fn assert_invariants(&self) {
            let mut state = self.0.lock();
            let State {
                extra: table,
                wheel,
                ..
            } = &mut *state;
            assert_eq!(table.len(), wheel.len());
            for record in table.iter() {
                let entry = wheel.key(record.index);
                assert_eq!(wheel.get(entry), Some(&record.digest));
                assert!(wheel.deadline(entry).unwrap() <= record.deadline);
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

        /// The places of the table, unless it moves.
        fn places_at_rest(&self) -> Option<usize> {
            let state = self.0.lock();
            (!state.extra.is_moving()).then(|| state.extra.places())
        }

        /// The places of the table, and the nodes of the wheel.
        fn memory(&self) -> (usize, usize) {
            let state = self.0.lock();
            (state.extra.places(), state.wheel.capacity())
        }
    }

    /// Of several keys each.
    fn digest(key: u8) -> Digest {
        Digest(u32::from(key % 5))
    }

    fn insert(shard: &Shard<u32>, key: u32) {
        let (digest, _) = Digest::split(key.into());
        let deadline = Tick(key.into());
        let inserted = shard.touch_or_insert(digest, |k| *k == key, None, |_| deadline, key, 0);
        assert_eq!(inserted, Touched::Inserted(deadline));
    }

    fn remove(shard: &Shard<u32>, key: u32) {
        let (digest, _) = Digest::split(key.into());
        assert_eq!(shard.remove(digest, |k| *k == key), Some(key));
    }

    #[derive(Clone, Debug)]
    enum Op {
        Touch(u8, u64),
        SetTimeout(u8, u64),
        Remove(u8),
        Expire(u64, usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        let key = || 0..24_u8;
        let ticks = || prop_oneof![4 => 0..40_u64, 2 => 0..5_000_u64, 1 => any::<u64>()];
        prop_oneof![
            6 => (key(), ticks()).prop_map(|(key, ticks)| Op::Touch(key, ticks)),
            3 => (key(), ticks()).prop_map(|(key, ticks)| Op::SetTimeout(key, ticks)),
            1 => key().prop_map(Op::Remove),
            3 => (0..60_u64, 0..6_usize).prop_map(|(ticks, steps)| Op::Expire(ticks, steps)),
        ]
    }

    proptest! {
        #[test]
        fn shards_keep_their_invariants(ops in vec(op(), 1..300)) {
            let shard = Shard::new(Tick(100));
            let mut now = 100_u64;
            let mut model: BTreeMap<u8, u64> = BTreeMap::new();
            for op in ops {
                match op {
                    Op::Touch(key, ticks) => {
                        let new = now.saturating_add(ticks);
                        let is_it = |k: &u8| *k == key;
                        let mut touched = shard.touch(digest(key), is_it, None, |_| Tick(new));
                        let before = model.get(&key).copied();
                        prop_assert_eq!(touched == Touched::Absent, before.is_none());
                        if ticks % 2 == 0 || before.is_none() {
                            touched = shard
                                .touch_or_insert(digest(key), is_it, None, |_| Tick(new), key, 0);
                        }
                        let expected = match before {
                            None => Touched::Inserted(Tick(new)),
                            Some(_) => Touched::PutOff,
                        };
                        prop_assert_eq!(touched, expected);
                        model.insert(key, before.map_or(new, |before| before.max(new)));
                    }
                    Op::SetTimeout(key, ticks) => {
                        let new = now.saturating_add(ticks);
                        let touched = shard.touch(digest(key), |k| *k == key, Some(1), |_| Tick(new));
                        let before = model.get(&key).copied();
                        let expected = match before {
                            None => Touched::Absent,
                            Some(before) if new < before => Touched::Earlier(Tick(new)),
                            Some(_) => Touched::PutOff,
                        };
                        if before.is_some() {
                            model.insert(key, new);
                        }
                        prop_assert_eq!(touched, expected);
                    }
                    Op::Remove(key) => {
                        let removed = shard.remove(digest(key), |k| *k == key);
                        prop_assert_eq!(removed, model.remove(&key).map(|_| key));
                    }
                    Op::Expire(ticks, mut steps) => {
                        now += ticks;
                        let given = steps;
                        match shard.expire(Tick(now), &mut steps) {
                            Some(key) => {
                                let deadline = model.remove(&key);
                                prop_assert!(deadline.is_some_and(|deadline| deadline <= now));
                            }
                            None if steps == 0 => {}
                            None => prop_assert!(model.values().all(|d| *d > now)),
                        }
                        prop_assert!(steps <= given);
                    }
                }
                shard.assert_invariants();
                prop_assert_eq!(shard.len(), model.len());
                for (key, deadline) in &model {
                    let found = shard.deadline(digest(*key), |k| k == key);
                    prop_assert_eq!(found, Some(Tick(*deadline)));
                }
            }
        }
    }

    #[test]
    fn memory_goes_back_as_keys_go() {
        const KEYS: u32 = 20_000;
        for reaped in [false, true] {
            let shard = Shard::new(Tick(0));
            for key in 0..KEYS {
                insert(&shard, key);
            }
            let (places, nodes) = shard.memory();
            assert!(places >= KEYS as usize && nodes >= KEYS as usize);
            for key in 0..KEYS {
                if reaped {
                    let to = Tick(key.into());
                    assert_eq!(shard.expire(to, &mut { usize::MAX }), Some(key));
                } else {
                    remove(&shard, key);
                }
                let (places, nodes) = shard.memory();
                assert!(places <= (32 * shard.len()).max(LITTLE + 64), "{places}");
                assert!(nodes <= shard.len() + 8, "{nodes}");
            }
        }
    }

    #[test]
    fn keys_that_come_and_go_move_no_table() {
        let shard = Shard::new(Tick(0));
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

    /// No table grows by itself, under the lock, and none stays where it is half-way.
    #[test]
    fn all_operations_let_a_move_go_on() {
        fn touch(shard: &Shard<u32>, key: u32) {
            let (digest, _) = Digest::split(key.into());
            let touched = shard.touch(digest, |k| *k == key, None, |_| Tick(0));
            assert_eq!(touched, Touched::PutOff);
        }
        fn expire(shard: &Shard<u32>, _: u32) {
            assert_eq!(shard.expire(Tick(0), &mut 1), None);
        }
        fn insert_more(shard: &Shard<u32>, key: u32) {
            insert(shard, 1_000_000 + key);
        }
        for operation in [touch, remove, expire, insert_more] {
            let shard = Shard::new(Tick(0));
            let (mut keys, mut places) = (1..=u32::MAX, 1);
            while shard.places_at_rest().is_some() || shard.len() < 10_000 {
                insert(&shard, keys.next().unwrap());
                match shard.places_at_rest() {
                    // A little one is there with one step.
                    Some(at_rest) if at_rest <= LITTLE => {}
                    Some(at_rest) => assert!(at_rest <= places, "it has grown by itself"),
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
        let shard = Shard::new(Tick(0));
        for key in 0..100 {
            insert(&shard, key);
        }
        assert_eq!(shard.close().count(), 100);
        assert!(shard.is_closed());
        let (digest, _) = Digest::split(7);
        let touched = shard.touch(digest, |k| *k == 7, None, |_| Tick(1));
        assert_eq!(touched, Touched::Closed);
        assert_eq!(shard.memory(), (1, 0), "what an empty table says");
        let touched = shard.touch_or_insert(digest, |k| *k == 7, None, |_| Tick(1), 7, 0);
        assert_eq!(touched, Touched::Closed);
        assert_eq!((shard.len(), shard.memory()), (0, (1, 0)));
    }

    /// Whichever bits of their hash a hasher makes use of.
    #[test]
    fn all_bits_of_a_hash_tell() {
        for shift in 0..53 {
            let split = |n: u64| Digest::split(n << shift);
            let mut digests: Vec<_> = (0..2_048).map(|n| split(n).0.0).collect();
            digests.sort_unstable();
            digests.dedup();
            assert!(digests.len() > 2_000, "{} at {shift}", digests.len());
            let mut shards = [0_u32; 16];
            for n in 0..2_048 {
                shards[split(n).1 as usize >> 28] += 1;
            }
            assert!(
                shards.iter().all(|n| (32..512).contains(n)),
                "{shards:?} at {shift}"
            );
        }
    }

    #[test]
    fn a_record_is_small() {
        assert_eq!(size_of::<Record<u64>>(), 32);
    }
}
