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

use std::{
    future::Future,
    mem,
    ops::ControlFlow,
    panic::{RefUnwindSafe, UnwindSafe, resume_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker, ready},
};

use pin_project_lite::pin_project;
use tokio::time::Instant;

use super::{
    error::{Cause, Refused, TaskError},
    list::{Place, Shard},
    unstarted::Unstarted,
    work::Work,
};
use crate::ground::{
    sync::{Mutex, MutexGuard, lock},
    unwind, waker,
};

/// A scheduled task whose output is a `T`, behind a trait that does not name its work.
///
/// Its handles are unwind safe: a panic of user code never leaves an entry half changed, because user code does not run
/// under the lock.
pub(super) trait Task<T>: Cancel {
    /// Returns the result of a task that has ended, or `None` if an earlier call returned it.
    ///
    /// Otherwise keeps a clone of `waker`. The end of the task wakes this clone.
    fn poll_result(&self, waker: &Waker) -> Poll<Option<Result<T, TaskError>>>;

    /// Drops the waker and the result. The entry will also drop a result that comes later.
    fn detach(&self);

    fn untyped(self: Arc<Self>) -> Arc<dyn Cancel>;
}

/// A scheduled task behind a trait that names none of its types.
pub(super) trait Cancel: Send + Sync + UnwindSafe + RefUnwindSafe {
    /// Cancels the task. Returns whether this call canceled it.
    fn cancel(&self) -> bool;

    fn status(&self) -> Status;
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
}

pub(super) struct Entry<W: Work> {
    place: Place,
    inner: Mutex<Inner<W>>,
}

struct Inner<W: Work> {
    state: State<W>,
    /// `None` after the task has ended.
    shard: Option<Arc<Shard>>,
    deadline: Instant,
    /// The waker of the tokio task that awaits the handle.
    waiter: Option<Waker>,
    is_started: bool,
    is_cancelled: bool,
    /// Whether the `ScheduledTask` was dropped. Then the result is not needed.
    is_detached: bool,
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
            place: Place::new(),
            inner: Mutex::new(Inner {
                state: State::Waiting(Some(work)),
                shard: Some(shard.clone()),
                deadline,
                waiter: None,
                is_started: false,
                is_cancelled: false,
                is_detached: false,
            }),
        });
        match shard.insert(&entry.place, entry.clone().into(), (now, deadline), true) {
            Ok(false) => {}
            Ok(true) => entry.clone().wake(),
            Err(refused) => {
                let work = lock(&entry.inner).take();
                return Err((work.expect("the task is in no list"), refused));
            }
        }
        Ok(entry)
    }

    /// Schedules the next run. If the task was canceled, ends the task instead.
    fn schedule_next(self: &Arc<Self>, work: W, deadline: Instant) {
        let mut inner = lock(&self.inner);
        let mut unused = Some(work);
        let mut refused = TaskError(Cause::Cancelled);
        if let (false, Some(shard)) = (inner.is_cancelled, &inner.shard) {
            let times = (Instant::now(), deadline);
            match shard.insert(&self.place, self.clone().into(), times, false) {
                Ok(is_due) => {
                    (inner.state, inner.deadline) = (State::Waiting(unused.take()), deadline);
                    drop(inner);
                    return if is_due {
                        self.clone().wake()
                    };
                }
                Err(_) => refused = TaskError(Cause::Shutdown),
            }
        }
        drop(inner);
        unwind::discard(unused);
        self.end(Err(refused));
    }

    /// Ends a task whose work has run or was discarded. If the task was canceled or its handle was dropped, this method
    /// drops the result.
    fn end(&self, result: Result<W::Output, TaskError>) {
        let mut result = Some(result);
        let mut inner = lock(&self.inner);
        if inner.is_cancelled || inner.is_detached {
            drop(inner);
            unwind::discard(result.take());
            inner = lock(&self.inner);
            if inner.is_cancelled {
                result = Some(Err(TaskError(Cause::Cancelled)));
            }
        }
        Self::finish(inner, result);
    }

    /// Stores the result for the handle, and wakes the tokio task that awaits the handle.
    fn finish(mut inner: MutexGuard<'_, Inner<W>>, result: Option<Result<W::Output, TaskError>>) {
        inner.state = State::Ended(result);
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
        let deadline = inner.deadline;
        let runtime = shard.common.runtime();
        let removed = shard.remove(&self.place, runtime.is_some());
        match runtime {
            Some(runtime) if removed.is_some() => {
                (inner.state, inner.is_started) = (State::Running, true);
                drop((inner, removed));
                let run = Some(work.run(deadline));
                let running = Running {
                    entry: Some(self),
                    shard,
                };
                runtime.spawn(Run { run, running });
            }
            Some(_) => {
                // The shutdown wakes the entry too, and then waits for the lock of the entry.
                lock(&shard.common.unstarted).push(Unstarted {
                    id: self.place.id(),
                    deadline,
                    is_periodic: W::PERIODIC,
                    future: Box::pin(async move { drop(work.run(deadline).await) }),
                });
                Self::finish(inner, Some(Err(TaskError(Cause::Shutdown))));
            }
            None => {
                drop((inner, removed));
                unwind::discard(work);
                self.end(Err(TaskError(Cause::Shutdown)));
            }
        }
    }
}

impl<W: Work> Cancel for Entry<W> {
    fn cancel(&self) -> bool {
        let mut inner = lock(&self.inner);
        let Some(work) = inner.take() else {
            let runs_again = W::PERIODIC && matches!(inner.state, State::Running);
            return runs_again && !mem::replace(&mut inner.is_cancelled, true);
        };
        let removed = inner
            .shard
            .as_ref()
            .map(|shard| shard.remove(&self.place, false));
        let mut dropped = Ok(());
        // A second hold of the lock takes some nanoseconds. It is needed only if the drop runs user code.
        if mem::needs_drop::<W>() {
            drop(inner);
            dropped = unwind::catch(|| drop(work));
            inner = lock(&self.inner);
        }
        inner.is_cancelled = true;
        Self::finish(inner, Some(Err(TaskError(Cause::Cancelled))));
        drop(removed);
        if let Err(payload) = dropped {
            resume_unwind(payload);
        }
        true
    }

    fn status(&self) -> Status {
        let inner = lock(&self.inner);
        Status {
            id: self.place.id(),
            deadline: inner.deadline,
            is_started: inner.is_started,
            is_cancelled: inner.is_cancelled,
            is_finished: matches!(inner.state, State::Ended(_)),
        }
    }
}

impl<W: Work> Task<W::Output> for Entry<W> {
    fn poll_result(&self, waker: &Waker) -> Poll<Option<Result<W::Output, TaskError>>> {
        waker::poll_locked(
            &self.inner,
            waker,
            |inner| &mut inner.waiter,
            |inner| match &mut inner.state {
                State::Ended(result) => Poll::Ready(result.take()),
                _ => Poll::Pending,
            },
        )
    }

    fn detach(&self) {
        let mut inner = lock(&self.inner);
        inner.is_detached = true;
        let waiter = inner.waiter.take();
        let result = match &mut inner.state {
            State::Ended(result) => result.take(),
            _ => None,
        };
        drop(inner);
        drop((waiter, result));
    }

    fn untyped(self: Arc<Self>) -> Arc<dyn Cancel> {
        self
    }
}

pin_project! {
    /// One run of a task, in a tokio task.
    ///
    /// This type is not an `async` block, because such a block would hold the future twice (`memory`).
    pub(super) struct Run<W: Work, R> {
        #[pin]
        run: Option<R>,
        running: Running<W>,
    }
}

/// The part of a run that outlives its future. The run takes the entry out when it ends. If the runtime shuts down during
/// the run, the entry is still here when the run is dropped.
struct Running<W: Work> {
    entry: Option<Arc<Entry<W>>>,
    shard: Arc<Shard>,
}

impl<W: Work> Drop for Running<W> {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            entry.end(Err(TaskError(Cause::Shutdown)));
        }
        self.shard.ran();
    }
}

impl<W: Work, R: Future<Output = W::Ran>> Future for Run<W, R> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let polled = unwind::catch(|| {
            let run = this.run.as_mut().as_pin_mut().expect("it has not ended");
            let output = ready!(run.poll(cx));
            // The handle sees the end only after the future is dropped.
            this.run.set(None);
            Poll::Ready(output)
        });
        let ran = match polled {
            Ok(polled) => Ok(ready!(polled)),
            Err(payload) => {
                unwind::contain(|| this.run.set(None));
                Err(TaskError::panicked(payload))
            }
        };
        let entry = this.running.entry.take().expect("it has not ended");
        match ran.map(W::next) {
            Ok(ControlFlow::Continue((work, deadline))) => entry.schedule_next(work, deadline),
            Ok(ControlFlow::Break(output)) => entry.end(Ok(output)),
            Err(panicked) => entry.end(Err(panicked)),
        }
        Poll::Ready(())
    }
}
