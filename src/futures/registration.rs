//! `Registration`: a deadline and its entry in a timer. Each `Sleep` holds one registration.
//!
//! # States
//!
//! ```text
//! +----------+        1        +---------+        2        +-------+
//! |   idle   | --------------> | pending | --------------> | fired |
//! +----------+                 +---------+                 +-------+
//!   |      ^                                                |     |
//!   |      |                       5                        |     | 4
//! 3 |      +------------------------------------------------+     |
//!   |      | 5                                                    |
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
//! 3. A poll after the deadline returns ready.
//! 4. A poll finds that the shard no longer has the entry, and returns ready.
//! 5. [`reset`](Registration::reset) sets a new deadline.
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
//! The caller completes transitions 3 and 4 with [`finish`](Registration::finish). A caller that has no
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
    sync::Arc,
    task::{Context, Poll},
};

use bounded_wheel::Key;
use tokio::{runtime, time::Instant};

use crate::{
    driver::{
        ending::End,
        entries::{EntryState, Refused},
        registrar::{Registrar, Reset},
    },
    ground::{thread::is_worker_of, waker},
    timer::default,
};

/// A deadline that may have an entry in a timer.
// The deadline is a field, and not an argument of the methods. If the deadline were an argument, each poll
// would take 5 more instructions.
pub(super) struct Registration {
    pub(super) deadline: Instant,
    /// The registrar that made the entry. A registration for the default timer has no registrar before its
    /// first poll.
    registrar: Option<Arc<Registrar>>,
    key: Option<Key>,
}

impl Registration {
    /// Creates an idle registration.
    ///
    /// The registration uses the timer of `registrar`. If `registrar` is `None`, it uses the default timer of
    /// the runtime that polls it.
    #[inline]
    pub(super) fn new(registrar: Option<Arc<Registrar>>, deadline: Instant) -> Self {
        Self {
            deadline,
            registrar,
            key: None,
        }
    }

    /// Returns whether the registration has fired or is finished. If so, the next poll is ready.
    pub(super) fn is_elapsed(&self) -> bool {
        match (self.key, &self.registrar) {
            (None, _) => false,
            (Some(Key::ABSENT), _) | (_, None) => true,
            (Some(key), Some(registrar)) => match registrar.shard.look_up(key) {
                EntryState::Pending => false,
                EntryState::Fired => true,
                EntryState::Closed => Instant::now() >= self.deadline,
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
    pub(super) fn reset(&mut self, deadline: Instant) {
        self.deadline = deadline;
        let reset = match (self.key, &self.registrar) {
            (Some(key), Some(registrar)) if key != Key::ABSENT => registrar.reset(key, deadline),
            _ => Reset::Absent,
        };
        match reset {
            Reset::Pending => {}
            Reset::Absent => self.key = None,
            // The registration keeps the key. The next poll finds no entry for the key and returns ready.
            Reset::Fired(waker) => waker::wake(waker),
        }
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
                EntryState::Pending => Poll::Pending,
                EntryState::Fired => Poll::Ready(()),
                EntryState::Closed => self.poll_closed(cx),
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
        let registrar = match &self.registrar {
            Some(bound) if !bound.is_default => match bound.nearer() {
                Some(nearer) => self.registrar.insert(nearer),
                None => bound,
            },
            _ => {
                // A future that registers again has a reference that it can use again.
                if let Some(last) = self.registrar.take() {
                    default::leave(last, None);
                }
                self.registrar.insert(default::registrar())
            }
        };
        match registrar.register(self.deadline, cx.waker()) {
            Ok(key) => {
                self.key = Some(key);
                Poll::Pending
            }
            Err(Refused::Due) => Poll::Ready(()),
            Err(Refused::Closed) => self.poll_refused(cx),
        }
    }

    /// Polls a registration that a timer has refused, because the timer has ended. The thread may remember a
    /// default timer that has ended. So the poll looks the default timer up, and registers there.
    #[cold]
    #[track_caller]
    fn poll_refused(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !(self.registrar.as_ref()).is_some_and(|ended| ended.is_default) {
            return self.poll_orphaned(cx);
        }
        let next = self.registrar.insert(default::look_up_registrar());
        match next.register(self.deadline, cx.waker()) {
            Ok(key) => {
                self.key = Some(key);
                Poll::Pending
            }
            Err(Refused::Due) => Poll::Ready(()),
            Err(Refused::Closed) => self.poll_orphaned(cx),
        }
    }

    /// Polls a registration whose shard has closed. A future of the default timer registers with the default
    /// timer of the current runtime: another runtime may poll the future now, or the driver has panicked.
    #[cold]
    #[track_caller]
    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &self.registrar {
            Some(closed)
                if closed.is_default
                    && runtime::Handle::try_current().is_ok()
                    && Instant::now() < self.deadline =>
            {
                // The key belongs to the ended timer. The next timer may have an entry with an equal key. Test:
                // `a_future_that_has_not_moved_to_the_next_timer_does_not_touch_its_entries`.
                self.key = None;
                self.register(cx)
            }
            _ => self.poll_orphaned(cx),
        }
    }

    /// Polls a registration whose timer has ended and has no replacement.
    #[cold]
    #[track_caller]
    fn poll_orphaned(&self, cx: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.deadline {
            return Poll::Ready(());
        }
        // When a runtime shuts down, its workers drop their tasks in parallel. A worker may still poll this
        // task after another worker has dropped the driver. The runtime then drops this task soon. A worker may
        // also block on a future within `block_in_place`. The runtime does not drop such a future. The future
        // therefore panics when the runtime has dropped its tasks.
        let ended = self
            .registrar
            .as_ref()
            .filter(|ended| is_shutting_down(ended));
        if ended.is_some_and(|ended| ended.shared.ending.poll_runtime_end(cx).is_pending()) {
            return Poll::Pending;
        }
        // The end of a runtime is told in tokio's words too, which a program's tests may expect.
        let tokios = match &self.registrar {
            Some(ended) if ended.shared.ending.get() == Some(End::DriverDropped) => {
                " (A Tokio 1.x context was found, but it is being shutdown.)"
            }
            _ => "",
        };
        panic!(
            "a future was polled before its deadline and after its timer has shut down: keep the runtime \
             while the future is in use, and poll it only within tasks of that runtime{tokios}"
        );
    }
}

/// Returns whether the calling thread is a worker of the registrar's runtime, and this runtime is shutting down.
fn is_shutting_down(registrar: &Registrar) -> bool {
    let shared = &registrar.shared;
    shared.ending.get() == Some(End::DriverDropped) && is_worker_of(shared.runtime)
}

impl Drop for Registration {
    #[inline]
    fn drop(&mut self) {
        if let Some(registrar) = self.registrar.take() {
            end(registrar, self.key);
        }
    }
}

/// Leaves or deregisters the entry of a dropped registration, and releases its registrar.
// This function is not inlined. Dropping a future that has no registrar therefore needs only one test.
#[inline(never)]
fn end(registrar: Arc<Registrar>, key: Option<Key>) {
    let key = key.filter(|key| *key != Key::ABSENT);
    if registrar.is_default {
        default::leave(registrar, key);
    } else if let Some(key) = key {
        drop(registrar.shard.deregister(key));
    }
}
