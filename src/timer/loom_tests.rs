//! Models of a whole timer. Each model has the driver, and futures on two wheels. Each wheel has 2
//! levels of 4 slots.
//!
//! `.ci/loom` runs the models. `crate::driver::loom_tests` lists all models. The timer treats the
//! threads of a model as workers of its runtime, unless the model says otherwise. The first thread
//! of a model polls the driver, and controls its clock and its alarm by hand.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use loom::thread::{self, JoinHandle};
use tokio::{
    runtime::{self, Runtime},
    task::yield_now,
    time::Instant,
};

use super::*;
use crate::{
    driver::{
        clock::{Source, manual::Manual},
        loom_tests::Wakes,
    },
    futures::Sleep,
    ground::{sync, unwind},
};

/// The tick of the models. The tick is so long that the real duration of a model does not matter.
pub(crate) const TICK: Duration = Duration::from_secs(3_600);

/// An alarm that is exact. Until it goes off, it keeps its instant and the waker that it must wake.
///
/// Loom does not need to track the lock of this alarm. Every thread that sets the alarm holds the
/// lock of the place where the driver parks.
#[derive(Clone)]
struct TestAlarm {
    clock: Manual,
    set_for: Arc<Mutex<Option<(Instant, Waker)>>>,
}

impl Alarm for TestAlarm {
    fn set(&mut self, instant: Instant, waker: &Waker) {
        let is_ahead = self.clock.now() < instant;
        let set_for = is_ahead.then(|| (instant, waker.clone()));
        *self.set_for.lock().unwrap() = set_for;
        if !is_ahead {
            waker.wake_by_ref();
        }
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
    task: Option<Pin<Box<dyn Future<Output = ()>>>>,
    wakes: Arc<Wakes>,
    waker: Waker,
    /// The number of wakes before the last poll, or `None` before the first poll.
    seen: Option<usize>,
}

impl Driving {
    fn new(driver: Driver) -> Self {
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
pub(crate) struct Harness {
    pub(crate) timer: Timer,
    driver: Driving,
    clock: Manual,
    alarm: TestAlarm,
    start: Instant,
    runtime: Runtime,
}

impl Harness {
    fn new(runtime: Runtime, max_pending: usize) -> Self {
        let clock = Manual::new(true);
        let alarm = TestAlarm {
            clock,
            set_for: Arc::default(),
        };
        let parts = Parts {
            runtime: runtime.handle().clone(),
            clock: Clock::new(TICK, Source::Manual(clock)),
            alarm: Box::new(alarm.clone()),
            shards: 2,
            max_pending: Some(max_pending),
            turn: Turn::new(runtime.handle()),
        };
        let Undriven { timer, driver, .. } = Undriven::new(parts, |_| {});
        Self {
            timer,
            driver: Driving::new(driver),
            clock,
            alarm,
            start: clock.now(),
            runtime,
        }
    }

    pub(crate) fn at(&self, tick: u32) -> Instant {
        self.start + TICK * tick
    }

    fn registrar(&self, shard: usize) -> Arc<Registrar> {
        self.timer.handle.registrars[shard].clone()
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

    /// Advances the clock to a tick, and runs the driver whenever it is woken.
    pub(crate) fn run_to(&mut self, tick: u32) {
        self.driver.settle();
        while self.ring_by(self.at(tick)) {
            self.driver.settle();
        }
        self.pass_to(self.at(tick));
        // In the meantime, another thread may have set the alarm to this tick.
        while self.ring_by(self.at(tick)) {
            self.driver.settle();
        }
    }

    /// Runs the tasks that the timer has spawned. These tasks must end within two turns of the
    /// runtime.
    pub(crate) fn run_tasks(&self) {
        self.runtime.block_on(async {
            yield_now().await;
            yield_now().await;
        });
    }

    fn pass_to(&self, instant: Instant) {
        self.clock.advance(instant - self.clock.now());
    }

    /// If the alarm is set for `end` or an earlier instant, advances the clock until the alarm goes
    /// off.
    ///
    /// Returns whether the alarm went off.
    fn ring_by(&mut self, end: Instant) -> bool {
        let set_for = {
            let mut set_for = self.alarm.set_for.lock().unwrap();
            set_for.take_if(|(instant, _)| *instant <= end)
        };
        let Some((instant, waker)) = set_for else {
            return false;
        };
        self.pass_to(instant);
        waker.wake();
        true
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

/// Runs a model of a timer that has room for two entries.
pub(crate) fn model(model: impl Fn(Harness) + Send + Sync + 'static) {
    in_runtime(move |runtime| model(Harness::new(runtime, 2)));
}

/// Never lost: two sleeps register while the driver arms itself. Either the driver sets the alarm
/// for the earliest deadline, or a registering thread sets the alarm to this deadline.
#[test]
fn register_races_arm() {
    model(|mut harness| {
        let late = harness.spawn_sleeper(0, 3);
        let early = harness.spawn_sleeper(1, 2);
        harness.driver.poll();
        let (late, early) = (late.join().unwrap(), early.join().unwrap());
        harness.run_to(2);
        assert_eq!((early.is_woken(), late.is_woken()), (true, false));
        harness.run_to(3);
        assert!(late.is_woken());
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
        harness.driver.poll();
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
        harness.driver.poll();
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
        harness.driver.poll();
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
        harness.driver.settle();
        harness.pass_to(harness.at(5));
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

/// Never lost: a sleep registers while the alarm goes off, and the driver works and parks again.
#[test]
fn register_races_wake_up() {
    model(|mut harness| {
        let (first, _) = Sleeper::new(&harness.registrar(0), harness.at(1));
        harness.driver.poll();
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

/// Never lost: the deadline passes while a worker sets the alarm. The worker may find that the
/// alarm's instant has passed. The worker then wakes the driver.
#[test]
fn alarm_goes_off_while_it_is_set() {
    model(|mut harness| {
        let (_far, _) = Sleeper::new(&harness.registrar(0), harness.at(9));
        harness.driver.poll();
        let (registrar, deadline) = (harness.registrar(1), harness.at(2));
        let sleeper = thread::spawn(move || Sleeper::new(&registrar, deadline));
        harness.run_to(2);
        let (sleeper, polled) = sleeper.join().unwrap();
        // No more time passes. But a thread that read an earlier time may have set the alarm for
        // this tick.
        harness.run_to(2);
        assert_ne!(sleeper.is_woken(), polled.is_ready());
    });
}

/// Never lost: the timer leaps while the driver parks. A waiting sleep fires earlier by the length
/// of the leap.
#[test]
fn leap_races_park() {
    model(|mut harness| {
        let (sleeper, _) = Sleeper::new(&harness.registrar(0), harness.at(5));
        let timer = harness.timer.clone();
        let leap = thread::spawn(move || timer.leap(TICK * 3));
        harness.driver.poll();
        leap.join().unwrap();
        harness.run_to(1);
        assert!(!sleeper.is_woken());
        harness.run_to(2);
        assert!(sleeper.is_woken());
    });
}

/// Never lost: one thread registers a sleep while another thread stores a flag and then makes the
/// timer leap. If the registering thread does not see the flag, it has read the old lead. The leap
/// then fires the sleep.
#[test]
fn leap_races_register() {
    model(|mut harness| {
        let has_changed = Arc::new(sync::AtomicU64::new(0));
        let registration = {
            let (timer, registrar) = (harness.timer.clone(), harness.registrar(1));
            let (has_changed, deadline) = (has_changed.clone(), harness.at(3));
            thread::spawn(move || {
                let lead = timer.lead();
                let has_changed = has_changed.load(sync::Ordering::Relaxed) == 1;
                let (sleeper, _) = Sleeper::new(&registrar, deadline + lead);
                (sleeper, has_changed)
            })
        };
        let timer = harness.timer.clone();
        let leap = thread::spawn(move || {
            has_changed.store(1, sync::Ordering::Relaxed);
            timer.leap(TICK * 3);
        });
        harness.driver.poll();
        leap.join().unwrap();
        let (sleeper, has_changed) = registration.join().unwrap();
        harness.run_to(0);
        assert!(has_changed || sleeper.is_woken());
        // In every case, the sleep fires by its deadline.
        harness.run_to(3);
        assert!(sleeper.is_woken());
    });
}

/// Never lost: the last handle is dropped while the driver parks. The driver ends instead of
/// staying parked.
#[test]
fn last_handle_races_park() {
    model(|harness| {
        let Harness {
            timer, mut driver, ..
        } = harness;
        let last = thread::spawn(move || drop(timer));
        driver.poll();
        last.join().unwrap();
        assert!(driver.settle());
    });
}

/// Runtime end: the timer is shut down while the driver parks. The driver ends, and waiting sleeps
/// are woken.
#[test]
fn shutdown_races_park() {
    model(|mut harness| {
        let (sleeper, _) = Sleeper::new(&harness.registrar(0), harness.at(2));
        let timer = harness.timer.clone();
        let shutdown = thread::spawn(move || assert!(timer.shutdown().is_empty()));
        harness.driver.poll();
        shutdown.join().unwrap();
        assert!(harness.driver.settle());
        assert!(sleeper.is_woken());
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
            let registered = registrar.register(deadline, &waker);
            (registered, wakes)
        });
        let Harness { driver, alarm, .. } = harness;
        let driver_wakes = driver.wakes.clone();
        drop(driver);
        let (registered, wakes) = registration.join().unwrap();
        assert_eq!(wakes.count(), usize::from(registered.is_ok()));
        assert_eq!(
            Arc::strong_count(&alarm.set_for),
            1,
            "the alarm must be freed"
        );
        *alarm.set_for.lock().unwrap() = None;
        assert_eq!(
            Arc::strong_count(&driver_wakes),
            1,
            "the driver must be freed"
        );
    });
}

/// Runtime end: one thread shuts the timer down while another thread drops the driver. Only one of
/// the two threads closes the timer.
///
/// A waiting sleep is woken once. A scheduled task is returned or dropped, but never both.
#[test]
fn shutdown_races_runtime_end() {
    model(|harness| {
        let (sleeper, _) = Sleeper::new(&harness.registrar(0), harness.at(2));
        let work = Arc::new(());
        let held = work.clone();
        let future = async move { drop(held) };
        let mut task = harness.timer.schedule_at(harness.at(3), future).unwrap();
        let timer = harness.timer.clone();
        let shutdown = thread::spawn(move || timer.shutdown());
        drop(harness.driver);
        let left = shutdown.join().unwrap();
        assert_eq!(Arc::strong_count(&work), 1 + left.len());
        drop(left);
        assert_eq!(Arc::strong_count(&work), 1);
        assert!(sleeper.is_woken());
        let polled = Pin::new(&mut task).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Err(error)) if error.is_shutdown()));
    });
}

/// Default timer: two threads need the first timer of a runtime at the same time. Both threads get
/// the same timer.
#[test]
fn start_races_start() {
    in_runtime(|_runtime| {
        let other = thread::spawn(Timer::current);
        let timer = Timer::current();
        assert!(timer.is_of(&other.join().unwrap().handle.core));
    });
}

/// Runtime end, never lost: a default timer shuts down while a sleep is polled. The sleep registers
/// with the next default timer.
///
/// The shutdown does not remove the next default timer from the registry.
#[test]
fn shutdown_races_the_next_ambient_timer() {
    in_runtime(|_runtime| {
        let timer = Timer::builder().install().unwrap();
        let shutdown = thread::spawn(move || assert!(timer.shutdown().is_empty()));
        let (wakes, waker) = Wakes::new();
        let mut sleep = crate::sleep(TICK);
        let mut poll = || Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker));
        assert!(poll().is_pending());
        // The second poll covers the case of a task that was woken already.
        assert!(poll().is_pending());
        shutdown.join().unwrap();
        if wakes.count() > 0 {
            assert!(poll().is_pending());
        }
        assert_eq!(Timer::current().metrics().pending(), 1);
        assert!(!Timer::current().is_shutdown());
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
