//! The entry of a scheduled task: the waker of its sleep.
//!
//! While the task waits, the entry holds the work, and the timer and a [list](super::list) hold the entry. The wake at the
//! deadline takes the work and spawns it on the runtime. So nothing but the timer drives a scheduler.
//!
//! | state | event | next state |
//! |---|---|---|
//! | `Waiting` | The timer wakes the entry at the deadline, and the task runs. | `Taken(None)` |
//! | `Waiting` | `cancel`, or the end of the timer wakes the entry. The thread drops the work. | `Taken(None)` |
//! | `Waiting` | A shutdown of the scheduler wakes the entry. | `Taken(Some)` |
//! | `Taken(None)` | A run of a periodic task has ended. | `Waiting` |
//! | `Taken(None)` | The task ends. | `Taken(Some)` |
//! | `Taken(Some)` | The handle takes the result. | `Taken(None)` |
//!
//! An enum of two states, and flags for the others, is a word smaller than one of four: a pointer of `Waiting` tells which.
//!
//! # Rules
//!
//! * Only the thread that takes the work runs it, drops it or returns it from a shutdown. So each task ends exactly once
//!   (`tests/schedule/accounting.rs`).
//! * The work, the result and the awaiting waker are user code. A thread may move them while it holds the entry's lock. It
//!   clones, wakes and drops them without the lock.
//! * The entry drops the work before the handle sees the end. The only exception is a shutdown, which returns the work
//!   (`tests/schedule/awaiting.rs`, `cancel.rs`, `periodic.rs`).
//! * An entry that has ended holds neither its shard nor its timer (`tests/schedule/runtime_end.rs`).
//! * After the `ScheduledTask` is dropped, nothing keeps a result: a [`CancelHandle`](super::CancelHandle) refers to the entry
//!   weakly (`tests/schedule/cancel.rs`).
//!
//! Models: `schedule::loom_tests`.

use std::panic::{RefUnwindSafe, UnwindSafe, resume_unwind};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::{any::Any, future::Future, mem, ops::ControlFlow, pin::Pin, sync::Arc};

use tokio::time::Instant;

use super::error::{Cause, Refused, TaskError};
use super::{list::Shard, unstarted::Unstarted, work::Work};
use crate::ground::sync::{AtomicU64, Mutex, MutexGuard, lock};
use crate::ground::{unwind, waker};

/// A scheduled task behind a trait that names none of its types.
///
/// Its handles are unwind safe: a panic of user code never leaves an entry half changed, because user code does not run
/// under the lock.
pub(super) trait Task: Send + Sync + UnwindSafe + RefUnwindSafe {
    /// Cancels the task. Returns whether this call canceled it.
    fn cancel(&self) -> bool;

    fn status(&self) -> Status;

    /// Stores the result of a task that has ended in `result`, an `Option<Result<T, TaskError>>`, unless an earlier call
    /// did so. Otherwise keeps a clone of `waker`. The end of the task wakes this clone.
    fn poll_result(&self, waker: &Waker, result: &mut dyn Any) -> Poll<()>;

    /// Drops the waker.
    fn detach(&self);
}

/// The state of a task, which its handles can read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Status {
    pub(super) id: u64,
    /// The deadline of the next run, of the current run or of the last run.
    pub(super) deadline: Instant,
    /// Whether the first run has started.
    pub(super) is_started: bool,
    /// Whether a run is active, so that a periodic task without work can be canceled.
    is_running: bool,
    /// Whether the task was canceled. The current run of a periodic task is then its last run.
    pub(super) is_cancelled: bool,
    pub(super) is_finished: bool,
}

pub(super) struct Entry<W: Work> {
    /// The place in the list. Only threads that hold the lock of the list use it.
    index: AtomicU64,
    inner: Mutex<Inner<W>>,
}

struct Inner<W: Work> {
    state: State<W>,
    status: Status,
    /// The waker of the tokio task that awaits the handle.
    waiter: Option<Waker>,
}

enum State<W: Work> {
    /// The work, and the shard whose list has the entry.
    Waiting(W, Arc<Shard>),
    /// The result of a task that has ended, unless the handle has taken it. `None` while a thread runs or drops the work.
    Taken(Option<Result<W::Output, TaskError>>),
}

impl<W: Work> Inner<W> {
    /// Takes the work of a waiting task. Returns `None` if another thread has taken it.
    fn take(&mut self) -> Option<(W, Arc<Shard>)> {
        if let State::Taken(_) = self.state {
            return None;
        }
        match mem::replace(&mut self.state, State::Taken(None)) {
            State::Waiting(work, shard) => Some((work, shard)),
            State::Taken(_) => None,
        }
    }
}

impl<W: Work> Entry<W> {
    /// Schedules `work` for a deadline. If the scheduler refuses the work, returns it.
    pub(super) fn schedule(
        shard: &Arc<Shard>,
        (now, deadline): (Instant, Instant),
        work: W,
    ) -> Result<Arc<Self>, (W, Refused)> {
        let entry = Arc::new(Self {
            index: AtomicU64::new(0),
            inner: Mutex::new(Inner {
                state: State::Waiting(work, shard.clone()),
                status: Status {
                    id: shard.next_id(),
                    deadline,
                    is_started: false,
                    is_running: false,
                    is_cancelled: false,
                    is_finished: false,
                },
                waiter: None,
            }),
        });
        match shard.insert(&entry.index, entry.clone().into(), (now, deadline), true) {
            Ok(false) => {}
            Ok(true) => entry.clone().wake(),
            Err(refused) => {
                let work = lock(&entry.inner).take();
                return Err((work.expect("the task is in no list").0, refused));
            }
        }
        Ok(entry)
    }

    /// Schedules the next run, unless the task was canceled or the scheduler has shut down.
    fn schedule_next(self: Arc<Self>, shard: &Arc<Shard>, work: W, deadline: Instant) {
        let mut inner = lock(&self.inner);
        inner.state = State::Waiting(work, shard.clone());
        (inner.status.deadline, inner.status.is_running) = (deadline, false);
        let times = (Instant::now(), deadline);
        let inserted = match inner.status.is_cancelled {
            true => Err(Refused::Shutdown),
            false => shard.insert(&self.index, self.clone().into(), times, false),
        };
        let unused = inserted.is_err().then(|| inner.take());
        drop(inner);
        match inserted {
            Ok(false) => {}
            Ok(true) => self.wake(),
            Err(_) => {
                unwind::discard(unused);
                Self::end(lock(&self.inner), Err(TaskError(Cause::Shutdown)));
            }
        }
    }

    /// Stores the result for the handle, and wakes the tokio task that awaits the handle. A task that was canceled has no
    /// other result.
    fn end(mut inner: MutexGuard<'_, Inner<W>>, result: Result<W::Output, TaskError>) {
        let (result, unused) = match inner.status.is_cancelled {
            true => (Err(TaskError(Cause::Cancelled)), Some(result)),
            false => (result, None),
        };
        inner.state = State::Taken(Some(result));
        (inner.status.is_running, inner.status.is_finished) = (false, true);
        let waiter = inner.waiter.take();
        drop(inner);
        unwind::discard(unused);
        waiter.into_iter().for_each(waker::wake);
    }
}

impl<W: Work> Wake for Entry<W> {
    /// Starts the task, because its deadline has passed. If the scheduler has shut down, hands the task to the shutdown. If
    /// the runtime or the timer has ended, drops the work.
    fn wake(self: Arc<Self>) {
        let mut inner = lock(&self.inner);
        let Some((work, shard)) = inner.take() else {
            return;
        };
        let Status { id, deadline, .. } = inner.status;
        let run = Box::pin(work.run(deadline));
        let runtime = shard.common.runtime();
        if !shard.remove(&self.index, true) && runtime.is_some() {
            // The shutdown wakes the entry too, and then waits for the lock of the entry.
            lock(&shard.common.unstarted).push(Unstarted {
                id,
                deadline,
                is_periodic: W::PERIODIC,
                future: Box::pin(async move { drop(run.await) }),
            });
            Self::end(inner, Err(TaskError(Cause::Shutdown)));
            return shard.ran();
        }
        inner.status.is_started |= runtime.is_some();
        inner.status.is_running = true;
        drop(inner);
        let run = Run {
            run: Some(run),
            entry: self,
            running: Running(shard.clone()),
        };
        match runtime {
            Some(runtime) => drop(runtime.spawn(run)),
            None => drop(run),
        }
    }
}

impl<W: Work> Task for Entry<W> {
    fn cancel(&self) -> bool {
        let mut inner = lock(&self.inner);
        let Some((work, shard)) = inner.take() else {
            let runs_again = W::PERIODIC && inner.status.is_running;
            return runs_again && !mem::replace(&mut inner.status.is_cancelled, true);
        };
        shard.remove(&self.index, false);
        let mut dropped = Ok(());
        // A second hold of the lock takes some nanoseconds. It is needed only if the drop runs user code.
        if mem::needs_drop::<W>() {
            drop(inner);
            dropped = unwind::catch(|| drop(work));
            inner = lock(&self.inner);
        }
        inner.status.is_cancelled = true;
        Self::end(inner, Err(TaskError(Cause::Cancelled)));
        dropped.unwrap_or_else(|payload| resume_unwind(payload));
        true
    }

    fn status(&self) -> Status {
        lock(&self.inner).status
    }

    fn poll_result(&self, waker: &Waker, result: &mut dyn Any) -> Poll<()> {
        let ended = ready!(waker::poll_locked(
            &self.inner,
            waker,
            |inner| &mut inner.waiter,
            |inner| match &mut inner.state {
                State::Taken(result) if inner.status.is_finished => Poll::Ready(result.take()),
                _ => Poll::Pending,
            },
        ));
        *result.downcast_mut().expect("the handle knows its output") = ended;
        Poll::Ready(())
    }

    fn detach(&self) {
        let waiter = lock(&self.inner).waiter.take();
        drop(waiter);
    }
}

/// One run of a task, in a tokio task. It holds the future until it ends. If the runtime shuts down during the run, the
/// future is still here when the run is dropped.
struct Run<W: Work, R> {
    run: Option<Pin<Box<R>>>,
    entry: Arc<Entry<W>>,
    /// The last field, because the drop of the entry may drop the output.
    running: Running,
}

/// Counts as running in its list until it is dropped.
struct Running(Arc<Shard>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.ran();
    }
}

impl<W: Work, R: Future<Output = W::Ran>> Future for Run<W, R> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let run = self.run.as_mut().expect("it has not ended");
        let mut ran = match unwind::catch(|| run.as_mut().poll(cx)) {
            Ok(polled) => Ok(ready!(polled)),
            Err(panic) => Err(panic),
        };
        // The handle sees the end only after the future is dropped. The first panic is the cause.
        match (unwind::catch(|| self.run = None), &ran) {
            (Err(panic), Ok(_)) => unwind::discard(mem::replace(&mut ran, Err(panic))),
            (dropped, _) => unwind::discard(dropped),
        }
        let (entry, shard) = (&self.entry, &self.running.0);
        let result = match ran.map(W::next) {
            Ok(ControlFlow::Continue((work, next))) => {
                entry.clone().schedule_next(shard, work, next);
                return Poll::Ready(());
            }
            Ok(ControlFlow::Break(output)) => Ok(output),
            Err(panic) => Err(TaskError(Cause::Panicked(panic.into()))),
        };
        Entry::end(lock(&entry.inner), result);
        Poll::Ready(())
    }
}

impl<W: Work, R> Drop for Run<W, R> {
    fn drop(&mut self) {
        if let Some(run) = self.run.take() {
            unwind::discard(run);
            Entry::end(lock(&self.entry.inner), Err(TaskError(Cause::Shutdown)));
        }
    }
}
