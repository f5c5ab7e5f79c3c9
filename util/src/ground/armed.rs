//! The tick for which the task of a service waits, and how another thread wakes this task.
//!
//! The task *arms*: it stores its waker, and publishes the tick for which it waits. A thread that makes work for an earlier
//! tick lowers the armed tick, and wakes the task. The task misses no work:
//!
//! 1. A thread first makes its work visible. Then it reads the armed tick. If its work is earlier, it lowers the armed
//!    tick and takes the waker, under one hold of the lock.
//! 2. The task first sets the armed tick to [`NEVER`]. Then it looks at all work. Then it stores its waker and lowers the
//!    armed tick to the earliest work, under one hold of the lock.
//!
//! The rules suffice in each case:
//!
//! * If the thread reads the armed tick before the task sets it to `NEVER`, the task sees the work.
//! * If the thread lowers the armed tick before the task stores its waker, the task finds the lower tick.
//! * If the thread lowers it after that, the thread finds the waker, and wakes the task.
//!
//! Models: `touch_races_wait` and `last_handle_races_wait` of the idle set.

use std::task::Waker;

use bounded_wheel::{NEVER, Tick};

use super::{
    sync::{AtomicU64, Mutex, Ordering, lock},
    unwind, waker,
};

/// The armed tick and the waker, on cache lines of their own: every thread reads the fields around them.
#[repr(align(128))]
pub(crate) struct Armed {
    /// Threads write the tick under the lock of the waker, and read it without the lock.
    tick: AtomicU64,
    /// The waker of the task, unless a thread has taken it.
    waker: Mutex<Option<Waker>>,
}

impl Armed {
    /// Creates a value for a task that has not waited yet. No thread wakes this task.
    pub(crate) fn new() -> Self {
        Self {
            tick: AtomicU64::new(0),
            waker: Mutex::new(None),
        }
    }

    /// Returns whether the task may wait for a later tick. If so, the caller must [wake](Self::wake_for) it.
    ///
    /// This method takes no lock. So the caller must have made its work visible under a lock that the task takes when it
    /// looks. Other callers call `wake_for` at once.
    #[inline]
    pub(crate) fn is_later_than(&self, tick: Tick) -> bool {
        tick < self.tick.load(Ordering::Relaxed)
    }

    /// Records that the task works or has ended, so that no thread wakes it. Drops the waker, which keeps parts of the
    /// runtime alive.
    pub(crate) fn disarm(&self) {
        unwind::discard(self.take_waker(0));
    }

    /// Arms for the tick that `look` returns, or for an earlier tick of another thread. Returns the armed tick.
    ///
    /// Only one task arms.
    pub(crate) fn arm(&self, waker: &Waker, look: impl FnOnce() -> Tick) -> Tick {
        let waker = waker.clone();
        unwind::discard(self.take_waker(NEVER));
        let next = look();
        let mut kept = lock(&self.waker);
        let next = next.min(self.tick.load(Ordering::Relaxed));
        self.tick.store(next, Ordering::Relaxed);
        // No waker is dropped here, because this call has taken the old one.
        *kept = Some(waker);
        next
    }

    /// Sets the armed tick, and takes the waker.
    fn take_waker(&self, tick: Tick) -> Option<Waker> {
        let mut kept = lock(&self.waker);
        self.tick.store(tick, Ordering::Relaxed);
        kept.take()
    }

    /// Lowers the armed tick to `tick`. If it was later, wakes the task.
    #[cold]
    pub(crate) fn wake_for(&self, tick: Tick) {
        let mut kept = lock(&self.waker);
        if self.is_later_than(tick) {
            self.tick.store(tick, Ordering::Relaxed);
            let woken = kept.take();
            drop(kept);
            woken.into_iter().for_each(waker::wake);
        }
    }
}
