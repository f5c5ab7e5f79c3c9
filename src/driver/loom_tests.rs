//! Loom models of the concurrent core, on wheels of 2 levels with 4 slots each.
//!
//! The models of this file check shards. The other models are in the files `loom_tests.rs` of
//! other folders.
//!
//! `.ci/loom` runs the models. A model runs the crate's own code. Loom replaces only the locks and atomics
//! (see [`sync`](crate::ground::sync)). Each model names the promise of the crate that it checks.
//!
//! `.ci/faults` shows that the models can fail. For each fault in `faults/`, this script checks that a model
//! detects the fault. The faults are mistakes that cargo-mutants cannot make, one for each kind of step.
//!
//! # The protocols
//!
//! | The race | The code | Models |
//! |---|---|---|
//! | an entry is canceled, reset or polled while it fires | `shard` | `deregister_races_fire`, `deregister_races_backlog`, `later_reset_races_fire`, `repoll_with_a_new_waker_races_fire` |
//! | a thread reads the counters while entries fire | `shard` | `reading_races_fire` |
//! | an entry registers while the shard closes | `shard` | `close_races_register` |
//! | a thread asks without the lock whether an entry has fired | `agenda`, `shard` | `asking_races_fire` |
//! | a worker keeps a spare entry, or takes one over, while the entry fires or the shard closes | `entry`, `shard` | `keeping_races_fire`, `keeping_keeps_the_order`, `taking_over_races_fire`, `keeping_races_close` |
//! | a registration needs memory while deregistrations free memory | `shard` | `refill_races_free` |
//! | an entry gets a deadline while the driver reads the published ticks, arms and parks | `agenda`, `registrar`, `shared` | `timer`: `register_races_arm`, `register_elsewhere_races_arm`, `second_registration_races_arm`, `earlier_reset_races_arm`, `reset_that_fires_races_fire`, `register_races_wake_up` |
//! | the watch begins to rest while an entry registers | `agenda` | `timer`: `rest_races_register` |
//! | both halves of the driver take a turn at the same time | `agenda`, `shared` | `timer`: `turn_races_turn` |
//! | a thread sets the alarm while the alarm goes off or is dropped | `agenda`, `shared` | `timer`: `alarm_goes_off_while_it_is_set`, `runtime_end_races_rearm` |
//! | the driver is dropped while another thread takes a turn | `shared`, `agenda` | `timer`: `runtime_end_races_turn` |
//! | the last handle is dropped while the driver parks | `shared`, `registrar` | `timer`: `last_handle_races_park` |
//! | a default timer starts or ends while another thread looks for the timer | `timer::default`, `timer::registry`, `futures::registration` | `timer`: `start_races_start`, `runtime_end_races_poll`, `driver_panic_races_poll` |
//!
//! Code that needs only one lock or one atomic operation has no model. Examples are the blocks of ids and the
//! numbers of threads. Each thread also remembers its default timer. This memory has no model, because no
//! other thread reads it.

use std::{
    sync::{
        Arc,
        atomic::{
            AtomicUsize,
            Ordering::{Acquire, Release, SeqCst},
        },
    },
    task::{Poll, Wake, Waker},
};

use bounded_wheel::{CHUNK, Key, Tick};
use loom::{sync::atomic::AtomicBool as LoomFlag, thread};

use crate::driver::{
    clock::{Clock, DEFAULT_TICK, manual::Manual},
    entry::Site,
    room::Room,
    shard::{Counts, Shard},
    turn::{Driver, Turn},
};
use crate::error::TimerShutdown;

/// A waker that counts its wakes.
///
/// Loom does not have to track the count, because a model reads the count only after it has joined the
/// threads.
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

/// Registers an entry without advancing the wheel first.
fn register(shard: &Shard, deadline: Tick, waker: Waker) -> Result<Key, TimerShutdown> {
    shard.register(None, deadline, waker.into(), drop)
}

fn fired(counts: &Counts) -> u64 {
    counts.lateness.counts.iter().sum()
}

fn canceled(counts: &Counts) -> u64 {
    counts.registered - counts.pending - fired(counts)
}

/// Fires the expired entries of a shard like the driver, but takes the lock for only one step at a time.
pub(crate) fn expire(shard: &Shard, now: Tick) {
    let clock = Clock::by_hand(DEFAULT_TICK, Manual::new(true));
    let mut driver = Driver::new(Room::of(None));
    let mut has_work = true;
    while has_work {
        let mut turn = Turn::begin(&clock, &mut driver);
        turn.now = now;
        shard.visit(&mut turn, 1);
        turn.wake();
        has_work = shard.published.tick() <= now;
    }
}

/// Checks "a poll is ready after a wake": a thread that knows of the wake finds without the lock that the entry may have fired.
#[test]
fn asking_races_fire() {
    struct Flag(LoomFlag);
    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Release);
        }
    }
    loom::model(|| {
        let shard = Shard::new();
        let woken = Arc::new(Flag(LoomFlag::new(false)));
        register(&shard, 2, woken.clone().into()).unwrap();
        let driver = {
            let shard = shard.clone();
            thread::spawn(move || expire(&shard, 2))
        };
        if woken.0.load(Acquire) {
            assert!(shard.published.may_have_fired(2));
        }
        driver.join().unwrap();
        assert!(shard.published.may_have_fired(2));
        assert!(!shard.published.may_have_fired(3));
    });
}

/// Checks "never lost" and "keys never alias": only one of the two threads removes the entry.
#[test]
fn deregister_races_fire() {
    loom::model(|| {
        let shard = Shard::new();
        let (wakes, waker) = Wakes::new();
        let key = register(&shard, 5, waker).unwrap();
        let (_, other) = Wakes::new();
        let driver = {
            let shard = shard.clone();
            thread::spawn(move || expire(&shard, 5))
        };
        let deregistered = shard.deregister(key).is_some();
        // The new entry may use the node of the old entry while the driver is still working.
        let again = register(&shard, 9, other);
        assert!(shard.deregister(key).is_none());
        driver.join().unwrap();
        assert_eq!(wakes.count(), usize::from(!deregistered));
        let counts = shard.counts();
        assert_eq!(canceled(&counts), u64::from(deregistered));
        assert_eq!(fired(&counts), u64::from(!deregistered));
        assert_eq!(counts.pending, 1);
        assert_eq!(shard.look_up(again.unwrap()), Poll::Pending);
    });
}

/// Checks "never lost": if a poll with a new waker returns pending, the driver wakes the new waker.
#[test]
fn repoll_with_a_new_waker_races_fire() {
    loom::model(|| {
        let shard = Shard::new();
        let (old_wakes, old) = Wakes::new();
        let (new_wakes, new) = Wakes::new();
        let key = register(&shard, 1, old).unwrap();
        let driver = {
            let shard = shard.clone();
            thread::spawn(move || expire(&shard, 1))
        };
        let entry = shard.poll(key, &new);
        driver.join().unwrap();
        match entry {
            Poll::Pending => assert_eq!((old_wakes.count(), new_wakes.count()), (0, 1)),
            Poll::Ready(Ok(())) => assert_eq!((old_wakes.count(), new_wakes.count()), (1, 0)),
            Poll::Ready(Err(_)) => panic!("no thread closed the shard"),
        }
        assert_eq!(shard.look_up(key), Poll::Ready(Ok(())));
    });
}

/// Checks "never lost": only one thread removes an entry that the driver has moved to the backlog.
#[test]
fn deregister_races_backlog() {
    loom::model(|| {
        let shard = Shard::new();
        let (wakes, wakers): (Vec<_>, Vec<_>) = [(); 2].map(|()| Wakes::new()).into_iter().unzip();
        let register = |waker| register(&shard, 1, waker).unwrap();
        let keys: Vec<_> = wakers.into_iter().map(register).collect();
        let driver = {
            let shard = shard.clone();
            thread::spawn(move || expire(&shard, 1))
        };
        let deregistered = shard.deregister(keys[1]).is_some();
        driver.join().unwrap();
        assert_eq!(wakes[0].count(), 1);
        assert_eq!(wakes[1].count(), usize::from(!deregistered));
        assert_eq!(shard.counts().pending, 0);
    });
}

/// Checks "never early" and "never lost": the entry fires before the reset, or at the new deadline.
#[test]
fn later_reset_races_fire() {
    loom::model(|| {
        let shard = Shard::new();
        let (wakes, waker) = Wakes::new();
        let key = register(&shard, 2, waker).unwrap();
        let driver = {
            let shard = shard.clone();
            thread::spawn(move || expire(&shard, 2))
        };
        let reset = shard.postpone(key, 7);
        driver.join().unwrap();
        assert_ne!(reset, Some(false));
        assert_eq!(wakes.count(), usize::from(reset.is_none()));
        expire(&shard, 7);
        assert_eq!(wakes.count(), 1);
    });
}

/// Checks "a dropped future is gone": an entry that the driver fires after the drop wakes no task.
#[test]
fn keeping_races_fire() {
    loom::model(|| {
        let shard = Shard::new();
        let spares = shard.admit().unwrap();
        let (wakes, waker) = Wakes::new();
        let key = register(&shard, 2, waker.clone()).unwrap();
        let dropped = Arc::new(LoomFlag::new(false));
        let driver = {
            let (shard, dropped, wakes) = (shard.clone(), dropped.clone(), wakes.clone());
            thread::spawn(move || {
                let was_dropped = dropped.load(Acquire);
                expire(&shard, 2);
                (was_dropped, wakes.count())
            })
        };
        drop(shard.keep(&spares, key));
        dropped.store(true, Release);
        let (was_dropped, woken) = driver.join().unwrap();
        assert!(!was_dropped || woken == 0);
        let counts = shard.counts();
        assert_eq!((canceled(&counts) + woken as u64, counts.pending), (1, 0));
        assert_eq!(
            Arc::strong_count(&wakes),
            2,
            "the shard has dropped its waker"
        );
    });
}

/// Checks "never lost" and "never early": an entry that a future takes over while the driver fires the spare entry
/// fires at its own deadline, and once.
#[test]
fn taking_over_races_fire() {
    for deadline in [1, 2, 7] {
        loom::model(move || {
            let shard = Shard::new();
            let spares = shard.admit().unwrap();
            let (wakes, waker) = Wakes::new();
            let first = register(&shard, 2, waker.clone()).unwrap();
            drop(shard.keep(&spares, first));
            let driver = {
                let shard = shard.clone();
                thread::spawn(move || expire(&shard, 2))
            };
            let key = match shard.take_over(
                (&spares, first),
                None,
                deadline,
                (&waker, Site::of_caller()),
                drop,
            ) {
                Ok(_) => first,
                Err(_) => register(&shard, deadline, waker.clone()).unwrap(),
            };
            assert_eq!(spares.keys().next(), None);
            driver.join().unwrap();
            if deadline > 2 {
                assert_eq!(wakes.count(), 0);
                assert_eq!(shard.look_up(key), Poll::Pending);
            }
            expire(&shard, 7);
            assert_eq!(wakes.count(), 1);
            let counts = shard.counts();
            assert_eq!(
                (fired(&counts), canceled(&counts), counts.pending),
                (1, 1, 0)
            );
        });
    }
}

/// Checks "a dropped future is gone": a worker gives up its oldest entry first, also if the driver drops entries while the
/// worker keeps others. Otherwise the entry of a task that has ended could stay until its deadline.
#[test]
fn keeping_keeps_the_order() {
    loom::model(|| {
        let shard = Shard::new();
        let spares = shard.admit().unwrap();
        let [first, second, third] =
            [9; 3].map(|deadline| register(&shard, deadline, Waker::noop().clone()).unwrap());
        drop(shard.keep(&spares, first));
        let driver = {
            let shard = shard.clone();
            thread::spawn(move || shard.drop_spares())
        };
        drop(shard.keep(&spares, second));
        drop(shard.keep(&spares, third));
        driver.join().unwrap();
        let keys: Vec<_> = spares.keys().collect();
        assert!(
            [&[second, third][..], &[third], &[]].contains(&&keys[..]),
            "{keys:?}"
        );
    });
}

/// Checks "a dropped future is gone" at a runtime's end: a shard that closes wakes no spare entry, and keeps none.
#[test]
fn keeping_races_close() {
    loom::model(|| {
        let shard = Shard::new();
        let spares = shard.admit().unwrap();
        let (wakes, waker) = Wakes::new();
        let (gone, its_waker) = Wakes::new();
        for waker in [its_waker.clone(), its_waker] {
            let earlier = register(&shard, 4, waker).unwrap();
            drop(shard.keep(&spares, earlier));
        }
        let key = register(&shard, 4, waker).unwrap();
        let closer = {
            let shard = shard.clone();
            thread::spawn(move || shard.close().for_each(Waker::wake))
        };
        drop(shard.keep(&spares, key));
        closer.join().unwrap();
        shard.dismiss(&spares);
        assert!(wakes.count() <= 1);
        assert_eq!(gone.count(), 0);
        assert_eq!(
            (Arc::strong_count(&wakes), Arc::strong_count(&gone)),
            (1, 1)
        );
        let counts = shard.counts();
        assert_eq!((canceled(&counts), counts.pending), (3, 0));
    });
}

/// Checks the promise about a runtime's end: a closing shard refuses a registration or wakes its entry.
///
/// No entry remains in the shard.
#[test]
fn close_races_register() {
    loom::model(|| {
        let shard = Shard::new();
        let (wakes, waker) = Wakes::new();
        let closer = {
            let shard = shard.clone();
            thread::spawn(move || shard.close().for_each(Waker::wake))
        };
        let registered = register(&shard, 4, waker);
        closer.join().unwrap();
        match registered {
            Ok(key) => {
                assert_eq!(wakes.count(), 1);
                assert_eq!(shard.look_up(key), Poll::Ready(Err(TimerShutdown(()))));
            }
            Err(TimerShutdown(())) => {
                assert_eq!(wakes.count(), 0);
            }
        }
        assert_eq!(shard.counts().pending, 0);
    });
}

/// Checks "bounded work under a lock" and "memory": a full shard releases the lock before it allocates.
///
/// During the allocation, another thread may free memory or use it up. In the end no unused memory is left.
#[test]
fn refill_races_free() {
    loom::model(|| {
        let shard = Shard::new();
        let register = |shard: &Shard| register(shard, 5, Waker::noop().clone());
        let full: Vec<_> = (0..CHUNK).map(|_| register(&shard).unwrap()).collect();
        let other = {
            let shard = shard.clone();
            // `register` panics if there is no room.
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

/// Checks that each reading counts every entry once: as pending, fired or canceled. A reading changes no
/// counter.
#[test]
fn reading_races_fire() {
    loom::model(|| {
        let shard = Shard::new();
        let (_, waker) = Wakes::new();
        register(&shard, 1, waker).unwrap();
        let driver = {
            let shard = shard.clone();
            thread::spawn(move || expire(&shard, 3))
        };
        let during = shard.counts();
        driver.join().unwrap();
        let after = shard.counts();
        for counts in [&during, &after] {
            assert_eq!((counts.registered, counts.pending + fired(counts)), (1, 1));
            assert_eq!(counts.lateness.sum, 2 * fired(counts));
        }
        assert_eq!(after.lateness.sum, 2);
    });
}
