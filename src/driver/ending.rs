//! The end of a timer, whose driver is dropped.
//!
//! The thread that drops the driver closes the shards one after the other, and wakes all wakers in them. A woken
//! future finds that its entry is no longer in the shard, and that the shard is closed.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use tokio::{task::coop::unconstrained, time::Sleep};

use crate::ground::{
    sync::{Mutex, OnceLock},
    unwind,
};

/// The waker of a sleep of tokio that never elapses. The sleep and its waker keep each other alive.
///
/// tokio wakes all its sleeps in the last step of a runtime's end, when it shuts down its own timer. It then drops
/// the waker and with it the sleep, which keeps parts of the runtime alive.
struct Last {
    sleep: Mutex<Option<Pin<Box<Sleep>>>>,
    is_over: Arc<OnceLock<()>>,
    waker: Waker,
}

impl Wake for Last {
    fn wake(self: Arc<Self>) {
        let _ = self.is_over.set(());
        // A panic would end the thread that shuts down the runtime.
        unwind::contain(|| self.waker.wake_by_ref());
        unwind::discard(self);
    }
}

/// The end of one timer.
pub(crate) struct Ending {
    /// Set by the thread that closes the timer, before it closes the first shard.
    has_begun: OnceLock<()>,
    /// Set if no future needs to wait for the end of the runtime:
    ///
    /// * when a panic has dropped the driver
    /// * in the last step of the runtime's end, if a future has [asked](Self::poll_runtime_end) before
    is_over: Arc<OnceLock<()>>,
}

impl Ending {
    pub(crate) fn new() -> Self {
        Self {
            has_begun: OnceLock::new(),
            is_over: Arc::new(OnceLock::new()),
        }
    }

    /// Returns whether the timer has ended.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.get().is_some()
    }

    /// Records the end. After a panic of the driver, its runtime may continue.
    pub(crate) fn begin(&self, has_panicked: bool) {
        if has_panicked {
            let _ = self.is_over.set(());
        }
        // A timer has one driver, and so one end.
        let _ = self.has_begun.set(());
    }

    /// Returns ready when the current runtime is shutting down and has already dropped its tasks.
    #[cold]
    pub(crate) fn poll_runtime_end(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_over.get().is_some() {
            return Poll::Ready(());
        }
        let last = Arc::new(Last {
            sleep: Mutex::new(None),
            is_over: self.is_over.clone(),
            waker: cx.waker().clone(),
        });
        let waker = last.clone().into();
        let mut cx = Context::from_waker(&waker);
        let mut sleep = Box::pin(tokio::time::sleep(Duration::MAX));
        let polled = unwind::catch(|| pin!(unconstrained(sleep.as_mut())).poll(&mut cx));
        if !matches!(polled, Ok(Poll::Pending)) {
            return Poll::Ready(());
        }
        *last.sleep.lock() = Some(sleep);
        Poll::Pending
    }
}
