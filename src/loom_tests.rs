//! Models of the concurrent core, on a wheel of 2 levels of 4 slots.
//!
//! Run by `.ci/loom`. What a model drives is the code that runs, with its lock and its atomic
//! exchanged for loom's. Each names the promise of the crate that it checks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Wake, Waker},
};

use loom::thread;

use crate::{
    arming::Arming,
    schedule::{Leftover, Leftovers, Unstarted},
    shard::{Admission, Entry, Refused, Shard},
    wheel::{Advance, Tick},
};

/// A waker that counts, and its count. Loom need not track it: it is read after the threads are
/// joined.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Wakes {
    fn new() -> (Arc<Self>, Waker) {
        let wakes = Arc::new(Self::default());
        (wakes.clone(), wakes.into())
    }

    fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

/// Expires a shard as the driver does, in batches as small as can be, and wakes.
fn expire(shard: &Shard, now: Tick) {
    let mut expired = Vec::new();
    loop {
        let advance = shard.expire(now, &mut 1, &mut expired).advance;
        expired.drain(..).for_each(Waker::wake);
        if advance == Advance::Done {
            break;
        }
    }
}

/// Never lost: the driver parks until no later than the earliest entry, or is woken.
#[test]
fn register_races_arm() {
    loom::model(|| {
        let shards = Arc::new([Shard::new(None), Shard::new(None)]);
        let arming = Arc::new(Arming::new());
        let registrations: Vec<_> = [(0, Tick(3)), (1, Tick(2))]
            .map(|(shard, deadline)| {
                let (shards, arming) = (shards.clone(), arming.clone());
                thread::spawn(move || {
                    let (_, waker) = Wakes::new();
                    shards[shard].register(deadline, waker).unwrap();
                    (deadline, arming.undercut(deadline))
                })
            })
            .into();
        arming.arm(|| shards.iter().filter_map(Shard::next_expiration).min());
        let parked_until = arming.tick();
        let rung: Vec<_> = registrations
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect();
        // A woken driver reads the armed tick again.
        let woken = rung.iter().any(|(_, rang)| *rang);
        let until = if woken { arming.tick() } else { parked_until };
        assert!(until <= Tick(2), "parked until {until:?}, {rung:?}");
    });
}

/// Never lost: the same for an entry that is moved to an earlier deadline.
#[test]
fn earlier_reset_races_arm() {
    loom::model(|| {
        let shard = Arc::new(Shard::new(None));
        let arming = Arc::new(Arming::new());
        let (_, waker) = Wakes::new();
        let key = shard.register(Tick(9), waker).unwrap();
        let reset = {
            let (shard, arming) = (shard.clone(), arming.clone());
            thread::spawn(move || {
                assert!(shard.reset(key, Tick(2)));
                arming.undercut(Tick(2))
            })
        };
        arming.arm(|| shard.next_expiration());
        let parked_until = arming.tick();
        let woken = reset.join().unwrap();
        let until = if woken { arming.tick() } else { parked_until };
        assert!(until <= Tick(2), "parked until {until:?}");
    });
}

/// Never lost, keys never alias: an entry is taken out once, by one of the two.
#[test]
fn deregister_races_fire() {
    loom::model(|| {
        let shard = Arc::new(Shard::new(None));
        let (wakes, waker) = Wakes::new();
        let key = shard.register(Tick(5), waker).unwrap();
        let (_, other) = Wakes::new();
        let driver = {
            let shard = shard.clone();
            thread::spawn(move || expire(&shard, Tick(5)))
        };
        let deregistered = shard.deregister(key).is_some();
        // The node may be in use again while the driver is still at it.
        let again = shard.register(Tick(9), other);
        assert!(shard.deregister(key).is_none());
        driver.join().unwrap();
        assert_eq!(wakes.count(), usize::from(!deregistered));
        let counts = shard.take_counts();
        assert_eq!(counts.cancelled, u64::from(deregistered));
        assert_eq!(counts.fired, u64::from(!deregistered));
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
        let key = shard.register(Tick(1), old).unwrap();
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

/// Never early, never lost: a later reset either comes too late or holds.
#[test]
fn later_reset_races_fire() {
    loom::model(|| {
        let shard = Arc::new(Shard::new(None));
        let (wakes, waker) = Wakes::new();
        let key = shard.register(Tick(2), waker).unwrap();
        let driver = {
            let shard = shard.clone();
            thread::spawn(move || expire(&shard, Tick(2)))
        };
        let reset = shard.reset(key, Tick(7));
        driver.join().unwrap();
        assert_eq!(wakes.count(), usize::from(!reset));
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
        let registered = shard.register(Tick(4), waker);
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
        assert_eq!(shard.take_counts().pending, 0);
    });
}

/// A scheduled task, reduced to what becomes of it.
struct Task {
    leftovers: Arc<Leftovers>,
    started: AtomicUsize,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if !self.leftovers.keep(&self) {
            self.started.fetch_add(1, SeqCst);
        }
    }
}

impl Leftover for Task {
    fn into_unstarted(self: Arc<Self>) -> Option<Unstarted> {
        None
    }
}

/// Never lost: a scheduled task that is due while its timer is shut down starts or is given back,
/// and one that is being scheduled is one of these or refused.
#[test]
fn shutdown_races_fire_and_schedule() {
    loom::model(|| {
        let shard = Arc::new(Shard::new(None));
        let leftovers = Arc::new(Leftovers::new());
        let tasks = [0, 1].map(|_| {
            Arc::new(Task {
                leftovers: leftovers.clone(),
                started: AtomicUsize::new(0),
            })
        });
        let register = |shard: &Shard, task: &Arc<Task>| {
            let waker = Waker::from(task.clone());
            shard.register_task(Tick(1), waker, Admission::Limited)
        };
        register(&shard, &tasks[0]).unwrap();
        let driver = {
            let shard = shard.clone();
            thread::spawn(move || expire(&shard, Tick(1)))
        };
        let scheduler = {
            let (shard, task) = (shard.clone(), tasks[1].clone());
            thread::spawn(move || register(&shard, &task).is_err())
        };
        let left = leftovers.collect_while(|| shard.close().for_each(Waker::wake));
        driver.join().unwrap();
        let refused = usize::from(scheduler.join().unwrap());
        let started = tasks.each_ref().map(|task| task.started.load(SeqCst));
        assert!(started.iter().all(|times| *times <= 1), "{started:?}");
        let started: usize = started.iter().sum();
        assert_eq!(started + left.len() + refused, 2);
        assert_eq!(shard.take_counts().pending, 0);
    });
}
