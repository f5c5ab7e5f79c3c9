//! A scheduled task: a wheel entry until it is due, a tokio task while it runs.
//!
//! An entry is its own waker: the shard holds it as it holds the waker of any future. The driver
//! wakes it when its deadline expires, and so starts its run.
//!
//! # States
//!
//! | State           | In a shard        | Left through                                            |
//! |-----------------|-------------------|---------------------------------------------------------|
//! | `Waiting(None)` | no                | registration, or the end of the drop (ended)            |
//! | `Waiting(Some)` | until it is woken | the wake (running), or what takes the work: `cancel` or the timer's end |
//! | `Running`       | no                | the end of the run (ended, or waiting again)            |
//! | `Ended(Some)`   | no                | the handle takes the result                             |
//! | `Ended(None)`   | no                |                                                         |
//!
//! # Ground rules
//!
//! * The thread that takes the work out of the entry decides what becomes of it. The work
//!   runs, is dropped by `cancel`, or is returned by a shutdown. So each task ends in one of these
//!   places (`tests/schedule/accounting.rs`).
//! * An entry is registered under its lock. It may fire at once, but it starts no run before its
//!   key is stored. So `cancel` always has the key, and leaves no entry that counts towards the
//!   timer's limit.
//! * The work, the result and the waiter are user code. They move under the lock, but they are
//!   cloned, woken and dropped outside of it.
//! * What a task held is dropped before its handle learns that it has ended. A shutdown is the
//!   exception, as it returns the work (`tests/schedule/awaiting.rs`, `cancel.rs`, `periodic.rs`).
//! * The registrar is dropped with the work. So a task that has ended keeps no timer alive
//!   (`tests/schedule/runtime_end.rs`).
//!
//! Models: `schedule::loom_tests`.

use std::{
    future::Future,
    mem,
    panic::resume_unwind,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker, ready},
};

use pin_project_lite::pin_project;
use tokio::time::Instant;

use super::{
    id::Id,
    unstarted::{self, Unstarted},
    work::{After, AfterRun, Work},
};
use crate::{
    driver::{
        ending::{End, after_closing},
        registrar::Registrar,
        shard::{Admission, Refused},
    },
    error::{Cause, TaskError},
    ground::{
        sync::{Mutex, MutexGuard},
        unwind, waker,
    },
    wheel::Key,
};

/// A scheduled task, as its handle sees it: without the type of its work.
pub(super) trait Task<T>: Send + Sync {
    /// Sees to it that no run starts any more, and says whether this call did.
    fn cancel(&self) -> bool;

    fn status(&self) -> Status;

    fn is_finished(&self) -> bool;

    /// Takes the result, if the task has ended; else has `waker` woken when it does. There is
    /// none if it was taken before.
    fn poll_result(&self, waker: &Waker) -> Poll<Option<Result<T, TaskError>>>;

    /// Forgets who awaits the end.
    fn detach(&self);
}

/// What a handle may ask.
#[derive(Clone, Copy)]
pub(super) struct Status {
    pub(super) id: Id,
    /// When the run is due that is awaited, or when the last one was.
    pub(super) deadline: Instant,
    /// Whether a run has started.
    pub(super) started: bool,
    /// If it is set while a periodic task runs, that run is the last.
    pub(super) cancelled: bool,
}

pub(super) struct Entry<W: Work> {
    inner: Mutex<Inner<W>>,
}

struct Inner<W: Work> {
    state: State<W>,
    status: Status,
    /// Awaits the end.
    waiter: Option<Waker>,
}

enum State<W: Work> {
    /// If there is nothing that waits, it is being registered or dropped.
    Waiting(Option<Waiting<W>>),
    Running,
    /// With the result, until the handle takes it.
    Ended(Option<Result<W::Output, TaskError>>),
}

/// What an entry has while it is registered.
struct Waiting<W> {
    work: W,
    registrar: Arc<Registrar>,
    key: Key,
}

impl<W: Work> Inner<W> {
    /// Ends a task that was cancelled while it waited, and returns the waiter, which the caller wakes.
    fn end_cancelled(&mut self) -> Option<Waker> {
        self.status.cancelled = true;
        self.state = State::Ended(Some(Err(TaskError(Cause::Cancelled))));
        self.waiter.take()
    }
}

impl<W: Work> Entry<W> {
    /// Schedules `work` for `deadline`, or returns it. `now` is the current time.
    pub(super) fn schedule(
        registrar: Arc<Registrar>,
        now: Instant,
        deadline: Instant,
        work: W,
    ) -> Result<Arc<Self>, (W, Refused)> {
        let entry = Arc::new(Self {
            inner: Mutex::new(Inner {
                state: State::Waiting(None),
                status: Status {
                    id: Id::next(),
                    deadline,
                    started: false,
                    cancelled: false,
                },
                waiter: None,
            }),
        });
        let inner = entry.inner.lock();
        entry.wait(inner, registrar, now, work, Admission::Limited)?;
        Ok(entry)
    }

    /// Registers the entry, which then waits with `work` for its deadline, or returns the work.
    fn wait(
        self: &Arc<Self>,
        mut inner: MutexGuard<'_, Inner<W>>,
        registrar: Arc<Registrar>,
        now: Instant,
        work: W,
        admission: Admission,
    ) -> Result<(), (W, Refused)> {
        let waker = Waker::from(self.clone());
        match registrar.register_always(now, inner.status.deadline, waker, admission) {
            Ok((key, is_earliest)) => {
                let earliest = is_earliest.then(|| registrar.clone());
                inner.state = State::Waiting(Some(Waiting {
                    work,
                    registrar,
                    key,
                }));
                drop(inner);
                if let Some(registrar) = earliest {
                    registrar.rearm();
                }
                Ok(())
            }
            Err(rejected) => {
                // The registrar is dropped outside of the lock.
                drop(inner);
                Err((work, rejected))
            }
        }
    }

    /// After a run: waits for the next, unless the task was cancelled.
    fn wait_again(self: Arc<Self>, registrar: Arc<Registrar>, work: W, deadline: Instant) {
        let mut inner = self.inner.lock();
        if inner.status.cancelled {
            drop(inner);
            unwind::discard((work, registrar));
            return self.end(Err(TaskError(Cause::Cancelled)));
        }
        inner.status.deadline = deadline;
        let now = Instant::now();
        if let Err((work, _)) = self.wait(inner, registrar, now, work, Admission::Unlimited) {
            unwind::discard(work);
            self.end(Err(TaskError(Cause::Shutdown)));
        }
    }

    /// Ends a task whose work was run or discarded. If a run was cancelled, its result is dropped.
    fn end(&self, mut result: Result<W::Output, TaskError>) {
        let mut inner = self.inner.lock();
        if inner.status.cancelled {
            drop(inner);
            let cancelled = Err(TaskError(Cause::Cancelled));
            unwind::discard(mem::replace(&mut result, cancelled));
            inner = self.inner.lock();
        }
        Self::finish(inner, result);
    }

    /// Keeps the result for the handle, and wakes the waiter. The caller has dropped what else the
    /// task held, unless a shutdown returns it.
    fn finish(mut inner: MutexGuard<'_, Inner<W>>, result: Result<W::Output, TaskError>) {
        inner.state = State::Ended(Some(result));
        let waiter = inner.waiter.take();
        drop(inner);
        waiter.into_iter().for_each(waker::wake);
    }
}

/// An entry is woken when its deadline has expired, or when its timer ends.
impl<W: Work> Wake for Entry<W> {
    fn wake(self: Arc<Self>) {
        let mut inner = self.inner.lock();
        let State::Waiting(waiting) = &mut inner.state else {
            return;
        };
        let Some(Waiting {
            work, registrar, ..
        }) = waiting.take()
        else {
            return;
        };
        let Status { id, deadline, .. } = inner.status;
        let ending = &registrar.driver.ending;
        let end = if ending.is_closing() {
            ending.get()
        } else {
            None
        };
        match end {
            None => {
                inner.state = State::Running;
                inner.status.started = true;
                drop(inner);
                tokio::spawn(Run {
                    run: Some(work.run(deadline)),
                    entry: RunningEntry(Some((self, registrar))),
                });
            }
            Some(End::Shutdown) => {
                Self::finish(inner, Err(TaskError(Cause::Shutdown)));
                unstarted::keep(Unstarted {
                    id,
                    deadline,
                    is_periodic: W::PERIODIC,
                    future: Box::pin(Run::<W, _> {
                        run: Some(work.run(deadline)),
                        entry: RunningEntry(None),
                    }),
                });
            }
            Some(End::Runtime) => {
                drop(inner);
                // What is dropped may wait for another entry of the timer to be woken.
                after_closing(move || {
                    unwind::discard((work, registrar));
                    self.end(Err(TaskError(Cause::Shutdown)));
                });
            }
        }
    }
}

impl<W: Work> Task<W::Output> for Entry<W> {
    fn cancel(&self) -> bool {
        let mut inner = self.inner.lock();
        let waiting = match &mut inner.state {
            State::Waiting(waiting) => waiting.take(),
            State::Running if W::PERIODIC => {
                return !mem::replace(&mut inner.status.cancelled, true);
            }
            _ => None,
        };
        let Some(waiting) = waiting else {
            return false;
        };
        // Work that has no drop holds nothing that must be gone before the end is known. So the task ends under
        // this lock, and a second one is spared.
        let ended = (!mem::needs_drop::<W>()).then(|| inner.end_cancelled());
        drop(inner);
        drop(waiting.registrar.shard.deregister(waiting.key));
        match ended {
            Some(waiter) => waiter.into_iter().for_each(waker::wake),
            None => {
                let _finishes_then = Cancelling(self);
                drop(waiting);
            }
        }
        true
    }

    fn status(&self) -> Status {
        self.inner.lock().status
    }

    fn is_finished(&self) -> bool {
        matches!(self.inner.lock().state, State::Ended(_))
    }

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
        let waiter = self.inner.lock().waiter.take();
        drop(waiter);
    }
}

/// Ends an entry that was cancelled, once its work has been dropped, even if that panics.
struct Cancelling<'a, W: Work>(&'a Entry<W>);

impl<W: Work> Drop for Cancelling<'_, W> {
    fn drop(&mut self) {
        let waiter = self.0.inner.lock().end_cancelled();
        waiter.into_iter().for_each(waker::wake);
    }
}

pin_project! {
    /// One run: a tokio task, or what a shutdown returns, which has no entry. Written by hand, as an
    /// `async` block would hold the run twice (`schedule::memory`).
    pub(super) struct Run<W: Work, R> {
        #[pin]
        run: Option<R>,
        entry: RunningEntry<W>,
    }
}

/// The entry of a tokio task, until the run has ended. Only a runtime that shuts down drops it before.
struct RunningEntry<W: Work>(Option<(Arc<Entry<W>>, Arc<Registrar>)>);

impl<W: Work> Drop for RunningEntry<W> {
    fn drop(&mut self) {
        if let Some((entry, registrar)) = self.0.take() {
            drop(registrar);
            entry.end(Err(TaskError(Cause::Shutdown)));
        }
    }
}

impl<W: Work, R: Future<Output: Into<AfterRun<W>>>> Future for Run<W, R> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let ended = match unwind::catch(|| poll_run(this.run.as_mut(), cx)) {
            Ok(polled) => Ok(ready!(polled)),
            Err(payload) => {
                unwind::contain(|| this.run.set(None));
                Err(payload)
            }
        };
        let Some((entry, registrar)) = this.entry.0.take() else {
            return match ended {
                Ok(_) => Poll::Ready(()),
                Err(payload) => resume_unwind(payload),
            };
        };
        let result = match ended.map(R::Output::into) {
            Ok(After::Again(next, deadline)) => {
                entry.wait_again(registrar, next.into(), deadline);
                return Poll::Ready(());
            }
            Ok(After::End(output)) => Ok(output),
            Err(payload) => Err(TaskError::panicked(payload)),
        };
        drop(registrar);
        entry.end(result);
        Poll::Ready(())
    }
}

/// Polls a run. Drops it when it has ended, so nobody learns of the end before that.
fn poll_run<R: Future>(mut run: Pin<&mut Option<R>>, cx: &mut Context<'_>) -> Poll<R::Output> {
    let Some(polled) = run.as_mut().as_pin_mut() else {
        panic!("an Unstarted was polled after it was ready");
    };
    let output = ready!(polled.poll(cx));
    run.set(None);
    Poll::Ready(output)
}
