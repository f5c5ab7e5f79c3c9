//! A shard is one part of a set behind one lock. It has a table of its keys and a wheel with one
//! entry for each key.
//!
//! A record in the table has all data that a touch needs, including the deadline. So a touch
//! usually changes only the record, and the entry in the wheel stays at an earlier tick. When the
//! wheel reaches the tick of the entry, there are two cases. If the key is due, the shard removes
//! it. Otherwise the shard moves the entry to the tick at which the key is due now.
//! [`pace`](super::pace) defines the tick at which a key is due.
//!
//! # Invariants
//!
//! These invariants hold whenever the lock is free. `assert_invariants` checks them. The test
//! `idle::tests::shards_keep_their_invariants` calls `assert_invariants` after every operation.
//!
//! * Each record has one entry in the wheel, and each entry has one record. The record stores the
//!   entry's index, and the entry stores the record's digest.
//! * The tick of an entry is at most the tick at which its key is due. A touch resets an entry only
//!   if the entry would fire too late. A split keeps the ticks of the entries.
//! * An entry whose tick is before the `now` of its wheel has a pair in [`behind`](super::behind).
//! * All keys of a shard belong to its part.
//! * A shard that can split has at most [`SPLIT_AT`] keys. So a split moves at most [`SPLIT_AT`]
//!   keys while it holds the lock.
//!
//! # Rules
//!
//! * Under the lock, the only user code that runs is `Borrow` and `Eq` of keys. A lookup of a key
//!   needs them. They run before the shard changes, so a panic in them does not change the shard
//!   (`a_panicking_eq_leaves_all_as_it_was`).
//! * No other user code runs under the lock (`tests/idle/foreign.rs`). A thread hashes and clones a
//!   key before it takes the lock. To move a record, the shard uses the stored digest, so it does
//!   not hash the key again. The caller drops removed and unused keys after the lock is released.
//! * No operation holds the lock for long, however many keys the shard has: see
//!   [`table`](super::table).
//! * An expired key stays until [`Shard::expire`] returns it. Until then, a task can touch or
//!   remove the key (`a_touch_wins_until_the_key_is_reaped`).

use std::{convert::Infallible, ops::ControlFlow};

use hashbrown::{HashTable, hash_table::OccupiedEntry};

use super::{
    digest::{Digest, Part},
    pace::Pace,
    table::{Hashed, Table},
};
use crate::{
    driver::locked::{self, LockedWheel},
    ground::sync::MutexGuard,
    wheel::{CHUNK, Expired, Order, Tick},
};

/// A shard with this number of keys splits before it takes another key.
///
/// 112 keys fill a table of 128 slots, and their entries fill nearly half of a chunk. Tests and
/// models use smaller values so that shards split often.
pub(super) const SPLIT_AT: usize = if cfg!(tokio_wheel_loom) {
    1
} else if cfg!(test) {
    CHUNK
} else {
    112
};

/// A shard splits when threads have waited for its lock this number of times. Each visit of the
/// reaper sets the count to 0.
pub(super) const MEETINGS: u32 = if cfg!(tokio_wheel_loom) { 1 } else { 16 };

/// A table and a wheel behind one lock, on their own cache lines.
#[repr(align(128))]
pub(super) struct Shard<K>(LockedWheel<Digest, Keys<K>>);

type State<K> = locked::State<Digest, Keys<K>>;

/// The state that the lock protects in addition to the wheel.
// Because of this order, the fields that a touch needs are close to the lock.
#[repr(C)]
struct Keys<K> {
    part: Part,
    /// The number of waits for the lock since the reaper's last visit.
    meetings: u32,
    table: Table<Record<K>>,
}

/// A key with its deadline, its timeout and its entry.
///
/// A record takes 32 bytes if its key takes 8 bytes. In a very large set, a touch spends most of
/// its time on loading the record from memory (`a_record_is_small`).
struct Record<K> {
    key: K,
    deadline: Tick,
    /// The timeout in nanoseconds.
    timeout: u64,
    digest: Digest,
    /// The index of the entry in the wheel.
    index: u32,
}

/// The outcome of a touch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The key is absent and was not inserted.
    Absent,
    /// The shard is closed, so it has no keys.
    Closed,
    /// The key was present, and its effective deadline is not earlier than before.
    PutOff,
    /// The key was present, and its effective deadline is earlier than before.
    Earlier(Next),
    /// The key was absent and has been inserted.
    Inserted(Next),
}

/// The work that a thread must do after it releases the lock. Without this work, the reaper may
/// come too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "otherwise the key may be late"]
pub(super) enum Next {
    Nothing,
    /// The thread must lower the armed tick to this tick.
    Wake(Tick),
    /// The entry has this tick, but the wheel has passed the tick already. The thread must add a
    /// pair for the entry to [`behind`](super::behind). Then it must lower the armed tick.
    Behind(Tick),
}

/// The outcome of a search for the entry of a pair from [`behind`](super::behind).
#[derive(Debug)]
pub(super) enum Reached<K> {
    /// There is no entry for the pair.
    Nothing,
    /// The key is not due, because a task has touched it. Its entry has moved to a later tick. If
    /// the entry is still behind, the variant contains the later tick.
    Touched(Option<Tick>),
    /// The key is due and has been removed.
    Due(K),
}

/// The reason why an operation must look for the shard of its key again.
#[derive(Debug)]
pub(super) enum Retry {
    /// The key belongs to another shard, because this shard has split.
    Elsewhere,
    /// The shard must split first.
    Crowded,
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

impl<K> Keys<K> {
    #[inline]
    fn checked_for(&self, digest: Digest) -> Result<(), Retry> {
        match self.part.has(digest) {
            true => Ok(()),
            false => Err(Retry::Elsewhere),
        }
    }

    /// Returns whether the shard must split. A closed shard has no keys and does not split.
    fn is_crowded(&self) -> bool {
        let len = self.table.len();
        self.part.can_split() && (len >= SPLIT_AT || (self.meetings >= MEETINGS && len > 1))
    }
}

/// The methods find a key by its digest and by `is_it`, which runs user code.
impl<K> Shard<K> {
    pub(super) fn new(now: Tick, part: Part) -> Self {
        let table = Table::new();
        let meetings = 0;
        let keys = Keys {
            part,
            meetings,
            table,
        };
        Self(LockedWheel::new(now, keys))
    }

    /// Creates an empty shard for [`split`](Self::split), with memory for all keys that may move.
    pub(super) fn half() -> Self {
        const { assert!(SPLIT_AT <= CHUNK) };
        let half = Self::new(Tick(0), Part::whole(1));
        let mut state = half.0.lock_with_room();
        state.extra.table = Table::with_capacity(SPLIT_AT);
        drop(state);
        half
    }

    /// Moves half of the keys to `half`, if the shard must still split. Then calls `publish` under
    /// the lock. Its arguments are the index of the new shard and `half`.
    pub(super) fn split(&self, half: Box<Self>, publish: impl FnOnce(usize, Box<Self>)) {
        // The method drops the guard before it drops the argument `half`. So it frees an unused
        // `half` without the lock.
        let mut guard = self.0.lock();
        let State {
            extra: keys, wheel, ..
        } = &mut *guard;
        if !keys.is_crowded() {
            return;
        }
        let mut other = half.0.lock();
        other.extra.part = keys.part.split();
        let part = other.extra.part;
        other.wheel.catch_up(wheel.now());
        keys.meetings = 0;
        for mut record in (keys.table).extract_if(move |record| part.has(record.digest)) {
            let entry = wheel.deregister(wheel.key(record.index));
            let Expired {
                deadline, value, ..
            } = entry.expect("a record has an entry");
            record.index = other.wheel.register(deadline, value).index();
            other.extra.table.insert(record);
        }
        half.0.publish_part_of(&mut other, &guard);
        drop(other);
        publish(part.number(), half);
        self.unlock(guard);
    }

    /// Locks the shard. Returns an error if the key belongs to another shard, or if the shard must
    /// split first.
    #[inline]
    fn lock_for(&self, digest: Digest) -> Result<MutexGuard<'_, State<K>>, Retry> {
        let state = match self.0.try_lock() {
            Some(state) => state,
            None => self.meet()?,
        };
        state.extra.checked_for(digest)?;
        Ok(state)
    }

    /// Locks the shard as [`lock_for`](Self::lock_for) does, but does not count a wait for the
    /// lock.
    fn lock_uncounted(&self, digest: Digest) -> Result<MutexGuard<'_, State<K>>, Retry> {
        let state = self.0.lock();
        state.extra.checked_for(digest)?;
        Ok(state)
    }

    /// Waits for the lock and counts the wait. Returns an error if the shard must split first.
    #[cold]
    fn meet(&self) -> Result<MutexGuard<'_, State<K>>, Retry> {
        let mut state = self.0.lock();
        state.extra.meetings = state.extra.meetings.saturating_add(1);
        match state.extra.is_crowded() {
            true => Err(Retry::Crowded),
            false => Ok(state),
        }
    }

    /// Calls `lock` to lock the shard. If records are moving to a new table, also moves a few of
    /// them.
    ///
    /// If `wants` returns a capacity, the method allocates a table of that capacity. The records
    /// then begin to move to the new table. The method allocates and frees tables without the lock.
    /// Then it calls `lock` again, because other threads may have locked the shard in the meantime.
    /// The method returns the guard only after `wants` has returned `None`.
    #[inline]
    fn prepare<'a, E>(
        &'a self,
        lock: impl Fn() -> Result<MutexGuard<'a, State<K>>, E>,
        wants: impl Fn(&State<K>) -> Option<usize>,
    ) -> Result<MutexGuard<'a, State<K>>, E> {
        loop {
            let mut state = lock()?;
            if let Some(capacity) = wants(&state) {
                drop(state);
                self.begin(HashTable::with_capacity(capacity), &wants);
                continue;
            }
            if !state.extra.table.is_moving() {
                return Ok(state);
            }
            let Some(emptied) = state.extra.table.step() else {
                return Ok(state);
            };
            drop(state);
            drop(emptied);
        }
    }

    /// Begins to move the records to `new`, if `wants` still returns a capacity and `new` is large
    /// enough.
    ///
    /// The method drops the guard before it drops the argument `new`. So it frees an unused `new`
    /// without the lock.
    #[cold]
    fn begin(&self, new: HashTable<Record<K>>, wants: impl Fn(&State<K>) -> Option<usize>) {
        let mut state = self.0.lock();
        if wants(&state).is_some_and(|capacity| capacity <= new.capacity()) {
            state.extra.table.begin(new);
        }
    }

    /// Releases the lock and then frees the unused memory of the wheel.
    fn unlock(&self, state: MutexGuard<'_, State<K>>) {
        let has_unused = state.wheel.has_unused();
        drop(state);
        if has_unused {
            self.0.free_unused();
        }
    }

    /// Touches a key under the lock.
    #[inline]
    fn touch_locked(
        &self,
        state: &mut State<K>,
        pace: &Pace,
        digest: Digest,
        is_it: impl Fn(&K) -> bool,
        timeout: Option<u64>,
        deadline: impl Fn(u64) -> Tick,
    ) -> Outcome {
        let Some(mut record) = state.extra.table.find_key(digest, is_it) else {
            return match state.closed {
                true => Outcome::Closed,
                false => Outcome::Absent,
            };
        };
        let record = record.get_mut();
        let Some(timeout) = timeout else {
            // This thread has read the clock before it took the lock. In between, another touch
            // with a later time may have changed the record.
            record.deadline = record.deadline.max(deadline(record.timeout));
            return Outcome::PutOff;
        };
        let frame = pace.frame();
        let before = frame.effective(record.deadline, record.timeout);
        record.deadline = deadline(timeout);
        record.timeout = timeout;
        if frame.effective(record.deadline, timeout) >= before {
            return Outcome::PutOff;
        }
        let tick = frame.wheel(record.deadline, timeout);
        let entry = state.wheel.key(record.index);
        // If the entry is early enough, it keeps its tick. Suppose that a key behind a shed
        // switches between two timeouts. If the shard reset the entry at each switch, each reset
        // would add a new pair to `behind`.
        if state
            .wheel
            .deadline(entry)
            .is_some_and(|entry| entry <= tick)
        {
            return Outcome::Earlier(Next::Nothing);
        }
        state.wheel.reset(entry, tick);
        Outcome::Earlier(self.publish(state, tick))
    }

    /// Publishes the tick of an entry that was registered or reset. Returns the work that remains.
    fn publish(&self, state: &mut State<K>, tick: Tick) -> Next {
        let published = self.0.publish_earlier(state, tick);
        match published {
            _ if tick < state.wheel.now() => Next::Behind(tick),
            Some(tick) => Next::Wake(tick),
            None => Next::Nothing,
        }
    }

    /// Sets the deadline of a key from the key's timeout. If `timeout` is `Some`, the method first
    /// sets the key's timeout to this value.
    #[inline]
    pub(super) fn touch(
        &self,
        pace: &Pace,
        digest: Digest,
        is_it: impl Fn(&K) -> bool,
        timeout: Option<u64>,
        deadline: impl Fn(u64) -> Tick,
    ) -> Result<Outcome, Retry> {
        let mut state = self.prepare(|| self.lock_for(digest), |_| None)?;
        Ok(self.touch_locked(&mut state, pace, digest, is_it, timeout, deadline))
    }

    /// Touches a key, or inserts it if it is absent.
    ///
    /// `new` must contain the key to insert. An inserted key gets `timeout`, or the `usual` timeout
    /// if `timeout` is `None`. If the set has an equal key already, the key in `new` stays there,
    /// and the caller drops it.
    #[expect(
        clippy::too_many_arguments,
        reason = "the key, its times, and the key to insert"
    )]
    pub(super) fn touch_or_insert(
        &self,
        pace: &Pace,
        digest: Digest,
        is_it: impl Fn(&K) -> bool,
        timeout: Option<u64>,
        deadline: impl Fn(u64) -> Tick,
        new: &mut Option<K>,
        usual: u64,
    ) -> Result<Outcome, Retry> {
        let lock = || {
            let state = self.0.lock_with_room();
            state.extra.checked_for(digest)?;
            Ok(state)
        };
        let mut state = self.prepare(lock, |state| {
            let is_due = !state.closed && !state.extra.is_crowded();
            state.extra.table.lacks_room().filter(|_| is_due)
        })?;
        let touched = self.touch_locked(&mut state, pace, digest, is_it, timeout, &deadline);
        if touched != Outcome::Absent {
            return Ok(touched);
        }
        if state.extra.is_crowded() {
            return Err(Retry::Crowded);
        }
        let timeout = timeout.unwrap_or(usual);
        let deadline = deadline(timeout);
        let tick = pace.frame().wheel(deadline, timeout);
        let index = (state.wheel.register_in_room(tick, digest)).index();
        state.extra.table.insert(Record {
            key: new.take().expect("the caller gives a key to insert"),
            deadline,
            timeout,
            digest,
            index,
        });
        Ok(Outcome::Inserted(self.publish(&mut state, tick)))
    }

    /// Removes a key and returns it.
    pub(super) fn remove(
        &self,
        digest: Digest,
        is_it: impl Fn(&K) -> bool,
    ) -> Result<Option<K>, Retry> {
        let mut guard = self.prepare(|| self.lock_for(digest), Self::is_sparse)?;
        let state = &mut *guard;
        let key = state.extra.table.find_key(digest, is_it).map(|record| {
            state.wheel.deregister(state.wheel.key(record.get().index));
            record.remove().0.key
        });
        self.unlock(guard);
        Ok(key)
    }

    /// Removes and returns a key that is due at `to` or earlier. `to` is a tick of the wheels.
    ///
    /// The method makes at most `steps` steps. It subtracts the number of steps that it made from
    /// `steps`. If it returns `None` and no step is left, the shard may still have a due key.
    ///
    /// The method reads the pressure under the lock. So if a task touches a key after the pressure
    /// has fallen, the method uses the lower pressure for this key.
    pub(super) fn expire(&self, pace: &Pace, to: Tick, steps: &mut usize) -> Option<K> {
        let lock = || Ok::<_, Infallible>(self.0.lock());
        let Ok(mut guard) = self.prepare(lock, Self::is_sparse);
        let State {
            extra: keys, wheel, ..
        } = &mut *guard;
        keys.meetings = 0;
        let frame = pace.frame();
        let expired = loop {
            let mut reached = None;
            let _ = wheel.advance(to, Order::Strict, steps, |entry| {
                reached = Some(entry);
                ControlFlow::Break(())
            });
            let Some(entry) = reached else { break None };
            let (digest, index) = (entry.value, entry.key.index());
            let mut record = (keys.table)
                .find(digest.spread(), |record| record.index == index)
                .expect("an entry has a record");
            let tick = frame.wheel(record.get().deadline, record.get().timeout);
            if tick <= to {
                break Some(record.remove().0.key);
            }
            // The wheel reuses the memory of the fired entry, so `register` does not allocate. The
            // only exception is a chunk that has had four billion entries.
            record.get_mut().index = wheel.register(tick, digest).index();
        };
        if expired.is_none() {
            self.0.raise(&mut guard);
        }
        self.unlock(guard);
        expired
    }

    /// Looks for one entry with the digest of a pair from [`behind`](super::behind). The tick of
    /// the entry must be `to` or earlier. `to` is the tick of the current round.
    ///
    /// The method reads the pressure under the lock, as [`expire`](Self::expire) does.
    pub(super) fn expire_behind(
        &self,
        pace: &Pace,
        digest: Digest,
        to: Tick,
    ) -> Result<Reached<K>, Retry> {
        let mut guard = self.prepare(|| self.lock_uncounted(digest), Self::is_sparse)?;
        let State {
            extra: keys, wheel, ..
        } = &mut *guard;
        let frame = pace.frame();
        let is_reached = |record: &Record<K>| {
            let entry = wheel.deadline(wheel.key(record.index));
            record.digest == digest && entry.is_some_and(|tick| tick <= to)
        };
        let reached = match keys.table.find(digest.spread(), is_reached) {
            None => Reached::Nothing,
            Some(record) => {
                let entry = wheel.key(record.get().index);
                let tick = frame.wheel(record.get().deadline, record.get().timeout);
                if tick <= to {
                    wheel.deregister(entry);
                    Reached::Due(record.remove().0.key)
                } else {
                    wheel.reset(entry, tick);
                    Reached::Touched(Some(tick).filter(|tick| *tick < wheel.now()))
                }
            }
        };
        self.unlock(guard);
        Ok(reached)
    }

    fn is_sparse(state: &State<K>) -> Option<usize> {
        state.extra.table.is_sparse()
    }

    /// Returns the effective deadline of a key.
    pub(super) fn deadline(
        &self,
        pace: &Pace,
        digest: Digest,
        is_it: impl Fn(&K) -> bool,
    ) -> Result<Option<Tick>, Retry> {
        let mut state = self.lock_for(digest)?;
        let frame = pace.frame();
        let record = state.extra.table.find_key(digest, is_it);
        Ok(record.map(|record| frame.effective(record.get().deadline, record.get().timeout)))
    }

    /// Returns the published tick, as a tick of the wheels. No key of the shard is due before this
    /// tick, unless its entry is [behind](super::behind) a shed.
    pub(super) fn next_expiration(&self) -> Tick {
        self.0.published()
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().extra.table.len()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.lock().closed
    }

    /// Closes the shard and returns its keys.
    pub(super) fn close(&self) -> impl Iterator<Item = K> + use<K> {
        let (table, _wheel) = {
            let mut state = self.0.lock();
            let wheel = state.close();
            (
                std::mem::replace(&mut state.extra.table, Table::new()),
                wheel,
            )
        };
        table.into_records().map(|record| record.key)
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use super::{
        super::{behind::Behind, table::LITTLE},
        *,
    };

    /// Returns a pace in which pressure has no effect.
    fn pace() -> Pace {
        Pace::new(Duration::from_nanos(1), Duration::ZERO, Duration::ZERO)
    }

    impl<K> Shard<K> {
        /// Creates a shard to which all keys belong.
        fn whole() -> Self {
            Self::new(Tick(0), Part::whole(1))
        }

        pub(in super::super) fn assert_invariants(&self, pace: &Pace, behind: &Behind) {
            let mut state = self.0.lock();
            let State {
                extra: keys, wheel, ..
            } = &mut *state;
            let Keys { part, table, .. } = keys;
            assert!(table.iter().all(|record| part.has(record.digest)));
            assert!(!part.can_split() || table.len() <= SPLIT_AT);
            assert_eq!(table.len(), wheel.len());
            let published = self.0.published();
            for record in table.iter() {
                let entry = wheel.key(record.index);
                assert_eq!(wheel.get(entry), Some(&record.digest));
                let deadline = wheel.deadline(entry).unwrap();
                let due = pace.frame().wheel(record.deadline, record.timeout);
                assert!(deadline <= due);
                // If an entry is behind a shed, the wheel stores the entry in the slot of `now`.
                assert!(published <= deadline.max(wheel.now()));
                assert!(deadline >= wheel.now() || behind.has(deadline, record.digest));
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

        /// Waits for the lock as an operation does that finds it taken. Returns whether the shard must
        /// then split.
        pub(in super::super) fn must_split_after_a_wait(&self) -> bool {
            self.meet().is_err()
        }

        /// Keeps the lock until the result is dropped.
        pub(in super::super) fn keep_locked(&self) -> impl Drop {
            self.0.lock()
        }

        /// Returns the number of slots of the table, or `None` while records move.
        fn places_at_rest(&self) -> Option<usize> {
            let state = self.0.lock();
            (!state.extra.table.is_moving()).then(|| state.extra.table.places())
        }

        /// Returns the number of slots of the table, and the number of nodes of the wheel.
        fn memory(&self) -> (usize, usize) {
            let state = self.0.lock();
            (state.extra.table.places(), state.wheel.capacity())
        }
    }

    fn insert(shard: &Shard<u32>, key: u32) {
        let digest = Digest::of(key.into());
        let deadline = Tick(key.into());
        let new = &mut Some(key);
        let inserted =
            shard.touch_or_insert(&pace(), digest, |k| *k == key, None, |_| deadline, new, 0);
        assert!(matches!(inserted.unwrap(), Outcome::Inserted(_)));
    }

    fn remove(shard: &Shard<u32>, key: u32) {
        let digest = Digest::of(key.into());
        assert_eq!(shard.remove(digest, |k| *k == key).unwrap(), Some(key));
    }

    #[test]
    fn memory_goes_back_as_keys_go() {
        const KEYS: u32 = 20_000;
        for reaped in [false, true] {
            let shard = Shard::whole();
            for key in 0..KEYS {
                insert(&shard, key);
            }
            let (places, nodes) = shard.memory();
            assert!(places >= KEYS as usize && nodes >= KEYS as usize);
            for key in 0..KEYS {
                if reaped {
                    let to = Tick(key.into());
                    assert_eq!(shard.expire(&pace(), to, &mut { usize::MAX }), Some(key));
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
        let shard = Shard::whole();
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
            let digest = Digest::of(key.into());
            let touched = shard.touch(&pace(), digest, |k| *k == key, None, |_| Tick(0));
            assert_eq!(touched.unwrap(), Outcome::PutOff);
        }
        fn expire(shard: &Shard<u32>, _: u32) {
            assert_eq!(shard.expire(&pace(), Tick(0), &mut 1), None);
        }
        fn insert_more(shard: &Shard<u32>, key: u32) {
            insert(shard, 1_000_000 + key);
        }
        for operation in [touch, remove, expire, insert_more] {
            let shard = Shard::whole();
            let (mut keys, mut places) = (1..=u32::MAX, 1);
            while shard.places_at_rest().is_some() || shard.len() < 10_000 {
                insert(&shard, keys.next().unwrap());
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
        let shard = Shard::whole();
        for key in 0..100 {
            insert(&shard, key);
        }
        assert_eq!(shard.close().count(), 100);
        assert!(shard.is_closed());
        let digest = Digest::of(7);
        let touched = shard.touch(&pace(), digest, |k| *k == 7, None, |_| Tick(1));
        assert_eq!(touched.unwrap(), Outcome::Closed);
        assert_eq!(shard.memory(), (1, 0), "an empty table has one slot");
        let touched = shard.touch_or_insert(
            &pace(),
            digest,
            |k| *k == 7,
            None,
            |_| Tick(1),
            &mut Some(7),
            0,
        );
        assert_eq!(touched.unwrap(), Outcome::Closed);
        assert_eq!((shard.len(), shard.memory()), (0, (1, 0)));
    }

    #[test]
    fn a_record_is_small() {
        assert_eq!(size_of::<Record<u64>>(), 32);
    }
}
