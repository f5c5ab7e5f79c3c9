//! A harness for tests of the driver. The test moves the clock, rings the alarm and polls the driver.

use std::{pin::Pin, sync::Mutex, task::Waker, time::Duration};

use proptest::prelude::ProptestConfig;
use tokio::{runtime, time::Instant};
use tokio_test::{assert_pending, task};

use super::*;
use crate::{
    driver::{
        clock::{Clock, DEFAULT_TICK, manual::Manual},
        room::{Room, tests::Others},
    },
    futures::Sleep,
};

/// An alarm that the test rings.
///
/// An alarm that is not deaf also rings when it is polled after its instant has passed.
#[derive(Clone)]
pub(super) struct TestAlarm {
    clock: Manual,
    rope: Arc<Mutex<Rope>>,
}

#[derive(Default)]
struct Rope {
    /// The instant for which the alarm was last polled, or `None` after it has rung.
    set_for: Option<Instant>,
    pulled: bool,
    deaf: bool,
    /// The number of times that setting the alarm panics from now on.
    broken: u32,
    /// What setting the alarm next calls, as a subscriber of tokio's events.
    subscriber: Option<Box<dyn FnOnce() + Send>>,
    waker: Option<Waker>,
}

impl TestAlarm {
    fn new(clock: Manual) -> Self {
        let rope = Arc::default();
        Self { clock, rope }
    }

    pub(super) fn ring(&self) {
        let waker = {
            let mut rope = self.rope.lock().unwrap();
            rope.set_for = None;
            rope.pulled = rope.waker.is_none();
            rope.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Makes the alarm forget its instant. The alarm can wake the driver only after it is polled again.
    pub(super) fn forget(&self) {
        let waker = {
            let mut rope = self.rope.lock().unwrap();
            rope.set_for = None;
            rope.pulled = false;
            rope.waker.take()
        };
        drop(waker);
    }

    /// Sets whether the alarm is deaf. A deaf alarm rings only when the test rings it.
    #[cfg(feature = "test-util")]
    pub(super) fn set_deaf(&self, deaf: bool) {
        self.rope.lock().unwrap().deaf = deaf;
    }

    /// Makes setting the alarm panic this many times.
    pub(super) fn break_for(&self, times: u32) {
        self.rope.lock().unwrap().broken = times;
    }

    /// Makes setting the alarm next call `subscriber`.
    pub(super) fn call(&self, subscriber: impl FnOnce() + Send + 'static) {
        self.rope.lock().unwrap().subscriber = Some(Box::new(subscriber));
    }

    pub(super) fn set_for(&self) -> Option<Instant> {
        self.rope.lock().unwrap().set_for
    }
}

/// The driver's end of a [`TestAlarm`]. Like every alarm, it drops its waker when it is dropped.
struct Bell(TestAlarm);

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.forget();
    }
}

impl Alarm for Bell {
    fn set(&mut self, instant: Instant, waker: &Waker) {
        let subscriber = self.0.rope.lock().unwrap().subscriber.take();
        if let Some(subscriber) = subscriber {
            subscriber();
        }
        let mut rope = self.0.rope.lock().unwrap();
        if rope.broken > 0 {
            rope.broken -= 1;
            drop(rope);
            std::panic::resume_unwind(Box::new("the alarm"));
        }
        let is_late = !rope.deaf && instant <= self.0.clock.now();
        if std::mem::take(&mut rope.pulled) || is_late {
            rope.set_for = None;
            drop(rope);
            return waker.wake_by_ref();
        }
        rope.set_for = Some(instant);
        let replaced = rope.waker.replace(waker.clone());
        drop(rope);
        drop(replaced);
    }
}

/// The settings of a timer on the harness.
pub(super) struct Setup {
    pub(super) shards: usize,
    pub(super) tick: Duration,
    /// Whether the timer assumes that its clock cannot be paused.
    pub(super) is_real: bool,
    /// The load of other tasks on the workers. `None` on a current-thread runtime.
    pub(super) load: Option<Arc<Others>>,
}

/// A timer with its driver, clock and alarm.
pub(super) struct Harness {
    pub(super) timer: Timer,
    pub(super) driver: task::Spawn<Pin<Box<dyn Future<Output = ()> + Send>>>,
    pub(super) clock: Manual,
    pub(super) alarm: TestAlarm,
    pub(super) start: Instant,
    pub(super) runtime: Option<runtime::Runtime>,
}

impl Harness {
    /// Makes a timer with the default tick.
    pub(super) fn new(shards: usize) -> Self {
        Self::with(shards, None)
    }

    /// Makes a timer with the default tick, whose runtime has a load that the test sets.
    pub(super) fn with(shards: usize, load: Option<Arc<Others>>) -> Self {
        let runtime = runtime::Builder::new_current_thread().build().unwrap();
        Self::on(
            runtime,
            &Setup {
                shards,
                tick: DEFAULT_TICK,
                is_real: true,
                load,
            },
        )
    }

    /// Makes a timer whose runtime is `runtime`. The test polls the driver, and not the runtime.
    pub(super) fn on(runtime: runtime::Runtime, setup: &Setup) -> Self {
        let clock = {
            let _its_time = runtime.enter();
            Manual::new(setup.is_real)
        };
        let alarm = TestAlarm::new(clock);
        let by_hand = Clock::by_hand(setup.tick, clock);
        let shared = Shared::new(runtime.handle().id(), by_hand, setup.shards, |_| {});
        let room = match &setup.load {
            Some(load) => Room::beside(load.clone()),
            None => Room::of(None),
        };
        let bell = Box::new(Bell(alarm.clone()));
        let (timer, driver) = Timer::from_parts(shared, bell, Driver::new(room));
        let mut harness = Self {
            timer,
            driver: task::spawn(Box::pin(driver.run())),
            clock,
            alarm,
            start: clock.now(),
            runtime: Some(runtime),
        };
        harness.drive();
        harness
    }

    /// Polls the driver's task until it waits for a notification.
    pub(super) fn drive(&mut self) {
        assert_pending!(self.driver.poll());
        while self.driver.is_woken() {
            assert_pending!(self.driver.poll());
        }
    }

    pub(super) fn ring(&mut self) {
        self.alarm.ring();
        self.drive();
    }

    /// Moves the clock to `end`, and rings the alarm at each instant for which it is set.
    pub(super) fn run_to(&mut self, end: Instant) {
        while let Some(set_for) = self.alarm.set_for().filter(|set_for| *set_for <= end) {
            let now = self.clock.now();
            if set_for <= now {
                break;
            }
            self.clock.advance(set_for - now);
            self.ring();
        }
        self.clock.advance(end - self.clock.now());
    }

    pub(super) fn sleep(&mut self, duration: Duration) -> task::Spawn<Sleep> {
        let mut sleep = task::spawn(self.timer.sleep_until(self.clock.now() + duration));
        assert_pending!(sleep.poll());
        if self.driver.is_woken() {
            self.drive();
        }
        sleep
    }
}

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns a configuration that runs this number of programs, unless `PROPTEST_CASES` is set.
pub(super) fn programs(number: u32) -> ProptestConfig {
    let mut config = ProptestConfig {
        // If a program hangs, each step of shrinking takes a long time.
        max_shrink_time: 40_000,
        ..ProptestConfig::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = number;
    }
    config
}
