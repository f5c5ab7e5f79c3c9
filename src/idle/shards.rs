//! The shards of a set. The number of shards grows with the number of keys and with contention.
//!
//! A set begins with one shard, so that a small set takes little memory. A shard *splits* when it
//! has many keys, or when threads often wait for its lock. Half of its keys then move to a new
//! shard. A [`Part`](super::digest::Part) describes which keys belong to a shard. Shards never
//! merge.
//!
//! | Step | Split of shard `n`, whose part has `d` bits                              | Lock of `n` |
//! |------|--------------------------------------------------------------------------|-------------|
//! | 1    | allocate the new shard, with memory for all keys that may move           | free        |
//! | 2    | check that the shard must still split, and that it is open               | held        |
//! | 3    | move the keys whose numbers have bit `d` set, and narrow the part of `n` | held        |
//! | 4    | publish the new shard as shard `n + 2^d`                                 | held        |
//!
//! # How a thread finds the shard of a key
//!
//! Each key has a number: see [`digest`](super::digest). A thread takes the lowest bits of this
//! number as the index of a shard. If that shard does not exist yet, the thread clears the highest
//! set bit of the index and looks again. When the thread locks the shard that it has found, that
//! shard may have split already. So every operation checks under the lock that the key still
//! belongs to the shard. If the key belongs to another shard, the operation looks for that shard.
//! The operation then sees the new shard, because the split published the new shard under the lock.
//! Model: `split_races_touch`.
//!
//! # How a thread visits all shards
//!
//! [`Shards::iter`] visits the shards in the order of their numbers. It looks for a shard only
//! after it has visited all shards with lower numbers. A split moves keys only to a shard with a
//! higher number. So a key that the thread has not visited yet never moves to a shard that the
//! thread has passed.
//!
//! Invariants, before, during and after a split:
//!
//! * The reaper misses no key, neither in a round nor when it looks for the next expiration
//!   (`split_races_wait`).
//! * After the set is closed, no shard is open, because a closed shard does not split
//!   (`split_races_close`).
//! * [`Shards::len`] is 0 only if there are no keys (`split_races_wait`).
//! * Each shard keeps the invariants of [`shard`](super::shard) (`shards_keep_their_invariants`).

use std::iter;

use super::{
    digest::{Digest, Part},
    shard::{Retry, Shard},
};
use crate::{ground::sync::OnceLock, wheel::Tick};

pub(super) struct Shards<K> {
    /// The maximal number of shards, a power of two.
    most: usize,
    /// The other shards. The index of a shard is its number. The first split allocates the slots.
    /// Slot 0 stays empty.
    others: OnceLock<Box<[Slot<K>]>>,
    /// Shard 0, which always exists.
    first: Shard<K>,
}

/// A slot for a shard.
type Slot<K> = OnceLock<Box<Shard<K>>>;

impl<K> Shards<K> {
    /// Creates one shard, which can split into up to `most` shards. `most` must be a power of two.
    pub(super) fn new(now: Tick, most: usize) -> Self {
        Self {
            most,
            others: OnceLock::new(),
            first: Shard::new(now, Part::whole(most)),
        }
    }

    /// Calls `operation` with the shard of a key. Repeats the call until `operation` succeeds.
    #[inline]
    pub(super) fn with<R>(
        &self,
        digest: Digest,
        mut operation: impl FnMut(&Shard<K>) -> Result<R, Retry>,
    ) -> R {
        loop {
            let shard = self.find(digest);
            match operation(shard) {
                Ok(done) => return done,
                Err(Retry::Elsewhere) => {}
                Err(Retry::Crowded) => self.split(shard),
            }
        }
    }

    /// Returns the shard of a key. This shard may already have split when the caller locks it.
    #[inline]
    fn find(&self, digest: Digest) -> &Shard<K> {
        let Some(others) = self.others.get() else {
            return &self.first;
        };
        let number = digest.number() as usize & (others.len() - 1);
        match others[number].get() {
            Some(shard) => shard,
            None => self.find_lower(others, number),
        }
    }

    /// Returns the shard that has the keys of shard `number` until shard `number` exists.
    #[inline(never)]
    fn find_lower<'a>(&'a self, others: &'a [Slot<K>], mut number: usize) -> &'a Shard<K> {
        while number > 0 {
            number ^= 1 << number.ilog2();
            if let Some(shard) = others[number].get() {
                return shard;
            }
        }
        &self.first
    }

    #[cold]
    fn split(&self, shard: &Shard<K>) {
        let others = loop {
            match self.others.get() {
                Some(others) => break others,
                // `set` fails if another thread has set `others` in the meantime.
                None => _ = self.others.set(self.no_others()),
            }
        };
        shard.split(Box::new(Shard::half()), |number, half| {
            let published = others[number].set(half);
            debug_assert!(published.is_ok(), "each part is published only once");
        });
    }

    fn no_others(&self) -> Box<[Slot<K>]> {
        iter::repeat_with(OnceLock::new).take(self.most).collect()
    }

    /// Returns the first shard whose index is `from` or higher, and the index of this shard.
    pub(super) fn next(&self, from: usize) -> Option<(usize, &Shard<K>)> {
        if from == 0 {
            return Some((0, &self.first));
        }
        let others = self.others.get()?;
        (from..others.len()).find_map(|number| Some((number, &**others[number].get()?)))
    }

    /// Iterates over the shards: see the [module](self).
    pub(super) fn iter(&self) -> impl Iterator<Item = &Shard<K>> {
        let mut from = 0;
        iter::from_fn(move || {
            let (number, shard) = self.next(from)?;
            from = number + 1;
            Some(shard)
        })
    }

    /// Returns the number of keys. Locks each shard in turn.
    pub(super) fn len(&self) -> usize {
        loop {
            let shards = self.iter().count();
            let len = self.iter().map(Shard::len).sum();
            // If a shard has split in the meantime, the sum may count some keys twice.
            if self.iter().count() == shards {
                return len;
            }
        }
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use proptest::{collection::vec, prelude::*};

    use super::{
        super::{
            core::Core,
            pace::{Pace, is_shed},
            round::Round,
            shard::{Outcome, SPLIT_AT},
        },
        *,
    };
    use crate::driver::clock::{Clock, Source};

    /// Returns the digest of a key. Several keys have the same digest.
    fn digest(key: u8) -> Digest {
        Digest::of(u64::from(key % 11))
    }

    /// An operation of a random program. One tick is one nanosecond.
    #[derive(Clone, Debug)]
    enum Op {
        Touch(u8, u64),
        SetTimeout(u8, u64),
        Remove(u8),
        Expire(u64, usize),
        /// Sets the pressure to this number of eighths.
        SetPressure(u64),
        Shed,
    }

    fn op() -> impl Strategy<Value = Op> {
        let key = || 0..40_u8;
        // Some timeouts never end, and some bring the lead close to its limit.
        let far = prop_oneof![Just(u64::MAX), 0..1_u64 << 60];
        let ticks = prop_oneof![4 => 0..40_u64, 2 => 0..5_000_u64, 1 => far];
        let ticks = || ticks.clone();
        prop_oneof![
            6 => (key(), ticks()).prop_map(|(key, ticks)| Op::Touch(key, ticks)),
            3 => (key(), ticks()).prop_map(|(key, ticks)| Op::SetTimeout(key, ticks)),
            1 => key().prop_map(Op::Remove),
            3 => (0..60_u64, 0..12_usize).prop_map(|(ticks, steps)| Op::Expire(ticks, steps)),
            2 => (0..=8_u64).prop_map(Op::SetPressure),
            2 => Just(Op::Shed),
        ]
    }

    fn deadline_of(now: u64, timeout: u64) -> u64 {
        match timeout {
            u64::MAX => u64::MAX,
            timeout => now + timeout,
        }
    }

    struct Model {
        /// The set's timeout.
        usual: u64,
        minimum: u64,
        eighths: u64,
        /// The timeout and the deadline of each key.
        keys: BTreeMap<u8, (u64, u64)>,
    }

    impl Model {
        fn effective(&self, (timeout, deadline): (u64, u64)) -> u64 {
            let range = self.usual - self.minimum;
            let part = timeout.min(self.usual).saturating_sub(self.minimum);
            let taken = (range * self.eighths + 4) / 8;
            match deadline {
                u64::MAX => u64::MAX,
                _ if part == 0 => deadline,
                _ => deadline - taken * part / range,
            }
        }

        fn first(&self) -> Option<u64> {
            (self.keys.values().map(|times| self.effective(*times))).min()
        }

        /// Touches a key as `IdleSet::touch` does, and compares the outcome with the model.
        fn touch(&mut self, core: &Core<u8>, now: u64, key: u8, timeout: Option<u64>, usual: u64) {
            let Core { shards, pace, .. } = core;
            let is_it = |k: &u8| *k == key;
            let deadline = |timeout| Tick(deadline_of(now, timeout));
            let mut touched = shards.with(digest(key), |shard| {
                shard.touch(pace, digest(key), is_it, timeout, deadline)
            });
            let follow_up = |touched: &Outcome| {
                if let Outcome::Earlier(next) | Outcome::Inserted(next) = touched {
                    core.follow_up(digest(key), *next);
                }
            };
            follow_up(&touched);
            let before = self.keys.get(&key).copied();
            assert_eq!(touched == Outcome::Absent, before.is_none());
            if before.is_none() || usual % 2 == 0 {
                let mut new = Some(key);
                touched = shards.with(digest(key), |shard| {
                    let new = &mut new;
                    shard.touch_or_insert(pace, digest(key), is_it, timeout, deadline, new, usual)
                });
                follow_up(&touched);
                assert_eq!(new.is_none(), before.is_none());
            }
            let used = timeout.or(before.map(|(timeout, _)| timeout));
            let used = used.unwrap_or(usual);
            let after = (used, deadline_of(now, used));
            match before {
                None => assert!(matches!(touched, Outcome::Inserted(_))),
                Some(before) if self.effective(after) < self.effective(before) => {
                    assert!(timeout.is_some());
                    let second = usual % 2 == 0;
                    let earlier = matches!(touched, Outcome::Earlier(_));
                    assert!(earlier || (second && touched == Outcome::PutOff));
                }
                Some(_) => assert_eq!(touched, Outcome::PutOff),
            }
            self.keys.insert(key, after);
        }
    }

    /// Advances the wheels to the earliest deadline and removes a key with this deadline, as a shed
    /// does.
    fn shed(core: &Core<u8>) -> Option<u8> {
        loop {
            let until = core.next_expiration();
            if !is_shed(until) {
                return None;
            }
            let key = Round::new(until).work(core, &mut { usize::MAX });
            if key.is_some() {
                return key;
            }
        }
    }

    proptest! {
        /// Runs random programs and compares a set with a model after each operation.
        ///
        /// Keys with equal digests are always in the same shard. So a shard that cannot split any
        /// more may have more than [`SPLIT_AT`] keys.
        #[test]
        fn shards_keep_their_invariants(
            depth in 0..6_u32,
            (usual, minimum) in (0..3_000_u64).prop_flat_map(|usual| (Just(usual), 0..=usual)),
            ops in vec(op(), 1..300),
        ) {
            let [tick, set_timeout, min_timeout] = [1, usual, minimum].map(Duration::from_nanos);
            let pace = Pace::new(tick, set_timeout, min_timeout);
            // Because the tick is an hour, the wheels begin at tick 0 even on a slow machine.
            let clock = Clock::new(Duration::from_secs(3_600), Source::Tokio);
            let core = Core::new(clock, pace, 1 << depth);
            let Core { shards, pace, behind, .. } = &core;
            let mut now = 0_u64;
            let keys = BTreeMap::new();
            let mut model = Model { usual, minimum, eighths: 0, keys };
            for op in ops {
                match op {
                    Op::Touch(key, ticks) => {
                        model.touch(&core, now, key, None, ticks);
                    }
                    Op::SetTimeout(key, ticks) => {
                        model.touch(&core, now, key, Some(ticks), ticks);
                    }
                    Op::Remove(key) => {
                        let removed = shards.with(digest(key), |shard| {
                            shard.remove(digest(key), |k| *k == key)
                        });
                        prop_assert_eq!(removed, model.keys.remove(&key).map(|_| key));
                    }
                    Op::Expire(ticks, mut steps) => {
                        now += ticks;
                        let given = steps;
                        let to = pace.ahead(Tick(now));
                        let key = Round::new(to).work(&core, &mut steps);
                        match key {
                            Some(key) => {
                                let removed = model.keys.remove(&key).map(|times| model.effective(times));
                                prop_assert!(removed.is_some_and(|deadline| deadline <= now));
                            }
                            None if steps == 0 => {}
                            None => prop_assert!(model.first().is_none_or(|first| first > now)),
                        }
                        prop_assert!(steps <= given);
                    }
                    Op::SetPressure(eighths) => {
                        model.eighths = eighths;
                        pace.set_pressure(eighths as f64 / 8.0);
                    }
                    Op::Shed => {
                        let first = model.first().filter(|first| is_shed(pace.ahead(Tick(*first))));
                        let shed = shed(&core);
                        let times = shed.and_then(|key| model.keys.remove(&key));
                        prop_assert_eq!(times.map(|times| model.effective(times)), first);
                    }
                }
                shards.iter().for_each(|shard| shard.assert_invariants(pace, behind));
                prop_assert_eq!(shards.len(), model.keys.len());
                let next = core.next_expiration();
                if let Some(first) = model.first() {
                    prop_assert!(next <= pace.ahead(Tick(first.max(now))));
                }
                for (key, times) in &model.keys {
                    let found = shards.with(digest(*key), |shard| {
                        shard.deadline(pace, digest(*key), |k| k == key)
                    });
                    prop_assert_eq!(found, Some(Tick(model.effective(*times))));
                }
            }
        }
    }

    fn insert(shards: &Shards<u8>, key: u8) {
        let pace = Pace::new(Duration::from_nanos(1), Duration::ZERO, Duration::ZERO);
        let digest = Digest::of(key.into());
        let touched = shards.with(digest, |shard| {
            let new = &mut Some(key);
            shard.touch_or_insert(&pace, digest, |k| *k == key, None, |_| Tick(9), new, 0)
        });
        assert!(matches!(touched, Outcome::Inserted(_)));
    }

    #[test]
    fn there_are_as_many_shards_as_the_keys_need() {
        let shards = Shards::new(Tick(0), 64);
        for key in 0..=u8::MAX {
            insert(&shards, key);
            let len = usize::from(key) + 1;
            let count = shards.iter().count();
            assert!(count <= 1 + 2 * len / SPLIT_AT, "{count} for {len} keys");
            assert!(count >= len.div_ceil(SPLIT_AT).min(64));
        }
        assert_eq!(shards.iter().count(), 64);
    }
}
