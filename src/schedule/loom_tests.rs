//! Loom models of the races of a scheduled task. The handle, the driver, a run and a shutdown race each
//! other.
//!
//! `.ci/loom` runs the models: see `crate::driver::loom_tests`. The first thread of a model acts as the
//! driver and as the runtime, like in `timer::loom_tests`. Other threads use the handle or the timer.

use std::{
    future::{Future, ready},
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
};

use loom::thread;
use tokio::time::Instant;

use super::{
    ScheduledTask,
    entry::{Entry, Task},
    work::Once,
};
use crate::{
    driver::loom_tests::Wakes,
    error::TaskError,
    timer::{
        Timer,
        loom_tests::{Harness, TICK, model},
    },
};

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
fn schedule(timer: &Timer, deadline: Instant) -> (ScheduledTask<u8>, Witness) {
    let witness = Witness::default();
    let held = witness.clone();
    let future = async move {
        held.run();
        7
    };
    (timer.schedule_at(deadline, future).unwrap(), witness)
}

/// Schedules a task that runs at ticks 2, 3 and so on.
fn schedule_periodic(timer: &Timer) -> (ScheduledTask<()>, Witness) {
    let witness = Witness::default();
    let held = witness.clone();
    let make = move || ready(held.run());
    let task = timer.schedule_at_fixed_rate(TICK, TICK, make);
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

/// Returns whether the timer has no pending entry. The metrics and the limit must both show this.
fn is_empty(harness: &Harness) -> bool {
    let is_accepted = |_| harness.timer.schedule_at(harness.at(9), ready(())).is_ok();
    harness.timer.metrics().pending() == 0 && [0, 1, 2].map(is_accepted) == [true, true, false]
}

/// Exactly once: a task either runs or is canceled. Then the task is dropped, and the timer keeps no entry.
#[test]
fn cancel_races_fire() {
    model(|mut harness| {
        let (task, witness) = schedule(&harness.timer, harness.at(2));
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
        let (mut task, witness) = schedule(&harness.timer, harness.at(2));
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
        let entry = Entry::schedule(
            harness.timer.registrar().clone(),
            Instant::now(),
            deadline,
            work,
        );
        let Ok(entry) = entry else {
            panic!("the timer refused the task");
        };
        let known = Arc::new(OnceLock::new());
        let wakes = Arc::new(AtomicUsize::new(0));
        let mut task = ScheduledTask::<u8>::new(entry.clone());
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
        let task = (harness.timer).schedule_at(harness.at(2), future).unwrap();
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
        let (task, witness) = schedule_periodic(&harness.timer);
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

/// Runtime end: a periodic task registers for its next run while another thread shuts its timer down. Either
/// the shutdown returns the task, or the task ends. In both cases the waker of the handle is woken.
#[test]
fn shutdown_races_the_next_run() {
    model(|mut harness| {
        let (mut task, witness) = schedule_periodic(&harness.timer);
        let (wakes, waker) = Wakes::new();
        assert!(poll(&mut task, &waker).is_pending());
        let timer = harness.timer.clone();
        let shutdown = thread::spawn(move || timer.shutdown());
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
        let (task, witness) = schedule(&harness.timer, harness.at(2));
        let timer = harness.timer.clone();
        let shutdown = thread::spawn(move || timer.shutdown());
        let (timer, deadline) = (harness.timer.clone(), harness.at(2));
        let scheduler = thread::spawn(move || timer.schedule_at(deadline, ready(7)));
        harness.run_to(2);
        harness.run_tasks();
        let left = shutdown.join().unwrap();
        let scheduled = scheduler.join().unwrap();
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
        let (mut task, witness) = schedule(&harness.timer, harness.at(2));
        let (wakes, waker) = Wakes::new();
        assert!(poll(&mut task, &waker).is_pending());
        let timer = harness.timer.clone();
        let shutdown = thread::spawn(move || timer.shutdown());
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
        let (timer, deadline) = (harness.timer.clone(), harness.at(0));
        // The driver's task takes a turn, whether or not the scheduling thread has set the alarm.
        harness.notify();
        let scheduler = thread::spawn(move || schedule(&timer, deadline));
        harness.run_to(0);
        harness.run_tasks();
        let (mut task, witness) = scheduler.join().unwrap();
        harness.run_to(0);
        harness.run_tasks();
        assert_eq!(witness.runs(), 1);
        assert_eq!(result(&mut task).unwrap(), 7);
        assert!(is_empty(&harness));
    });
}
