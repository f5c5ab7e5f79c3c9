//! Tests of several files of the set together. A test module inside one of these files would import the files that
//! import it.

use std::{collections::BTreeMap, time::Duration};

use proptest::{collection::vec, prelude::*};

use bounded_wheel::NEVER;

use super::{
    IdleSet, digest::Digest, keys::LockedShard, shards::Shards, sweep::Sweep, touched::Touched,
};
use crate::ground::clock::Clock;

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
    Shed,
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..40_u8;
    // Some timeouts never end.
    let far = prop_oneof![Just(u64::MAX), 0..1_u64 << 60];
    let ticks = prop_oneof![4 => 0..40_u64, 2 => 0..5_000_u64, 1 => far];
    let ticks = || ticks.clone();
    prop_oneof![
        6 => (key(), ticks()).prop_map(|(key, ticks)| Op::Touch(key, ticks)),
        3 => (key(), ticks()).prop_map(|(key, ticks)| Op::SetTimeout(key, ticks)),
        1 => key().prop_map(Op::Remove),
        3 => (0..60_u64, 0..12_usize).prop_map(|(ticks, steps)| Op::Expire(ticks, steps)),
        2 => Just(Op::Shed),
    ]
}

fn deadline_of(now: u64, timeout: u64) -> u64 {
    match timeout {
        u64::MAX => u64::MAX,
        timeout => now + timeout,
    }
}

/// The timeout and the deadline of each key.
#[derive(Default)]
struct Model {
    keys: BTreeMap<u8, (u64, u64)>,
}

impl Model {
    fn first(&self) -> Option<u64> {
        self.keys.values().map(|(_, deadline)| *deadline).min()
    }

    /// Touches a key as `IdleSet::touch` does, and compares the outcome with the model.
    fn touch(&mut self, shards: &Shards<u8>, now: u64, key: u8, timeout: Option<u64>, usual: u64) {
        let digest = digest(key);
        let deadline = |timeout| deadline_of(now, timeout);
        let touch =
            |keys: &mut LockedShard<'_, u8>| keys.touch(digest, |k| *k == key, timeout, deadline);
        let mut touched = Touched::Absent;
        if let Ok(mut keys) = shards.lock(digest) {
            touched = touch(&mut keys);
            keys.unlock();
        }
        let before = self.keys.get(&key).map(|(timeout, _)| *timeout);
        assert_eq!(touched == Touched::Absent, before.is_none());
        let used = timeout.or(before).unwrap_or(usual);
        if before.is_none() {
            let mut keys = shards.lock_with_room(digest).unwrap();
            assert_eq!(touch(&mut keys), Touched::Absent);
            keys.insert(digest, key, used, deadline(used));
            keys.unlock();
        }
        self.keys.insert(key, (used, deadline_of(now, used)));
    }
}

/// Advances the wheels to the earliest deadline and removes a key with this deadline, as a shed
/// does.
fn shed(shards: &Shards<u8>) -> Option<u8> {
    loop {
        let until = shards.published();
        if until == NEVER {
            return None;
        }
        let key = Sweep::to(until).next_key(shards, &mut { usize::MAX });
        if key.is_some() {
            return key;
        }
    }
}

proptest! {
    /// Runs random programs and compares a set with a model after each operation.
    #[test]
    fn shards_keep_their_invariants(
        depth in 0..6_u32,
        ops in vec(op(), 1..300),
    ) {
        // Because the tick is an hour, the wheels begin at tick 0 even on a slow machine.
        let clock = Clock::new(Duration::from_secs(3_600));
        let shards = Shards::new(clock, 1 << depth);
        let mut now = 0_u64;
        let mut model = Model::default();
        for op in ops {
            match op {
                Op::Touch(key, ticks) => {
                    model.touch(&shards, now, key, None, ticks);
                }
                Op::SetTimeout(key, ticks) => {
                    model.touch(&shards, now, key, Some(ticks), ticks);
                }
                Op::Remove(key) => {
                    let keys = shards.lock(digest(key)).ok();
                    let removed = keys.and_then(|keys| keys.remove(digest(key), |k| *k == key));
                    prop_assert_eq!(removed, model.keys.remove(&key).map(|_| key));
                }
                Op::Expire(ticks, mut steps) => {
                    now += ticks;
                    let given = steps;
                    let key = Sweep::to(now).next_key(&shards, &mut steps);
                    match key {
                        Some(key) => {
                            let removed = model.keys.remove(&key);
                            prop_assert!(removed.is_some_and(|(_, deadline)| deadline <= now));
                        }
                        None if steps == 0 => {}
                        None => prop_assert!(model.first().is_none_or(|first| first > now)),
                    }
                    prop_assert!(steps <= given);
                }
                Op::Shed => {
                    let first = model.first().filter(|first| *first != u64::MAX);
                    let shed = shed(&shards);
                    let times = shed.and_then(|key| model.keys.remove(&key));
                    prop_assert_eq!(times.map(|(_, deadline)| deadline), first);
                }
            }
            let open = (0..1 << depth).filter_map(|number| shards.shard(number));
            open.for_each(|shard| shards.lock_shard(shard).unwrap().assert_invariants());
            prop_assert_eq!(shards.len(), model.keys.len());
            let next = shards.published();
            if let Some(first) = model.first() {
                prop_assert!(next <= first.max(now));
            }
            for (key, (_, deadline)) in &model.keys {
                let mut keys = shards.lock(digest(*key)).unwrap();
                let found = keys.deadline(digest(*key), |k| k == key);
                prop_assert_eq!(found, Some(*deadline));
            }
        }
    }
}

/// A server sets a short timeout for a connection during requests, and a long timeout between
/// requests.
#[tokio::test(start_paused = true)]
async fn touches_add_no_line_while_one_is_there() {
    let (long, short) = (Duration::from_secs(60), Duration::from_secs(5));
    let (set, mut reaper) = IdleSet::builder(long).shards(1).build();
    for key in 0..10 {
        set.touch(&key);
    }
    assert!(reaper.shed().await.is_some());
    let shard = set.handle.shards.shard(0).unwrap();
    let count = || shard.lock().unwrap().overtaken.len();
    for _ in 0..100 {
        set.touch_with_timeout(&9, short);
        tokio::time::advance(Duration::from_millis(1)).await;
        set.touch_with_timeout(&9, long);
        assert_eq!(count(), 1);
    }
    // A sweep also discards the line of a removed key.
    set.touch_with_timeout(&10, short);
    set.remove(&10);
    assert_eq!(count(), 2);
    assert!(reaper.reap().await.is_some());
    assert_eq!(count(), 0);
}
