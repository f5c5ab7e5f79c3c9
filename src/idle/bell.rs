//! How a touch wakes the reaper.
//!
//! The reaper waits for the *armed* tick, and [`arming`](crate::driver::arming) settles whether a touch
//! has to wake it for an earlier one. The waker is behind a lock of its own. It must not be missed
//! by who has lowered the armed tick, and so there are two rules more:
//!
//! 1. The reaper leaves its waker before it arms the bell and before it reads the armed tick.
//! 2. Who lowers the armed tick takes the waker afterwards.
//!
//! If the waker is taken after it was left, the reaper is woken. If before, then that lock orders
//! the lowering before the reading, and the reaper sees it. The last handle, which sets a flag
//! under the lock, is seen or wakes in the same way.
//!
//! No waker is cloned, woken or dropped under the lock (`tests/idle/foreign.rs`). One that panics
//! when it is woken is the reaper's, so the touch that wakes it goes on
//! (`a_panicking_waker_harms_no_touch`).
//!
//! Models: `touch_races_wait`, `earlier_touch_races_wait`, `touch_races_a_new_waker` and
//! `last_handle_races_wait` in `idle/loom_tests.rs`.

use std::task::Waker;

use crate::{
    driver::arming::Arming,
    ground::{sync::Mutex, waker},
    wheel::Tick,
};

/// What a touch reads if it may have to wake the reaper, and what it needs to do so.
#[repr(align(128))]
pub(super) struct Bell {
    arming: Arming,
    waiting: Mutex<Waiting>,
}

struct Waiting {
    /// Of the reaper's last poll, unless it was woken since.
    waker: Option<Waker>,
    /// Set once: there is no handle any more.
    abandoned: bool,
}

impl Bell {
    pub(super) fn new() -> Self {
        Self {
            arming: Arming::new(),
            waiting: Mutex::new(Waiting {
                waker: None,
                abandoned: false,
            }),
        }
    }

    /// For the reaper: leaves a waker to be woken for what comes before the armed tick. Returns
    /// whether there is no handle any more, and so nobody to do it.
    pub(super) fn leave(&self, waker: &Waker) -> bool {
        {
            let waiting = self.waiting.lock();
            if (waiting.waker.as_ref()).is_some_and(|left| left.will_wake(waker)) {
                return waiting.abandoned;
            }
        }
        let mut waker = Some(waker.clone());
        let mut waiting = self.waiting.lock();
        std::mem::swap(&mut waiting.waker, &mut waker);
        let abandoned = waiting.abandoned;
        drop(waiting);
        drop(waker);
        abandoned
    }

    /// For the reaper, at its end: forgets its waker.
    pub(super) fn forget(&self) {
        let waker = self.waiting.lock().waker.take();
        drop(waker);
    }

    /// For the reaper: arms for the tick that `look` finds, or for an earlier one that a touch has
    /// set meanwhile.
    pub(super) fn arm(&self, look: impl FnOnce() -> Option<Tick>) {
        self.arming.arm(look);
    }

    /// The armed tick.
    pub(super) fn armed(&self) -> Tick {
        self.arming.tick()
    }

    /// For a touch that has set this deadline, and released its shard: wakes the reaper if it waits
    /// for a later one.
    #[inline]
    pub(super) fn ring_for(&self, deadline: Tick) {
        if self.arming.undercut(deadline) {
            self.ring();
        }
    }

    #[cold]
    fn ring(&self) {
        let waker = self.waiting.lock().waker.take();
        if let Some(waker) = waker {
            waker::wake(waker);
        }
    }

    /// For the last handle.
    pub(super) fn abandon(&self) {
        self.waiting.lock().abandoned = true;
        self.ring();
    }
}
