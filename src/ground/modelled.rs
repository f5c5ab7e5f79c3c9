//! Replacements for types that loom cannot observe, and for which loom has no type of its own.

use std::{
    cell::Cell,
    future::Future,
    mem,
    pin::Pin,
    sync::atomic::Ordering,
    task::{Context, Poll, Waker},
};

pub(crate) use loom::sync::{
    Mutex as Inner, MutexGuard,
    atomic::{AtomicU64, AtomicUsize},
};

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
pub(crate) struct Notify(Inner<State>);

enum State {
    Silent,
    Waiting(Waker),
    Notified,
}

impl Notify {
    pub(crate) fn new() -> Self {
        Self(Inner::new(State::Silent))
    }

    pub(crate) fn notify_one(&self) {
        let before = mem::replace(&mut *self.0.lock().unwrap(), State::Notified);
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
        let mut state = self.0.0.lock().unwrap();
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
        let mut state = self.0.0.lock().unwrap();
        if matches!(*state, State::Waiting(_)) {
            *state = State::Silent;
        }
    }
}
