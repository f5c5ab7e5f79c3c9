//! How a timer ends: by a shutdown, or with its runtime.
//!
//! Either way the shards are closed, one after the other, and each waker in them is woken. Its future learns from its
//! shard that there is no entry any more, and from here why.
//!
//! A waker may need to know that its timer is closing, and that its entry has not expired. It asks
//! [`Ending::is_closing`], which holds on the thread that closes the timer, while it wakes.

use std::{
    cell::{Cell, RefCell},
    future::Future,
    mem::{self, ManuallyDrop, replace, take},
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use tokio::{task::coop::unconstrained, time::Sleep};

use crate::ground::{
    sync::{Mutex, OnceLock, thread_local},
    unwind,
};

/// How a timer came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It was shut down. Its runtime goes on, as far as that is known.
    Shutdown,
    /// Its driver was dropped, with the runtime or because no handle and no future is left.
    Runtime,
}

type Acts = Vec<Box<dyn FnOnce()>>;

thread_local! {
    /// The timer that the thread is closing.
    static CLOSING: Cell<*const Ending> = const { Cell::new(std::ptr::null()) };

    /// The calls to make once that timer is closed. Empty at other times. Without a destructor, since a
    /// timer may be closed while its thread ends.
    static DEFERRED: RefCell<ManuallyDrop<Acts>> =
        const { RefCell::new(ManuallyDrop::new(Acts::new())) };
}

/// For a waker that is woken because a timer [is closing](Ending::is_closing): has `act` called when all
/// shards are closed and everybody is woken, as it may wait for one of them.
pub(crate) fn after_closing(act: impl FnOnce() + 'static) {
    DEFERRED.with(|acts| acts.borrow_mut().push(Box::new(act)));
}

/// The end of one timer.
pub(crate) struct Ending {
    /// Set before the first shard is closed.
    end: OnceLock<End>,
    /// Sleeps that elapse when tokio's own timer shuts down, which is the last that a runtime does.
    last: Mutex<Vec<Pin<Box<Sleep>>>>,
}

impl Ending {
    pub(crate) fn new() -> Self {
        Self {
            end: OnceLock::new(),
            last: Mutex::new(Vec::new()),
        }
    }

    /// How the timer has ended, if it has.
    pub(crate) fn get(&self) -> Option<End> {
        self.end.get().copied()
    }

    /// Ends the timer, and says whether it had not ended before.
    pub(crate) fn set(&self, end: End) -> bool {
        self.end.set(end).is_ok()
    }

    /// Calls `close`, which closes the shards of the timer and wakes who waits there, and then what
    /// these wakers have left [for afterwards](after_closing).
    pub(crate) fn while_closing(&self, close: impl FnOnce()) {
        let outer = CLOSING.with(|closing| closing.replace(self));
        let of_outer = DEFERRED.with(|acts| take(&mut **acts.borrow_mut()));
        close();
        CLOSING.with(|closing| closing.set(outer));
        let acts = DEFERRED.with(|acts| replace(&mut **acts.borrow_mut(), of_outer));
        acts.into_iter().for_each(|act| act());
    }

    /// For a waker: whether it is woken because the calling thread closes the timer, and not because
    /// it is due.
    pub(crate) fn is_closing(&self) -> bool {
        CLOSING.with(|closing| std::ptr::eq(closing.get(), self))
    }

    /// Ready when the runtime, which is shutting down and is the current one, has dropped its tasks.
    #[cold]
    pub(crate) fn poll_runtime_end(&self, cx: &mut Context<'_>) -> Poll<()> {
        let ended = {
            let mut last = self.last.lock();
            let has_ended = last.iter().any(|sleep| sleep.is_elapsed());
            has_ended.then(|| mem::take(&mut *last))
        };
        if let Some(sleeps) = ended {
            // They hold what is left of the runtime.
            drop(sleeps);
            return Poll::Ready(());
        }
        let mut sleep = Box::pin(tokio::time::sleep(Duration::MAX));
        let polled = unwind::catch(|| pin!(unconstrained(sleep.as_mut())).poll(cx));
        if !matches!(polled, Ok(Poll::Pending)) {
            return Poll::Ready(());
        }
        self.last.lock().push(sleep);
        Poll::Pending
    }
}
