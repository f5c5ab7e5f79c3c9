//! Models of the concurrent core, on a wheel of 2 levels of 4 slots.
//!
//! Run by `.ci/loom`. What a model drives is the code that runs, with its lock and its atomic
//! exchanged for loom's. Each names the promise of the crate that it checks.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use loom::thread;
use tokio::time::Instant;

use crate::{
    alarm::Alarm,
    arming::Arming,
    parking::Parking,
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

/// An alarm that goes off when it is told the time, and what it is set for, until it goes off. Loom
/// need not track either: the one is told by the driver itself, the other is read after the threads
/// are joined.
#[derive(Clone, Default)]
struct Bell {
    now: Arc<AtomicUsize>,
    set_for: Arc<std::sync::Mutex<Option<Instant>>>,
}

impl Alarm for Bell {
    fn poll_until(&mut self, instant: Instant, _: &mut Context<'_>) -> Poll<()> {
        let mut set_for = self.set_for.lock().unwrap();
        let now = begins(Tick(self.now.load(SeqCst) as u64));
        *set_for = Some(instant).filter(|instant| now < Some(*instant));
        if set_for.is_some() {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    }
}

/// The instant at which a tick begins.
fn begins(tick: Tick) -> Option<Instant> {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let origin = *ORIGIN.get_or_init(Instant::now);
    (tick != Tick::NEVER).then(|| origin + Duration::from_secs(tick.0))
}

/// What registrations and the driver share, as in `registrar::Link`.
struct Berth {
    shards: [Shard; 2],
    arming: Arming,
    parking: Parking,
    bell: Bell,
    driver: Waker,
    wakes: Arc<Wakes>,
}

impl Berth {
    fn new() -> Arc<Self> {
        let bell = Bell::default();
        let (wakes, driver) = Wakes::new();
        Arc::new(Self {
            shards: [Shard::new(None), Shard::new(None)],
            arming: Arming::new(),
            parking: Parking::new(Box::new(bell.clone())),
            bell,
            driver,
            wakes,
        })
    }

    /// What the driver does before it waits, and its first poll.
    fn park(&self) -> Poll<()> {
        let next_expiration = || self.shards.iter().filter_map(Shard::next_expiration).min();
        self.arming.arm(next_expiration);
        self.poll()
    }

    fn poll(&self) -> Poll<()> {
        let mut cx = Context::from_waker(&self.driver);
        self.parking.poll(|| begins(self.arming.tick()), &mut cx)
    }

    /// What a worker's registration does after it has set a deadline in a shard.
    fn arm_for(&self, shard: usize, deadline: Tick) {
        if self.arming.undercut(deadline) {
            self.arming.lower(|| self.shards[shard].next_expiration());
            self.parking.bring_forward(|| begins(self.arming.tick()));
        }
    }

    /// The same for a thread that is no worker.
    fn wake_for(&self, shard: usize, deadline: Tick) {
        if self.arming.undercut(deadline) {
            self.arming.lower(|| self.shards[shard].next_expiration());
            self.driver.wake_by_ref();
        }
    }

    /// Whether the driver looks at the shards at that tick or before. If it was woken, it polls first.
    fn looks_by(&self, tick: Tick) -> bool {
        if self.wakes.count() > 0 && self.poll().is_ready() {
            return true;
        }
        let set_for = *self.bell.set_for.lock().unwrap();
        set_for.is_some_and(|set_for| Some(set_for) <= begins(tick))
    }
}

/// Never lost: the driver parks until no later than the earliest entry, or its alarm is brought forward.
#[test]
fn register_races_arm() {
    loom::model(|| {
        let berth = Berth::new();
        let registrations = [(0, Tick(3)), (1, Tick(2))].map(|(shard, deadline)| {
            let berth = berth.clone();
            thread::spawn(move || {
                let (_, waker) = Wakes::new();
                berth.shards[shard].register(deadline, waker).unwrap();
                berth.arm_for(shard, deadline);
            })
        });
        assert!(berth.park().is_pending());
        for registration in registrations {
            registration.join().unwrap();
        }
        assert!(berth.looks_by(Tick(2)));
    });
}

/// Never lost: the same, if it is another thread than a worker that registers the earlier of them.
#[test]
fn register_elsewhere_races_arm() {
    loom::model(|| {
        let berth = Berth::new();
        let worker = {
            let berth = berth.clone();
            thread::spawn(move || {
                let (_, waker) = Wakes::new();
                berth.shards[0].register(Tick(3), waker).unwrap();
                berth.arm_for(0, Tick(3));
            })
        };
        let other = {
            let berth = berth.clone();
            thread::spawn(move || {
                let (_, waker) = Wakes::new();
                berth.shards[1].register(Tick(2), waker).unwrap();
                berth.wake_for(1, Tick(2));
            })
        };
        assert!(berth.park().is_pending());
        worker.join().unwrap();
        other.join().unwrap();
        assert!(berth.looks_by(Tick(2)));
    });
}

/// Never lost: the same for an entry that is moved to an earlier deadline.
#[test]
fn earlier_reset_races_arm() {
    loom::model(|| {
        let berth = Berth::new();
        let (_, waker) = Wakes::new();
        let key = berth.shards[0].register(Tick(9), waker).unwrap();
        let reset = {
            let berth = berth.clone();
            thread::spawn(move || {
                assert!(berth.shards[0].reset(key, Tick(2)));
                berth.arm_for(0, Tick(2));
            })
        };
        assert!(berth.park().is_pending());
        reset.join().unwrap();
        assert!(berth.looks_by(Tick(2)));
    });
}

/// Never lost: a registration while the alarm goes off, and the driver works and parks again.
#[test]
fn register_races_wake_up() {
    loom::model(|| {
        let berth = Berth::new();
        let (first_wakes, first) = Wakes::new();
        berth.shards[0].register(Tick(1), first).unwrap();
        assert!(berth.park().is_pending());
        let registration = {
            let berth = berth.clone();
            thread::spawn(move || {
                let (_, waker) = Wakes::new();
                berth.shards[1].register(Tick(3), waker).unwrap();
                berth.arm_for(1, Tick(3));
            })
        };
        berth.bell.now.store(1, SeqCst);
        assert!(berth.poll().is_ready());
        berth.shards.iter().for_each(|shard| expire(shard, Tick(1)));
        assert!(berth.park().is_pending());
        registration.join().unwrap();
        assert_eq!(first_wakes.count(), 1);
        assert!(berth.looks_by(Tick(3)));
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
