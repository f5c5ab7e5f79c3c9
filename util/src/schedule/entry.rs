//! The entry of a scheduled task. The task is an entry until its deadline, and a tokio task while it runs.
//!
//! The scheduler's [`Shard`] keeps the entry until the deadline. The driver then starts the entry.
//!
//! # States
//!
//! The entry is in a shard while its state is `Waiting(Some)`, until the driver or a shutdown takes it out.
//!
//! | State           | Event                                                  | Next state      |
//! |-----------------|--------------------------------------------------------|-----------------|
//! | `Waiting(None)` | A thread has inserted the entry.                       | `Waiting(Some)` |
//! | `Waiting(None)` | A thread has dropped the work.                         | `Ended`         |
//! | `Waiting(Some)` | The driver starts the entry.                           | `Running`       |
//! | `Waiting(Some)` | `cancel` takes the work.                               | `Waiting(None)` |
//! | `Waiting(Some)` | A shutdown of the scheduler takes the work.            | `Ended`         |
//! | `Waiting(Some)` | The end of the runtime takes the work.                 | `Waiting(None)` |
//! | `Running`       | A periodic task is inserted for its next run.          | `Waiting(Some)` |
//! | `Running`       | The task ends.                                         | `Ended`         |
//! | `Ended(Some)`   | The handle takes the result, or the handle is dropped. | `Ended(None)`   |
//!
//! # Rules
//!
//! * Only the thread that takes the work out of the entry uses the work. This thread runs the work, drops
//!   it or returns it from a shutdown. So each task ends exactly once (`tests/schedule/accounting.rs`).
//! * A thread holds the entry's lock while it inserts or removes the entry. The entry may expire at once, but its start
//!   waits for the lock. So `cancel` always finds the key, and leaves no entry that counts towards the limit.
//! * The work, the result and the waker are user code. A thread may move them while it holds the lock.
//!   It clones, wakes and drops them without the lock.
//! * The entry drops the work before the handle sees the end. The only exception is a shutdown, which returns
//!   the work (`tests/schedule/awaiting.rs`, `cancel.rs`, `periodic.rs`).
//! * The entry drops its shard when it ends, before it wakes the handle. So a task that has ended does not keep the
//!   driver alive (`tests/schedule/runtime_end.rs`).
//! * After the `ScheduledTask` is dropped, the entry keeps no result. A [`CancelHandle`](super::CancelHandle)
//!   may still keep the entry (`tests/schedule/cancel_handle.rs`).
//!
//! Models: `schedule::loom_tests`.

use std::{
    future::Future,
    mem,
    panic::{RefUnwindSafe, UnwindSafe, resume_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use bounded_wheel::Key;
use pin_project_lite::pin_project;
use tokio::time::Instant;

use super::{
    error::{Cause, TaskError},
    shard::Shard,
    unstarted::Unstarted,
    work::{After, AfterRun, Work},
};
use crate::ground::{
    sync::{Mutex, MutexGuard, lock},
    unwind, waker,
};

/// A scheduled task behind a trait that names none of its types.
///
/// Its handles are unwind safe: a panic of user code never leaves an entry half changed, because user code does not run
/// under the lock.
pub(super) trait Task: Send + Sync + UnwindSafe + RefUnwindSafe {
    /// Starts the task. The driver has taken the entry out of its shard, because its deadline has expired.
    fn start(self: Arc<Self>);

    /// Ends the task, and returns its work. A shutdown has taken the entry out of its shard. Returns `None` if another
    /// thread has canceled the task.
    fn leave(&self) -> Option<Unstarted>;

    /// Ends the task, and drops its work. The end of the runtime has taken the entry out of its shard.
    fn abandon(&self);

    /// Cancels the task. Returns whether this call canceled it.
    fn cancel(&self) -> bool;

    fn status(&self) -> Status;

    /// Drops the waker and the result. The entry will also drop a result that comes later.
    fn detach(&self);
}

/// A scheduled task whose output is a `T`.
pub(super) trait TaskOf<T>: Task {
    /// Returns the result of a task that has ended, or `None` if an earlier call returned it.
    ///
    /// Otherwise keeps a clone of `waker`. The end of the task wakes this clone.
    fn poll_result(&self, waker: &Waker) -> Poll<Option<Result<T, TaskError>>>;

    fn untyped(self: Arc<Self>) -> Arc<dyn Task>;
}

/// The state of a task, which its handles can read.
#[derive(Clone, Copy)]
pub(super) struct Status {
    /// The deadline of the next run, of the current run or of the last run.
    pub(super) deadline: Instant,
    /// Whether the first run has started.
    pub(super) started: bool,
    /// Whether the task was canceled. The current run of a periodic task is then its last run.
    pub(super) cancelled: bool,
    pub(super) finished: bool,
    /// Whether the `ScheduledTask` was dropped. Then the result is not needed.
    detached: bool,
}

pub(super) struct Entry<W: Work> {
    inner: Mutex<Inner<W>>,
}

struct Inner<W: Work> {
    state: State<W>,
    /// Keeps the driver alive. `None` after the task has ended.
    shard: Option<Arc<Shard>>,
    status: Status,
    /// The waker of the tokio task that awaits the handle.
    waiter: Option<Waker>,
}

enum State<W: Work> {
    /// `None` while a thread inserts the entry for the first run, or drops its work.
    Waiting(Option<(W, Key)>),
    Running,
    /// The result. `None` after the handle has taken the result or was dropped.
    Ended(Option<Result<W::Output, TaskError>>),
}

impl<W: Work> Inner<W> {
    /// Takes the work of a waiting task, and the key of its entry. Returns `None` if another thread has taken them.
    fn take(&mut self) -> Option<(W, Key)> {
        match &mut self.state {
            State::Waiting(waiting) => waiting.take(),
            _ => None,
        }
    }
}

impl<W: Work> Entry<W> {
    /// Schedules `work` for `deadline`. `now` is the current time. If the shard refuses the work, returns the work and
    /// the [reason](Shard::insert).
    pub(super) fn schedule(
        shard: Arc<Shard>,
        now: Instant,
        deadline: Instant,
        work: W,
    ) -> Result<Arc<Self>, (W, Option<usize>)> {
        let entry = Arc::new(Self {
            inner: Mutex::new(Inner {
                state: State::Waiting(None),
                shard: Some(shard),
                status: Status {
                    deadline,
                    started: false,
                    cancelled: false,
                    finished: false,
                    detached: false,
                },
                waiter: None,
            }),
        });
        entry.wait(lock(&entry.inner), now, work)?;
        Ok(entry)
    }

    /// Inserts the entry into the shard, and stores `work` in it until the deadline. If the shard refuses the work,
    /// returns the work and the [reason](Shard::insert).
    fn wait(
        self: &Arc<Self>,
        mut inner: MutexGuard<'_, Inner<W>>,
        now: Instant,
        work: W,
    ) -> Result<(), (W, Option<usize>)> {
        let shard = inner.shard.as_ref().expect("the task has not ended");
        let tick = shard.common.tick(now, inner.status.deadline);
        // The limit holds for the first run. A task that has run keeps its place.
        let is_limited = !inner.status.started;
        let key = match shard.insert(tick, is_limited, self.clone()) {
            Ok(key) => key,
            Err(refused) => {
                drop(inner);
                return Err((work, refused));
            }
        };
        // A clone writes to a cache line that threads share, so only an early task makes one.
        let is_early = shard.common.armed.is_later_than(tick);
        let early = is_early.then(|| shard.common.clone());
        inner.state = State::Waiting(Some((work, key)));
        drop(inner);
        if let Some(common) = early {
            common.armed.wake_for(tick);
        }
        Ok(())
    }

    /// Inserts the entry for the next run. If the task was canceled, ends the task instead.
    fn wait_again(self: Arc<Self>, work: W, deadline: Instant) {
        let mut inner = lock(&self.inner);
        if inner.status.cancelled {
            drop(inner);
            unwind::discard(work);
            return self.end(Err(TaskError(Cause::Cancelled)));
        }
        inner.status.deadline = deadline;
        if let Err((work, _)) = self.wait(inner, Instant::now(), work) {
            unwind::discard(work);
            self.end(Err(TaskError(Cause::Shutdown)));
        }
    }

    /// Ends a task whose work has run or was discarded. If the task was canceled or its handle was
    /// dropped, this method drops the result.
    fn end(&self, result: Result<W::Output, TaskError>) {
        let mut result = Some(result);
        let mut inner = lock(&self.inner);
        if inner.status.cancelled || inner.status.detached {
            drop(inner);
            unwind::discard(result.take());
            inner = lock(&self.inner);
            if inner.status.cancelled {
                result = Some(Err(TaskError(Cause::Cancelled)));
            }
        }
        Self::finish(inner, result);
    }

    /// Stores the result for the handle, and wakes the tokio task that awaits the handle.
    ///
    /// Before this call, the caller drops everything else that the task held. A shutdown may instead return
    /// the work.
    fn finish(mut inner: MutexGuard<'_, Inner<W>>, result: Option<Result<W::Output, TaskError>>) {
        inner.state = State::Ended(result);
        inner.status.finished = true;
        let (shard, waiter) = (inner.shard.take(), inner.waiter.take());
        drop(inner);
        drop(shard);
        waiter.into_iter().for_each(waker::wake);
    }
}

impl<W: Work> Task for Entry<W> {
    fn start(self: Arc<Self>) {
        let mut inner = lock(&self.inner);
        let Some((work, _)) = inner.take() else {
            return;
        };
        let deadline = inner.status.deadline;
        inner.state = State::Running;
        inner.status.started = true;
        drop(inner);
        tokio::spawn(Run {
            run: Some(work.run(deadline)),
            entry: RunningEntry(Some(self)),
        });
    }

    fn leave(&self) -> Option<Unstarted> {
        let mut inner = lock(&self.inner);
        let (work, _) = inner.take()?;
        let deadline = inner.status.deadline;
        Self::finish(inner, Some(Err(TaskError(Cause::Shutdown))));
        Some(Unstarted {
            deadline,
            is_periodic: W::PERIODIC,
            future: Box::pin(Run::<W, _> {
                run: Some(work.run(deadline)),
                entry: RunningEntry(None),
            }),
        })
    }

    fn abandon(&self) {
        let taken = lock(&self.inner).take();
        if let Some((work, _)) = taken {
            unwind::discard(work);
            self.end(Err(TaskError(Cause::Shutdown)));
        }
    }

    fn cancel(&self) -> bool {
        let mut inner = lock(&self.inner);
        let Some((work, key)) = inner.take() else {
            let runs_again = W::PERIODIC && matches!(inner.state, State::Running);
            return runs_again && !mem::replace(&mut inner.status.cancelled, true);
        };
        inner.shard.iter().for_each(|shard| shard.remove(key));
        let mut dropped = Ok(());
        // A second hold of the lock takes some nanoseconds. It is needed only if the drop runs user code.
        if mem::needs_drop::<W>() {
            drop(inner);
            dropped = unwind::catch(|| drop(work));
            inner = lock(&self.inner);
        }
        inner.status.cancelled = true;
        Self::finish(inner, Some(Err(TaskError(Cause::Cancelled))));
        if let Err(payload) = dropped {
            resume_unwind(payload);
        }
        true
    }

    fn status(&self) -> Status {
        lock(&self.inner).status
    }

    fn detach(&self) {
        let mut inner = lock(&self.inner);
        inner.status.detached = true;
        let waiter = inner.waiter.take();
        let result = match &mut inner.state {
            State::Ended(result) => result.take(),
            _ => None,
        };
        drop(inner);
        drop((waiter, result));
    }
}

impl<W: Work> TaskOf<W::Output> for Entry<W> {
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

    fn untyped(self: Arc<Self>) -> Arc<dyn Task> {
        self
    }
}

pin_project! {
    /// One run of a task. A run in a tokio task holds the entry of the task. A run in an [`Unstarted`] holds
    /// no entry.
    ///
    /// This type is not an `async` block, because such a block would hold the future twice
    /// (`memory`).
    pub(super) struct Run<W: Work, R> {
        #[pin]
        run: Option<R>,
        entry: RunningEntry<W>,
    }
}

/// The entry of the running task. The run takes the entry out when it ends. If the runtime shuts down during
/// the run, the entry is still here when the run is dropped.
struct RunningEntry<W: Work>(Option<Arc<Entry<W>>>);

impl<W: Work> Drop for RunningEntry<W> {
    fn drop(&mut self) {
        if let Some(entry) = self.0.take() {
            entry.end(Err(TaskError(Cause::Shutdown)));
        }
    }
}

impl<W: Work, R: Future<Output: Into<AfterRun<W>>>> Future for Run<W, R> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let polled = unwind::catch(|| {
            let run = this.run.as_mut().as_pin_mut();
            let run = run.expect("an `Unstarted` must not be polled after it was ready");
            let output = ready!(run.poll(cx));
            // The handle sees the end only after the future is dropped.
            this.run.set(None);
            Poll::Ready(output)
        });
        let ended = match polled {
            Ok(polled) => Ok(ready!(polled)),
            Err(payload) => {
                unwind::contain(|| this.run.set(None));
                Err(payload)
            }
        };
        let Some(entry) = this.entry.0.take() else {
            return match ended {
                Ok(_) => Poll::Ready(()),
                Err(payload) => resume_unwind(payload),
            };
        };
        let result = match ended.map(R::Output::into) {
            Ok(After::Again(next, deadline)) => {
                entry.wait_again(next.into(), deadline);
                return Poll::Ready(());
            }
            Ok(After::End(output)) => Ok(output),
            Err(payload) => Err(TaskError::panicked(payload)),
        };
        entry.end(result);
        Poll::Ready(())
    }
}
