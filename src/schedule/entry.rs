//! The entry of a scheduled task. The task is this entry until its deadline, and a tokio task while it runs.
//!
//! The entry is its own waker. The shard keeps it like the waker of any future. The driver wakes the
//! entry when its deadline expires, and this wake starts the run.
//!
//! # States
//!
//! | State           | In a shard        | Next state                                              |
//! |-----------------|-------------------|---------------------------------------------------------|
//! | `Waiting(None)` | no                | `Waiting(Some)` after registration; `Ended` after the work is dropped |
//! | `Waiting(Some)` | until it is woken | `Running` after the wake; `Waiting(None)` or `Ended` after `cancel`; `Ended` when the timer ends |
//! | `Running`       | no                | `Ended`; `Waiting(None)` for the next run of a periodic task |
//! | `Ended(Some)`   | no                | `Ended(None)` when the handle takes the result or is dropped |
//! | `Ended(None)`   | no                | none                                                    |
//!
//! # Rules
//!
//! * Only the thread that takes the work out of the entry uses the work. That thread runs it, drops
//!   it or returns it from a shutdown. So each task ends exactly once (`tests/schedule/accounting.rs`).
//! * A thread registers an entry under the entry's lock. The entry may fire at once, but its wake
//!   waits for the lock, and so for the key. `cancel` therefore always finds the key, and leaves no
//!   entry that counts towards the timer's limit.
//! * The work, the result and the waker are user code. They move under the lock. They are cloned,
//!   woken and dropped outside of it.
//! * The work is dropped before the handle sees the end. Only a shutdown returns the work instead
//!   (`tests/schedule/awaiting.rs`, `cancel.rs`, `periodic.rs`).
//! * The registrar is dropped with the work. So a task that has ended keeps no timer alive
//!   (`tests/schedule/runtime_end.rs`).
//! * After the handle is dropped, the entry keeps no result. A [`CancelHandle`](super::CancelHandle)
//!   may still keep the entry (`tests/schedule/cancel_handle.rs`).
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

/// A scheduled task without any of its types. A [`CancelHandle`](super::CancelHandle) holds this.
pub(super) trait Control: Send + Sync {
    /// Prevents further runs. Returns whether this call did that.
    fn cancel(&self) -> bool;

    fn status(&self) -> Status;

    fn is_finished(&self) -> bool;
}

/// A scheduled task without the type of its work. Its handle holds this.
pub(super) trait Task<T>: Control {
    /// Takes the result if the task has ended, and otherwise keeps a clone of `waker` for the end.
    /// Returns `None` if the result was taken before.
    fn poll_result(&self, waker: &Waker) -> Poll<Option<Result<T, TaskError>>>;

    /// Drops the waker and the result. The entry keeps no later result.
    fn detach(&self);

    fn into_control(self: Arc<Self>) -> Arc<dyn Control>;
}

/// The state of a task that its handles show.
#[derive(Clone, Copy)]
pub(super) struct Status {
    /// The deadline of the next run, of the current run or of the last run.
    pub(super) deadline: Instant,
    /// Whether a run has started.
    pub(super) started: bool,
    /// Whether the task was canceled. The current run of a periodic task is then its last run.
    pub(super) cancelled: bool,
    /// Whether the handle was dropped and needs no result.
    detached: bool,
}

pub(super) struct Entry<W: Work> {
    inner: Mutex<Inner<W>>,
}

struct Inner<W: Work> {
    state: State<W>,
    status: Status,
    /// The waker of the task that awaits the end.
    waiter: Option<Waker>,
}

enum State<W: Work> {
    /// `None` while the entry is being registered or its work is being dropped.
    Waiting(Option<Waiting<W>>),
    Running,
    /// The result, until the handle takes it.
    Ended(Option<Result<W::Output, TaskError>>),
}

/// The parts of an entry that is registered.
struct Waiting<W> {
    work: W,
    registrar: Arc<Registrar>,
    key: Key,
}

/// The arguments of a refused registration, and the reason.
type Returned<W> = (W, Arc<Registrar>, Refused);

impl<W: Work> Inner<W> {
    /// Ends a task that was canceled while it waited. The caller must wake the returned waker.
    fn end_cancelled(&mut self) -> Option<Waker> {
        self.status.cancelled = true;
        self.state = State::Ended(Some(Err(TaskError(Cause::Cancelled))));
        self.waiter.take()
    }
}

impl<W: Work> Entry<W> {
    /// Schedules `work` for `deadline`. Returns its arguments if the timer refuses the work. `now` is
    /// the current time.
    pub(super) fn schedule(
        registrar: Arc<Registrar>,
        now: Instant,
        deadline: Instant,
        work: W,
    ) -> Result<Arc<Self>, Returned<W>> {
        let entry = Arc::new(Self {
            inner: Mutex::new(Inner {
                state: State::Waiting(None),
                status: Status {
                    deadline,
                    started: false,
                    cancelled: false,
                    detached: false,
                },
                waiter: None,
            }),
        });
        let inner = entry.inner.lock();
        entry.wait(inner, registrar, now, work, Admission::Limited)?;
        Ok(entry)
    }

    /// Registers the entry, which keeps `work` until its deadline. Returns its arguments if the timer
    /// refuses the work.
    fn wait(
        self: &Arc<Self>,
        mut inner: MutexGuard<'_, Inner<W>>,
        registrar: Arc<Registrar>,
        now: Instant,
        work: W,
        admission: Admission,
    ) -> Result<(), Returned<W>> {
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
                drop(inner);
                Err((work, registrar, rejected))
            }
        }
    }

    /// Registers the entry for the next run. Ends the task instead if it was canceled.
    fn wait_again(self: Arc<Self>, registrar: Arc<Registrar>, work: W, deadline: Instant) {
        let mut inner = self.inner.lock();
        if inner.status.cancelled {
            drop(inner);
            unwind::discard((work, registrar));
            return self.end(Err(TaskError(Cause::Cancelled)));
        }
        inner.status.deadline = deadline;
        let now = Instant::now();
        let waits = self.wait(inner, registrar, now, work, Admission::Unlimited);
        if let Err((work, registrar, _)) = waits {
            unwind::discard((work, registrar));
            self.end(Err(TaskError(Cause::Shutdown)));
        }
    }

    /// Ends a task whose work has run or was discarded. Drops the result if the task was canceled or
    /// its handle was dropped.
    fn end(&self, result: Result<W::Output, TaskError>) {
        let mut result = Some(result);
        let mut inner = self.inner.lock();
        if inner.status.cancelled || inner.status.detached {
            drop(inner);
            unwind::discard(result.take());
            inner = self.inner.lock();
            if inner.status.cancelled {
                result = Some(Err(TaskError(Cause::Cancelled)));
            }
        }
        Self::finish(inner, result);
    }

    /// Keeps the result for the handle, and wakes the task that awaits the end. Before this call the
    /// caller drops everything else that the task held, or returns it from a shutdown.
    fn finish(mut inner: MutexGuard<'_, Inner<W>>, result: Option<Result<W::Output, TaskError>>) {
        inner.state = State::Ended(result);
        let waiter = inner.waiter.take();
        drop(inner);
        waiter.into_iter().for_each(waker::wake);
    }
}

/// The driver wakes an entry after its deadline has expired. The end of the timer wakes it as well.
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
        let deadline = inner.status.deadline;
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
                Self::finish(inner, Some(Err(TaskError(Cause::Shutdown))));
                unstarted::keep(Unstarted {
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
                // The drop of the work may wait for another entry of this timer to be woken.
                after_closing(move || {
                    unwind::discard((work, registrar));
                    self.end(Err(TaskError(Cause::Shutdown)));
                });
            }
        }
    }
}

impl<W: Work> Control for Entry<W> {
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
        // Work without a destructor needs no drop before the end. So the task can end under this
        // lock, and needs no second lock.
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
        let mut inner = self.inner.lock();
        inner.status.detached = true;
        let waiter = inner.waiter.take();
        let result = match &mut inner.state {
            State::Ended(result) => result.take(),
            _ => None,
        };
        drop(inner);
        drop((waiter, result));
    }

    fn into_control(self: Arc<Self>) -> Arc<dyn Control> {
        self
    }
}

/// Ends a canceled entry after its work has been dropped, even if the drop panics.
struct Cancelling<'a, W: Work>(&'a Entry<W>);

impl<W: Work> Drop for Cancelling<'_, W> {
    fn drop(&mut self) {
        let waiter = self.0.inner.lock().end_cancelled();
        waiter.into_iter().for_each(waker::wake);
    }
}

pin_project! {
    /// One run. A tokio task polls it with its entry. An [`Unstarted`] polls it without an entry.
    ///
    /// An `async` block would hold the run twice in memory (`schedule::memory`).
    pub(super) struct Run<W: Work, R> {
        #[pin]
        run: Option<R>,
        entry: RunningEntry<W>,
    }
}

/// The entry of a tokio task, until the run has ended. Only a runtime that shuts down drops it
/// earlier.
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

/// Polls a run, and drops it as soon as it is ready. So the handle sees the end after that drop.
fn poll_run<R: Future>(mut run: Pin<&mut Option<R>>, cx: &mut Context<'_>) -> Poll<R::Output> {
    let Some(polled) = run.as_mut().as_pin_mut() else {
        panic!("an `Unstarted` was polled after it was ready");
    };
    let output = ready!(polled.poll(cx));
    run.set(None);
    Poll::Ready(output)
}
