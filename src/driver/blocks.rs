//! What a timer shares with the [watch](super::watch): the blocks that the watch has seen, and whether it rests.
//!
//! A watch that rests sleeps until the armed tick, or until a thread uses the timer:
//!
//! | the watch | a thread that registers an earlier entry |
//! |---|---|
//! | sets `rests` | lowers the armed tick |
//! | reads the armed tick | reads and clears `rests`, and unparks the watch if it was set |
//!
//! All four steps are read-modify-writes. So the watch reads the lowered tick, or the thread unparks it. Model:
//! `timer::loom_tests::rest_races_register`.
//!
//! Every reset and every drop of a registered future reads `rests` as well: a task that an event wakes usually drops or
//! resets a timeout before it does the work that may block. The thread writes only to unpark the watch, and may miss a
//! watch that begins to rest at this moment.

use std::{sync::OnceLock, thread::Thread};

use crate::ground::sync::{AtomicBool, AtomicU64, Ordering};

/// The blocks of a runtime's workers.
pub(crate) struct Blocks {
    /// The number of blocks that have lasted for a period of the watch.
    pub(crate) count: AtomicU64,
    /// The length of the longest block, in nanoseconds.
    pub(crate) longest: AtomicU64,
    /// The thread that watches the workers. Not set for a timer without a watch.
    pub(crate) watch: OnceLock<Thread>,
    rests: AtomicBool,
}

impl Blocks {
    pub(crate) fn new() -> Self {
        Self {
            count: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            watch: OnceLock::new(),
            rests: AtomicBool::new(false),
        }
    }

    /// Tells the watch that a thread uses the timer.
    #[inline]
    pub(crate) fn timer_is_used(&self) {
        if self.is_resting() {
            self.end_rest();
        }
    }

    #[cold]
    pub(super) fn end_rest(&self) {
        if let (true, Some(watch)) = (self.rests.swap(false, Ordering::AcqRel), self.watch.get()) {
            watch.unpark();
        }
    }

    pub(super) fn begin_rest(&self) {
        self.rests.swap(true, Ordering::AcqRel);
    }

    pub(crate) fn is_resting(&self) -> bool {
        self.rests.load(Ordering::Relaxed)
    }
}
