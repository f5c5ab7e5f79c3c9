//! Wakes tasks. Wakers are user code, and may panic.

use std::{
    mem,
    task::{Context, Poll, Waker},
};

use crate::ground::{sync::Mutex, trace, unwind};

/// Wakes a task, and catches the panic of its waker.
pub(crate) fn wake(waker: Waker) {
    if let Err(payload) = unwind::catch(|| waker.wake()) {
        trace::waker_panicked(&*payload);
        unwind::discard(payload);
    }
}

/// A notification for one task, which a panic of the task's waker does not lose.
///
/// tokio's `Notify` forgets the waker before it wakes it. With `tokio_unstable` and tokio's feature `tracing`, tokio emits
/// an event before a wake, and a subscriber may panic.
pub(crate) struct Notify(Mutex<State>);

#[derive(Default)]
struct State {
    is_notified: bool,
    /// The waker of the task, if it waits.
    waker: Option<Waker>,
}

impl Notify {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State::default()))
    }

    /// Ends the wait of the task, or the next wait if the task does not wait.
    pub(crate) fn notify_one(&self) {
        let mut state = self.0.lock();
        state.is_notified = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            let is_woken = unwind::contain(|| waker.wake_by_ref());
            if !is_woken {
                unwind::contain(|| waker.wake_by_ref());
            }
            unwind::discard(waker);
        }
    }

    /// Returns ready after a notification. Otherwise, the next notification wakes the task.
    pub(crate) fn poll_notified(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut waker = Some(cx.waker().clone());
        let mut state = self.0.lock();
        if mem::take(&mut state.is_notified) {
            return Poll::Ready(());
        }
        mem::swap(&mut state.waker, &mut waker);
        drop(state);
        drop(waker);
        Poll::Pending
    }

    /// Drops the waker of a task that has ended, because the waker keeps the memory of the task.
    pub(crate) fn forget(&self) {
        let waker = self.0.lock().waker.take();
        drop(waker);
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

    #[test]
    fn a_waker_that_panics_when_it_is_woken_is_caught() {
        struct Panicking;
        impl Wake for Panicking {
            fn wake(self: Arc<Self>) {
                resume_unwind(Box::new("a waker"));
            }
        }
        wake(Arc::new(Panicking).into());
    }
}
