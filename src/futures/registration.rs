//! A deadline, and where the future is registered that waits for it: what a `Sleep` and an alarm of `io` are.
//!
//! # States
//!
//! | State    | `key`               | Left through                                          |
//! |----------|---------------------|-------------------------------------------------------|
//! | idle     | `None`              | the first pending poll registers                      |
//! | armed    | names an entry      | fire, `reset` (stays armed), drop deregisters         |
//! | elapsed  | names no entry      | `reset` makes it idle                                 |
//!
//! Whether a key still names an entry is known to the shard alone, under its lock. So the driver
//! needs no way back to the future, and a future may be moved and dropped as it likes.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    driver::{
        registrar::{Registrar, Reset},
        shard::{Entry, Refused},
    },
    ground::waker,
    timer::ambient,
    wheel::Key,
};

/// `D` is how the deadline is stored. The deadline becomes an [`Instant`] only when the timer needs it.
// The methods take the whole: a deadline that is passed beside it costs each poll 5 instructions.
pub(crate) struct Registration<D> {
    deadline: D,
    /// Where the future is registered, and where it was made if it belongs to a certain timer.
    registrar: Option<Arc<Registrar>>,
    key: Option<Key>,
}

impl<D: Copy + Into<Instant>> Registration<D> {
    /// Creates a registration for the timer of `registrar`; without one, for the default timer of the
    /// runtime that polls it.
    #[inline]
    pub(crate) fn new(registrar: Option<Arc<Registrar>>, deadline: D) -> Self {
        Self {
            deadline,
            registrar,
            key: None,
        }
    }

    /// Creates a registration for the timer that this one was made for.
    #[cfg(feature = "io")]
    pub(crate) fn of_this_timer(&self, deadline: D) -> Self {
        let registrar = self.registrar.clone();
        Self::new(registrar.filter(|bound| !bound.is_ambient()), deadline)
    }

    #[inline]
    pub(crate) fn deadline(&self) -> D {
        self.deadline
    }

    /// Returns the present, or for a long duration on a coarse timer an instant shortly after it, which
    /// already has the margin.
    #[inline]
    pub(crate) fn present_for(&self, duration: impl Into<Duration>) -> Instant {
        match &self.registrar {
            Some(bound) if !bound.is_ambient() => bound.clock().present_for(duration.into()),
            _ => ambient::present_for(duration.into()),
        }
    }

    /// Returns whether the timer has fired, so that the next poll is ready.
    pub(super) fn is_elapsed(&self) -> bool {
        match (self.key, &self.registrar) {
            (None, _) => false,
            (Some(Key::ABSENT), _) | (_, None) => true,
            (Some(key), Some(registrar)) => match registrar.shard.look_up(key) {
                Entry::Pending => false,
                Entry::Fired => true,
                Entry::Closed => Instant::now() >= self.deadline.into(),
            },
        }
    }

    /// Moves the deadline. If the new deadline is reached, this call wakes the task of a future that is
    /// pending.
    #[inline]
    pub(crate) fn reset(&mut self, deadline: D) {
        self.deadline = deadline;
        let reset = match (self.key, &self.registrar) {
            (Some(key), Some(registrar)) if key != Key::ABSENT => {
                registrar.reset(key, deadline.into())
            }
            _ => Reset::Absent,
        };
        match reset {
            Reset::Pending => {}
            Reset::Absent => self.key = None,
            Reset::Fired(waker) => {
                self.key = Some(Key::ABSENT);
                waker::wake(waker);
            }
        }
    }

    /// Moves the deadline, and registers it at the next poll. If the future is pending, this call wakes its
    /// task.
    #[cfg(feature = "io")]
    pub(crate) fn fire(&mut self, deadline: D) {
        self.deadline = deadline;
        let entry = self.key.take().zip(self.registrar.as_ref());
        let waker = entry.and_then(|(key, registrar)| registrar.shard.fire(key));
        if let Some(waker) = waker {
            waker::wake(waker);
        }
    }

    /// Returns whether the future wakes the task of `waker`, or `None` if it is not pending.
    #[cfg(feature = "io")]
    pub(crate) fn wakes(&self, waker: &std::task::Waker) -> Option<bool> {
        let registrar = self.registrar.as_ref()?;
        registrar.shard.wakes(self.key?, waker)
    }

    /// Polls whether the deadline is reached, without regard to the task's budget.
    #[inline]
    #[track_caller]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        ready!(match (self.key, &self.registrar) {
            (Some(Key::ABSENT), _) => Poll::Ready(()),
            (Some(key), Some(registrar)) => match registrar.shard.poll(key, cx.waker()) {
                Entry::Pending => Poll::Pending,
                Entry::Fired => Poll::Ready(()),
                Entry::Closed => self.poll_closed(cx),
            },
            _ => self.register(cx),
        });
        self.key = Some(Key::ABSENT);
        Poll::Ready(())
    }

    // Out of line, it costs the first poll of a sleep 14 instructions.
    #[inline(always)]
    #[track_caller]
    fn register(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut registrar = match &self.registrar {
            Some(bound) if !bound.is_ambient() => bound,
            _ => self.registrar.insert(ambient::registrar()),
        };
        let mut registered = registrar.register(self.deadline.into(), cx.waker());
        // The thread may remember a timer that is no more, and one may be shut down at any time.
        let mut latest = false;
        while registered == Err(Refused::Closed) && registrar.may_be_replaced(latest) {
            registrar = self.registrar.insert(ambient::look_up());
            registered = registrar.register(self.deadline.into(), cx.waker());
            latest = true;
        }
        match registered {
            Ok(key) => {
                self.key = Some(key);
                Poll::Pending
            }
            Err(Refused::Due) => Poll::Ready(()),
            Err(_) => poll_orphaned(registrar, self.deadline.into(), cx),
        }
    }

    /// The shard has been closed: registers with another timer, if there may be one.
    #[cold]
    #[track_caller]
    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &self.registrar {
            // The future was taken to another runtime; or a worker has run that one within
            // `block_in_place`, and the future was registered with the worker's own.
            Some(closed) if closed.is_ambient() && ambient::is_elsewhere(closed.driver.runtime) => {
                self.registrar = Some(ambient::look_up());
            }
            Some(closed) if !closed.may_be_replaced(true) => {
                return poll_orphaned(closed, self.deadline.into(), cx);
            }
            _ => {}
        }
        self.register(cx)
    }
}

/// Polls a future whose timer has shut down.
#[cold]
#[track_caller]
fn poll_orphaned(registrar: &Registrar, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
    if Instant::now() >= deadline {
        return Poll::Ready(());
    }
    // A runtime drops its tasks on all workers at once. This one may still be polled while the
    // driver is gone already: its turn to be dropped is next. But nobody drops a future that a
    // worker blocks on within `block_in_place`. It has to end when the runtime does.
    let driver = &registrar.driver;
    if ambient::is_shutting_down(driver.runtime) && driver.ending.poll_runtime_end(cx).is_pending()
    {
        return Poll::Pending;
    }
    panic!(
        "a future was polled after its timer has shut down, with its runtime or by \
         `Timer::shutdown`, so that it would never be ready: keep the runtime and the timer \
         while the future is in use, and poll it only within tasks of that runtime"
    );
}

impl<D: fmt::Debug> fmt::Debug for Registration<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl<D> Drop for Registration<D> {
    #[inline]
    fn drop(&mut self) {
        if let Some(registrar) = self.registrar.take() {
            end(registrar, self.key);
        }
    }
}

/// Ends a future that may be registered. Out of line, so that the drop of a future that was never polled pending is a test.
#[inline(never)]
fn end(registrar: Arc<Registrar>, key: Option<Key>) {
    if let Some(key) = key.filter(|key| *key != Key::ABSENT) {
        drop(registrar.shard.deregister(key));
    }
    if registrar.is_ambient() {
        ambient::leave(registrar);
    }
}
