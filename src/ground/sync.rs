//! The locks and atomics that threads share. In a loom model, loom's types replace them.
//!
//! The option `--cfg tokio_wheel_loom` selects loom's types. All state that a model must explore uses this
//! module:
//!
//! * the locks of shards, of the place where the driver parks, and of scheduled entries
//! * the locks of the idle set's shards, and the lock of the waker of the set's reaper
//! * the armed tick, and the counts of entries and registrars
//! * the notifier of the driver, and the reason why a timer has ended
//! * the registry of default timers, and the registrar that a thread remembers
//! * a clock that a test sets
//!
//! Loom tries different orders only for accesses to its own types. If threads shared state outside this
//! module, loom would not try all orders of the accesses. Then a model could pass although an order fails.

#[cfg(not(tokio_wheel_loom))]
pub(crate) use std::{
    sync::{
        MutexGuard, OnceLock,
        atomic::{AtomicU64, AtomicUsize},
    },
    thread_local,
};
#[cfg(not(tokio_wheel_loom))]
pub(crate) use tokio::{runtime::worker_index, sync::Notify};

#[cfg(tokio_wheel_loom)]
pub(crate) use loom::sync::{
    MutexGuard,
    atomic::{AtomicU64, AtomicUsize},
};
#[cfg(all(test, tokio_wheel_loom))]
pub(crate) use modelled::be_no_worker;
#[cfg(tokio_wheel_loom)]
pub(crate) use modelled::{Notify, OnceLock, thread_local, worker_index};

pub(crate) use std::sync::atomic::Ordering;

use std::sync::{PoisonError, TryLockError};

#[cfg(not(tokio_wheel_loom))]
use std::sync::Mutex as Inner;

#[cfg(tokio_wheel_loom)]
use loom::sync::Mutex as Inner;

/// A mutex that does not poison.
///
/// User code runs under only one kind of lock: the lock of an idle set's shard. To compare keys, the shard
/// calls the user's `Eq` and `Borrow`. The crate changes nothing before such a call. So a panic of the call
/// leaves the state intact, and other users can continue to use the set. Any other panic under a lock is a
/// defect of this crate. If such a panic poisoned the lock, the defect would also harm all later entries.
pub(crate) struct Mutex<T>(Inner<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Inner::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock, or returns `None` if it is already held.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Replacements for types that loom cannot observe, and for which loom has no type of its own.
#[cfg(tokio_wheel_loom)]
mod modelled {
    use std::{
        cell::Cell,
        future::Future,
        mem,
        pin::Pin,
        task::{Context, Poll, Waker},
    };

    use super::{AtomicUsize, Mutex, Ordering};

    /// Declares a thread-local with the syntax of the standard macro. Loom's own macro does not accept
    /// `const`.
    macro_rules! modelled_thread_local {
        ($($(#[$attr:meta])* static $name:ident: $type:ty = const $init:block;)*) => {
            $(loom::thread_local! { $(#[$attr])* static $name: $type = $init; })*
        };
    }
    pub(crate) use modelled_thread_local as thread_local;

    thread_local! {
        static IS_WORKER: Cell<bool> = const { Cell::new(true) };
    }

    /// Returns an index, or `None` if [`be_no_worker`] was called on this thread.
    pub(crate) fn worker_index() -> Option<usize> {
        IS_WORKER.with(Cell::get).then_some(0)
    }

    #[cfg(test)]
    pub(crate) fn be_no_worker() {
        IS_WORKER.with(|is_worker| is_worker.set(false));
    }

    /// A value that can be set once.
    pub(crate) struct OnceLock<T> {
        value: std::sync::OnceLock<T>,
        is_set: AtomicUsize,
    }

    impl<T> OnceLock<T> {
        pub(crate) fn new() -> Self {
            Self {
                value: std::sync::OnceLock::new(),
                is_set: AtomicUsize::new(0),
            }
        }

        pub(crate) fn get(&self) -> Option<&T> {
            match self.is_set.load(Ordering::Acquire) {
                0 => None,
                _ => self.value.get(),
            }
        }

        pub(crate) fn set(&self, value: T) -> Result<(), T> {
            self.is_set.fetch_add(1, Ordering::AcqRel);
            self.value.set(value)
        }
    }

    /// A `Notify` on which at most one task waits.
    pub(crate) struct Notify(Mutex<State>);

    enum State {
        Silent,
        Waiting(Waker),
        Notified,
    }

    impl Notify {
        pub(crate) fn new() -> Self {
            Self(Mutex::new(State::Silent))
        }

        pub(crate) fn notify_one(&self) {
            let before = mem::replace(&mut *self.0.lock(), State::Notified);
            if let State::Waiting(waker) = before {
                waker.wake();
            }
        }

        pub(crate) fn notified(&self) -> Notified<'_> {
            Notified(self)
        }
    }

    pub(crate) struct Notified<'a>(&'a Notify);

    impl Future for Notified<'_> {
        type Output = ();

        fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            let mut state = self.0.0.lock();
            match &*state {
                State::Notified => {
                    *state = State::Silent;
                    Poll::Ready(())
                }
                State::Silent | State::Waiting(_) => {
                    *state = State::Waiting(cx.waker().clone());
                    Poll::Pending
                }
            }
        }
    }

    impl Drop for Notified<'_> {
        fn drop(&mut self) {
            let mut state = self.0.0.lock();
            if matches!(*state, State::Waiting(_)) {
                *state = State::Silent;
            }
        }
    }
}
