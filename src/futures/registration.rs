//! `Registration`: a deadline and its entry in a timer. Each `Sleep` and each alarm of `io` holds one
//! registration.
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
//! 1. A poll before the deadline registers an entry in a shard.
//! 2. The driver fires the entry at its deadline. [`reset`](Registration::reset) may also fire the entry if
//!    the new deadline has passed. After a reset to a deadline in the future, a pending registration stays
//!    pending.
//! 3. `fire` deregisters the entry. Only `io` calls `fire`.
//! 4. A poll after the deadline returns ready.
//! 5. A poll finds that the shard no longer has the entry, and returns ready.
//! 6. [`reset`](Registration::reset) sets a new deadline.
//!
//! The field `key` shows the state:
//!
//! | state    | `key`                                                  |
//! |----------|--------------------------------------------------------|
//! | idle     | `None`                                                 |
//! | pending  | `Some`: the key of an entry in the shard               |
//! | fired    | `Some`: the key of an entry that the shard has removed |
//! | finished | `Some`: [`Key::ABSENT`]                                |
//!
//! The next poll of a fired registration returns ready. Every poll of a finished registration returns ready.
//!
//! The caller completes transitions 4 and 5 with [`finish`](Registration::finish). A caller that has no
//! budget left does not call `finish`. The registration then stays idle or fired, and its next poll returns
//! ready again.
//!
//! When a timer shuts down, its shards drop their entries. The next poll of each pending registration calls
//! `poll_closed`, which does one of four things:
//!
//! * It registers with another timer.
//! * It returns ready, because the deadline has passed.
//! * It returns pending until the runtime has shut down.
//! * It panics.
//!
//! A registration does not store whether it is pending or fired. It locks its shard and asks the shard. The
//! driver therefore keeps no reference to the future. The user may move and drop the future at any time.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll, ready},
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

/// A deadline that may have an entry in a timer.
///
/// `D` is the type in which the deadline is stored. The deadline becomes an [`Instant`] only when the timer
/// needs an `Instant`.
// The deadline is a field, and not an argument of the methods. If the deadline were an argument, each poll
// would take 5 more instructions.
pub(crate) struct Registration<D> {
    deadline: D,
    /// The registrar that made the entry. A registration for the default timer has no registrar before its
    /// first poll.
    registrar: Option<Arc<Registrar>>,
    key: Option<Key>,
}

impl<D: Copy + Into<Instant>> Registration<D> {
    /// Creates an idle registration.
    ///
    /// The registration uses the timer of `registrar`. If `registrar` is `None`, it uses the default timer of
    /// the runtime that polls it.
    #[inline]
    pub(crate) fn new(registrar: Option<Arc<Registrar>>, deadline: D) -> Self {
        Self {
            deadline,
            registrar,
            key: None,
        }
    }

    /// Creates an idle registration. If `self` was created for an explicit timer, the new registration uses
    /// this timer. Otherwise it uses the default timer.
    #[cfg(feature = "io")]
    pub(crate) fn of_this_timer(&self, deadline: D) -> Self {
        let registrar = self.registrar.clone();
        Self::new(registrar.filter(|bound| !bound.is_default()), deadline)
    }

    #[inline]
    pub(crate) fn deadline(&self) -> D {
        self.deadline
    }

    /// Returns whether the registration has fired or is finished. If so, the next poll is ready.
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

    /// Returns whether the future has returned ready and was not reset since then.
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
            // The registration keeps the key. The next poll finds no entry for the key and returns ready.
            Reset::Fired(waker) => waker::wake(waker),
        }
    }

    /// Sets a new deadline and deregisters the entry. The next poll then registers again.
    ///
    /// If the registration is pending, this call wakes the task.
    #[cfg(feature = "io")]
    pub(crate) fn fire(&mut self, deadline: D) {
        self.deadline = deadline;
        let entry = self.key.take().zip(self.registrar.as_ref());
        let waker = entry.and_then(|(key, registrar)| registrar.shard.deregister(key));
        if let Some(waker) = waker {
            waker::wake(waker);
        }
    }

    /// Returns whether the entry will wake the task of `waker`. Returns `None` if the registration is not
    /// pending.
    #[cfg(feature = "io")]
    pub(crate) fn wakes(&self, waker: &std::task::Waker) -> Option<bool> {
        let registrar = self.registrar.as_ref()?;
        registrar.shard.wakes(self.key?, waker)
    }

    /// Polls whether the deadline has passed. If the poll returns ready, the registration is finished.
    ///
    /// This poll does not use the task's budget.
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

    // Without inlining, the first poll of a sleep takes 14 more instructions.
    #[inline(always)]
    #[track_caller]
    fn register(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut registrar = match &self.registrar {
            Some(bound) if !bound.is_default() => bound,
            _ => self.registrar.insert(ambient::registrar()),
        };
        let mut registered = registrar.register(self.deadline.into(), cx.waker());
        // The timer that the thread remembers may have shut down. A timer may also shut down during this
        // loop.
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

    /// Polls a registration whose shard is closed. The poll registers with another timer if another timer may
    /// exist.
    #[cold]
    #[track_caller]
    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // This check comes before the look-up, because a look-up outside a runtime would panic.
        if Instant::now() >= self.deadline.into() {
            return Poll::Ready(());
        }
        match &self.registrar {
            // The future is registered in one runtime, and another runtime polls it now. This case occurs if
            // the user moves the future to another runtime. It also occurs if a worker runs another runtime
            // within `block_in_place`.
            Some(closed) if closed.is_default() && ambient::is_elsewhere(closed.shared.runtime) => {
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
    // When a runtime shuts down, its workers drop their tasks in parallel. A worker may still poll this task
    // after another worker has dropped the driver. The runtime then drops this task soon. A worker may also
    // block on a future within `block_in_place`. The runtime does not drop such a future. The future
    // therefore panics when the runtime has dropped its tasks.
    let shared = &registrar.shared;
    if ambient::is_shutting_down(shared.runtime) && shared.ending.poll_runtime_end(cx).is_pending()
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

/// Deregisters the entry of a dropped registration, and releases its registrar.
// This function is not inlined. Dropping a future that has no registrar therefore needs only one test.
#[inline(never)]
fn end(registrar: Arc<Registrar>, key: Option<Key>) {
    if let Some(key) = key.filter(|key| *key != Key::ABSENT) {
        drop(registrar.shard.deregister(key));
    }
    if registrar.is_default() {
        ambient::leave(registrar);
    }
}
