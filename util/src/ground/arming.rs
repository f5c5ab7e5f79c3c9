//! The armed tick: how a touch knows whether the reaper must wake earlier.
//!
//! Each shard publishes a tick. No entry of the shard has a deadline before the published tick (see
//! [`locked`](super::locked)). Before it waits, the reaper reads the published ticks of all shards without a lock, and
//! sets its alarm for the earliest published tick. A touch with an earlier deadline must make the reaper wake earlier. A
//! touch with a later deadline and a removal must leave the reaper alone.
//!
//! # Rules
//!
//! 1. The reaper *disarms* before it reads the first published tick: it sets the armed tick to [`NEVER`]. The reaper
//!    *arms* after it has read the last published tick: it lowers the armed tick to the earliest published tick.
//! 2. A touch compares its deadline with the published tick of its shard, under the lock of the shard. If the deadline
//!    is not earlier, the touch does nothing more.
//! 3. If the deadline is earlier, the touch publishes an earlier tick. Then the touch releases the lock, and *lowers* the
//!    armed tick to the tick that it published. If this changes the armed tick, the touch wakes the reaper.
//! 4. Only the reaper raises the armed tick and the published ticks.
//!
//! If a touch lowers the armed tick before the reaper disarms, the reaper reads the published tick of the touch. If it
//! lowers the armed tick later, the reaper cannot replace the lower tick, because arming takes the minimum atomically.
//! Models: `idle::loom_tests::touch_races_wait`, `idle::loom_tests::insertion_behind_a_shed_races_wait`.
//!
//! All threads share the cache line of the armed tick. A touch that publishes no tick does not read the armed tick, and
//! so does not need this cache line.

use bounded_wheel::{NEVER, Tick};

use super::sync::{AtomicU64, Ordering};

/// The earliest tick at which the reaper will look at the shards again.
///
/// The tick has cache lines of its own. So a touch that lowers the tick takes no other data from the caches of other
/// threads.
#[repr(align(128))]
pub(crate) struct Arming {
    /// The armed tick. The reaper raises it, and touches lower it. They all write without a lock.
    tick: AtomicU64,
}

impl Arming {
    /// Creates a disarmed tick, so that the first touch wakes the reaper.
    pub(crate) fn new() -> Self {
        Self {
            tick: AtomicU64::new(NEVER),
        }
    }

    /// Returns the armed tick.
    pub(crate) fn tick(&self) -> Tick {
        self.tick.load(Ordering::Relaxed)
    }

    /// Disarms, calls `look`, and arms for the tick that `look` returns.
    ///
    /// Only the reaper calls this method. A touch may have armed an earlier tick in the meantime. That tick stays armed.
    pub(crate) fn arm(&self, look: impl FnOnce() -> Tick) {
        self.tick.swap(NEVER, Ordering::AcqRel);
        self.tick.fetch_min(look(), Ordering::Relaxed);
    }

    /// Lowers the armed tick to `next`. The calling touch has published `next` before the call.
    ///
    /// Returns `true` if the armed tick was later than `next`. Then the caller must wake the reaper. If several threads
    /// lower the armed tick to the same tick, only one of them gets `true`.
    #[cold]
    pub(crate) fn lower_to(&self, next: Tick) -> bool {
        self.tick.fetch_min(next, Ordering::AcqRel) > next
    }
}
