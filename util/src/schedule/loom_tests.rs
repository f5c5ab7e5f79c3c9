//! Loom models of the races of a scheduled task: its wake, its handle, a run, a shutdown and the end of the runtime.
//!
//! `.ci/loom` runs the models. A model runs the crate's own code. Loom replaces only the locks and atomics (see
//! [`sync`](crate::ground::sync)). Deadlines are an hour away, and the first thread of a model wakes the entries by hand, as
//! the timer does.

use std::{
    future::{Future, ready},
    marker::PhantomData,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
};

use loom::thread;
use tokio::{
    runtime::{self, Runtime},
    task::yield_now,
    time::Instant,
};
use tokio_wheel::Duration;

use super::{
    ScheduledTask, Scheduler, TaskError,
    entry::Entry,
    handle::Task,
    work::{Periodic, Work},
};

const HOUR: Duration = Duration::from_secs(3_600);

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

/// Runs a model in a runtime of its own, with a scheduler that has room for two tasks.
fn model(model: impl Fn(Scheduler, Runtime) + Send + Sync + 'static) {
    loom::model(move || {
        let mut builder = runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().build().unwrap();
        let handle = runtime.handle().clone();
        let _entered = handle.enter();
        model(Scheduler::builder().max_pending(2).build(), runtime);
    });
}

/// Runs the tasks that have been spawned. They must end within two turns of the runtime.
fn run_tasks(runtime: &Runtime) {
    runtime.block_on(async {
        yield_now().await;
        yield_now().await;
    });
}

/// Counts the runs of a task. Also shows whether the task has dropped its values.
#[derive(Clone, Default)]
struct Witness(Arc<AtomicUsize>);

impl Witness {
    fn run(&self) -> u8 {
        self.0.fetch_add(1, SeqCst);
        7
    }

    fn runs(&self) -> usize {
        self.0.load(SeqCst)
    }

    fn is_alone(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

fn entry<W: Work>(scheduler: &Scheduler, work: W) -> (ScheduledTask<W::Output>, Arc<Entry<W>>) {
    let (shard, now) = (&scheduler.shards[0], Instant::now());
    let entry = Entry::new(shard, now + HOUR);
    assert!(entry.wait(shard, (now, now + HOUR), work).is_ok());
    (ScheduledTask(entry.clone(), PhantomData), entry)
}

/// Schedules a task that runs once. The output of the task is 7.
fn once(scheduler: &Scheduler) -> (ScheduledTask<u8>, Arc<impl Task + Wake + use<>>, Witness) {
    let witness = Witness::default();
    let held = witness.clone();
    let (task, entry) = entry(scheduler, async move { held.run() });
    (task, entry, witness)
}

fn periodic(scheduler: &Scheduler) -> (ScheduledTask<()>, Arc<impl Task + Wake + use<>>, Witness) {
    let witness = Witness::default();
    let held = witness.clone();
    let make = move || {
        held.run();
        ready(())
    };
    let (period, behavior) = (HOUR, None);
    let (task, entry) = entry(
        scheduler,
        Periodic {
            make,
            period,
            behavior,
        },
    );
    (task, entry, witness)
}

fn poll<T: 'static>(task: &mut ScheduledTask<T>, waker: &Waker) -> Poll<Result<T, TaskError>> {
    Pin::new(task).poll(&mut Context::from_waker(waker))
}

/// Returns the result of a task that has ended.
fn result<T: 'static>(task: &mut ScheduledTask<T>) -> Result<T, TaskError> {
    match poll(task, Waker::noop()) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the task has not ended"),
    }
}

/// Returns whether no task is waiting. The lists and the limit must both show this.
fn is_empty(scheduler: &Scheduler) -> bool {
    let is_accepted = |_| scheduler.schedule(HOUR, ready(())).is_ok();
    scheduler.pending() == 0 && [0, 1, 2].map(is_accepted) == [true, true, false]
}

/// Exactly once: a task either runs or is canceled. Then the task is dropped, and the scheduler keeps no entry.
#[test]
fn cancel_races_wake() {
    model(|scheduler, runtime| {
        let (task, entry, witness) = once(&scheduler);
        let canceller = thread::spawn(move || (task.cancel(), task));
        entry.wake();
        run_tasks(&runtime);
        let (cancelled, mut task) = canceller.join().unwrap();
        assert_eq!(witness.runs(), usize::from(!cancelled));
        assert!(witness.is_alone());
        match result(&mut task) {
            Ok(returned) => assert_eq!((returned, cancelled), (7, false)),
            Err(error) => assert!(error.is_cancelled() && cancelled),
        }
        assert!(is_empty(&scheduler));
    });
}

/// Never lost: a poll with a new waker races the end of the task. Either the poll returns the result, or the end wakes the
/// new waker. When a poll returns the result, the task has already dropped its values.
#[test]
fn awaiting_races_the_end() {
    model(|scheduler, runtime| {
        let (mut task, entry, witness) = once(&scheduler);
        assert!(poll(&mut task, &Wakes::new().1).is_pending());
        let held = Arc::downgrade(&witness.0);
        let awaiter = thread::spawn(move || {
            let (wakes, new) = Wakes::new();
            let polled = poll(&mut task, &new);
            assert!(polled.is_pending() || held.strong_count() == 1);
            (polled, wakes, task)
        });
        entry.wake();
        run_tasks(&runtime);
        let (polled, wakes, mut task) = awaiter.join().unwrap();
        let result = match polled {
            Poll::Ready(result) => result,
            Poll::Pending => {
                assert_eq!(wakes.count(), 1);
                result(&mut task)
            }
        };
        assert_eq!(result.unwrap(), 7);
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

/// No user code runs under a lock, and nothing leaks, although the waker reads the status of the task.
#[test]
fn handle_drop_races_the_end() {
    model(|scheduler, runtime| {
        let (mut task, entry, witness) = once(&scheduler);
        let (known, wakes) = (Arc::new(OnceLock::new()), Arc::new(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::new(Inquisitive {
            task: known.clone(),
            wakes: wakes.clone(),
        }));
        assert!(poll(&mut task, &waker).is_pending());
        drop(waker);
        let handle = task.cancel_handle();
        assert!(known.set(entry.clone()).is_ok());
        let dropper = thread::spawn(move || drop(task));
        entry.wake();
        run_tasks(&runtime);
        dropper.join().unwrap();
        assert!(witness.runs() == 1 && witness.is_alone() && handle.is_finished());
        assert!(wakes.load(SeqCst) <= 1);
        assert_eq!(Arc::strong_count(&wakes), 1, "the waker is dropped");
    });
}

/// Nothing leaks: the drop of the `ScheduledTask` races the end of the task, and a `CancelHandle` keeps no result.
#[test]
fn handle_drop_beside_a_cancel_handle_races_the_end() {
    model(|scheduler, runtime| {
        let returned = Witness::default();
        let output = returned.clone();
        let (task, entry) = entry(&scheduler, async move { output });
        let handle = task.cancel_handle();
        let dropper = thread::spawn(move || drop(task));
        entry.wake();
        run_tasks(&runtime);
        dropper.join().unwrap();
        assert!(handle.is_finished() && returned.is_alone());
    });
}

/// A canceled periodic task ends and does not run again. `cancel` is called before a run, during it, or while the task
/// is scheduled for its next run.
#[test]
fn cancel_races_the_next_run() {
    model(|scheduler, runtime| {
        let (task, entry, witness) = periodic(&scheduler);
        let canceller = thread::spawn(move || {
            assert!(task.cancel());
            task
        });
        entry.clone().wake();
        run_tasks(&runtime);
        let mut task = canceller.join().unwrap();
        let runs = witness.runs();
        entry.wake();
        run_tasks(&runtime);
        assert_eq!(witness.runs(), runs);
        assert!(result(&mut task).is_err_and(|error| error.is_cancelled()));
        assert!(witness.is_alone() && is_empty(&scheduler));
    });
}

/// A periodic task is scheduled for its next run while another thread shuts its scheduler down. Either the shutdown returns
/// the task, or the task ends. In both cases the waker of the handle is woken.
#[test]
fn shutdown_races_the_next_run() {
    model(|scheduler, runtime| {
        let (mut task, entry, witness) = periodic(&scheduler);
        let (wakes, waker) = Wakes::new();
        assert!(poll(&mut task, &waker).is_pending());
        let shutdown = thread::spawn(move || scheduler.shutdown());
        entry.wake();
        run_tasks(&runtime);
        let left = shutdown.join().unwrap();
        run_tasks(&runtime);
        assert_eq!(wakes.count(), 1);
        assert!(result(&mut task).is_err_and(|error| error.is_shutdown()));
        assert_eq!(Arc::strong_count(&witness.0), 1 + left.len());
        assert!(witness.runs() <= 1);
    });
}

/// Never lost: a task whose deadline passes during a shutdown either runs or is returned. A task that is scheduled during a
/// shutdown is returned or refused.
#[test]
fn shutdown_races_wake_and_schedule() {
    model(|scheduler, runtime| {
        let (mut task, entry, witness) = once(&scheduler);
        let shutdown = {
            let scheduler = scheduler.clone();
            thread::spawn(move || scheduler.shutdown())
        };
        let scheduling = thread::spawn(move || scheduler.schedule(HOUR, ready(7)));
        entry.wake();
        run_tasks(&runtime);
        let left = shutdown.join().unwrap();
        let scheduled = scheduling.join().unwrap().ok();
        let returned = result(&mut task).is_err_and(|error| error.is_shutdown());
        assert_eq!(witness.runs(), usize::from(!returned));
        assert_eq!(
            left.len(),
            usize::from(returned) + usize::from(scheduled.is_some())
        );
        if let Some(mut task) = scheduled {
            assert!(result(&mut task).is_err_and(|error| error.is_shutdown()));
        }
        drop(left);
        assert!(witness.is_alone());
    });
}

/// Exactly once: a task is either canceled or returned by a shutdown.
#[test]
fn cancel_races_shutdown() {
    model(|scheduler, _runtime| {
        let (mut task, _, witness) = once(&scheduler);
        let (wakes, waker) = Wakes::new();
        assert!(poll(&mut task, &waker).is_pending());
        let shutdown = thread::spawn(move || scheduler.shutdown());
        let cancelled = task.cancel();
        let left = shutdown.join().unwrap();
        assert_eq!(left.len(), usize::from(!cancelled));
        assert_eq!(Arc::strong_count(&witness.0), 1 + left.len());
        assert_eq!(wakes.count(), 1);
        let error = result(&mut task).unwrap_err();
        let expected = (cancelled, !cancelled);
        assert_eq!((error.is_cancelled(), error.is_shutdown()), expected);
    });
}

/// The runtime ends while a task is scheduled: the timer wakes the entry, perhaps before it is in its list. The task ends
/// or is refused, and drops its values.
#[test]
fn runtime_end_races_schedule() {
    model(|scheduler, runtime| {
        let witness = Witness::default();
        let held = witness.clone();
        let scheduling = {
            let scheduler = scheduler.clone();
            thread::spawn(move || {
                let _ = scheduler.pending();
                scheduler.schedule(HOUR, async move { held.run() }).ok()
            })
        };
        // Loom sees the locks of the timer no more than it sees the runtime. The accesses tell it when the runtime may end.
        let _ = scheduler.pending();
        drop(runtime);
        if let Some(mut task) = scheduling.join().unwrap() {
            assert!(result(&mut task).unwrap_err().is_shutdown());
        }
        assert!(witness.is_alone() && witness.runs() == 0);
        assert_eq!(scheduler.pending(), 0);
    });
}

/// The limit is exact: while one thread is refused, the place that another thread frees is free for it.
#[test]
fn a_refusal_races_a_free_place() {
    model(|scheduler, _runtime| {
        let (first, _, _) = once(&scheduler);
        let (_second, _, _) = once(&scheduler);
        let refused = {
            let scheduler = scheduler.clone();
            thread::spawn(move || drop(scheduler.schedule(HOUR, ready(7))))
        };
        assert!(first.cancel());
        let again = scheduler.schedule(HOUR, ready(7));
        refused.join().unwrap();
        assert!(again.is_ok() || scheduler.pending() == 2);
    });
}

/// The limit is exact: two threads race for the last place, and only one of them gets it.
#[test]
fn tasks_race_at_the_limit() {
    model(|scheduler, _runtime| {
        let (_first, _, _) = once(&scheduler);
        let scheduling = {
            let scheduler = scheduler.clone();
            thread::spawn(move || scheduler.schedule(HOUR, ready(7)))
        };
        let mine = scheduler.schedule(HOUR, ready(7));
        let others = scheduling.join().unwrap();
        assert!(mine.is_ok() != others.is_ok());
        assert_eq!(scheduler.pending(), 2);
    });
}

/// Never lost: a thread that waits until the scheduler is idle sees the end of the last run, or is woken.
#[test]
fn wait_idle_races_the_end() {
    model(|scheduler, runtime| {
        let (_task, entry, _) = once(&scheduler);
        entry.wake();
        let waiting = thread::spawn(move || {
            let (wakes, waker) = Wakes::new();
            let mut idle = Box::pin(async move { scheduler.wait_idle().await });
            let polled = idle.as_mut().poll(&mut Context::from_waker(&waker));
            (polled.is_ready(), wakes, idle)
        });
        run_tasks(&runtime);
        let (is_ready, wakes, _idle) = waiting.join().unwrap();
        assert!(is_ready || wakes.count() == 1);
    });
}

/// Never lost: a shutdown returns a task, or the thread that then waits until the scheduler is idle waits for its run.
#[test]
fn wait_idle_races_wake() {
    model(|scheduler, runtime| {
        let (_task, entry, witness) = once(&scheduler);
        let waiting = thread::spawn(move || {
            let left = scheduler.shutdown().len();
            let idle = std::pin::pin!(scheduler.wait_idle());
            let polled = idle.poll(&mut Context::from_waker(Waker::noop()));
            polled.is_pending() || left + witness.runs() == 1
        });
        entry.wake();
        run_tasks(&runtime);
        assert!(waiting.join().unwrap());
    });
}
