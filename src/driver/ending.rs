//! The end of a timer, whose driver is dropped.
//!
//! The thread that drops the driver closes the shards one after the other, and wakes all wakers in them. A woken
//! future finds that its entry is no longer in the shard. Then the future calls [`Ending::get`] for the
//! reason.

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

/// The reason why a timer has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The driver was dropped, because the runtime shuts down or because no handle and no future is left.
    DriverDropped,
    /// A panic has dropped the driver. Its runtime may continue.
    DriverPanicked,
}

/// The waker of a sleep of tokio that never elapses. The sleep and its waker keep each other alive.
///
/// tokio wakes all its sleeps in the last step of a runtime's end, when it shuts down its own timer. It then drops
/// the waker and with it the sleep, which keeps parts of the runtime alive.
struct Last {
    sleep: Mutex<Option<Pin<Box<Sleep>>>>,
    runtime_has_ended: Arc<OnceLock<()>>,
    waker: Waker,
}

impl Wake for Last {
    fn wake(self: Arc<Self>) {
        let _ = self.runtime_has_ended.set(());
        // A panic would end the thread that shuts down the runtime.
        unwind::contain(|| self.waker.wake_by_ref());
        unwind::discard(self);
    }
}

/// The end of one timer.
pub(crate) struct Ending {
    /// The reason for the end. The closing thread sets it once, before it closes the first shard.
    end: OnceLock<End>,
    /// Set in the last step of the runtime's end, if a future has [asked](Self::poll_runtime_end) before.
    runtime_has_ended: Arc<OnceLock<()>>,
}

impl Ending {
    pub(crate) fn new() -> Self {
        Self {
            end: OnceLock::new(),
            runtime_has_ended: Arc::new(OnceLock::new()),
        }
    }

    /// Returns the reason for the end, or `None` if the timer has not ended.
    pub(crate) fn get(&self) -> Option<End> {
        self.end.get().copied()
    }

    /// Records the reason for the end.
    pub(crate) fn set(&self, end: End) {
        // A timer has one driver, and so one end.
        let _ = self.end.set(end);
    }

    /// Returns ready when the current runtime is shutting down and has already dropped its tasks.
    #[cold]
    pub(crate) fn poll_runtime_end(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.runtime_has_ended.get().is_some() {
            return Poll::Ready(());
        }
        let last = Arc::new(Last {
            sleep: Mutex::new(None),
            runtime_has_ended: self.runtime_has_ended.clone(),
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
