//! Models of the concurrent core, on wheels of 2 levels of 4 slots: of what happens in a shard, here,
//! and of all else, in the files of this name beside it.
//!
//! Run by `.ci/loom`. A model drives the crate's own code. Only the locks and atomics are loom's
//! ([`sync`](crate::ground::sync)). Each names the promise of the crate that it checks, and each can fail: for
//! each there is a fault in `faults/`, which `.ci/faults` has it catch.
//!
//! # The protocols
//!
//! | What races | Settled in | Models |
//! |---|---|---|
//! | cancelling, resetting or polling an entry, and its firing | `shard` | `deregister_races_fire`, `deregister_races_backlog`, `later_reset_races_fire`, `repoll_with_a_new_waker_races_fire` |
//! | reading the counts, and what they count | `shard` | `reading_races_fire` |
//! | registering, and the shard's close | `shard` | `shutdown_races_register` |
//! | a registration that needs memory, and deregistrations that free some | `shard` | `refill_races_free` |
//! | entries that come and go in several shards, and their limit | `limit` | `registrations_race_at_the_limit`, `cancel_races_fire_at_the_limit` |
//! | a deadline that is set, and the driver that looks, arms and parks | `arming`, `parking`, `registrar`, `task` | `timer`: `register_races_arm`, `register_elsewhere_races_arm`, `second_registration_races_arm`, `earlier_reset_races_arm`, `reset_that_fires_races_fire`, `register_races_wake_up` |
//! | a leap of the timer, and the driver that parks, or a registration | `handle`, `task` | `timer`: `leap_races_park`, `leap_races_register` |
//! | setting the alarm, and its going off or its end | `parking` | `timer`: `alarm_goes_off_while_it_is_set`, `runtime_end_races_rearm` |
//! | the end of a timer, and its driver or another end | `core`, `registrar`, `task` | `timer`: `last_handle_races_park`, `shutdown_races_park`, `shutdown_races_runtime_end` |
//! | the start and the end of an ambient timer, and who looks for one | `timer::ambient`, `futures::sleep` | `timer`: `start_races_start`, `shutdown_races_the_next_ambient_timer`, `runtime_end_races_poll` |
//! | the end of a timer, and the tasks that wait in it | `schedule::unstarted` | `schedule`: `shutdown_races_fire_and_schedule` |
//! | a task's handle, and its registration, its runs and its end | `schedule::entry` | `schedule`: all others |
//! | touches, removals, shards that split, and the reaper | `idle::core`, `idle::shard`, `idle::shards` | `idle`: all |
//!
//! What needs no more than one lock or one atomic operation has no model: blocks of ids, numbers of
//! threads, and a look at the pending deadlines, a chunk at a time. What a thread remembers of its
//! ambient timer is that thread's alone.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Wake, Waker},
};

use loom::thread;

use crate::{
    driver::{
        limit::Limit,
        shard::{Admission, Budget, Counts, Entry, Postponed, Refused, Shard, Work},
    },
    wheel::{Advance, CHUNK, Key, Order, Tick},
};

/// A waker that counts, and its count. Loom need not track it: it is read after the threads are
/// joined.
#[derive(Default)]
pub(crate) struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Wakes {
    pub(crate) fn new() -> (Arc<Self>, Waker) {
        let wakes = Arc::new(Self::default());
        (wakes.clone(), wakes.into())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

/// Registers as a registrar does that has looked at the clock.
fn register(shard: &Shard, deadline: Tick, waker: Waker) -> Result<Key, Refused> {
    let registered = shard.register(None, deadline, waker, Admission::Unlimited);
    registered.map(|(key, _)| key)
}

fn fired(counts: &Counts) -> u64 {
    counts.lateness.counts.iter().sum()
}

/// Expires a shard as the driver does, in holds as short as can be, and wakes.
pub(crate) fn expire(shard: &Shard, now: Tick) {
    let mut expired = Vec::new();
    let order = Order::DueFirst;
    for work in [
        Work::Advance(now, order),
        Work::Cascade,
        Work::Advance(now, order),
        Work::Late(now),
    ] {
        let mut advance = Advance::Interrupted;
        while advance == Advance::Interrupted {
            let mut budget = Budget {
                steps: 1,
                wakes: 1,
                late_at_most: u64::MAX,
            };
            advance = shard.expire(work, 1, &mut budget, &mut expired).advance;
            expired.drain(..).for_each(Waker::wake);
        }
    }
}

/// Never lost, keys never alias: an entry is taken out once, by one of the two.
#[test]
fn deregister_races_fire() {
    loom::model(|| {
        let shard = Arc::new(Shard::new(None));
        let (wakes, waker) = Wakes::new();
        let key = register(&shard, Tick(5), waker).unwrap();
        let (_, other) = Wakes::new();
        let driver = {
            let shard = shard.clone();
            thread::spawn(move || expire(&shard, Tick(5)))
        };
        let deregistered = shard.deregister(key).is_some();
        // The node may be in use again while the driver is still at it.
        let again = register(&shard, Tick(9), other);
        assert!(shard.deregister(key).is_none());
        driver.join().unwrap();
        assert_eq!(wakes.count(), usize::from(!deregistered));
        let counts = shard.counts();
        assert_eq!(counts.cancelled, u64::from(deregistered));
        assert_eq!(fired(&counts), u64::from(!deregistered));
        assert_eq!(counts.pending, 1);
        assert_eq!(shard.look_up(again.unwrap()), Entry::Pending);
    });
}

/// Never lost: who polls pending with a new waker is woken through that one.
#[test]
fn repoll_with_a_new_waker_races_fire() {
    loom::model(|| {
        let shard = Arc::new(Shard::new(None));
        let (old_wakes, old) = Wakes::new();
        let (new_wakes, new) = Wakes::new();
        let key = register(&shard, Tick(1), old).unwrap();
        let driver = {
            let shard = shard.clone();
            thread::spawn(move || expire(&shard, Tick(1)))
        };
        let entry = shard.poll(key, &new);
        driver.join().unwrap();
        match entry {
            Entry::Pending => assert_eq!((old_wakes.count(), new_wakes.count()), (0, 1)),
            Entry::Fired => assert_eq!((old_wakes.count(), new_wakes.count()), (1, 0)),
            Entry::Closed => panic!("nobody closed the shard"),
        }
        assert_eq!(shard.look_up(key), Entry::Fired);
    });
}

/// Never lost: an entry of which the driver has put the slot back is taken out once.
#[test]
fn deregister_races_backlog() {
    loom::model(|| {
        let shard = Arc::new(Shard::new(None));
        let (wakes, wakers): (Vec<_>, Vec<_>) = [(); 2].map(|()| Wakes::new()).into_iter().unzip();
        let register = |waker| register(&shard, Tick(1), waker).unwrap();
        let keys: Vec<_> = wakers.into_iter().map(register).collect();
        let driver = {
            let shard = shard.clone();
            thread::spawn(move || expire(&shard, Tick(1)))
        };
        let deregistered = shard.deregister(keys[1]).is_some();
        driver.join().unwrap();
        assert_eq!(wakes[0].count(), 1);
        assert_eq!(wakes[1].count(), usize::from(!deregistered));
        assert_eq!(shard.counts().pending, 0);
    });
}

/// Never early, never lost: a later reset either comes too late or holds.
#[test]
fn later_reset_races_fire() {
    loom::model(|| {
        let shard = Arc::new(Shard::new(None));
        let (wakes, waker) = Wakes::new();
        let key = register(&shard, Tick(2), waker).unwrap();
        let driver = {
            let shard = shard.clone();
            thread::spawn(move || expire(&shard, Tick(2)))
        };
        let reset = shard.postpone(key, Tick(7));
        driver.join().unwrap();
        assert_ne!(reset, Some(Postponed::Not));
        assert_eq!(wakes.count(), usize::from(reset.is_none()));
        expire(&shard, Tick(7));
        assert_eq!(wakes.count(), 1);
    });
}

/// Runtime end: a registration is refused, or closing wakes it; none is left behind.
#[test]
fn shutdown_races_register() {
    loom::model(|| {
        let shard = Arc::new(Shard::new(None));
        let (wakes, waker) = Wakes::new();
        let closer = {
            let shard = shard.clone();
            thread::spawn(move || shard.close().for_each(Waker::wake))
        };
        let registered = register(&shard, Tick(4), waker);
        closer.join().unwrap();
        match registered {
            Ok(key) => {
                assert_eq!(wakes.count(), 1);
                assert_eq!(shard.look_up(key), Entry::Closed);
            }
            Err(refused) => {
                assert_eq!(refused, Refused::Closed);
                assert_eq!(wakes.count(), 0);
            }
        }
        assert_eq!(shard.counts().pending, 0);
    });
}

/// Bounded work under a lock, memory: a registration that finds its shard full gets memory without the
/// lock, while others free some and use it up. In the end none is left over.
#[test]
fn refill_races_free() {
    loom::model(|| {
        let shard = Arc::new(Shard::new(None));
        let register = |shard: &Shard| register(shard, Tick(5), Waker::noop().clone());
        let full: Vec<_> = (0..CHUNK).map(|_| register(&shard).unwrap()).collect();
        let other = {
            let shard = shard.clone();
            // It panics if there is no room.
            thread::spawn(move || register(&shard).unwrap())
        };
        assert!(shard.deregister(full[0]).is_some());
        let keys = [register(&shard).unwrap(), other.join().unwrap()];
        for key in full[1..].iter().chain(&keys) {
            assert!(shard.deregister(*key).is_some());
        }
        assert_eq!(shard.capacity(), CHUNK);
    });
}

/// The limit is exact: of two registrations in two shards that race for the last place, one is
/// accepted.
#[test]
fn registrations_race_at_the_limit() {
    loom::model(|| {
        let limit = Arc::new(Limit::new(1));
        let shard = || Shard::new(Some(limit.clone()));
        let (shard, other) = (shard(), shard());
        let register = |shard: &Shard| {
            let (_, waker) = Wakes::new();
            shard.register(None, Tick(3), waker, Admission::Limited)
        };
        let others = thread::spawn(move || register(&other));
        let registered = [register(&shard), others.join().unwrap()];
        let accepted = registered.iter().filter(|registered| registered.is_ok());
        assert_eq!(accepted.count(), 1);
        assert!(registered.contains(&Err(Refused::Full { max: 1 })));
    });
}

/// The limit is exact: entries that fire and are cancelled in two shards are each counted out once.
#[test]
fn cancel_races_fire_at_the_limit() {
    loom::model(|| {
        let limit = Arc::new(Limit::new(2));
        let shards = Arc::new([0, 1].map(|_| Shard::new(Some(limit.clone()))));
        let register = |shard: &Shard, tick| {
            let (_, waker) = Wakes::new();
            shard.register(None, tick, waker, Admission::Limited)
        };
        let keys = shards.each_ref().map(|shard| register(shard, Tick(2)));
        let driver = {
            let shards = shards.clone();
            thread::spawn(move || shards.iter().for_each(|shard| expire(shard, Tick(2))))
        };
        let cancelled = shards[0].deregister(keys[0].unwrap().0);
        let during = register(&shards[0], Tick(9));
        driver.join().unwrap();
        assert!(during.is_ok() || cancelled.is_none());
        let after = [0, 1].map(|shard: usize| register(&shards[shard], Tick(9)));
        let accepted = [during]
            .iter()
            .chain(&after)
            .filter(|after| after.is_ok())
            .count();
        assert_eq!(accepted, 2);
    });
}

/// The metrics add up, whenever they are read. A reading changes nothing.
#[test]
fn reading_races_fire() {
    loom::model(|| {
        let shard = Arc::new(Shard::new(None));
        let (_, waker) = Wakes::new();
        register(&shard, Tick(1), waker).unwrap();
        let driver = {
            let shard = shard.clone();
            thread::spawn(move || expire(&shard, Tick(3)))
        };
        let during = shard.counts();
        driver.join().unwrap();
        let after = shard.counts();
        for counts in [&during, &after] {
            assert_eq!(counts.pending + fired(counts) + counts.cancelled, 1);
            assert_eq!(counts.lateness.sum, 2 * fired(counts));
        }
        assert_eq!(after.lateness.sum, 2);
    });
}
