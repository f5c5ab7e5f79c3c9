//! One locked part of a set: a table of the keys, and a wheel of when to look at them.
//!
//! A record in the table has all that a touch needs, including the deadline, so a touch changes
//! only the table. The wheel lags behind: for each key it holds a tick at which the key was once due.
//! When that comes, either the key is due, or its entry moves to where it is due by then.
//! [`pace`](super::pace) says at which tick of the wheel a key is due, given its deadline.
//!
//! # Invariants
//!
//! Whenever the lock is free (`assert_invariants`, which `shards::tests::shards_keep_their_invariants` calls
//! after every operation):
//!
//! * Each record has one entry of the wheel, and each entry one record. The record has the
//!   entry's index and the entry what the record keeps of the hash, by which they find each other.
//! * No entry's tick is after the one at which its record is due. A touch resets an entry that would come too late, and no
//!   other. A split keeps the ticks of the entries.
//! * An entry whose tick is before its wheel's `now` has a pair in [`behind`](super::behind).
//! * The shard has keys of its part only.
//! * A shard that can split has at most [`SPLIT_AT`] keys. So a split moves no more than that under one hold of the
//!   lock. A shard has more keys only if there are as many shards as there may be.
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

/// A shard that has so many keys splits before it takes another one. 112 keys fill a table of 128 places, and their
/// entries take half of a chunk. Small in tests and models, so that shards split all the time.
pub(super) const SPLIT_AT: usize = if cfg!(tokio_wheel_loom) {
    1
} else if cfg!(test) {
    CHUNK
} else {
    112
};

/// A shard splits when threads have met at its lock so many times between two visits of the reaper.
const MEETINGS: u32 = if cfg!(tokio_wheel_loom) { 1 } else { 16 };

/// A table and a wheel under a lock, on cache lines of their own.
#[repr(align(128))]
pub(super) struct Shard<K>(LockedWheel<Digest, Keys<K>>);

type State<K> = locked::State<Digest, Keys<K>>;

/// The state that the lock protects beside the wheel.
// In this order, so that what a touch needs lies together with the lock before it.
#[repr(C)]
struct Keys<K> {
    part: Part,
    /// How often a thread had to wait for the lock since the reaper's last visit.
    meetings: u32,
    table: Table<Record<K>>,
}

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

/// What became of a touch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The key is not there.
    Absent,
    /// Nor is any other: the shard is closed.
    Closed,
    /// Its effective deadline is not earlier than it was.
    PutOff,
    /// Its effective deadline is earlier than it was.
    Earlier(Next),
    /// It was not there before.
    Inserted(Next),
}

/// What is left to do once the lock is released, so that the reaper comes in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "otherwise the key may be late"]
pub(super) enum Next {
    Nothing,
    /// The armed tick must be lowered to this one.
    Wake(Tick),
    /// The entry has this tick, which is before the wheel's `now`. The pair must be added to [`behind`](super::behind), and
    /// the armed tick must be lowered.
    Behind(Tick),
}

/// What a shard had for a pair of [`behind`](super::behind) that is reached.
#[derive(Debug)]
pub(super) enum Reached<K> {
    /// No entry at all, or none any more.
    Nothing,
    /// A key that is not due, since it was touched. Its entry now has a tick that the round has not reached. If that is
    /// still behind, the tick is given.
    Touched(Option<Tick>),
    /// A key that is due. It is taken out.
    Due(K),
}

/// Why an operation must look for the shard of its key again.
#[derive(Debug)]
pub(super) enum Retry {
    /// Another shard has the key, since this one has split.
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

    /// Returns whether the shard must split. A closed shard has no keys, and does not split.
    fn is_crowded(&self) -> bool {
        let len = self.table.len();
        self.part.can_split() && (len >= SPLIT_AT || (self.meetings >= MEETINGS && len > 1))
    }
}

/// The methods find a key by its digest and by `is_it`, which is user code.
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

    /// Makes a shard to be given to [`split`](Self::split): with memory for all keys that may move.
    pub(super) fn half() -> Self {
        const { assert!(SPLIT_AT <= CHUNK) };
        let half = Self::new(Tick(0), Part::whole(1));
        let mut state = half.0.lock_with_room(|| half.0.lock());
        state.extra.table = Table::with_capacity(SPLIT_AT);
        drop(state);
        half
    }

    /// Moves half of the keys to `half`, if the shard must still split. Then calls `publish`, under the lock, with
    /// `half` and its number.
    pub(super) fn split(&self, half: Box<Self>, publish: impl FnOnce(usize, Box<Self>)) {
        // If the shard does not split, `half` is dropped after the lock, as it is an argument.
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

    /// Locks the shard if it has the key.
    #[inline]
    #[cfg_attr(tokio_wheel_lock_times, track_caller)]
    fn lock_for(&self, digest: Digest) -> Result<MutexGuard<'_, State<K>>, Retry> {
        let state = match self.0.try_lock() {
            Some(state) => state,
            None => self.meet()?,
        };
        state.extra.checked_for(digest)?;
        Ok(state)
    }

    /// As [`lock_for`](Self::lock_for), but does not count a wait for the lock.
    fn lock_uncounted(&self, digest: Digest) -> Result<MutexGuard<'_, State<K>>, Retry> {
        let state = self.0.lock();
        state.extra.checked_for(digest)?;
        Ok(state)
    }

    /// Waits for the lock, and counts that.
    #[cold]
    #[cfg_attr(tokio_wheel_lock_times, track_caller)]
    fn meet(&self) -> Result<MutexGuard<'_, State<K>>, Retry> {
        let mut state = self.0.lock();
        state.extra.meetings = state.extra.meetings.saturating_add(1);
        match state.extra.is_crowded() {
            true => Err(Retry::Crowded),
            false => Ok(state),
        }
    }

    /// Locks the shard with `lock`, and moves a few records, if records move. First begins to move them to a new
    /// table, if `wants` says of which capacity.
    ///
    /// Allocates and frees tables without the lock. Then it starts over, as others may have had the
    /// lock in between: under the hold that is returned, the table has all it needs.
    #[inline]
    #[cfg_attr(tokio_wheel_lock_times, track_caller)]
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

    /// Has the table move to a new one, if that is still wanted. If not, `new` is dropped after the
    /// lock, as it is an argument.
    #[cold]
    fn begin(&self, new: HashTable<Record<K>>, wants: impl Fn(&State<K>) -> Option<usize>) {
        let mut state = self.0.lock();
        if wants(&state).is_some_and(|capacity| capacity <= new.capacity()) {
            state.extra.table.begin(new);
        }
    }

    /// Releases the lock, and then frees the memory that is not used any more.
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
            // The clock was read before the lock was taken. A later touch may have been faster.
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
        // A key that has two timeouts in turn would otherwise leave a pair behind a shed each time.
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

    /// For an entry that was registered or reset to `tick`. The shard publishes the tick.
    fn publish(&self, state: &mut State<K>, tick: Tick) -> Next {
        let published = self.0.publish_earlier(state, tick);
        match published {
            _ if tick < state.wheel.now() => Next::Behind(tick),
            Some(tick) => Next::Wake(tick),
            None => Next::Nothing,
        }
    }

    /// Puts a key off to the deadline that its timeout gives it, first setting that if there is
    /// a `timeout`.
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

    /// As [`touch`](Self::touch), and inserts the key if it is not there: `new`, which must be given, with `timeout`
    /// or else with the `usual` one. Leaves `new` for the caller to drop if it is not inserted.
    #[expect(
        clippy::too_many_arguments,
        reason = "a key, when it is due, and where the new one comes from"
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
            let state = self.0.lock_with_room(|| self.0.lock());
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
        let place = state.wheel.place(tick);
        let index = (state.wheel.register_at(place, tick, digest)).index();
        state.extra.table.insert(Record {
            key: new.take().expect("a key to insert is given"),
            deadline,
            timeout,
            digest,
            index,
        });
        Ok(Outcome::Inserted(self.publish(&mut state, tick)))
    }

    /// Takes a key out.
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

    /// Takes out a key that is due at `to`, a tick of the wheels, or before, in at most `steps`, and lowers them by
    /// those that it did. If no step is left, there may be such a key though none is returned.
    ///
    /// Looks at the pressure under the lock: a key that was touched after the pressure fell has its full timeout.
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
            wheel.advance(to, Order::Strict, steps, |entry| {
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
            // The entry that came out has left room, unless it was the last of four billion of its chunk.
            record.get_mut().index = wheel.register(tick, digest).index();
        };
        if expired.is_none() {
            self.0.raise(&mut guard);
        }
        self.unlock(guard);
        expired
    }

    /// For a pair of [`behind`](super::behind) with this digest, which a round has reached that is at `to`. Visits one entry.
    ///
    /// Looks at the pressure under the lock, as [`expire`](Self::expire) does.
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

    /// Returns the published tick, in the time of the wheels: no key is due before that.
    pub(super) fn next_expiration(&self) -> Tick {
        self.0.next_expiration()
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().extra.table.len()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.lock().closed
    }

    /// Closes the shard for good and returns the keys that it held.
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
    use std::{
        collections::BTreeMap,
        sync::atomic::{AtomicBool, Ordering},
        thread,
        time::Duration,
    };

    use super::{
        super::{behind::Behind, shards::Shards, table::LITTLE},
        *,
    };

    /// Of a clock that pressure changes nothing of.
    fn pace() -> Pace {
        Pace::new(Duration::from_nanos(1), Duration::ZERO, Duration::ZERO)
    }

    impl<K> Shard<K> {
        /// A shard that has all keys.
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
            let published = self.0.next_expiration();
            for record in table.iter() {
                let entry = wheel.key(record.index);
                assert_eq!(wheel.get(entry), Some(&record.digest));
                let deadline = wheel.deadline(entry).unwrap();
                let due = pace.frame().wheel(record.deadline, record.timeout);
                assert!(deadline <= due);
                // An entry behind a shed is in the slot of `now`.
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

        /// The places of the table, unless it moves.
        fn places_at_rest(&self) -> Option<usize> {
            let state = self.0.lock();
            (!state.extra.table.is_moving()).then(|| state.extra.table.places())
        }

        /// The places of the table, and the nodes of the wheel.
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

    /// No table grows by itself, under the lock, and none stays where it is half-way.
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
        let shard = Shard::whole();
        for key in 0..100 {
            insert(&shard, key);
        }
        assert_eq!(shard.close().count(), 100);
        assert!(shard.is_closed());
        let digest = Digest::of(7);
        let touched = shard.touch(&pace(), digest, |k| *k == 7, None, |_| Tick(1));
        assert_eq!(touched.unwrap(), Outcome::Closed);
        assert_eq!(shard.memory(), (1, 0), "what an empty table says");
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

    fn insert_into(shards: &Shards<u32>, key: u32) {
        let digest = Digest::of(key.into());
        shards.with(digest, |shard| {
            shard.touch_or_insert(
                &pace(),
                digest,
                |k| *k == key,
                None,
                |_| Tick(9),
                &mut Some(key),
                0,
            )
        });
    }

    /// The meetings count from one visit of the reaper to the next. A single key stays where it is.
    #[test]
    fn meetings_make_a_shard_split() {
        let shards = Shards::new(Tick(0), 2);
        let (_, shard) = shards.next(0).unwrap();
        let meet = || {
            (0..MEETINGS)
                .map(|_| shard.meet().is_err())
                .collect::<Vec<_>>()
        };
        insert_into(&shards, 1);
        assert!(!meet().contains(&true), "it has one key");
        insert_into(&shards, 2);
        assert_eq!(shard.expire(&pace(), Tick(0), &mut 1), None);
        let mut expected = [false; MEETINGS as usize];
        expected[MEETINGS as usize - 1] = true;
        assert_eq!(meet(), expected);
        insert_into(&shards, 3);
        assert_eq!(shards.iter().count(), 2);
        assert_eq!(shards.len(), 3);
        assert!(!meet().contains(&true), "there are as many as there may be");
    }

    #[test]
    fn threads_that_meet_make_a_shard_split() {
        let shards = Shards::new(Tick(0), 2);
        insert_into(&shards, 1);
        insert_into(&shards, 2);
        let (_, shard) = shards.next(0).unwrap();
        while shards.iter().count() == 1 {
            let held = shard.0.lock();
            let comes = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    comes.store(true, Ordering::Relaxed);
                    shards.with(Digest::of(1), |shard| {
                        shard.touch(&pace(), Digest::of(1), |k| *k == 1, None, |_| Tick(9))
                    })
                });
                while !comes.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
                thread::yield_now();
                drop(held);
            });
        }
        assert_eq!(shards.len(), 2);
    }

    #[test]
    fn a_record_is_small() {
        assert_eq!(size_of::<Record<u64>>(), 32);
    }
}
