//! Models of a whole timer. Each model has the driver, and futures on two wheels. Each wheel has 2
//! levels of 4 slots.
//!
//! `.ci/loom` runs the models. `crate::driver::loom_tests` lists all models. The timer treats the
//! threads of a model as workers of its runtime, unless the model says otherwise. The first thread
//! of a model controls the clock by hand. It lets both halves of the driver take turns: it rings the
//! alarm, which calls the alarm's waker, and it polls the task. Some models leave one half to
//! another thread.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use loom::thread::{self, JoinHandle};
use tokio::{
    runtime::{self, Runtime},
    time::Instant,
};

use super::*;
use crate::{
    driver::{
        clock::{Clock, manual::Manual},
        entry::Site,
        loom_tests::Wakes,
        room::Room,
    },
    futures::Sleep,
    ground::{sync, unwind},
};

/// The tick of the models. The tick is so long that the real duration of a model does not matter.
const TICK: Duration = Duration::from_secs(3_600);

/// An alarm that is exact, or early by a fixed duration. Until it goes off, it keeps its instant and
/// the waker that it must wake.
///
/// Loom tracks the lock of this alarm. Otherwise loom would not try an order in which the alarm goes
/// off before another thread sets or drops it.
#[derive(Clone)]
struct TestAlarm {
    clock: Manual,
    /// The duration by which the alarm is early. If the alarm is set later, it is exact.
    early: Duration,
    set_for: Arc<sync::Mutex<Option<(Instant, Waker)>>>,
}

impl TestAlarm {
    fn instant(&self) -> Option<Instant> {
        let set_for = self.set_for.lock();
        set_for.as_ref().map(|(instant, _)| *instant)
    }

    /// If the alarm is set for `end` or an earlier instant, advances the clock until the alarm goes
    /// off. The alarm calls its waker on this thread.
    ///
    /// Returns whether the alarm went off.
    fn ring_by(&self, end: Instant) -> bool {
        let set_for = {
            let mut set_for = self.set_for.lock();
            set_for.take_if(|(instant, _)| *instant <= end)
        };
        let Some((instant, waker)) = set_for else {
            return false;
        };
        self.pass_to(instant);
        waker.wake();
        true
    }

    fn pass_to(&self, instant: Instant) {
        self.clock.advance(instant - self.clock.now());
    }
}

/// The driver's end of a [`TestAlarm`]. Like every alarm, it drops its waker when it is dropped.
struct Bell(TestAlarm);

impl Alarm for Bell {
    fn set(&mut self, instant: Instant, waker: &Waker) {
        let early = instant - self.0.early;
        let end = if self.0.clock.now() < early {
            early
        } else {
            instant
        };
        // Like the alarm of tokio, this alarm goes off at once if the time has passed by now.
        let is_ahead = self.0.clock.now() < end;
        let set_for = is_ahead.then(|| (end, waker.clone()));
        *self.0.set_for.lock() = set_for;
        if !is_ahead {
            waker.wake_by_ref();
        }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        *self.0.set_for.lock() = None;
    }
}

/// A sleep and the waker of its task.
struct Sleeper {
    sleep: Sleep,
    wakes: Arc<Wakes>,
    waker: Waker,
}

impl Sleeper {
    /// Creates a sleep and polls it once.
    fn new(registrar: &Arc<Registrar>, deadline: Instant) -> (Self, Poll<()>) {
        let (wakes, waker) = Wakes::new();
        let sleep = Sleep::new(Some(registrar.clone()), deadline);
        let mut sleeper = Self {
            sleep,
            wakes,
            waker,
        };
        let polled = sleeper.poll();
        (sleeper, polled)
    }

    fn poll(&mut self) -> Poll<()> {
        Pin::new(&mut self.sleep).poll(&mut Context::from_waker(&self.waker))
    }

    fn reset(&mut self, deadline: Instant) {
        Pin::new(&mut self.sleep).reset(deadline);
    }

    /// Returns whether the task was woken. Panics if it was woken more than once.
    fn is_woken(&self) -> bool {
        match self.wakes.count() {
            0 => false,
            1 => true,
            more => panic!("the task was woken {more} times"),
        }
    }
}

/// The driver's task, polled by hand.
struct Driving {
    /// The task, or `None` after it has ended.
    task: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    wakes: Arc<Wakes>,
    waker: Waker,
    /// The number of wakes before the last poll, or `None` before the first poll.
    seen: Option<usize>,
}

impl Driving {
    fn new(driver: DriverTask) -> Self {
        let (wakes, waker) = Wakes::new();
        Self {
            task: Some(Box::pin(driver.run())),
            wakes,
            waker,
            seen: None,
        }
    }

    fn poll(&mut self) {
        self.seen = Some(self.wakes.count());
        let mut cx = Context::from_waker(&self.waker);
        self.task
            .take_if(|task| task.as_mut().poll(&mut cx).is_ready());
    }

    /// Polls the task until the task no longer wakes itself. Returns whether the task has ended.
    fn settle(&mut self) -> bool {
        while self.task.is_some() && self.seen != Some(self.wakes.count()) {
            self.poll();
        }
        self.task.is_none()
    }
}

/// A timer that has two shards, with its driver, clock, alarm and runtime.
struct Harness {
    timer: Timer,
    driver: Driving,
    alarm: TestAlarm,
    start: Instant,
    /// Keeps the runtime alive until the model ends.
    _runtime: Runtime,
}

impl Harness {
    /// Makes a timer whose alarm is `early`.
    fn new(runtime: Runtime, early: Duration) -> Self {
        let clock = Manual::new(true);
        let alarm = TestAlarm {
            clock,
            early,
            set_for: Arc::new(sync::Mutex::new(None)),
        };
        let by_hand = Clock::by_hand(TICK, clock);
        let shared = Shared::new(runtime.handle().id(), by_hand, 2, |_| {});
        let turn = Driver::new(Room::new(runtime.handle()));
        let bell = Box::new(Bell(alarm.clone()));
        let (timer, driver) = Timer::from_parts(shared, bell, turn);
        Self {
            timer,
            driver: Driving::new(driver),
            alarm,
            start: clock.now(),
            _runtime: runtime,
        }
    }

    fn at(&self, tick: u32) -> Instant {
        self.start + TICK * tick
    }

    fn registrar(&self, shard: usize) -> Arc<Registrar> {
        Registrar::of_shard(&self.timer.handle.shared, shard)
    }

    /// Starts a thread that registers a sleep in the given shard.
    fn spawn_sleeper(&self, shard: usize, tick: u32) -> JoinHandle<Sleeper> {
        let (registrar, deadline) = (self.registrar(shard), self.at(tick));
        thread::spawn(move || {
            let (sleeper, polled) = Sleeper::new(&registrar, deadline);
            assert!(polled.is_pending());
            sleeper
        })
    }

    /// Notifies the driver's task, as a thread that is no worker does.
    fn notify(&self) {
        self.timer.shared().agenda.notify.notify_one();
    }

    /// Makes the driver's task take a turn.
    fn take_turn(&mut self) {
        self.notify();
        self.driver.settle();
    }

    /// Advances the clock to a tick. Rings the alarm at each instant for which it is set, and polls
    /// the driver's task whenever it is woken.
    fn run_to(&mut self, tick: u32) {
        self.driver.settle();
        while self.alarm.ring_by(self.at(tick)) {
            self.driver.settle();
        }
        self.alarm.pass_to(self.at(tick));
        // In the meantime, another thread may have set the alarm to this tick.
        while self.alarm.ring_by(self.at(tick)) {
            self.driver.settle();
        }
    }
}

/// Runs a model in a runtime of its own.
fn in_runtime(model: impl Fn(Runtime) + Send + Sync + 'static) {
    loom::model(move || {
        let mut builder = runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().build().unwrap();
        let handle = runtime.handle().clone();
        let _entered = handle.enter();
        model(runtime);
    });
}

/// Runs a model of a timer.
fn model(model: impl Fn(Harness) + Send + Sync + 'static) {
    in_runtime(move |runtime| model(Harness::new(runtime, Duration::ZERO)));
}

/// Never lost: two sleeps register while the driver's task takes a turn, and arms itself. Either the
/// driver sets the alarm for the earliest deadline, or a registering thread sets the alarm to this
/// deadline.
#[test]
fn register_races_arm() {
    model(|mut harness| {
        let late = harness.spawn_sleeper(0, 3);
        let early = harness.spawn_sleeper(1, 2);
        harness.take_turn();
        let (late, early) = (late.join().unwrap(), early.join().unwrap());
        harness.run_to(2);
        assert_eq!((early.is_woken(), late.is_woken()), (true, false));
        harness.run_to(3);
        assert!(late.is_woken());
    });
}

/// A blocked worker makes no timer late: the watch begins to rest while a thread registers the earliest sleep. Either the watch
/// sleeps until that deadline at most, or the thread unparks it.
#[test]
fn rest_races_register() {
    model(|harness| {
        let shared = harness.timer.shared();
        let sleeper = harness.spawn_sleeper(0, 2);
        let until = shared.agenda.begin_rest();
        let _sleeper = sleeper.join().unwrap();
        assert!(
            until.is_none_or(|until| until <= 2) || !shared.agenda.watch_rests(),
            "rests until tick {until:?}"
        );
    });
}

/// A blocked worker makes no timer late: the watch begins to rest while the driver takes a turn. It must not sleep beyond the
/// tick that the driver arms for.
#[test]
fn rest_races_turn() {
    model(|mut harness| {
        let _sleeper = harness.spawn_sleeper(0, 3).join().unwrap();
        let timer = harness.timer.clone();
        let watch = thread::spawn(move || timer.shared().agenda.begin_rest());
        harness.take_turn();
        let until = watch.join().unwrap();
        let shared = harness.timer.shared();
        assert!(
            until.is_none_or(|until| until <= 3) || !shared.agenda.watch_rests(),
            "rests until tick {until:?}, armed is {}",
            shared.agenda.armed()
        );
    });
}

/// Never lost: a thread that is not a worker registers the earlier deadline while the driver arms
/// itself.
#[test]
fn register_elsewhere_races_arm() {
    model(|mut harness| {
        let late = harness.spawn_sleeper(0, 3);
        let early = {
            let (registrar, deadline) = (harness.registrar(1), harness.at(2));
            thread::spawn(move || {
                sync::be_no_worker();
                Sleeper::new(&registrar, deadline).0
            })
        };
        harness.take_turn();
        let (_late, early) = (late.join().unwrap(), early.join().unwrap());
        harness.run_to(2);
        assert!(early.is_woken());
    });
}

/// Never lost: two threads register in one shard while the driver arms itself.
///
/// The first registration may have published its tick, but may not have lowered the armed tick yet.
/// The second registration must not rely on the published tick.
#[test]
fn second_registration_races_arm() {
    model(|mut harness| {
        let sleepers = [harness.spawn_sleeper(0, 2), harness.spawn_sleeper(0, 3)];
        harness.take_turn();
        let [early, late] = sleepers.map(|sleeper| sleeper.join().unwrap());
        harness.run_to(2);
        assert_eq!((early.is_woken(), late.is_woken()), (true, false));
        harness.run_to(3);
        assert!(late.is_woken());
    });
}

/// Never lost: a sleep is reset to an earlier deadline while the driver arms itself.
#[test]
fn earlier_reset_races_arm() {
    model(|mut harness| {
        let (mut sleeper, polled) = Sleeper::new(&harness.registrar(0), harness.at(9));
        assert!(polled.is_pending());
        let earlier = harness.at(2);
        let reset = thread::spawn(move || {
            sleeper.reset(earlier);
            sleeper
        });
        harness.take_turn();
        let sleeper = reset.join().unwrap();
        harness.run_to(2);
        assert!(sleeper.is_woken());
    });
}

/// Paused clock: a sleep that is reset to the past fires at once. Either the reset or the driver
/// fires it.
#[test]
fn reset_that_fires_races_fire() {
    model(|mut harness| {
        let (mut sleeper, polled) = Sleeper::new(&harness.registrar(0), harness.at(5));
        assert!(polled.is_pending());
        harness.alarm.pass_to(harness.at(5));
        let past = harness.at(2);
        let reset = thread::spawn(move || {
            sleeper.reset(past);
            sleeper
        });
        harness.run_to(5);
        let mut sleeper = reset.join().unwrap();
        assert!(sleeper.is_woken());
        assert!(sleeper.poll().is_ready());
    });
}

/// Never lost: a worker registers a sleep while the alarm's waker takes a turn. The worker leaves the
/// alarm alone during the turn. The alarm's waker sets the alarm afterwards.
#[test]
fn register_races_wake_up() {
    model(|mut harness| {
        let (first, _) = Sleeper::new(&harness.registrar(0), harness.at(1));
        let later = harness.spawn_sleeper(1, 3);
        harness.run_to(1);
        assert!(first.is_woken());
        let later = later.join().unwrap();
        harness.run_to(2);
        assert!(!later.is_woken());
        harness.run_to(3);
        assert!(later.is_woken());
    });
}

/// Never lost: the alarm's instant passes while a worker sets the alarm. The alarm then goes off on the
/// worker, which holds the lock. So the alarm's waker cannot take a turn, and notifies the task.
///
/// If the alarm is early, the deadline has not passed then.
#[test]
fn alarm_goes_off_while_it_is_set() {
    for early in [Duration::ZERO, TICK / 2] {
        in_runtime(move |runtime| {
            let mut harness = Harness::new(runtime, early);
            let (_far, _) = Sleeper::new(&harness.registrar(0), harness.at(9));
            let (registrar, deadline) = (harness.registrar(1), harness.at(2));
            let sleeper = thread::spawn(move || Sleeper::new(&registrar, deadline));
            harness.alarm.pass_to(deadline - early);
            harness.run_to(2);
            let (sleeper, polled) = sleeper.join().unwrap();
            // No more time passes. But the worker may have set the alarm for this tick.
            harness.run_to(2);
            assert_ne!(sleeper.is_woken(), polled.is_ready());
        });
    }
}

/// Never lost: the alarm's waker takes a turn on one thread while the task takes a turn on another
/// thread. A registration by a thread that is no worker has notified the task. Neither half waits
/// for the other, and every sleep fires at its deadline.
///
/// The new deadline is before or after the instant for which the alarm is set.
#[test]
fn turn_races_turn() {
    for tick in [1, 3] {
        model(move |mut harness| {
            let (expired, _) = Sleeper::new(&harness.registrar(0), harness.at(2));
            let (far, _) = Sleeper::new(&harness.registrar(0), harness.at(9));
            let [deadline, two, three] = [tick, 2, 3].map(|tick| harness.at(tick));
            let registrar = harness.registrar(1);
            let mut driver = harness.driver;
            let elsewhere = thread::spawn(move || {
                sync::be_no_worker();
                let (sleeper, polled) = Sleeper::new(&registrar, deadline);
                driver.settle();
                (sleeper, polled, driver)
            });
            harness.alarm.ring_by(two);
            harness.alarm.ring_by(three);
            let (sleeper, polled, driver) = elsewhere.join().unwrap();
            harness.driver = driver;
            harness.run_to(3);
            assert!(expired.is_woken());
            assert_ne!(sleeper.is_woken(), polled.is_ready());
            assert_eq!(harness.alarm.instant(), Some(harness.at(9)));
            assert!(!far.is_woken());
            harness.run_to(9);
            assert!(far.is_woken());
        });
    }
}

/// Never lost: the last handle is dropped while the driver parks. The driver ends instead of
/// staying parked.
#[test]
fn last_handle_races_park() {
    model(|harness| {
        harness.notify();
        let Harness {
            timer, mut driver, ..
        } = harness;
        let last = thread::spawn(move || drop(timer));
        driver.settle();
        last.join().unwrap();
        assert!(driver.settle());
    });
}

/// Runtime end: a sleep registers while the driver is dropped. The sleep is woken or refused, and
/// keeps no part of the runtime alive.
#[test]
fn runtime_end_races_rearm() {
    model(|mut harness| {
        let (_far, _) = Sleeper::new(&harness.registrar(0), harness.at(9));
        harness.driver.poll();
        let (registrar, deadline) = (harness.registrar(1), harness.at(2));
        let registration = thread::spawn(move || {
            let (wakes, waker) = Wakes::new();
            let registered = registrar.register(deadline, (&waker, Site::of_caller()));
            (registered, wakes)
        });
        let driver_wakes = harness.driver.wakes.clone();
        drop(harness.driver);
        let (registered, wakes) = registration.join().unwrap();
        assert_eq!(wakes.count(), usize::from(registered.is_ok()));
        assert_is_freed(&harness.timer, &harness.alarm);
        assert_eq!(
            Arc::strong_count(&driver_wakes),
            1,
            "the task must be freed"
        );
    });
}

/// Checks that the driver has dropped its alarm and its turn, and does not keep the state of `timer`.
fn assert_is_freed(timer: &Timer, alarm: &TestAlarm) {
    let shared = &timer.handle.shared;
    assert!(shared.agenda.take().is_none(), "the turn is left");
    assert_eq!(Arc::strong_count(&alarm.set_for), 1, "the alarm is left");
    assert_eq!(alarm.instant(), None);
    // The handle and the registrars keep the state.
    let registrars = shared.registrars.load(sync::Ordering::Relaxed);
    assert_eq!(
        Arc::strong_count(shared),
        1 + registrars,
        "the state is left"
    );
}

/// Runtime end: the driver is dropped while the alarm's waker takes a turn. The thread that takes the
/// turn drops it, and sets no alarm. All waiting sleeps are woken.
#[test]
fn runtime_end_races_turn() {
    model(|mut harness| {
        let (expired, _) = Sleeper::new(&harness.registrar(0), harness.at(2));
        let (far, _) = Sleeper::new(&harness.registrar(1), harness.at(9));
        harness.driver.poll();
        let (alarm, end) = (harness.alarm.clone(), harness.at(2));
        let turn = thread::spawn(move || alarm.ring_by(end));
        drop(harness.driver);
        turn.join().unwrap();
        assert!(expired.is_woken() && far.is_woken());
        assert_is_freed(&harness.timer, &harness.alarm);
    });
}

/// Default timer: two threads need the first timer of a runtime at the same time. Both threads get
/// the same timer.
#[test]
fn start_races_start() {
    in_runtime(|_runtime| {
        let other = thread::spawn(Timer::current);
        let timer = Timer::current();
        let others = other.join().unwrap();
        assert!(Arc::ptr_eq(&timer.handle, &others.handle));
    });
}

/// Runtime end: a sleep is polled while its runtime is dropped. If it was registered, it is woken.
///
/// A poll returns pending while the runtime drops tasks, and panics afterwards.
#[test]
fn runtime_end_races_poll() {
    in_runtime(|runtime| {
        let timer = Timer::current();
        let has_ended = Arc::new(AtomicBool::new(false));
        let ended = has_ended.clone();
        let end = thread::spawn(move || {
            drop(runtime);
            ended.store(true, SeqCst);
        });
        let (wakes, waker) = Wakes::new();
        let mut sleep = crate::sleep(TICK);
        let mut is_pending = || {
            let mut poll = || Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker));
            let polled = unwind::catch(&mut poll);
            assert!(polled.as_ref().is_ok_and(Poll::is_pending) || has_ended.load(SeqCst));
            polled.is_ok()
        };
        is_pending();
        let was_pending = is_pending();
        end.join().unwrap();
        assert!(!is_pending());
        assert!(!was_pending || wakes.count() > 0);
        assert_eq!(timer.metrics().pending(), 0);
    });
}

/// Default timer: the driver panics while a thread that is no worker polls a sleep. The sleep is or gets registered with
/// the next timer.
#[test]
fn driver_panic_races_poll() {
    in_runtime(|_runtime| {
        let timer = Timer::current();
        let panic = thread::spawn(move || timer.shared().close(true));
        sync::be_no_worker();
        let (_wakes, waker) = Wakes::new();
        let mut sleep = crate::sleep(TICK);
        let mut poll = || Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker));
        assert!(poll().is_pending());
        panic.join().unwrap();
        assert!(poll().is_pending());
        assert_eq!(Timer::current().metrics().pending(), 1);
    });
}
