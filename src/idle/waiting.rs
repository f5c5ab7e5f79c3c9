//! What the reaper waits for, and how a handle wakes it.
//!
//! The reaper waits for the *armed* tick. [`Arming`] settles whether a touch must wake the reaper
//! for an earlier tick. The reaper's waker is behind a lock of its own. Two rules ensure that the
//! reaper misses no touch:
//!
//! 1. The reaper leaves its waker before it arms and before it reads the armed tick.
//! 2. A touch that lowers the armed tick takes the waker afterwards.
//!
//! A waker that is taken after it was left wakes the reaper. If it was taken before, the lock orders
//! the lowering before the reading, and the reaper sees the lower tick. The last handle sets a flag
//! under the same lock: the reaper sees the flag or is woken.
//!
//! No waker is cloned, woken or dropped under the lock (`tests/idle/foreign.rs`). A touch goes on
//! if the reaper's waker panics (`a_panicking_waker_harms_no_touch`).
//!
//! Models: `touch_races_wait`, `earlier_touch_races_wait`, `touch_races_a_new_waker` and
//! `last_handle_races_wait` in `idle/loom_tests.rs`.

use std::task::{Poll, Waker};

use crate::{
    driver::arming::Arming,
    ground::{sync::Mutex, waker},
    wheel::Tick,
};

/// On cache lines of its own: a touch reads the armed tick if it may have to wake the reaper.
#[repr(align(128))]
pub(super) struct Waiting {
    pub(super) arming: Arming,
    reaper: Mutex<Waiter>,
}

struct Waiter {
    /// Of the reaper's last poll, unless it was woken since.
    waker: Option<Waker>,
    /// Ready for good once there is no handle any more.
    abandoned: Poll<()>,
}

impl Waiting {
    pub(super) fn new() -> Self {
        Self {
            arming: Arming::new(),
            reaper: Mutex::new(Waiter {
                waker: None,
                abandoned: Poll::Pending,
            }),
        }
    }

    /// For the reaper: ready if there is no handle any more. Leaves its waker otherwise.
    pub(super) fn poll_abandoned(&self, waker: &Waker) -> Poll<()> {
        waker::poll_locked(
            &self.reaper,
            waker,
            |reaper| &mut reaper.waker,
            |reaper| reaper.abandoned,
        )
    }

    /// For a touch that has set this deadline and released its shard: wakes the reaper if it waits
    /// for a later tick.
    #[inline]
    pub(super) fn wake_for(&self, deadline: Tick) {
        if self.arming.lower_to(deadline) {
            self.wake();
        }
    }

    /// For the last handle.
    pub(super) fn abandon(&self) {
        self.reaper.lock().abandoned = Poll::Ready(());
        self.wake();
    }

    #[cold]
    fn wake(&self) {
        self.take_waker().into_iter().for_each(waker::wake);
    }

    pub(super) fn take_waker(&self) -> Option<Waker> {
        self.reaper.lock().waker.take()
    }
}
