//! A scheduled task: a wheel entry until it is due, a tokio task while it runs.
//!
//! An entry is its own waker. The shard holds it as it holds the waker of any future, and to wake
//! it is to start its run.
//!
//! # States
//!
//! | State   | In a shard         | Left through                                                |
//! |---------|--------------------|-------------------------------------------------------------|
//! | waiting | until it is woken  | being woken (running), `cancel`, the timer's end            |
//! | running | no                 | the end of the run (ended, or waiting again), `cancel` of a periodic task |
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

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker, ready},
};

use pin_project_lite::pin_project;
use tokio::time::Instant;

use super::{
    leftovers::Leftover,
    unstarted::Unstarted,
    work::{After, Work},
};
use crate::{
    driver,
    error::TaskError,
    registrar::Registrar,
    shard::{Admission, Rejected},
    sync::Mutex,
    unwind,
    wheel::{Key, Tick},
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
    /// When the run is due that is awaited, or when the last one was.
    pub(super) deadline: Instant,
    /// Whether a run has started.
    pub(super) started: bool,
    pub(super) cancelled: bool,
    pub(super) ended: bool,
}

pub(super) struct Entry<W: Work> {
    registrar: Arc<Registrar>,
    inner: Mutex<Inner<W>>,
}

struct Inner<W: Work> {
    state: State<W>,
    deadline: Instant,
    started: bool,
    cancelled: bool,
    /// Awaits the end.
    waiter: Option<Waker>,
}

enum State<W: Work> {
    Waiting {
        work: W,
        key: Key,
    },
    /// A new entry is so until it is registered, and nobody knows of it before.
    Running,
    Ended(Result<W::Output, TaskError>),
    Taken,
}

impl<W: Work> Inner<W> {
    /// Goes from the waiting state to another, and gives the work and its key back.
    fn leave_waiting(&mut self, next: State<W>) -> Option<(W, Key)> {
        match std::mem::replace(&mut self.state, State::Taken) {
            State::Waiting { work, key } => {
                self.state = next;
                Some((work, key))
            }
            other => {
                self.state = other;
                None
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
            registrar,
            inner: Mutex::new(Inner {
                state: State::Running,
                deadline,
                started: false,
                cancelled: false,
                waiter: None,
            }),
        });
        let registered = entry.register(&mut entry.inner.lock(), now, work, Admission::Limited);
        entry.registrar.wake_driver_for(registered?);
        Ok(entry)
    }

    /// Registers the entry, which waits from now on, or gives back what it would have run. Says
    /// which tick the driver is to be woken for, when the lock is released.
    fn register(
        self: &Arc<Self>,
        inner: &mut Inner<W>,
        now: Instant,
        work: W,
        admission: Admission,
    ) -> Result<Tick, (W, Rejected)> {
        let waker = Waker::from(self.clone());
        match (self.registrar).register_task(now, inner.deadline, waker, admission) {
            Ok((key, tick)) => {
                inner.state = State::Waiting { work, key };
                Ok(tick)
            }
            Err(rejected) => Err((work, rejected)),
        }
    }

    /// Spawns the run that is due, if the entry waits for it.
    fn start(self: Arc<Self>) {
        let mut inner = self.inner.lock();
        let Some((work, _)) = inner.leave_waiting(State::Running) else {
            return;
        };
        inner.started = true;
        let due = inner.deadline;
        drop(inner);
        tokio::spawn(Run {
            run: Some(work.run(due)),
            of: RunOf { entry: Some(self) },
        });
    }

    /// After a run: waits for the next, unless the task was cancelled.
    fn wait_again(self: Arc<Self>, work: W, deadline: Instant) {
        let mut inner = self.inner.lock();
        if !matches!(inner.state, State::Running) {
            drop(inner);
            return drop(work);
        }
        inner.deadline = deadline;
        let now = Instant::now();
        let registered = self.register(&mut inner, now, work, Admission::Unlimited);
        drop(inner);
        match registered {
            Ok(tick) => self.registrar.wake_driver_for(tick),
            Err((work, _)) => {
                self.end(Err(TaskError::shutdown()));
                drop(work);
            }
        }
    }

    /// After the last run: keeps the result for the handle, unless the task was cancelled.
    fn end(&self, result: Result<W::Output, TaskError>) {
        let mut inner = self.inner.lock();
        if !matches!(inner.state, State::Running) {
            drop(inner);
            return drop(result);
        }
        inner.state = State::Ended(result);
        let waiter = inner.waiter.take();
        drop(inner);
        waiter.into_iter().for_each(driver::wake);
    }
}

/// To be woken is to be due, or to be left over by the timer's end.
impl<W: Work> Wake for Entry<W> {
    fn wake(self: Arc<Self>) {
        if !self.registrar.link.leftovers.keep(&self) {
            self.start();
        }
    }
}

impl<W: Work> Leftover for Entry<W> {
    fn into_unstarted(self: Arc<Self>) -> Option<Unstarted> {
        let mut inner = self.inner.lock();
        let (work, _) = inner.leave_waiting(State::Ended(Err(TaskError::shutdown())))?;
        let (deadline, waiter) = (inner.deadline, inner.waiter.take());
        drop(inner);
        waiter.into_iter().for_each(driver::wake);
        Some(Unstarted::new(deadline, work.run(deadline)))
    }
}

impl<W: Work> Task<W::Output> for Entry<W> {
    fn cancel(&self) -> bool {
        let mut inner = self.inner.lock();
        let ended = State::Ended(Err(TaskError::cancelled()));
        let waiting = match inner.state {
            State::Waiting { .. } => inner.leave_waiting(ended),
            State::Running if W::PERIODIC => {
                inner.state = ended;
                None
            }
            _ => return false,
        };
        inner.cancelled = true;
        let waiter = inner.waiter.take();
        drop(inner);
        if let Some((_, key)) = &waiting {
            drop(self.registrar.shard.deregister(*key));
        }
        waiter.into_iter().for_each(driver::wake);
        drop(waiting);
        true
    }

    fn status(&self) -> Status {
        let inner = self.inner.lock();
        Status {
            deadline: inner.deadline,
            started: inner.started,
            cancelled: inner.cancelled,
            ended: matches!(inner.state, State::Ended(_) | State::Taken),
        }
    }

    fn poll_result(&self, waker: &Waker) -> Poll<Option<Result<W::Output, TaskError>>> {
        let mut clone = None;
        loop {
            let mut inner = self.inner.lock();
            match std::mem::replace(&mut inner.state, State::Taken) {
                State::Ended(result) => return Poll::Ready(Some(result)),
                State::Taken => return Poll::Ready(None),
                pending => inner.state = pending,
            }
            if inner
                .waiter
                .as_ref()
                .is_some_and(|waiter| waiter.will_wake(waker))
            {
                return Poll::Pending;
            }
            if let Some(clone) = clone.take() {
                let replaced = inner.waiter.replace(clone);
                drop(inner);
                drop(replaced);
                return Poll::Pending;
            }
            drop(inner);
            clone = Some(waker.clone());
        }
    }

    fn detach(&self) {
        let waiter = self.inner.lock().waiter.take();
        drop(waiter);
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
    entry: Option<Arc<Entry<W>>>,
}

impl<W: Work> Drop for RunOf<W> {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
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
        if let Some(entry) = this.of.entry.take() {
            match after {
                Ok(After::Again(next, deadline)) => entry.wait_again(next.into(), deadline),
                Ok(After::End(output)) => entry.end(Ok(output)),
                Err(error) => entry.end(Err(error)),
            }
        }
        Poll::Ready(())
    }
}
