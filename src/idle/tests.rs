//! Tests of several files of the set together. A test module inside one of these files would import the files that
//! import it.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use proptest::{collection::vec, prelude::*};

use super::{
    IdleSet,
    core::Core,
    digest::Digest,
    pace::{Pace, is_shed},
    round::Round,
    shard::{MEETINGS, Outcome, SPLIT_AT},
    shards::Shards,
};
use crate::{driver::clock::Clock, wheel::Tick};

/// Returns a pace in which pressure has no effect.
fn pace() -> Pace {
    Pace::new(Duration::from_nanos(1), Duration::ZERO, Duration::ZERO)
}

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
        let clock = Clock::new(Duration::from_secs(3_600));
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

/// Each visit of the reaper sets the count of waits to 0. A shard with a single key does not
/// split.
#[test]
fn meetings_make_a_shard_split() {
    let shards = Shards::new(Tick(0), 2);
    let (_, shard) = shards.next(0).unwrap();
    let meet = || {
        (0..MEETINGS)
            .map(|_| shard.must_split_after_a_wait())
            .collect::<Vec<_>>()
    };
    insert_into(&shards, 1);
    assert!(
        !meet().contains(&true),
        "a shard with one key does not split"
    );
    insert_into(&shards, 2);
    assert_eq!(shard.expire(&pace(), Tick(0), &mut 1), None);
    let mut expected = [false; MEETINGS as usize];
    expected[MEETINGS as usize - 1] = true;
    assert_eq!(meet(), expected);
    insert_into(&shards, 3);
    assert_eq!(shards.iter().count(), 2);
    assert_eq!(shards.len(), 3);
    assert!(
        !meet().contains(&true),
        "the number of shards is at its limit"
    );
}

#[test]
fn threads_that_meet_make_a_shard_split() {
    let shards = Shards::new(Tick(0), 2);
    insert_into(&shards, 1);
    insert_into(&shards, 2);
    let (_, shard) = shards.next(0).unwrap();
    while shards.iter().count() == 1 {
        let held = shard.keep_locked();
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

/// A server sets a short timeout for a connection during requests, and a long timeout between
/// requests.
#[tokio::test(start_paused = true)]
async fn touches_add_no_pair_while_one_is_there() {
    let (long, short) = (Duration::from_secs(60), Duration::from_secs(5));
    let (set, mut reaper) = IdleSet::new(long);
    for key in 0..10 {
        set.touch(&key);
    }
    assert!(reaper.shed(1).next().await.is_some());
    let behind = &set.handle.core.behind;
    let count = || behind.len();
    for _ in 0..100 {
        set.touch_with_timeout(&9, short);
        tokio::time::advance(Duration::from_millis(1)).await;
        set.touch_with_timeout(&9, long);
        assert_eq!(count(), 1);
    }
    // A round also discards the pair of a removed key.
    set.touch_with_timeout(&10, short);
    set.remove(&10);
    assert_eq!(count(), 2);
    assert!(reaper.reap().await.is_some());
    assert_eq!((count(), behind.next()), (0, Tick::NEVER));
}
