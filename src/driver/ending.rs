//! The end of a timer, whose driver is dropped.
//!
//! The thread that drops the driver closes the shards one after the other, and wakes all wakers in them. A woken
//! future finds that its entry is no longer in the shard, and that the shard is closed.

use std::{
    future::Future,
    mem,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use tokio::{task::coop::unconstrained, time::Sleep};

use crate::ground::{
    sync::{AtomicBool, Mutex, Ordering},
    unwind, wake,
};

/// The end of one timer, and the waker of a sleep of tokio that never elapses. The sleep and its waker keep each other
/// alive.
///
/// tokio wakes all its sleeps in the last step of a runtime's end, when it shuts down its own timer. It then drops
/// the waker and with it the sleep, which keeps parts of the runtime alive.
pub(crate) struct Ending {
    /// Set by the thread that closes the timer, before it closes the first shard.
    has_begun: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// Whether no future needs to wait for the end of the runtime:
    ///
    /// * when a panic has dropped the driver
    /// * in the last step of the runtime's end, if a future has [asked](Ending::poll_runtime_end) before
    is_over: bool,
    sleep: Option<Pin<Box<Sleep>>>,
    /// One waker of each task that waits, however often the task polls.
    wakers: Vec<Waker>,
}

impl Wake for Ending {
    fn wake(self: Arc<Self>) {
        let over = Waiting {
            is_over: true,
            ..Waiting::default()
        };
        let Waiting { sleep, wakers, .. } = mem::replace(&mut *self.waiting.lock(), over);
        // A panic would end the thread that shuts down the runtime.
        wakers.into_iter().for_each(wake::wake);
        unwind::discard(sleep);
    }
}

impl Ending {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            has_begun: AtomicBool::new(false),
            waiting: Mutex::new(Waiting::default()),
        })
    }

    /// Returns whether the timer has ended.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// Records the end. After a panic of the driver, its runtime may continue.
    pub(crate) fn begin(self: &Arc<Self>, has_panicked: bool) {
        if has_panicked {
            self.clone().wake();
        }
        self.has_begun.store(true, Ordering::Release);
    }

    /// Returns whether a future waits for the end of the runtime, which is shutting down.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.waiting.lock().wakers.is_empty()
    }

    /// Returns ready when the current runtime is shutting down and has already dropped its tasks.
    #[cold]
    pub(crate) fn poll_runtime_end(self: &Arc<Self>, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let mut waiting = self.waiting.lock();
        if waiting.is_over {
            return Poll::Ready(());
        }
        let is_first = waiting.wakers.is_empty();
        if !waiting.wakers.iter().any(|it| it.will_wake(&waker)) {
            waiting.wakers.push(waker);
        }
        drop(waiting);
        if is_first {
            let last = self.clone().into();
            let mut cx = Context::from_waker(&last);
            let mut sleep = Box::pin(tokio::time::sleep(Duration::MAX));
            let polled = unwind::catch(|| pin!(unconstrained(sleep.as_mut())).poll(&mut cx));
            if !matches!(polled, Ok(Poll::Pending)) {
                last.wake();
                return Poll::Ready(());
            }
            let mut waiting = self.waiting.lock();
            if !waiting.is_over {
                waiting.sleep = Some(sleep);
            }
        }
        Poll::Pending
    }
}
