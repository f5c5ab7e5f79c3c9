//! Runs random programs on a set and on a model. Compares the keys that expire, their times and their order.

use std::collections::BTreeMap;

use proptest::{collection::vec, option, prelude::*};
use tokio::task::coop::unconstrained;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    /// Touches a key, with a new timeout if one is given.
    Touch(u8, Option<u64>),
    /// Does so only if the set has the key.
    TouchExisting(u8, Option<u64>),
    Remove(u8),
    /// Advances the clock by so many milliseconds.
    Advance(u64),
    /// Reaps up to so many expired keys.
    Reap(usize),
    /// Waits for the next expired key.
    Wait,
    /// Sheds so many keys. After each key, touches another key if one is given.
    Shed(usize, Option<(u8, Option<u64>)>),
}

/// The configuration of a set. Times are in milliseconds.
#[derive(Clone, Debug)]
struct Config {
    shards: usize,
    timeout: u64,
    /// The tick of an explicit timer, which rounds the wait of the reaper up. Without one, the tick is 1 ms.
    tick: Option<u64>,
}

/// Returns times in milliseconds: within a slot, within a level, and over several levels.
fn span() -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => Just(0),
        4 => 1..30_u64,
        3 => 1..1_000_u64,
        2 => 1..200_000_u64,
        1 => (1..40_u32, 0..3_u64).prop_map(|(bit, off)| (1 << bit) + off - 1),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..20_u8;
    prop_oneof![
        12 => (key(), option::weighted(0.3, span())).prop_map(|(key, span)| Op::Touch(key, span)),
        2 => (key(), option::of(span())).prop_map(|(key, span)| Op::TouchExisting(key, span)),
        2 => key().prop_map(Op::Remove),
        5 => span().prop_map(Op::Advance),
        4 => (1..8_usize).prop_map(Op::Reap),
        1 => Just(Op::Wait),
        2 => (1..8_usize, option::of((key(), option::of(span())))).prop_map(|(n, touch)| Op::Shed(n, touch)),
    ]
}

fn config() -> impl Strategy<Value = Config> {
    let tick = prop_oneof![2 => Just(None), 1 => (1..20_u64).prop_map(Some)];
    (1..6_usize, span(), tick).prop_map(|(shards, timeout, tick)| Config {
        shards,
        timeout,
        tick,
    })
}

/// The model: a map of the keys to their timeouts and deadlines, in milliseconds.
struct Model {
    start: Instant,
    config: Config,
    keys: BTreeMap<u8, (u64, u64)>,
}

impl Model {
    fn now(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    fn touch(&mut self, key: u8, timeout: Option<u64>) -> Touched {
        let known = self.keys.get(&key).map(|(timeout, _)| *timeout);
        let timeout = timeout.or(known).unwrap_or(self.config.timeout);
        let deadline = self.now() + timeout;
        match self.keys.insert(key, (timeout, deadline)) {
            None => Inserted,
            Some(_) => Present,
        }
    }

    fn deadlines(&self) -> impl Iterator<Item = u64> {
        self.keys.values().map(|(_, deadline)| *deadline)
    }

    fn first(&self) -> Option<u64> {
        self.deadlines().min()
    }

    fn is_due(&self) -> bool {
        self.first().is_some_and(|deadline| deadline <= self.now())
    }

    /// Returns whether the timer must have woken a reaper that waits.
    fn must_have_woken(&self) -> bool {
        let tick = self.config.tick.unwrap_or(1);
        (self.first()).is_some_and(|deadline| deadline.next_multiple_of(tick) <= self.now())
    }

    /// Removes a key that the set has shed. The key must have the earliest deadline.
    fn shed(&mut self, key: u8) -> u64 {
        let first = self.first();
        let (_, deadline) = self.keys.remove(&key).expect("the key is in the set");
        assert_eq!(Some(deadline), first, "the deadline of {key}");
        deadline
    }

    /// Removes a key that the reaper has returned. The key must be expired and have the earliest deadline.
    fn reap(&mut self, key: u8) {
        let deadline = self.shed(key);
        assert!(deadline <= self.now(), "{key} is early");
    }
}

async fn run(config: Config, program: Vec<Op>) {
    let mut builder = IdleSet::builder(ms(config.timeout)).shards(config.shards);
    if let Some(tick) = config.tick {
        builder = builder.timer(&Timer::builder().tick(ms(tick)).build().unwrap());
    }
    let start = Instant::now();
    let (set, reaper) = builder.build();
    let mut reaper = task::spawn(reaper);
    let mut model = Model {
        start,
        config,
        keys: BTreeMap::new(),
    };
    let touch = |key, span| match span {
        None => set.touch(&key),
        Some(span) => set.touch_with_timeout(&key, ms(span)),
    };
    // Whether the last poll was pending. If so, the set must wake the reaper for the next expired key.
    let mut waits = false;
    for op in program {
        match op {
            Op::Touch(key, span) => assert_eq!(touch(key, span), model.touch(key, span)),
            Op::TouchExisting(key, span) => {
                let touched = match span {
                    None => set.touch_existing(&key),
                    Some(span) => set.touch_existing_with_timeout(&key, ms(span)),
                };
                match model.keys.contains_key(&key) {
                    true => assert_eq!(touched, model.touch(key, span)),
                    false => assert_eq!(touched, Absent),
                }
            }
            Op::Remove(key) => {
                let was_there = model.keys.remove(&key).is_some();
                assert_eq!(set.remove(&key).is_some(), was_there);
            }
            Op::Advance(span) => {
                tokio::time::advance(ms(span)).await;
                settle().await;
            }
            Op::Reap(count) => {
                for _ in 0..count {
                    match reaper.poll_next() {
                        Poll::Ready(key) => model.reap(key.expect("the test has a handle")),
                        Poll::Pending => {
                            assert!(!model.is_due() || reaper.is_woken());
                            waits = true;
                            break;
                        }
                    }
                    waits = false;
                }
            }
            Op::Wait => {
                let Some(first) = model.first() else { continue };
                let tick = model.config.tick.unwrap_or(1);
                // A poll finds a key at its deadline, and the timer wakes the reaper at its own tick.
                let expected = match model.now() {
                    now if now >= first => now,
                    _ => first.next_multiple_of(tick),
                };
                let key = poll_fn(|cx| reaper.enter(|_, reaper| reaper.get_mut().poll_reap(cx)));
                model.reap(key.await.expect("the test has a handle"));
                assert_eq!(model.now(), expected, "late");
                waits = false;
            }
            Op::Shed(count, touched) => {
                let mut left = count;
                while left > 0 {
                    let Some(key) = reaper.shed().await else {
                        break;
                    };
                    model.shed(key);
                    left -= 1;
                    let Some((key, span)) = touched else { continue };
                    assert_eq!(touch(key, span), model.touch(key, span));
                }
                assert!(left == 0 || model.keys.is_empty(), "the shed has ended");
            }
        }
        if waits && model.must_have_woken() {
            settle().await;
            assert!(reaper.is_woken(), "the reaper was not woken");
        }
        assert_eq!(set.len(), model.keys.len());
        for (key, deadline) in model.keys.keys().zip(model.deadlines()) {
            assert_eq!(set.deadline(key), Some(start + ms(deadline)));
        }
    }
    drop(set);
    let mut reaper = reaper.into_inner();
    while let Some(key) = reaper.reap().await {
        let first = model.first().expect("not empty");
        model.reap(key);
        assert!(model.now() >= first);
    }
    assert!(model.keys.is_empty(), "{:?} are lost", model.keys);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn keys_come_out_as_in_the_model(config in config(), program in vec(op(), 1..120)) {
        paused().block_on(unconstrained(run(config, program)));
    }
}
