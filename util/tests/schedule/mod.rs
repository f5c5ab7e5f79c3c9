//! Scheduled tasks, the limit on them, and the shutdown of their scheduler.

#![cfg(feature = "schedule")]

use std::{
    future::{Future, pending},
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Waker},
    thread,
};

use proptest::prelude::*;
use tokio::{runtime::Handle, task::yield_now, time::sleep};
use tokio_test::{assert_pending, assert_ready, task};
use tokio_wheel::{Duration, Instant, MissedTickBehavior, Timer};
use tokio_wheel_util::schedule::{ScheduleError, ScheduledTask, Scheduler, TaskError, Unstarted};

use crate::support::{
    Random, Wakes, assert_message, current_thread, dawdle, does_not_hang,
    hostile::{Hook, PanicsOnDrop, quiet_panic},
    ms, multi_thread, paused, poll, secs, settle, wait_until,
};

mod accounting;
mod awaiting;
mod cancel;
mod errors;
mod hostile_tasks;
mod limit;
mod one_shot;
mod periodic;
mod reentrancy;
mod runtime_end;
mod shutdown;

/// Builds a scheduler that accepts at most `max` waiting tasks.
fn limited(max: usize) -> Scheduler {
    Scheduler::builder().max_pending(max).build()
}

fn with_tick(tick: Duration) -> Scheduler {
    let timer = Timer::builder().tick(tick).build().unwrap();
    Scheduler::builder().timer(&timer).build()
}

/// Returns the number of tasks of the current runtime that have not ended, except the driver of the default timer.
fn alive() -> usize {
    drop(Timer::current());
    Handle::current().metrics().num_alive_tasks() - 1
}

/// Returns the result of a task that must end. A paused clock finds a lost task at once.
async fn result<T: 'static>(task: ScheduledTask<T>) -> Result<T, TaskError> {
    let ends = tokio::time::timeout(secs(50_000_000), task);
    ends.await.expect("the task never ends")
}

/// Returns the output of a task that must end without an error.
async fn output<T: 'static>(task: ScheduledTask<T>) -> T {
    result(task).await.expect("the task ends well")
}

/// A count that tasks share.
#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

impl Count {
    fn add(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns a value whose drop adds one.
    fn on_drop(&self) -> impl Send + Sync + use<> {
        let count = self.clone();
        OnDrop::new(move || _ = count.add())
    }
}

/// Polls a task whose end reads a count when it wakes the waker of this poll. Returns the values that it reads.
fn looks<T: 'static>(task: &mut ScheduledTask<T>, count: &Count) -> mpsc::Receiver<usize> {
    let ((found, finds), count) = (mpsc::channel(), count.clone());
    let hook = Hook::on_wake(move || found.send(count.get()).unwrap());
    assert!(poll(task, &hook.waker()).is_pending());
    finds
}

/// Returns the closure of a periodic task, the count of its runs and the count of its drops. Each run awaits `work`.
fn counted<F: Future<Output = ()> + Send + 'static>(
    work: impl Fn() -> F + Send + 'static,
) -> (impl FnMut() -> Run + Send + 'static, Count, Count) {
    let (runs, drops) = (Count::default(), Count::default());
    let (count, held) = (runs.clone(), drops.on_drop());
    let make = move || -> Run {
        let _closure_holds = &held;
        let (work, count) = (work(), count.clone());
        Box::pin(async move {
            work.await;
            count.add();
        })
    };
    (make, runs, drops)
}

/// A run of a closure that [`counted`] returns.
type Run = Pin<Box<dyn Future<Output = ()> + Send>>;

struct OnDrop<A: FnOnce()>(Option<A>);

impl<A: FnOnce()> OnDrop<A> {
    fn new(action: A) -> Self {
        Self(Some(action))
    }
}

impl<A: FnOnce()> Drop for OnDrop<A> {
    fn drop(&mut self) {
        if let Some(action) = self.0.take() {
            action();
        }
    }
}
