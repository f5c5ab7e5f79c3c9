//! An epoch is some seconds of load, after which everything must be as before.
//!
//! The steady runtime lives through all epochs, with far sleeps pending. The timers that an epoch adds to it end with
//! the epoch, and so do other runtimes and plain threads. Then only the far sleeps may be left.

use std::{
    sync::{Arc, atomic::AtomicBool},
    task::{Context, Waker},
    thread,
};

use fastrand::Rng;
use futures_lite::future::block_on;
use tokio::runtime::{Builder, Runtime};
use tokio_wheel::{Duration, Timer};
use tokio_wheel_util::schedule::Scheduler;

use crate::{
    faults::{eventually, found},
    ops::act,
    short_lived,
    storm::storm,
    target::{Environment, Epoch, Target, Tracked},
};

const FAR: u64 = 20_000;

const ACTORS: usize = 10;

const MAX_PENDING: usize = 1_000;

pub struct Steady {
    runtime: Runtime,
    storms: Timer,
    far: Vec<Tracked>,
}

impl Steady {
    pub fn start() -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            // The threads for blocking tasks must have ended when the memory is measured.
            .thread_keep_alive(Duration::from_millis(100))
            .enable_all()
            .build()
            .expect("cannot start a runtime");
        let entered = runtime.enter();
        let target = Target::new(&env(&Epoch::new(), false), "the default timer", None);
        let storms = Timer::builder().build().expect("in range");
        let far = (0..FAR).map(|n| target.sleep(Duration::from_secs(100_000 + 7 * n)));
        let mut far: Vec<_> = far.collect();
        for sleep in &mut far {
            assert!(sleep.is_pending(&mut Context::from_waker(Waker::noop())));
        }
        drop(entered);
        Self {
            runtime,
            storms,
            far,
        }
    }

    /// Runs an epoch. Returns whether all of it has ended, so that another epoch can follow.
    pub fn epoch(&mut self, rng: &mut Rng, length: Duration, has_storm: bool) -> bool {
        let epoch = Epoch::new();
        let targets = self.start_load(&epoch, rng);
        if has_storm {
            let target = Target::new(&targets[0].env, "storms", Some(self.storms.clone()));
            storm(self.runtime.handle(), &target, rng);
        }
        thread::sleep(length);
        epoch.end();

        let timers = targets.each_ref().map(|target| target.timer.clone());
        let scheduler = targets[0].env.scheduler.clone();
        drop(targets);
        if !eventually(|| Arc::strong_count(&epoch) == 1) {
            found(format!(
                "{} runtimes, threads, tasks or sleeps are left of an epoch",
                Arc::strong_count(&epoch) - 1
            ));
            return false;
        }
        for timer in timers.iter().flatten().chain([&self.storms]) {
            let pending = timer.metrics().pending();
            if pending > 0 {
                found(format!("{pending} are pending on {timer:?}"));
            }
        }
        if scheduler.pending() > 0 {
            found(format!("{} tasks are still scheduled", scheduler.pending()));
        }
        drop(scheduler);
        let _entered = self.runtime.enter();
        self.check_far();
        true
    }

    /// Starts the tasks and the threads of an epoch. Returns the timers of the steady runtime.
    fn start_load(&self, epoch: &Arc<Epoch>, rng: &mut Rng) -> [Arc<Target>; 3] {
        let entered = self.runtime.enter();
        let env = env(epoch, rng.u8(..3) == 0);
        let targets = [
            (
                "a high-resolution timer",
                Timer::builder().high_resolution(),
            ),
            ("a timer", Timer::builder()),
        ];
        let [high, built] = targets.map(|(name, builder)| {
            Target::new(&env, name, Some(builder.build().expect("in range")))
        });
        drop(entered);
        let targets = [high, built, Target::new(&env, "the default timer", None)];
        for target in &targets {
            for _ in 0..ACTORS {
                let epoch = epoch.clone();
                let actor = act(target.clone(), rng.u64(..), move || epoch.is_over());
                self.runtime.spawn(actor);
            }
            // A thread outside of all runtimes, or a thread that has entered the runtime.
            let (target, epoch, seed) = (target.clone(), epoch.clone(), rng.u64(..));
            let handle = (target.timer.is_none()).then(|| self.runtime.handle().clone());
            thread::spawn(move || {
                let _entered = handle.as_ref().map(|handle| handle.enter());
                block_on(act(target, seed, || epoch.is_over()));
            });
        }
        for builder in [Builder::new_multi_thread(), Builder::new_current_thread()] {
            let (epoch, seed) = (epoch.clone(), rng.u64(..));
            thread::spawn(move || short_lived::run(&epoch, builder, seed));
        }
        targets
    }

    fn check_far(&self) {
        let pending = || Timer::current().metrics().pending();
        let expected = self.far.len() as u64;
        if !eventually(|| pending() == expected) {
            found(format!("{expected} sleeps, but {} are pending", pending()));
        }
    }

    /// Drops the far sleeps. Then no timer may be left.
    pub fn end(&mut self) {
        let _entered = self.runtime.enter();
        self.far.clear();
        self.check_far();
    }
}

fn env(epoch: &Arc<Epoch>, blocks: bool) -> Arc<Environment> {
    Arc::new(Environment {
        name: "the steady runtime",
        blocks,
        scheduler: Scheduler::builder().max_pending(MAX_PENDING).build(),
        epoch: epoch.clone(),
        ended: AtomicBool::new(false),
    })
}
