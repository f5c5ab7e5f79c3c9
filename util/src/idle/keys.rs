//! The operations on the keys of a [shard](super::shard), which has a table of its keys and a wheel
//! with one entry for each key. [`LockedShard`] is the guard of its lock.
//!
//! A record in the table has all data that a touch needs, including the deadline. So a touch
//! usually changes only the record, and the entry in the wheel stays at an earlier tick. When the
//! wheel reaches the tick of the entry, there are two cases. If the key is due, the shard removes
//! it. Otherwise the shard registers a new entry at the deadline that the key has now.
//!
//! | Operation | Before it      | Under the lock                           | After it               |
//! |-----------|----------------|------------------------------------------|------------------------|
//! | `touch`   | hash           | find, store the deadline                 |                        |
//! | `touch` with a timeout | hash | find, store both, reset a later entry | follow up              |
//! | `insert`  | clone, memory  | register an entry, insert the record     | follow up              |
//! | `remove`  | hash           | find, remove the record and its entry    | free memory, drop      |
//! | `expire`  |                | fire an entry, remove or move its key    | free memory, follow up |
//!
//! To follow up means that the thread lowers the [armed tick](crate::ground::armed), which may wake the reaper.
//!
//! # Invariants
//!
//! These invariants hold whenever the lock is free. `assert_invariants` checks them. The test
//! `idle::tests::shards_keep_their_invariants` calls `assert_invariants` after every operation.
//!
//! * Each record has one entry in the wheel, and each entry has one record. The record stores the
//!   entry's index, and the entry stores the record's digest.
//! * The tick of an entry is at most the deadline of its key. A touch resets an entry only if the entry
//!   would fire too late.
//! * An entry whose tick is before the `now` of its wheel is [overtaken](super::shard), and has a line.
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

use bounded_wheel::{Key as EntryKey, NEVER, Order, Removed, Tick};
use hashbrown::hash_table::OccupiedEntry;

use super::{
    digest::Digest,
    shard::{Guard, Record, Shard, Wheel},
    shards::Shards,
    table::Table,
    touched::Touched,
};

/// The guard of a shard's lock, with the operations on the keys.
///
/// The operations find a key by its digest and by `equals`, which runs user code.
pub(super) struct LockedShard<'a, K> {
    state: Guard<'a, K>,
    shard: &'a Shard<K>,
    shards: &'a Shards<K>,
    /// The tick to which the thread must lower the armed tick after it has released the lock.
    early: Option<Tick>,
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

impl<K> Shards<K> {
    /// Locks the shard of a key. Returns an error if the shard has no keys: [`Touched::Absent`], or
    /// [`Touched::Closed`] if the set is closed.
    // Without this attribute, the guard passes through memory, and a touch takes 334 instructions
    // instead of 307.
    #[inline(always)]
    pub(super) fn lock(&self, digest: Digest) -> Result<LockedShard<'_, K>, Touched> {
        if self.is_closed() {
            return Err(Touched::Closed);
        }
        let shard = self.slot(digest).get().ok_or(Touched::Absent)?.as_ref();
        let locked = shard.and_then(|shard| self.lock_shard(shard));
        locked.ok_or(Touched::Closed)
    }

    /// Locks the shard of a key, which then has memory for one more key. Returns `None` if the set
    /// is closed.
    pub(super) fn lock_with_room(&self, digest: Digest) -> Option<LockedShard<'_, K>> {
        let shard = self.shard_of(digest)?;
        Some(self.locked(shard, shard.lock_with_room()?))
    }

    /// Locks a shard of this set, or returns `None` if it is closed.
    #[inline]
    pub(super) fn lock_shard<'a>(&'a self, shard: &'a Shard<K>) -> Option<LockedShard<'a, K>> {
        Some(self.locked(shard, shard.lock()?))
    }

    #[inline]
    fn locked<'a>(&'a self, shard: &'a Shard<K>, state: Guard<'a, K>) -> LockedShard<'a, K> {
        LockedShard {
            state,
            shard,
            shards: self,
            early: None,
        }
    }
}

impl<K> LockedShard<'_, K> {
    #[inline]
    fn parts(&mut self) -> (&mut Table<Record<K>>, &mut Wheel<Digest>) {
        let state = &mut *self.state;
        (&mut state.table, &mut state.wheel)
    }

    /// Releases the lock, and follows up.
    #[inline]
    pub(super) fn unlock(self) {
        drop(self.state);
        if let Some(tick) = self.early {
            self.shards.armed.wake_for(tick);
        }
    }

    /// Releases the lock, frees memory that the keys no longer need, and follows up.
    pub(super) fn unlock_and_free(self) {
        self.shard.unlock_and_free(self.state);
        if let Some(tick) = self.early {
            self.shards.armed.wake_for(tick);
        }
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
        let due = deadline(timeout);
        (record.timeout, record.deadline) = (timeout, due);
        let entry = wheel.key(record.index);
        if wheel.deadline(entry).is_some_and(|tick| due < tick) {
            wheel.reset(entry, due);
            self.publish(due, entry);
        }
        Touched::Present
    }

    /// Inserts a key, which must be absent. The caller has locked the shard [with
    /// room](Shards::lock_with_room).
    pub(super) fn insert(&mut self, digest: Digest, key: K, timeout: u64, deadline: Tick) {
        let (table, wheel) = self.parts();
        let entry = wheel.insert_in_room(deadline, digest);
        table.insert(Record {
            key,
            deadline,
            timeout,
            digest,
            index: entry.index(),
        });
        self.publish(deadline, entry);
    }

    /// Publishes the tick of an entry that was registered or reset, if it is earlier than the published tick. If the
    /// wheel has passed the tick, adds a line.
    fn publish(&mut self, due: Tick, entry: EntryKey) {
        let state = &mut *self.state;
        let is_overtaken = due < state.wheel.now();
        if is_overtaken {
            state.overtaken.insert((due, entry));
        }
        if due < self.shard.published() {
            let next = state.wheel.next_expiration().unwrap_or(due);
            let next = if is_overtaken { due } else { next };
            self.shard.publish(next);
            self.early = Some(next);
        }
    }

    /// Removes a key, releases the lock, and frees memory. Returns the key.
    pub(super) fn remove(mut self, digest: Digest, equals: impl Fn(&K) -> bool) -> Option<K> {
        let (table, wheel) = self.parts();
        let found = find(table, digest, equals)?;
        wheel.remove(wheel.key(found.get().index));
        let removed = found.remove().0.key;
        self.unlock_and_free();
        Some(removed)
    }

    /// Returns the deadline of a key.
    pub(super) fn deadline(&mut self, digest: Digest, equals: impl Fn(&K) -> bool) -> Option<Tick> {
        let found = find(&mut self.state.table, digest, equals)?;
        Some(found.get().deadline)
    }

    /// Removes and returns a key that is due at `to` or earlier.
    ///
    /// The method makes at most `steps` steps. It subtracts the number of steps that it made from
    /// `steps`. If it returns `None` and no step is left, the shard may still have a due key.
    pub(super) fn expire(&mut self, to: Tick, steps: &mut usize) -> Option<K> {
        while let Some(entry) = self.next_entry(to, steps) {
            let due = self.remove_if_due(&entry, to);
            if due.is_some() {
                return due;
            }
        }
        let state = &*self.state;
        let line = state.overtaken.first().map(|(tick, _)| *tick);
        let next = state.wheel.next_expiration().into_iter().chain(line).min();
        let next = next.unwrap_or(NEVER).max(self.shard.published());
        self.shard.publish(next);
        None
    }

    /// Removes and returns an entry whose tick is at `to` or earlier, with at most `steps` steps.
    fn next_entry(&mut self, to: Tick, steps: &mut usize) -> Option<Removed<Digest>> {
        let state = &mut *self.state;
        let lines = &mut state.overtaken;
        while *steps > 0 && lines.first().is_some_and(|(tick, _)| *tick <= to) {
            *steps -= 1;
            let removed = state.wheel.remove(lines.pop_first()?.1);
            if removed.is_some() {
                return removed;
            }
        }
        let mut fired = None;
        let _ = state.wheel.advance(to, Order::Strict, steps, |entry| {
            fired = Some(entry);
            ControlFlow::Break(())
        });
        fired
    }

    /// Removes and returns the key of an entry that has left the wheel, if the key is due at `to` or
    /// earlier. Otherwise registers a new entry for the key.
    fn remove_if_due(&mut self, entry: &Removed<Digest>, to: Tick) -> Option<K> {
        let (table, wheel) = self.parts();
        let (digest, index) = (entry.value, entry.key.index());
        let mut found = (table.find(digest.spread(), |record| record.index == index))
            .expect("an entry has a record");
        let due = found.get().deadline;
        if due <= to {
            return Some(found.remove().0.key);
        }
        // The wheel reuses the memory of the old entry, so `insert` does not allocate. The only
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
        super::table::{Hashed, LITTLE},
        *,
    };
    use crate::ground::clock::Clock;

    impl<K> LockedShard<'_, K> {
        pub(in super::super) fn assert_invariants(&mut self) {
            let published = self.shard.published();
            let state = &mut *self.state;
            let (table, wheel) = (&mut state.table, &state.wheel);
            assert_eq!(table.len(), wheel.len());
            for record in table.iter() {
                let entry = wheel.key(record.index);
                assert_eq!(wheel.get(entry), Some(&record.digest));
                let tick = wheel.deadline(entry).unwrap();
                assert!(tick <= record.deadline);
                assert!(published <= tick);
                assert!(tick >= wheel.now() || state.overtaken.contains(&(tick, entry)));
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

    /// Returns a set with one shard.
    fn one_shard() -> Shards<u32> {
        // Because the tick is an hour, the wheel begins at tick 0 even on a slow machine.
        let clock = Clock::new(Duration::from_secs(3_600));
        let shards = Shards::new(clock, 1);
        assert!(shards.shard_of(digest(0)).is_some());
        shards
    }

    fn shard(shards: &Shards<u32>) -> &Shard<u32> {
        shards.shard(0).unwrap()
    }

    fn with_keys<R>(shards: &Shards<u32>, act: impl FnOnce(&mut LockedShard<'_, u32>) -> R) -> R {
        let mut keys = shards.lock_shard(shard(shards)).unwrap();
        let result = act(&mut keys);
        assert_eq!(keys.early, None);
        keys.unlock_and_free();
        result
    }

    fn digest(key: u32) -> Digest {
        Digest::of(key.into())
    }

    fn insert(shards: &Shards<u32>, key: u32) {
        let mut keys = shards.lock_with_room(digest(key)).unwrap();
        keys.insert(digest(key), key, 0, key.into());
        keys.unlock();
    }

    fn remove(shards: &Shards<u32>, key: u32) {
        let keys = shards.lock(digest(key)).ok().unwrap();
        assert_eq!(keys.remove(digest(key), |k| *k == key), Some(key));
    }

    fn expire(shards: &Shards<u32>, to: u32, steps: usize) -> Option<u32> {
        let to = to.into();
        with_keys(shards, |keys| keys.expire(to, &mut { steps }))
    }

    #[test]
    fn memory_goes_back_as_keys_go() {
        const KEYS: u32 = 20_000;
        for reaped in [false, true] {
            let shards = one_shard();
            for key in 0..KEYS {
                insert(&shards, key);
            }
            let (places, nodes) = shard(&shards).memory();
            assert!(places >= KEYS as usize && nodes >= KEYS as usize);
            for key in 0..KEYS {
                if reaped {
                    assert_eq!(expire(&shards, key, usize::MAX), Some(key));
                } else {
                    remove(&shards, key);
                }
                let (places, nodes) = shard(&shards).memory();
                let len = (KEYS - key) as usize - 1;
                assert!(places <= (32 * len).max(LITTLE + 64), "{places}");
                assert!(nodes <= len + 2 * CHUNK, "{nodes}");
            }
        }
    }

    #[test]
    fn keys_that_come_and_go_move_no_table() {
        let shards = one_shard();
        for key in 0..4_000 {
            insert(&shards, key);
        }
        let mut sizes = Vec::from_iter(shard(&shards).places_at_rest());
        for key in 0..4_000 {
            for come_and_go in [key, 4_001, 4_002, 4_003] {
                if come_and_go > 4_000 {
                    insert(&shards, come_and_go);
                    sizes.extend(shard(&shards).places_at_rest());
                }
                remove(&shards, come_and_go);
                sizes.extend(shard(&shards).places_at_rest());
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
        fn touch(shards: &Shards<u32>, key: u32) {
            let equals = |k: &u32| *k == key;
            let touched = with_keys(shards, |keys| keys.touch(digest(key), equals, None, |_| 0));
            assert_eq!(touched, Touched::Present);
        }
        fn look_for_due(shards: &Shards<u32>, _: u32) {
            assert_eq!(expire(shards, 0, 1), None);
        }
        fn insert_more(shards: &Shards<u32>, key: u32) {
            insert(shards, 1_000_000 + key);
        }
        for operation in [touch, remove, look_for_due, insert_more] {
            let shards = one_shard();
            let (mut keys, mut places) = (1..=u32::MAX, 1);
            let mut inserted = 0;
            while shard(&shards).places_at_rest().is_some() || inserted < 10_000 {
                insert(&shards, keys.next().unwrap());
                inserted += 1;
                match shard(&shards).places_at_rest() {
                    // One operation may move all records of a small table.
                    Some(at_rest) if at_rest <= LITTLE => {}
                    Some(at_rest) => {
                        assert!(at_rest <= places, "the table has grown under the lock")
                    }
                    None => places = shard(&shards).memory().0,
                }
            }
            for key in 1..=places as u32 / 64 {
                operation(&shards, key);
            }
            assert!(shard(&shards).places_at_rest().is_some());
        }
    }

    #[test]
    fn a_closed_shard_keeps_nothing() {
        let shards = one_shard();
        for key in 0..100 {
            insert(&shards, key);
        }
        assert_eq!(shards.len(), 100);
        let [(table, ..)] = &shards.close()[..] else {
            panic!("there is one shard");
        };
        assert_eq!(table.iter().count(), 100);
        assert!(matches!(shards.lock(digest(0)), Err(Touched::Closed)));
        assert!(shards.lock_with_room(digest(0)).is_none());
        let memory = shard(&shards).memory();
        assert_eq!(memory, (1, 0), "an empty table has one slot");
    }
}
