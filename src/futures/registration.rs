//! A deadline, and the place where the future that waits for it is registered. A `Sleep` and each alarm
//! of `io` hold one registration.
//!
//! # States
//!
//! ```text
//! +----------+        1        +---------+        2        +-------+
//! |   idle   | --------------> | pending | --------------> | fired |
//! +----------+ <-------------- +---------+                 +-------+
//!   |      ^          3                                     |     |
//!   |      |                       6                        |     | 5
//! 4 |      +------------------------------------------------+     |
//!   |      | 6                                                    |
//!   v      |                                                      |
//! +----------+                                                    |
//! | finished | <--------------------------------------------------+
//! +----------+
//! ```
//!
//! 1. A poll before the deadline registers an entry.
//! 2. The driver fires the entry, or [`reset`](Registration::reset) finds that the new deadline has passed.
//!    A reset to a deadline in the future leaves the registration pending.
//! 3. `fire` deregisters the entry. Only `io` uses this.
//! 4. A poll after the deadline is ready.
//! 5. A poll finds that the shard has no entry for the key, and is ready.
//! 6. [`reset`](Registration::reset) sets a new deadline.
//!
//! The field `key` tells the states apart:
//!
//! | state    | `key`                                               |
//! |----------|-----------------------------------------------------|
//! | idle     | `None`                                              |
//! | pending  | names an entry                                      |
//! | fired    | names no entry any more, and the next poll is ready |
//! | finished | is [`Key::ABSENT`], and every poll is ready         |
//!
//! [`finish`](Registration::finish) completes 4 and 5. A caller that has no budget left does not call
//! it. The registration then stays idle or fired, and its next poll is ready again.
//!
//! When the timer shuts down, its shards drop their entries. The next poll of a pending registration
//! then registers with another timer, is ready, or panics: see `poll_closed`.
//!
//! The future does not know whether it is pending or fired. It asks the shard, under the shard's lock.
//! So the driver keeps no reference to the future, and the user may move and drop the future at any
//! time.

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

/// A deadline and its entry in a timer, if it has one.
///
/// `D` is the stored form of the deadline. It becomes an [`Instant`] only when the timer needs it.
// The methods take `self` as a whole. Passing the deadline beside it costs each poll 5 instructions.
pub(crate) struct Registration<D> {
    deadline: D,
    /// The registrar that made the entry. A registration for a certain timer has it from the start.
    registrar: Option<Arc<Registrar>>,
    key: Option<Key>,
}

impl<D: Copy + Into<Instant>> Registration<D> {
    /// Creates an idle registration.
    ///
    /// It uses the timer of `registrar`. If there is no registrar, it uses the default timer of the
    /// runtime that polls it.
    #[inline]
    pub(crate) fn new(registrar: Option<Arc<Registrar>>, deadline: D) -> Self {
        Self {
            deadline,
            registrar,
            key: None,
        }
    }

    /// Creates an idle registration for the timer that `self` was made for.
    #[cfg(feature = "io")]
    pub(crate) fn of_this_timer(&self, deadline: D) -> Self {
        let registrar = self.registrar.clone();
        Self::new(registrar.filter(|bound| !bound.is_ambient()), deadline)
    }

    #[inline]
    pub(crate) fn deadline(&self) -> D {
        self.deadline
    }

    /// Returns the instant from which `duration` counts.
    ///
    /// This is the current time. For a long duration on a coarse timer, it is slightly later and
    /// includes the coarse clock's margin.
    #[inline]
    pub(crate) fn present_for(&self, duration: impl Into<Duration>) -> Instant {
        match &self.registrar {
            Some(bound) if !bound.is_ambient() => bound.clock().present_for(duration.into()),
            _ => ambient::present_for(duration.into()),
        }
    }

    /// Returns whether the registration has fired or is finished, so that the next poll is ready.
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

    /// Returns whether the future has returned ready, and no reset has followed.
    #[inline]
    pub(super) fn is_finished(&self) -> bool {
        self.key == Some(Key::ABSENT)
    }

    /// Sets a new deadline.
    ///
    /// If the registration is pending and the new deadline has passed, this call wakes the task.
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
            // The key stays. The next poll finds no entry for it and is ready.
            Reset::Fired(waker) => waker::wake(waker),
        }
    }

    /// Sets a new deadline, and deregisters the entry so that the next poll registers again.
    ///
    /// If the registration is pending, this call wakes the task.
    #[cfg(feature = "io")]
    pub(crate) fn fire(&mut self, deadline: D) {
        self.deadline = deadline;
        let entry = self.key.take().zip(self.registrar.as_ref());
        let waker = entry.and_then(|(key, registrar)| registrar.shard.fire(key));
        if let Some(waker) = waker {
            waker::wake(waker);
        }
    }

    /// Returns whether the entry wakes the task of `waker`, or `None` if the registration is not
    /// pending.
    #[cfg(feature = "io")]
    pub(crate) fn wakes(&self, waker: &std::task::Waker) -> Option<bool> {
        let registrar = self.registrar.as_ref()?;
        registrar.shard.wakes(self.key?, waker)
    }

    /// Polls whether the deadline has passed, and finishes the registration if so.
    ///
    /// This does not use the task's budget.
    #[inline]
    #[track_caller]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.poll_reached(cx));
        self.finish();
        Poll::Ready(())
    }

    /// Polls whether the deadline has passed.
    ///
    /// The caller must call [`finish`](Self::finish) if its own poll returns ready.
    #[inline]
    #[track_caller]
    pub(super) fn poll_reached(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match (self.key, &self.registrar) {
            (Some(Key::ABSENT), _) => Poll::Ready(()),
            (Some(key), Some(registrar)) => match registrar.shard.poll(key, cx.waker()) {
                Entry::Pending => Poll::Pending,
                Entry::Fired => Poll::Ready(()),
                Entry::Closed => self.poll_closed(cx),
            },
            _ => self.register(cx),
        }
    }

    /// Records that the future has returned ready.
    #[inline]
    pub(super) fn finish(&mut self) {
        self.key = Some(Key::ABSENT);
    }

    // If it is not inlined, it costs the first poll of a sleep 14 instructions.
    #[inline(always)]
    #[track_caller]
    fn register(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut registrar = match &self.registrar {
            Some(bound) if !bound.is_ambient() => bound,
            _ => self.registrar.insert(ambient::registrar()),
        };
        let mut registered = registrar.register(self.deadline.into(), cx.waker());
        // The thread may remember a timer that has shut down, and a timer may shut down at any time.
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

    /// Polls a registration whose shard is closed. Registers with another timer if there may be one.
    #[cold]
    #[track_caller]
    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &self.registrar {
            // The future registered in one runtime, and another runtime polls it now. This happens when
            // a future moves, and when a worker runs another runtime within `block_in_place`.
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

/// Polls a future whose timer has shut down and has no replacement.
#[cold]
#[track_caller]
fn poll_orphaned(registrar: &Registrar, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
    if Instant::now() >= deadline {
        return Poll::Ready(());
    }
    // A runtime that shuts down drops the tasks of all workers at once. A worker may still poll this
    // task after another worker has dropped the driver. The runtime then drops this task soon. It does
    // not drop a future on which a worker blocks within `block_in_place`: that future must end with the
    // runtime.
    let driver = &registrar.driver;
    if ambient::is_shutting_down(driver.runtime) && driver.ending.poll_runtime_end(cx).is_pending()
    {
        return Poll::Pending;
    }
    panic!(
        "a future was polled before its deadline and after its timer has shut down: keep the runtime \
         and the timer while the future is in use, and poll it only within tasks of that runtime"
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

/// Ends a registration that has a registrar.
// It is not inlined, so the drop of a future that never registered is a single test.
#[inline(never)]
fn end(registrar: Arc<Registrar>, key: Option<Key>) {
    if let Some(key) = key.filter(|key| *key != Key::ABSENT) {
        drop(registrar.shard.deregister(key));
    }
    if registrar.is_ambient() {
        ambient::leave(registrar);
    }
}
