//! The entry of a scheduled task: the waker of its sleep.
//!
//! While the task waits, the entry holds the work and its [place](super::list::Place), and the timer and a list hold the
//! entry. The wake at the deadline takes the work and spawns it on the runtime. So nothing but the timer drives a scheduler.
//!
//! | state | event | next state |
//! |---|---|---|
//! | `Waiting(None)` | The task is scheduled. | `Waiting(Some)` |
//! | `Waiting(Some)` | The timer wakes the entry at the deadline, and the task runs. | `Running` |
//! | `Waiting(Some)` | The end of the timer wakes the entry. The thread drops the work. | `Running` |
//! | `Waiting(Some)` | `cancel`, or a shutdown of the scheduler, takes the work. | `Waiting(None)` |
//! | `Running` | A run of a periodic task has ended. | `Waiting(Some)` |
//! | `Running`, `Waiting(None)` | The thread that has taken the work drops its [`Ending`]. | `Ended(Some)` |
//! | `Ended(Some)` | The handle takes the result. | `Ended(None)` |
//!
//! # Rules
//!
//! * Only the thread that takes the work runs it, drops it or returns it from a shutdown. So each task ends exactly once
//!   (`tests/schedule/accounting.rs`).
//! * A thread registers the sleep and adds the entry to its list while it holds the entry's lock. So a wake or a shutdown that
//!   comes in the meantime finds the work.
//! * The work, the result and the awaiting waker are user code. A thread may move them while it holds the entry's lock. It
//!   clones, wakes and drops them without the lock.
//! * The [`Ending`] is dropped after the work, even if the drop of the work panics. So the handle sees the end when nothing is
//!   left of the work. The only exception is a shutdown, which returns the work (`tests/schedule/awaiting.rs`, `cancel.rs`,
//!   `periodic.rs`).
//! * An entry that has ended holds neither its shard nor its timer (`tests/schedule/runtime_end.rs`).
//! * After the `ScheduledTask` is dropped, nothing keeps a result: a [`CancelHandle`](super::CancelHandle) refers to the entry
//!   weakly (`tests/schedule/cancel.rs`).
//!
//! Models: `schedule::loom_tests`.

use std::task::{Context, Poll, Wake, Waker, ready};
use std::{any::Any, future::Future, mem, ops::ControlFlow, pin::Pin, sync::Arc};

use tokio::time::Instant;

use super::error::{Cause, TaskError};
use super::handle::{Status, Task};
use super::list::{Place, Running, Shard};
use super::unstarted::Unstarted;
use super::work::{Ran, Work};
use crate::ground::sync::{Mutex, Ordering::Relaxed, lock};
use crate::ground::{unwind, waker};

pub(super) struct Entry<W: Work>(Mutex<Inner<W>>);

struct Inner<W: Work> {
    state: State<W>,
    status: Status,
    /// The waker of the tokio task that awaits the handle.
    waiter: Option<Waker>,
}

enum State<W: Work> {
    /// `None` before the first wait, and while a thread that has taken the work drops or returns it.
    Waiting(Option<(W, Place)>),
    Running,
    /// The result, unless the handle has taken it.
    Ended(Option<Result<W::Output, TaskError>>),
}

impl<W: Work> Inner<W> {
    /// Takes the work of a waiting task. Returns `None` if another thread has taken it.
    fn take(&mut self) -> Option<(W, Place)> {
        match &mut self.state {
            State::Waiting(waiting) => waiting.take(),
            _ => None,
        }
    }
}

impl<W: Work> Entry<W> {
    /// Creates the entry of a task that [waits](Self::wait) next.
    pub(super) fn new(shard: &Shard, deadline: Instant) -> Arc<Self> {
        let status = Status {
            id: shard.next_id.fetch_add(1, Relaxed),
            deadline,
            is_started: false,
            is_cancelled: false,
            is_finished: false,
        };
        Arc::new(Self(Mutex::new(Inner {
            state: State::Waiting(None),
            status,
            waiter: None,
        })))
    }

    /// Waits for a run, unless the scheduler refuses it or the task was canceled: then returns the work.
    pub(super) fn wait(
        self: &Arc<Self>,
        shard: &Arc<Shard>,
        (now, deadline): (Instant, Instant),
        work: W,
    ) -> Result<(), (W, Option<usize>)> {
        let mut inner = lock(&self.0);
        let status = Status {
            deadline,
            ..inner.status
        };
        let (place, is_due) = match shard.insert(self.clone(), now, &status) {
            Ok(inserted) => inserted,
            Err(refused) => return Err((work, refused)),
        };
        inner.state = State::Waiting(Some((work, place)));
        inner.status = status;
        drop(inner);
        if is_due {
            self.clone().wake();
        }
        Ok(())
    }
}

impl<W: Work> Wake for Entry<W> {
    /// Starts the task, because its deadline has passed. If the runtime or the timer has ended, drops the work.
    fn wake(self: Arc<Self>) {
        let mut inner = lock(&self.0);
        let Some((work, place)) = inner.take() else {
            return;
        };
        let running = place.start();
        let runtime = running.0.common.runtime();
        inner.status.is_started |= runtime.is_some();
        inner.state = State::Running;
        let run = Some(work.run(inner.status.deadline));
        drop(inner);
        let run = Run {
            run,
            ending: Ending::new(self, Cause::Shutdown),
            running,
        };
        match runtime {
            Some(runtime) => drop(runtime.spawn(run)),
            None => unwind::discard(run),
        }
    }
}

impl<W: Work> Task for Entry<W> {
    fn cancel(self: Arc<Self>) -> bool {
        let mut inner = lock(&self.0);
        let Some((work, place)) = inner.take() else {
            let runs_again = W::PERIODIC && matches!(inner.state, State::Running);
            return runs_again && !mem::replace(&mut inner.status.is_cancelled, true);
        };
        place.leave();
        drop(inner);
        let _after_the_work = Ending::new(self, Cause::Cancelled);
        drop(work);
        true
    }

    fn give_back(self: Arc<Self>) -> Option<Unstarted> {
        let mut inner = lock(&self.0);
        let (work, _place) = inner.take()?;
        let Status { id, deadline, .. } = inner.status;
        drop(inner);
        drop(Ending::new(self, Cause::Shutdown));
        let run = work.run(deadline);
        Some(Unstarted {
            id,
            deadline,
            is_periodic: W::PERIODIC,
            future: Box::pin(async move { drop(run.await) }),
        })
    }

    fn status(&self) -> Status {
        lock(&self.0).status
    }

    fn poll_result(&self, waker: &Waker, result: &mut dyn Any) -> Poll<()> {
        let ended = ready!(waker::poll_locked(
            &self.0,
            waker,
            |inner| &mut inner.waiter,
            |inner| match &mut inner.state {
                State::Ended(result) => Poll::Ready(result.take()),
                _ => Poll::Pending,
            },
        ));
        *result.downcast_mut().expect("the handle knows its output") = ended;
        Poll::Ready(())
    }

    fn detach(&self) {
        let waiter = lock(&self.0).waiter.take();
        drop(waiter);
    }
}

/// One run of a task, in a tokio task. The fields are dropped in their order.
struct Run<W: Work, R> {
    /// The future, until it ends. If the runtime shuts down during the run, the future is still here.
    run: Option<R>,
    ending: Ending<W>,
    /// After `ending`, because the drop of the entry may drop the output.
    running: Running,
}

// No field is pinned.
impl<W: Work, R> Unpin for Run<W, R> {}

impl<W: Work, R: Future<Output = Ran<W>> + Unpin> Future for Run<W, R> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let run = self.run.as_mut().expect("it has not ended");
        let mut ran = match unwind::catch(|| Pin::new(run).poll(cx)) {
            Ok(polled) => Ok(ready!(polled)),
            Err(panic) => Err(panic),
        };
        // The first panic is the one that the handle returns. tokio catches panics of the drops below.
        match (unwind::catch(|| self.run = None), &ran) {
            (Err(panic), Ok(_)) => unwind::discard(mem::replace(&mut ran, Err(panic))),
            (dropped, _) => unwind::discard(dropped),
        }
        self.ending.result = match ran {
            Ok(ControlFlow::Continue((work, next))) => {
                let times = (Instant::now(), next);
                match self.ending.entry.wait(&self.running.0, times, work) {
                    Ok(()) => None,
                    Err(_) => return Poll::Ready(()),
                }
            }
            Ok(ControlFlow::Break(output)) => Some(Ok(output)),
            Err(panic) => Some(Err(TaskError(Cause::Panicked(panic.into())))),
        };
        Poll::Ready(())
    }
}

/// The end of a task whose work a thread has taken. Its drop stores the result for the handle, and wakes the tokio task that
/// awaits the handle.
struct Ending<W: Work> {
    entry: Arc<Entry<W>>,
    /// `None` if the task waits again.
    result: Option<Result<W::Output, TaskError>>,
}

impl<W: Work> Ending<W> {
    fn new(entry: Arc<Entry<W>>, cause: Cause) -> Self {
        let result = Some(Err(TaskError(cause)));
        Self { entry, result }
    }
}

impl<W: Work> Drop for Ending<W> {
    fn drop(&mut self) {
        let Some(_) = self.result else { return };
        let mut inner = lock(&self.entry.0);
        // A task that was canceled during a run has no other result.
        let result = match inner.status.is_cancelled {
            true => Some(Err(TaskError(Cause::Cancelled))),
            false => self.result.take(),
        };
        inner.status.is_cancelled |= matches!(result, Some(Err(TaskError(Cause::Cancelled))));
        inner.status.is_finished = true;
        inner.state = State::Ended(result);
        let waiter = inner.waiter.take();
        drop(inner);
        self.result.take().into_iter().for_each(unwind::discard);
        waiter.into_iter().for_each(waker::wake);
    }
}
