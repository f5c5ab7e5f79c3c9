//! The entry of a scheduled task: the waker of its sleep.
//!
//! While the task waits, the entry holds the work, and the timer and a [list](super::list) hold the entry. The wake at the
//! deadline takes the work and spawns it on the runtime. So nothing but the timer drives a scheduler.
//!
//! | state | event | next state |
//! |---|---|---|
//! | `Waiting(Some)` | The timer wakes the entry at the deadline. | `Running` |
//! | `Waiting(Some)` | `cancel`. | `Waiting(None)` |
//! | `Waiting(Some)` | A shutdown of the scheduler wakes the entry. | `Ended` |
//! | `Waiting(Some)` | The end of the runtime or of the timer wakes the entry. | `Waiting(None)` |
//! | `Waiting(None)` | The thread has dropped the work. | `Ended` |
//! | `Running` | A run of a periodic task has ended. | `Waiting(Some)` |
//! | `Running` | The task ends. | `Ended` |
//! | `Ended(Some)` | The handle takes the result, or is dropped. | `Ended(None)` |
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
//! * After the `ScheduledTask` is dropped, the entry keeps no result. A [`CancelHandle`](super::CancelHandle) may still keep
//!   the entry (`tests/schedule/cancel_handle.rs`).
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

    /// Drops the waker and the result. The entry will also drop a result that comes later.
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
    /// Whether the task was canceled. The current run of a periodic task is then its last run.
    pub(super) is_cancelled: bool,
    pub(super) is_finished: bool,
    /// Whether the `ScheduledTask` was dropped. Then the result is not needed.
    is_detached: bool,
}

pub(super) struct Entry<W: Work> {
    /// The place in the list. Only threads that hold the lock of the list use it.
    index: AtomicU64,
    inner: Mutex<Inner<W>>,
}

struct Inner<W: Work> {
    state: State<W>,
    /// `None` after the task has ended.
    shard: Option<Arc<Shard>>,
    status: Status,
    /// The waker of the tokio task that awaits the handle.
    waiter: Option<Waker>,
}

enum State<W: Work> {
    /// `None` while a thread drops the work.
    Waiting(Option<W>),
    Running,
    /// The result. `None` after the handle has taken the result or was dropped.
    Ended(Option<Result<W::Output, TaskError>>),
}

impl<W: Work> Inner<W> {
    /// Takes the work of a waiting task. Returns `None` if another thread has taken it.
    fn take(&mut self) -> Option<W> {
        match &mut self.state {
            State::Waiting(work) => work.take(),
            _ => None,
        }
    }

    fn take_result(&mut self) -> Option<Result<W::Output, TaskError>> {
        match &mut self.state {
            State::Ended(result) => result.take(),
            _ => None,
        }
    }
}

impl<W: Work> Entry<W> {
    /// Schedules `work` for `deadline`. If the scheduler refuses the work, returns it.
    pub(super) fn schedule(
        shard: &Arc<Shard>,
        now: Instant,
        deadline: Instant,
        work: W,
    ) -> Result<Arc<Self>, (W, Refused)> {
        let entry = Arc::new(Self {
            index: AtomicU64::new(0),
            inner: Mutex::new(Inner {
                state: State::Waiting(Some(work)),
                shard: Some(shard.clone()),
                status: Status {
                    id: shard.next_id(),
                    deadline,
                    is_started: false,
                    is_cancelled: false,
                    is_finished: false,
                    is_detached: false,
                },
                waiter: None,
            }),
        });
        match shard.insert(&entry.index, entry.clone().into(), (now, deadline), true) {
            Ok(false) => {}
            Ok(true) => entry.clone().wake(),
            Err(refused) => {
                let work = lock(&entry.inner).take();
                return Err((work.expect("the task is in no list"), refused));
            }
        }
        Ok(entry)
    }

    /// Schedules the next run, unless the task was canceled or the scheduler has shut down.
    fn schedule_next(self: Arc<Self>, shard: &Shard, work: W, deadline: Instant) {
        let mut inner = lock(&self.inner);
        (inner.state, inner.status.deadline) = (State::Waiting(Some(work)), deadline);
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
                self.end(Err(TaskError(Cause::Shutdown)));
            }
        }
    }

    /// Ends a task whose work has run or was discarded. If the task was canceled or its handle was dropped, this method
    /// drops the result.
    fn end(&self, result: Result<W::Output, TaskError>) {
        let mut result = Some(result);
        let mut inner = lock(&self.inner);
        if inner.status.is_cancelled || inner.status.is_detached {
            drop(inner);
            unwind::discard(result.take());
            inner = lock(&self.inner);
        }
        if inner.status.is_cancelled {
            result = Some(Err(TaskError(Cause::Cancelled)));
        }
        Self::finish(inner, result);
    }

    /// Stores the result for the handle, and wakes the tokio task that awaits the handle.
    fn finish(mut inner: MutexGuard<'_, Inner<W>>, result: Option<Result<W::Output, TaskError>>) {
        inner.state = State::Ended(result);
        inner.status.is_finished = true;
        let (shard, waiter) = (inner.shard.take(), inner.waiter.take());
        drop(inner);
        drop(shard);
        waiter.into_iter().for_each(waker::wake);
    }
}

impl<W: Work> Wake for Entry<W> {
    /// Starts the task, because its deadline has passed. If the scheduler has shut down, hands the task to the shutdown. If
    /// the runtime or the timer has ended, drops the work.
    fn wake(self: Arc<Self>) {
        let mut inner = lock(&self.inner);
        let (Some(work), Some(shard)) = (inner.take(), inner.shard.clone()) else {
            return;
        };
        let Status { id, deadline, .. } = inner.status;
        let run = Box::pin(work.run(deadline));
        let removed = shard.remove(&self.index, true);
        let (runtime, is_closed) = (shard.common.runtime(), removed.is_none());
        if is_closed && runtime.is_some() {
            // The shutdown wakes the entry too, and then waits for the lock of the entry.
            lock(&shard.common.unstarted).push(Unstarted {
                id,
                deadline,
                is_periodic: W::PERIODIC,
                future: Box::pin(async move { drop(run.await) }),
            });
            Self::finish(inner, Some(Err(TaskError(Cause::Shutdown))));
            return shard.ran();
        }
        inner.state = State::Running;
        inner.status.is_started |= runtime.is_some();
        drop((inner, removed));
        let run = Run {
            run: Some(run),
            entry: Some(self),
            shard,
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
        let Some(work) = inner.take() else {
            let runs_again = W::PERIODIC && matches!(inner.state, State::Running);
            return runs_again && !mem::replace(&mut inner.status.is_cancelled, true);
        };
        let removed = inner
            .shard
            .as_ref()
            .map(|shard| shard.remove(&self.index, false));
        let mut dropped = Ok(());
        // A second hold of the lock takes some nanoseconds. It is needed only if the drop runs user code.
        if mem::needs_drop::<W>() {
            drop(inner);
            dropped = unwind::catch(|| drop(work));
            inner = lock(&self.inner);
        }
        inner.status.is_cancelled = true;
        Self::finish(inner, Some(Err(TaskError(Cause::Cancelled))));
        drop(removed);
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
            |inner| match inner.status.is_finished {
                true => Poll::Ready(inner.take_result()),
                false => Poll::Pending,
            },
        ));
        *result.downcast_mut().expect("the handle knows its output") = ended;
        Poll::Ready(())
    }

    fn detach(&self) {
        let mut inner = lock(&self.inner);
        inner.status.is_detached = true;
        let unused = (inner.waiter.take(), inner.take_result());
        drop(inner);
        drop(unused);
    }
}

/// One run of a task, in a tokio task. It holds the future until it ends. If the runtime shuts down during the run, the
/// future is still here when the run is dropped.
struct Run<W: Work, R> {
    run: Option<Pin<Box<R>>>,
    entry: Option<Arc<Entry<W>>>,
    shard: Arc<Shard>,
}

impl<W: Work, R: Future<Output = W::Ran>> Future for Run<W, R> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let run = self.run.as_mut().expect("it has not ended");
        let ran = match unwind::catch(|| run.as_mut().poll(cx)) {
            Ok(polled) => Ok(ready!(polled)),
            Err(panic) => Err(panic),
        };
        // The handle sees the end only after the future is dropped.
        let dropped = unwind::catch(|| self.run = None);
        let entry = self.entry.take().expect("it has not ended");
        let panic = match (ran, dropped) {
            (Ok(ran), Ok(())) => {
                match W::next(ran) {
                    ControlFlow::Continue((work, next)) => {
                        entry.schedule_next(&self.shard, work, next);
                    }
                    ControlFlow::Break(output) => entry.end(Ok(output)),
                }
                return Poll::Ready(());
            }
            (Ok(ran), Err(panic)) => {
                unwind::discard(ran);
                panic
            }
            (Err(panic), dropped) => {
                unwind::discard(dropped);
                panic
            }
        };
        entry.end(Err(TaskError(Cause::Panicked(panic.into()))));
        Poll::Ready(())
    }
}

impl<W: Work, R> Drop for Run<W, R> {
    fn drop(&mut self) {
        unwind::discard(self.run.take());
        if let Some(entry) = self.entry.take() {
            entry.end(Err(TaskError(Cause::Shutdown)));
        }
        self.shard.ran();
    }
}
