//! A scheduled task: a wheel entry until it is due, a tokio task while it runs.
//!
//! An entry is its own waker. The shard holds it as it holds the waker of any future, and to wake
//! it is to start its run.
//!
//! # States
//!
//! | State   | In a shard         | Left through                                                |
//! |---------|--------------------|-------------------------------------------------------------|
//! | waiting | until it is woken  | being woken (running), `cancel` (leaving), the timer's end (ended) |
//! | running | no                 | the end of the run: ended, or waiting again                 |
//! | leaving | no                 | the end of `cancel`, which drops the work meanwhile (ended) |
//! | ended   | no                 | the handle takes the result                                 |
//! | taken   | no                 |                                                             |
//!
//! # Ground rules
//!
//! * Whoever takes the work out of the waiting state decides what becomes of it: it runs, is
//!   dropped by `cancel`, goes back with a refusal, or is given back by shutdown. So each task
//!   ends in one of these places (`tests/schedule/accounting.rs`).
//! * An entry is registered under its lock. It may fire at once, but starts no run before its key
//!   is noted. So whoever cancels it knows the key, and leaves nothing behind that still counts
//!   towards the timer's limit.
//! * The work, the result and the waiter are foreign. They move under the lock, but are cloned,
//!   woken and dropped outside of it.
//! * What a task held is dropped before anybody can learn that it has ended
//!   (`tests/schedule/awaiting.rs`, `cancel.rs`, `periodic.rs`).
//! * The registrar goes where the work goes, so a task that has ended keeps no timer alive
//!   (`tests/schedule/runtime_end.rs`).
//!
//! Models: `schedule::loom_tests`.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker, ready},
};

use pin_project_lite::pin_project;
use tokio::time::Instant;

use super::{
    id::Id,
    leftovers::{self, Leftover},
    unstarted::Unstarted,
    work::{After, Work},
};
use crate::{
    driver::{
        registrar::Registrar,
        shard::{Admission, Rejected},
    },
    error::TaskError,
    ground::{sync::Mutex, unwind, waker},
    wheel::Key,
};

/// A scheduled task, as its handle sees it: without the type of its work.
pub(super) trait Task<T>: Send + Sync {
    /// Sees to it that no run starts any more, and says whether this call did.
    fn cancel(&self) -> bool;

    fn status(&self) -> Status;

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
    pub(super) cancelled: bool,
    pub(super) ended: bool,
}

pub(super) struct Entry<W: Work> {
    inner: Mutex<Inner<W>>,
}

struct Inner<W: Work> {
    state: State<W>,
    /// Where it is registered, while it waits.
    place: Option<Place>,
    deadline: Instant,
    id: Id,
    started: bool,
    /// If it is set while a periodic task runs, that run is the last.
    cancelled: bool,
    /// Awaits the end.
    waiter: Option<Waker>,
}

enum State<W: Work> {
    Waiting(W),
    Running,
    /// A new entry is so until it is registered, and nobody knows of it before.
    Leaving,
    Ended(Result<W::Output, TaskError>),
    Taken,
}

/// Where an entry is registered.
struct Place {
    registrar: Arc<Registrar>,
    key: Key,
}

impl<W: Work> Inner<W> {
    /// Goes from the waiting state to another.
    fn leave_waiting(&mut self, next: State<W>) -> Option<(W, Place)> {
        let place = self.place.take()?;
        match std::mem::replace(&mut self.state, next) {
            State::Waiting(work) => Some((work, place)),
            _ => None,
        }
    }

    /// Ends it, and gives back who is to be woken for that.
    fn end_cancelled(&mut self) -> Option<Waker> {
        self.state = State::Ended(Err(TaskError::cancelled()));
        self.cancelled = true;
        self.waiter.take()
    }

    /// Takes the result, if the task has ended. There is none if it was taken before.
    fn take_result(&mut self) -> Poll<Option<Result<W::Output, TaskError>>> {
        match std::mem::replace(&mut self.state, State::Taken) {
            State::Ended(result) => Poll::Ready(Some(result)),
            State::Taken => Poll::Ready(None),
            pending => {
                self.state = pending;
                Poll::Pending
            }
        }
    }
}

impl<W: Work> Entry<W> {
    /// Schedules `work` for `deadline`, or gives it back. `now` is the present.
    pub(super) fn schedule(
        registrar: Arc<Registrar>,
        now: Instant,
        deadline: Instant,
        work: W,
    ) -> Result<Arc<Self>, (W, Rejected)> {
        let entry = Arc::new(Self {
            inner: Mutex::new(Inner {
                state: State::Leaving,
                place: None,
                deadline,
                id: Id::next(),
                started: false,
                cancelled: false,
                waiter: None,
            }),
        });
        let mut inner = entry.inner.lock();
        match entry.register(&mut inner, registrar, now, Admission::Limited) {
            Ok(earliest) => {
                inner.state = State::Waiting(work);
                drop(inner);
                bring_forward(earliest);
                Ok(entry)
            }
            Err(rejected) => Err((work, rejected)),
        }
    }

    /// Registers the entry, whose state the caller then makes waiting. If the driver is armed for
    /// later than that, gives the registrar to bring it forward when the lock is released.
    fn register(
        self: &Arc<Self>,
        inner: &mut Inner<W>,
        registrar: Arc<Registrar>,
        now: Instant,
        admission: Admission,
    ) -> Result<Option<Arc<Registrar>>, Rejected> {
        let waker = Waker::from(self.clone());
        let (key, tick) = registrar.register_task(now, inner.deadline, waker, admission)?;
        let is_earliest = registrar.link.arming.undercut(tick);
        let earliest = is_earliest.then(|| registrar.clone());
        inner.place = Some(Place { registrar, key });
        Ok(earliest)
    }

    /// After a run: waits for the next, unless the task was cancelled.
    fn wait_again(self: Arc<Self>, registrar: Arc<Registrar>, work: W, deadline: Instant) {
        let mut inner = self.inner.lock();
        if inner.cancelled {
            drop(inner);
            unwind::discard((work, registrar));
            return self.end(Err(TaskError::cancelled()));
        }
        inner.deadline = deadline;
        let now = Instant::now();
        match self.register(&mut inner, registrar, now, Admission::Unlimited) {
            Ok(earliest) => {
                inner.state = State::Waiting(work);
                drop(inner);
                bring_forward(earliest);
            }
            Err(_) => {
                drop(inner);
                unwind::discard(work);
                self.end(Err(TaskError::shutdown()));
            }
        }
    }

    /// At the task's end: keeps the result for the handle, unless the task was cancelled, and wakes
    /// who awaits it. Whatever else the task held is gone.
    fn end(&self, mut result: Result<W::Output, TaskError>) {
        let mut inner = self.inner.lock();
        if inner.cancelled {
            drop(inner);
            unwind::discard(std::mem::replace(&mut result, Err(TaskError::cancelled())));
            inner = self.inner.lock();
        }
        inner.state = State::Ended(result);
        let waiter = inner.waiter.take();
        drop(inner);
        waiter.into_iter().for_each(waker::wake);
    }
}

/// After a registration: lets the driver know, if it has to.
fn bring_forward(earliest: Option<Arc<Registrar>>) {
    if let Some(registrar) = earliest {
        registrar.bring_forward();
    }
}

/// To be woken is to be due, or to be left over by the timer's end.
impl<W: Work> Wake for Entry<W> {
    fn wake(self: Arc<Self>) {
        let mut inner = self.inner.lock();
        let Some(place) = &inner.place else {
            return;
        };
        if place.registrar.link.is_closing() {
            let end = place.registrar.link.end();
            drop(inner);
            return leftovers::keep(end, self);
        }
        let Some((work, place)) = inner.leave_waiting(State::Running) else {
            return;
        };
        inner.started = true;
        let due = inner.deadline;
        drop(inner);
        tokio::spawn(Run {
            run: Some(work.run(due)),
            of: RunOf {
                entry: Some((self, place.registrar)),
            },
        });
    }
}

impl<W: Work> Leftover for Entry<W> {
    fn into_unstarted(self: Arc<Self>) -> Option<Unstarted> {
        let mut inner = self.inner.lock();
        let ended = State::Ended(Err(TaskError::shutdown()));
        let (work, _) = inner.leave_waiting(ended)?;
        let (id, deadline, waiter) = (inner.id, inner.deadline, inner.waiter.take());
        drop(inner);
        waiter.into_iter().for_each(waker::wake);
        Some(Unstarted::new(id, deadline, work))
    }

    fn discard(self: Arc<Self>) {
        let left = self.inner.lock().leave_waiting(State::Leaving);
        if let Some((work, place)) = left {
            unwind::discard(work);
            unwind::discard(place);
            self.end(Err(TaskError::shutdown()));
        }
    }
}

impl<W: Work> Task<W::Output> for Entry<W> {
    fn cancel(&self) -> bool {
        let mut inner = self.inner.lock();
        if W::PERIODIC && matches!(inner.state, State::Running) {
            return !std::mem::replace(&mut inner.cancelled, true);
        }
        let Some(place) = inner.place.take() else {
            return false;
        };
        // What has no drop holds nothing that would have to be gone first: one lock will do.
        if !std::mem::needs_drop::<W>() {
            let waiter = inner.end_cancelled();
            drop(inner);
            drop(place.registrar.shard.deregister(place.key));
            waiter.into_iter().for_each(waker::wake);
            return true;
        }
        let work = std::mem::replace(&mut inner.state, State::Leaving);
        drop(inner);
        drop(place.registrar.shard.deregister(place.key));
        let _ends_then = Cancelling(self);
        drop((work, place));
        true
    }

    fn status(&self) -> Status {
        let inner = self.inner.lock();
        Status {
            id: inner.id,
            deadline: inner.deadline,
            started: inner.started,
            cancelled: inner.cancelled,
            ended: matches!(inner.state, State::Ended(_) | State::Taken),
        }
    }

    fn poll_result(&self, waker: &Waker) -> Poll<Option<Result<W::Output, TaskError>>> {
        waker::poll_locked(
            &self.inner,
            waker,
            |inner| &mut inner.waiter,
            Inner::take_result,
        )
    }

    fn detach(&self) {
        let waiter = self.inner.lock().waiter.take();
        drop(waiter);
    }
}

/// Whoever cancels an entry that waited. Ends it when the work has been dropped, by a panic too.
struct Cancelling<'a, W: Work>(&'a Entry<W>);

impl<W: Work> Drop for Cancelling<'_, W> {
    fn drop(&mut self) {
        let waiter = self.0.inner.lock().end_cancelled();
        waiter.into_iter().for_each(waker::wake);
    }
}

pin_project! {
    /// The tokio task of one run.
    pub(super) struct Run<W: Work> {
        #[pin]
        run: Option<W::Run>,
        of: RunOf<W>,
    }
}

/// Whose run it is. If the run is dropped before it has ended, then because the runtime shut down.
struct RunOf<W: Work> {
    entry: Option<(Arc<Entry<W>>, Arc<Registrar>)>,
}

impl<W: Work> Drop for RunOf<W> {
    fn drop(&mut self) {
        if let Some((entry, registrar)) = self.entry.take() {
            drop(registrar);
            entry.end(Err(TaskError::shutdown()));
        }
    }
}

impl<W: Work> Future for Run<W> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let polled = unwind::catch(|| {
            let after = match this.run.as_mut().as_pin_mut() {
                Some(run) => ready!(run.poll(cx)),
                None => return Poll::Pending,
            };
            // What the run holds is gone before anybody learns that it has ended.
            this.run.set(None);
            Poll::Ready(after)
        });
        let after = match polled {
            Ok(polled) => Ok(ready!(polled)),
            Err(payload) => {
                if let Err(another) = unwind::catch(|| this.run.set(None)) {
                    unwind::discard(another);
                }
                Err(TaskError::panicked(payload))
            }
        };
        if let Some((entry, registrar)) = this.of.entry.take() {
            let end = match after {
                Ok(After::Again(next, deadline)) => {
                    entry.wait_again(registrar, next.into(), deadline);
                    return Poll::Ready(());
                }
                Ok(After::End(output)) => Ok(output),
                Err(error) => Err(error),
            };
            drop(registrar);
            entry.end(end);
        }
        Poll::Ready(())
    }
}
