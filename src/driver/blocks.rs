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
//! Every registration, reset and cancellation reads `rests` as well, because a task that uses the timer may block next. It
//! writes only to unpark the watch, and may miss a watch that begins to rest at this moment.

use std::{sync::OnceLock, task::Waker, time::Duration};

use crate::ground::sync::{AtomicBool, AtomicU64, Ordering};

/// The blocks of a runtime's workers.
pub(crate) struct Blocks {
    rests: AtomicBool,
    /// Unparks the watch. Not set for a timer without a watch.
    watch: OnceLock<Waker>,
    /// The number of times that the watch has woken a worker.
    count: AtomicU64,
    /// The length of the longest block, in nanoseconds.
    longest: AtomicU64,
}

impl Blocks {
    pub(crate) fn new() -> Self {
        Self {
            rests: AtomicBool::new(false),
            watch: OnceLock::new(),
            count: AtomicU64::new(0),
            longest: AtomicU64::new(0),
        }
    }

    /// Tells the watch that a thread uses the timer.
    #[inline]
    pub(crate) fn timer_is_used(&self) {
        if self.rests.load(Ordering::Relaxed) {
            self.end_rest();
        }
    }

    #[cold]
    pub(super) fn end_rest(&self) {
        if let (true, Some(watch)) = (self.rests.swap(false, Ordering::AcqRel), self.watch.get()) {
            watch.wake_by_ref();
        }
    }

    pub(super) fn begin_rest(&self) {
        self.rests.swap(true, Ordering::AcqRel);
    }

    pub(super) fn is_resting(&self) -> bool {
        self.rests.load(Ordering::Relaxed)
    }

    /// Records who watches the workers.
    pub(crate) fn set_watch(&self, watch: Waker) {
        let _ = self.watch.set(watch);
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watch.get().is_some()
    }

    pub(super) fn add(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn extend_longest(&self, length: Duration) {
        let nanos = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        self.longest.fetch_max(nanos, Ordering::Relaxed);
    }

    pub(crate) fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest.load(Ordering::Relaxed))
    }
}
