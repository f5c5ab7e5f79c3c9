//! Loom models of the races of a scheduled task. The handle, the driver, a run, a shutdown and the end of the runtime
//! race each other.
//!
//! The wheels have 2 levels of 4 slots. `.ci/loom` runs the models. A model runs the crate's own code. Loom replaces only
//! the locks and atomics (see [`sync`](crate::ground::sync)). The first thread of a model acts as the driver and as the
//! runtime, and moves the time by hand. Other threads use the scheduler and the handles.

use std::{
    future::{Future, ready},
    mem,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
};

use bounded_wheel::{NEVER, Tick};
use loom::thread;
use tokio::{
    runtime::{self, Runtime},
    task::yield_now,
    time::Instant,
};
use tokio_wheel::{Duration, Timer};

use super::{
    ScheduledTask, Scheduler,
    driver::Driver,
    entry::{Entry, Task},
    error::TaskError,
    shard::{Budget, Common, Shard},
    work::Once,
};
use crate::ground::{clock::Clock, tick_sleep::TickSleep};

/// The tick of the models. The tick is so long that the real duration of a model does not matter.
const TICK: Duration = Duration::from_secs(3_600);

/// A waker that counts its wakes.
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

/// A scheduler with two shards and room for two tasks, its driver and its runtime.
struct Harness {
    scheduler: Scheduler,
    common: Arc<Common>,
    driver: Driver,
    /// The wakes of the driver.
    wakes: Arc<Wakes>,
    waker: Waker,
    runtime: Runtime,
}

impl Harness {
    fn new(runtime: Runtime) -> Self {
        let timer = Timer::builder().tick(TICK).build().unwrap();
        let mut sleep = TickSleep::of(Some(&timer));
        sleep.clock = Clock::new(TICK);
        let common = Common::new(sleep.clock, Some(2));
        let shards: Arc<[_]> = [(); 2].map(|()| Shard::new(common.clone())).into();
        let driver = Driver::new(&shards, common.clone(), timer, sleep);
        let (wakes, waker) = Wakes::new();
        Self {
            scheduler: Scheduler { shards },
            common,
            driver,
            wakes,
            waker,
            runtime,
        }
    }

    fn at(&self, tick: Tick) -> Instant {
        self.common.clock.saturating_instant(tick)
    }

    /// Takes a turn of the driver at a tick. Returns the tick for which the driver then waits.
    fn run_to(&mut self, tick: Tick) -> Tick {
        self.common.armed.disarm();
        while self.driver.fire(tick, &mut few_steps()).is_break() {}
        self.arm()
    }

    fn arm(&self) -> Tick {
        let look = || self.driver.look().unwrap_or(NEVER);
        self.common.armed.arm(&self.waker, look)
    }

    /// Arms as a poll of the driver does. Also returns whether the driver has found an open shard.
    fn look_and_arm(&self) -> (bool, Tick) {
        let mut is_left = true;
        self.common.armed.disarm();
        let next = self.common.armed.arm(&self.waker, || {
            let next = self.driver.look();
            is_left = next.is_some();
            next.unwrap_or(NEVER)
        });
        (is_left, next)
    }

    /// Runs the tasks that the driver has spawned. These tasks must end within two turns of the runtime.
    fn run_tasks(&self) {
        self.runtime.block_on(async {
            yield_now().await;
            yield_now().await;
        });
    }
}

/// Returns a budget that is enough to visit both shards, and little more.
fn few_steps() -> Budget {
    Budget {
        steps: 3,
        starts: 1,
    }
}

/// Runs a model in a runtime of its own.
fn model(model: impl Fn(Harness) + Send + Sync + 'static) {
    loom::model(move || {
        let mut builder = runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().build().unwrap();
        let handle = runtime.handle().clone();
        let _entered = handle.enter();
        model(Harness::new(runtime));
    });
}

/// Counts the runs of a task. Also shows whether the task has dropped its values.
#[derive(Clone, Default)]
struct Witness(Arc<AtomicUsize>);

impl Witness {
    fn run(&self) {
        self.0.fetch_add(1, SeqCst);
    }

    fn runs(&self) -> usize {
        self.0.load(SeqCst)
    }

    /// Returns whether the task has dropped its clone of the witness.
    fn is_alone(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

/// Schedules a task that runs once. The output of the task is 7.
fn schedule(scheduler: &Scheduler, deadline: Instant) -> (ScheduledTask<u8>, Witness) {
    let witness = Witness::default();
    let held = witness.clone();
    let future = async move {
        held.run();
        7
    };
    (scheduler.schedule_at(deadline, future).unwrap(), witness)
}

/// Schedules a task that runs at ticks 2, 3 and so on.
fn schedule_periodic(scheduler: &Scheduler) -> (ScheduledTask<()>, Witness) {
    let witness = Witness::default();
    let held = witness.clone();
    let make = move || ready(held.run());
    let task = scheduler.schedule_at_fixed_rate(2 * TICK, TICK, make);
    (task.unwrap(), witness)
}

fn poll<T>(task: &mut ScheduledTask<T>, waker: &Waker) -> Poll<Result<T, TaskError>> {
    Pin::new(task).poll(&mut Context::from_waker(waker))
}

/// Returns the result of a task that has ended.
fn result<T>(task: &mut ScheduledTask<T>) -> Result<T, TaskError> {
    match poll(task, Waker::noop()) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the task has not ended"),
    }
}

/// Returns whether no task is waiting. The wheels and the limit must both show this.
fn is_empty(harness: &Harness) -> bool {
    let is_accepted = |_| {
        harness
            .scheduler
            .schedule_at(harness.at(9), ready(()))
            .is_ok()
    };
    harness.scheduler.pending() == 0 && [0, 1, 2].map(is_accepted) == [true, true, false]
}

/// Exactly once: a task either runs or is canceled. Then the task is dropped, and the scheduler keeps no entry.
#[test]
fn cancel_races_fire() {
    model(|mut harness| {
        let (task, witness) = schedule(&harness.scheduler, harness.at(2));
        let canceller = thread::spawn(move || (task.cancel(), task));
        harness.run_to(2);
        harness.run_tasks();
        let (cancelled, mut task) = canceller.join().unwrap();
        assert_eq!(witness.runs(), usize::from(!cancelled));
        assert!(witness.is_alone());
        match result(&mut task) {
            Ok(returned) => assert_eq!((returned, cancelled), (7, false)),
            Err(error) => assert!(error.is_cancelled() && cancelled),
        }
        assert!(is_empty(&harness));
    });
}

/// Never lost: a poll with a new waker races the end of the task. Either the poll returns the result, or
/// the end wakes the new waker. When a poll returns the result, the task has already dropped its values.
#[test]
fn awaiting_races_the_end() {
    model(|mut harness| {
        let (mut task, witness) = schedule(&harness.scheduler, harness.at(2));
        let (_, old) = Wakes::new();
        assert!(poll(&mut task, &old).is_pending());
        let awaiter = {
            let witness = Arc::downgrade(&witness.0);
            thread::spawn(move || {
                let (wakes, new) = Wakes::new();
                let polled = poll(&mut task, &new);
                if polled.is_ready() {
                    assert_eq!(witness.strong_count(), 1);
                }
                (polled, wakes, task)
            })
        };
        harness.run_to(2);
        harness.run_tasks();
        let (polled, wakes, mut task) = awaiter.join().unwrap();
        let result = match polled {
            Poll::Ready(result) => result,
            Poll::Pending => {
                assert_eq!(wakes.count(), 1);
                result(&mut task)
            }
        };
        assert_eq!(result.unwrap(), 7);
        assert!(witness.is_alone());
    });
}

/// A waker that reads the status of the task when it is woken, and again when it is dropped.
struct Inquisitive {
    task: Arc<OnceLock<Arc<dyn Task>>>,
    wakes: Arc<AtomicUsize>,
}

impl Inquisitive {
    fn ask(&self) {
        let _status = self.task.get().map(|task| task.status());
    }
}

impl Wake for Inquisitive {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, SeqCst);
        self.ask();
    }
}

impl Drop for Inquisitive {
    fn drop(&mut self) {
        self.ask();
    }
}

/// No user code runs under a lock, and nothing leaks. The waker reads the status of the task. It does so when
/// the end of the task wakes it, and when the handle drops it.
#[test]
fn handle_drop_races_the_end() {
    model(|mut harness| {
        let witness = Witness::default();
        let held = witness.clone();
        let work = Once(async move {
            held.run();
            7
        });
        let deadline = harness.at(2);
        let shard = harness.scheduler.shards[0].clone();
        let entry = Entry::schedule(shard, Instant::now(), deadline, work);
        let Ok(entry) = entry else {
            panic!("the scheduler refused the task");
        };
        let known = Arc::new(OnceLock::new());
        let wakes = Arc::new(AtomicUsize::new(0));
        let mut task = ScheduledTask::<u8> {
            task: entry.clone(),
        };
        let waker = Waker::from(Arc::new(Inquisitive {
            task: known.clone(),
            wakes: wakes.clone(),
        }));
        assert!(poll(&mut task, &waker).is_pending());
        drop(waker);
        assert!(known.set(entry.clone()).is_ok());
        let dropper = thread::spawn(move || drop(task));
        harness.run_to(2);
        harness.run_tasks();
        dropper.join().unwrap();
        assert!(witness.runs() == 1 && witness.is_alone());
        assert!(wakes.load(SeqCst) <= 1);
        assert_eq!(Arc::strong_count(&wakes), 1, "the waker is dropped");
        drop(known);
        assert_eq!(Arc::strong_count(&entry), 1);
    });
}

/// Nothing leaks: a `CancelHandle` keeps no result. The drop of the `ScheduledTask` races the end of the
/// task. The thread that finishes last drops the result.
#[test]
fn handle_drop_beside_a_cancel_handle_races_the_end() {
    model(|mut harness| {
        let returned = Witness::default();
        let output = returned.clone();
        let future = async move { output };
        let task = (harness.scheduler)
            .schedule_at(harness.at(2), future)
            .unwrap();
        let handle = task.cancel_handle();
        let dropper = thread::spawn(move || drop(task));
        harness.run_to(2);
        harness.run_tasks();
        dropper.join().unwrap();
        assert!(handle.is_finished());
        assert!(returned.is_alone());
    });
}

/// A canceled periodic task ends and does not run again. `cancel` is called between two runs, during a run,
/// or while the task registers for its next run.
#[test]
fn cancel_races_the_next_run() {
    model(|mut harness| {
        let (task, witness) = schedule_periodic(&harness.scheduler);
        let canceller = thread::spawn(move || {
            assert!(task.cancel());
            task
        });
        harness.run_to(2);
        harness.run_tasks();
        harness.run_to(3);
        harness.run_tasks();
        let mut task = canceller.join().unwrap();
        let runs = witness.runs();
        harness.run_to(4);
        harness.run_tasks();
        assert_eq!(witness.runs(), runs);
        assert!(result(&mut task).is_err_and(|error| error.is_cancelled()));
        assert!(witness.is_alone());
        assert!(is_empty(&harness));
    });
}

/// Runtime end: a periodic task registers for its next run while another thread shuts its scheduler down. Either
/// the shutdown returns the task, or the task ends. In both cases the waker of the handle is woken.
#[test]
fn shutdown_races_the_next_run() {
    model(|mut harness| {
        let (mut task, witness) = schedule_periodic(&harness.scheduler);
        let (wakes, waker) = Wakes::new();
        assert!(poll(&mut task, &waker).is_pending());
        let scheduler = harness.scheduler.clone();
        let shutdown = thread::spawn(move || scheduler.shutdown());
        harness.run_to(2);
        harness.run_tasks();
        let left = shutdown.join().unwrap();
        harness.run_tasks();
        assert_eq!(wakes.count(), 1);
        assert!(result(&mut task).is_err_and(|error| error.is_shutdown()));
        assert_eq!(Arc::strong_count(&witness.0), 1 + left.len());
        assert!(witness.runs() <= 1);
    });
}

/// Never lost: a task whose deadline expires during a shutdown either runs or is returned. A task that is
/// scheduled during a shutdown runs, is returned or is refused.
#[test]
fn shutdown_races_fire_and_schedule() {
    model(|mut harness| {
        let (task, witness) = schedule(&harness.scheduler, harness.at(2));
        let scheduler = harness.scheduler.clone();
        let shutdown = thread::spawn(move || scheduler.shutdown());
        let (scheduler, deadline) = (harness.scheduler.clone(), harness.at(2));
        let scheduling = thread::spawn(move || scheduler.schedule_at(deadline, ready(7)));
        harness.run_to(2);
        harness.run_tasks();
        let left = shutdown.join().unwrap();
        let scheduled = scheduling.join().unwrap();
        let refused = usize::from(scheduled.is_err());
        let (mut ran, mut given_back) = (0, 0);
        for mut task in [task].into_iter().chain(scheduled) {
            match result(&mut task) {
                Ok(returned) => {
                    assert_eq!(returned, 7);
                    ran += 1;
                }
                Err(error) => {
                    assert!(error.is_shutdown());
                    given_back += 1;
                }
            }
        }
        assert_eq!(given_back, left.len());
        assert_eq!(ran + given_back + refused, 2);
        drop(left);
        assert!(witness.is_alone());
    });
}

/// Exactly once: a task is either canceled or returned by a shutdown.
#[test]
fn cancel_races_shutdown() {
    model(|harness| {
        let (mut task, witness) = schedule(&harness.scheduler, harness.at(2));
        let (wakes, waker) = Wakes::new();
        assert!(poll(&mut task, &waker).is_pending());
        let scheduler = harness.scheduler.clone();
        let shutdown = thread::spawn(move || scheduler.shutdown());
        let cancelled = task.cancel();
        let left = shutdown.join().unwrap();
        assert_eq!(left.len(), usize::from(!cancelled));
        assert_eq!(Arc::strong_count(&witness.0), 1 + left.len());
        assert_eq!(wakes.count(), 1);
        let error = result(&mut task).unwrap_err();
        assert_eq!(
            (error.is_cancelled(), error.is_shutdown()),
            (cancelled, !cancelled)
        );
    });
}

/// Never lost: a task runs even if its deadline expires before its key is stored in the entry.
#[test]
fn schedule_races_fire() {
    model(|mut harness| {
        let (scheduler, deadline) = (harness.scheduler.clone(), harness.at(0));
        let scheduling = thread::spawn(move || schedule(&scheduler, deadline));
        harness.run_to(0);
        harness.run_tasks();
        let (mut task, witness) = scheduling.join().unwrap();
        harness.run_to(0);
        harness.run_tasks();
        assert_eq!(witness.runs(), 1);
        assert_eq!(result(&mut task).unwrap(), 7);
        assert!(is_empty(&harness));
    });
}

/// Never lost: a task is scheduled while the driver looks for the next task. Either the driver sees the task, or it is
/// woken.
#[test]
fn schedule_races_arm() {
    model(|mut harness| {
        let (_far, _) = schedule(&harness.scheduler, harness.at(9));
        harness.run_to(0);
        let (scheduler, deadline) = (harness.scheduler.clone(), harness.at(3));
        let scheduling = thread::spawn(move || schedule(&scheduler, deadline));
        let next = harness.run_to(1);
        let (_task, _) = scheduling.join().unwrap();
        assert!(next <= 3 || harness.wakes.count() > 0);
        assert!(harness.run_to(2) <= 3);
    });
}

/// Runtime end: the last handle is dropped while the driver looks for the next task. Either the driver sees that no
/// shard is left, or it is woken.
#[test]
fn last_handle_races_look() {
    model(|mut harness| {
        let empty = Scheduler {
            shards: Arc::new([]),
        };
        let scheduler = mem::replace(&mut harness.scheduler, empty);
        let dropping = thread::spawn(move || drop(scheduler));
        let (is_left, next) = harness.look_and_arm();
        dropping.join().unwrap();
        assert!(!is_left || next == 0 || harness.wakes.count() > 0);
    });
}

/// Runtime end: the scheduler is shut down while the driver looks for the next task. Either the driver sees the shutdown,
/// or it is woken.
#[test]
fn shutdown_races_arm() {
    model(|harness| {
        let scheduler = harness.scheduler.clone();
        let shutdown = thread::spawn(move || drop(scheduler.shutdown()));
        let (is_left, next) = harness.look_and_arm();
        shutdown.join().unwrap();
        assert!(!is_left || next == 0 || harness.wakes.count() > 0);
        let (is_left, _) = harness.look_and_arm();
        assert!(!is_left, "the driver ends");
    });
}

/// Runtime end: a task is scheduled while the driver is dropped. The task ends or is refused, and drops its values.
#[test]
fn runtime_end_races_schedule() {
    model(|harness| {
        let (scheduler, deadline) = (harness.scheduler.clone(), harness.at(2));
        let witness = Witness::default();
        let held = witness.clone();
        let scheduling = thread::spawn(move || {
            scheduler
                .schedule_at(deadline, async move { held.run() })
                .ok()
        });
        drop(harness.driver);
        if let Some(mut task) = scheduling.join().unwrap() {
            assert!(result(&mut task).unwrap_err().is_shutdown());
        }
        assert!(witness.is_alone() && witness.runs() == 0);
        assert_eq!(harness.scheduler.pending(), 0);
    });
}

/// The limit is exact: while one thread is refused, the place that another thread frees is free for it.
#[test]
fn a_refusal_races_a_free_place() {
    model(|harness| {
        let deadline = harness.at(3);
        let (first, _) = schedule(&harness.scheduler, harness.at(2));
        let (_second, _) = schedule(&harness.scheduler, harness.at(2));
        let scheduler = harness.scheduler.clone();
        let refused = thread::spawn(move || drop(scheduler.schedule_at(deadline, ready(7))));
        assert!(first.cancel());
        let again = harness.scheduler.schedule_at(deadline, ready(7));
        refused.join().unwrap();
        assert!(again.is_ok() || harness.scheduler.pending() == 2);
    });
}

/// The limit is exact: two threads race for the last place, and only one of them gets it.
#[test]
fn tasks_race_at_the_limit() {
    model(|harness| {
        let (_first, _) = schedule(&harness.scheduler, harness.at(2));
        let (scheduler, deadline) = (harness.scheduler.clone(), harness.at(3));
        let scheduling = thread::spawn(move || scheduler.schedule_at(deadline, ready(7)));
        let mine = harness.scheduler.schedule_at(deadline, ready(7));
        let others = scheduling.join().unwrap();
        assert!(mine.is_ok() != others.is_ok());
        assert_eq!(harness.scheduler.pending(), 2);
    });
}
