//! The end of a timer: a shutdown, or the end of its runtime.
//!
//! In each case, one thread closes the shards one after the other, and wakes all wakers in them. A woken
//! future finds that its entry is no longer in the shard. Then the future calls [`Ending::get`] for the
//! reason.
//!
//! A waker may need to know whether its entry has expired or its timer is closing. While the waker runs, it
//! calls [`Ending::is_closing`]. The function returns `true` if the calling thread is closing the timer.

use std::{
    cell::{Cell, RefCell},
    future::Future,
    mem::{ManuallyDrop, replace, take},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use tokio::{task::coop::unconstrained, time::Sleep};

use crate::ground::{
    sync::{Mutex, OnceLock, thread_local},
    unwind,
};

/// The reason why a timer has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The timer was shut down. Its runtime may continue.
    Shutdown,
    /// The driver was dropped, because the runtime shuts down or because no handle and no future is left.
    DriverDropped,
    /// A panic has dropped the driver. Its runtime may continue.
    DriverPanicked,
}

type Acts = Vec<Box<dyn FnOnce()>>;

thread_local! {
    /// The timer that this thread is closing.
    static CLOSING: Cell<*const Ending> = const { Cell::new(std::ptr::null()) };

    /// The functions that this thread calls after it has closed the timer. Empty at other times.
    ///
    /// The value has no destructor, because a thread may close a timer while the thread ends.
    static DEFERRED: RefCell<ManuallyDrop<Acts>> =
        const { RefCell::new(ManuallyDrop::new(Acts::new())) };
}

/// Calls `act` later, when all shards are closed and all wakers are woken.
///
/// A waker calls this function while its timer [is closing](Ending::is_closing). `act` may wait for other
/// entries of the timer, because the timer has closed them by then.
pub(crate) fn after_closing(act: impl FnOnce() + 'static) {
    DEFERRED.with(|acts| acts.borrow_mut().push(Box::new(act)));
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

    /// Records the reason for the end. Returns `false` if the timer has ended already.
    pub(crate) fn set(&self, end: End) -> bool {
        self.end.set(end).is_ok()
    }

    /// Calls `close`, and then the functions that wakers have passed to [`after_closing`].
    ///
    /// `close` closes the shards of the timer, and wakes the wakers in them.
    pub(crate) fn while_closing(&self, close: impl FnOnce()) {
        let outer = CLOSING.with(|closing| closing.replace(self));
        let of_outer = DEFERRED.with(|acts| take(&mut **acts.borrow_mut()));
        close();
        CLOSING.with(|closing| closing.set(outer));
        let acts = DEFERRED.with(|acts| replace(&mut **acts.borrow_mut(), of_outer));
        acts.into_iter().for_each(|act| act());
    }

    /// Returns whether the calling thread is closing this timer.
    ///
    /// If the function returns `true` to a waker, the entry of the waker has not expired.
    pub(crate) fn is_closing(&self) -> bool {
        CLOSING.with(|closing| std::ptr::eq(closing.get(), self))
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
