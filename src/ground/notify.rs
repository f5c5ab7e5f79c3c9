//! A notification for one task, which a panic of the task's waker does not lose.
//!
//! tokio's `Notify` forgets the waker before it wakes it. With `tokio_unstable` and tokio's feature `tracing`, tokio emits
//! an event before a wake, and a subscriber may panic.

use std::{
    mem,
    task::{Context, Poll, Waker},
};

use crate::ground::{sync::Mutex, unwind};

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

    /// Ends the wait of the task, or the next wait if the task does not wait.
    pub(crate) fn notify_one(&self) {
        let before = mem::replace(&mut *self.0.lock(), State::Notified);
        if let State::Waiting(waker) = before {
            if !unwind::is_ok(unwind::catch(|| waker.wake_by_ref())) {
                unwind::contain(|| waker.wake_by_ref());
            }
            unwind::discard(waker);
        }
    }

    /// Returns ready after a notification. Otherwise, the next notification wakes the task.
    pub(crate) fn poll_notified(&self, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let mut state = self.0.lock();
        let next = match *state {
            State::Notified => State::Silent,
            State::Silent | State::Waiting(_) => State::Waiting(waker),
        };
        let before = mem::replace(&mut *state, next);
        drop(state);
        match before {
            State::Notified => Poll::Ready(()),
            State::Silent | State::Waiting(_) => Poll::Pending,
        }
    }

    /// Drops the waker of a task that has ended, because the waker keeps the memory of the task.
    pub(crate) fn forget(&self) {
        let before = mem::replace(&mut *self.0.lock(), State::Silent);
        drop(before);
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use std::{panic::resume_unwind, sync::Arc, task::Wake};

    use tokio_test::{assert_pending, assert_ready, task};

    use super::*;

    #[test]
    fn a_notification_ends_one_wait() {
        let notify = Notify::new();
        notify.notify_one();
        notify.notify_one();
        let mut task = task::spawn(());
        assert_ready!(task.enter(|cx, _| notify.poll_notified(cx)));
        assert_pending!(task.enter(|cx, _| notify.poll_notified(cx)));
        notify.notify_one();
        assert!(task.is_woken());
        assert_ready!(task.enter(|cx, _| notify.poll_notified(cx)));
        assert_pending!(task.enter(|cx, _| notify.poll_notified(cx)));
    }

    /// A waker whose first wake panics.
    #[test]
    fn a_wake_that_panics_is_repeated() {
        struct Panics(Mutex<u32>);
        impl Wake for Panics {
            fn wake(self: Arc<Self>) {
                let mut wakes = self.0.lock();
                *wakes += 1;
                if *wakes == 1 {
                    drop(wakes);
                    resume_unwind(Box::new("a subscriber"));
                }
            }
        }
        let notify = Notify::new();
        let wakes = Arc::new(Panics(Mutex::new(0)));
        let waker = wakes.clone().into();
        let mut cx = Context::from_waker(&waker);
        assert!(notify.poll_notified(&mut cx).is_pending());
        notify.notify_one();
        assert_eq!(*wakes.0.lock(), 2);
        assert!(notify.poll_notified(&mut cx).is_ready());
    }
}
