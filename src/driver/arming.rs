//! The armed tick: how a registration knows whether the driver must wake earlier.
//!
//! Each shard publishes a tick. No entry of the shard has a deadline before the published tick (see
//! [`shard`](super::shard)). After a turn, the driver reads the published ticks of all shards without a
//! lock, and sets the alarm for the earliest published tick. A registration with an earlier deadline must make
//! the driver wake earlier. A registration with a later deadline and a cancellation must leave the driver
//! alone.
//!
//! # Rules
//!
//! 1. The driver *disarms* before it reads the first published tick: it sets the armed tick to
//!    [`NEVER`]. The driver *arms* after it has read the last published tick: it lowers the armed tick
//!    to the earliest published tick.
//! 2. A registration compares its deadline with the published tick of its shard, under the lock of the shard.
//!    If the deadline is not earlier, the registration does nothing more.
//! 3. If the deadline is earlier, the registration publishes an earlier tick. Then the registration releases
//!    the lock, and *lowers* the armed tick to the tick that it published.
//! 4. If this changes the armed tick, the registering thread sets the alarm, or notifies the driver's task.
//!    [`shared`](crate::driver::shared) lists the cases.
//! 5. Only the thread that takes a turn raises the armed tick and the published ticks. So a burst of
//!    registrations and cancellations sets the alarm only once.
//!
//! During a turn, no registration sets the alarm (see [`parking`](crate::driver::parking)). After the turn,
//! the driver reads all published ticks, and sets the alarm.
//!
//! # The race
//!
//! In each drawing the armed tick is 9 at the start, and a registration has the deadline 5.
//!
//! The registration lowers the armed tick before the driver disarms:
//!
//! ```text
//!        driver                         registering thread             published    armed
//!   0.                                                                     9          9
//!   1.                                  publishes 5                        5          9
//!   2.                                  lowers: 9 was later                5          5
//!   3.   disarms                                                           5        NEVER
//!   4.   reads 5                                                           5        NEVER
//!   5.   arms for 5                                                        5          5
//!   6.                                  sets the alarm, or notifies        5          5
//!
//!   The driver reads 5, because step 3 reads the armed tick that step 2 has written. Step 6 may come
//!   earlier, and costs at most one wake-up.
//!   Model: timer::loom_tests::register_races_wake_up
//! ```
//!
//! The registration lowers the armed tick after the driver has disarmed:
//!
//! ```text
//!        driver                         registering thread             published    armed
//!   0.                                                                     9          9
//!   1.   disarms                                                           9        NEVER
//!   2.   reads 9                                                           9        NEVER
//!   3.                                  publishes 5                        5        NEVER
//!   4.                                  lowers: NEVER was later            5          5
//!   5.   arms for 9, finds 5                                               5          5
//!   6.   ends its turn, sets the alarm for 5                               5          5
//!   7.                                  sets the alarm for 5, or notifies  5          5
//!
//!   Step 5 cannot replace 5 with 9, because arming takes the minimum atomically.
//!   Steps 6 and 7 may come in either order. Each step reads the armed tick under the lock of `Parking`.
//!   Models: timer::loom_tests::register_races_arm, register_elsewhere_races_arm, earlier_reset_races_arm
//! ```
//!
//! A second thread registers the deadline 7 in the same shard:
//!
//! ```text
//!        driver                         first thread         second thread        published    armed
//!   0.                                                                                9          9
//!   1.                                  publishes 5                                   5          9
//!   2.                                                       registers 7: 5 is        5          9
//!                                                            earlier, returns
//!   3.   disarms, reads 5, arms for 5                                                 5          5
//!   4.                                  lowers: 5 was armed                           5          5
//!
//!   The second thread relies on the first thread. Between steps 1 and 4 the system may take the processor
//!   from the first thread. If the driver reads the published tick before step 1, step 4 changes the armed
//!   tick. Then the first thread sets the alarm for both entries.
//!   Model: timer::loom_tests::second_registration_races_arm
//! ```
//!
//! All threads share the cache line of the armed tick. A registration that publishes no tick does not read
//! the armed tick, and so does not need this cache line.

use bounded_wheel::{NEVER, Tick};

use crate::ground::sync::{AtomicU64, Ordering};

/// The tick that a registration has published, because it is earlier than all others of its shard.
///
/// The registration releases the lock of the shard. Then it passes this value to
/// [`Shared::wake_for`](crate::driver::shared::Shared::wake_for), or the driver would sleep through the deadline.
#[must_use = "the driver must wake at this tick"]
#[derive(Debug)]
pub(crate) struct Earlier(pub(crate) Tick);

/// The earliest tick at which the driver will look at the shards again.
///
/// The tick has cache lines of its own. So a registration that lowers the tick takes no other data from the
/// caches of other threads.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Arming {
    /// The armed tick. The driver raises it. Registrations lower it. They all write without a lock.
    tick: AtomicU64,
}

impl Arming {
    /// Creates a disarmed tick, so that the first registration sets the alarm.
    pub(crate) fn new() -> Self {
        Self {
            tick: AtomicU64::new(NEVER),
        }
    }

    /// Returns the armed tick.
    pub(crate) fn tick(&self) -> Tick {
        self.tick.load(Ordering::Relaxed)
    }

    /// Returns the armed tick, including what a thread has written that then misses what the caller wrote before. See
    /// [`blocks`](super::blocks).
    pub(crate) fn latest_tick(&self) -> Tick {
        self.tick.fetch_min(NEVER, Ordering::AcqRel)
    }

    /// Disarms, calls `look`, and arms for the tick that `look` returns.
    ///
    /// One thread at a time calls this function: the thread that takes a turn. A registration may have armed an
    /// earlier tick in the meantime. That tick stays armed.
    pub(crate) fn arm(&self, look: impl FnOnce() -> Tick) {
        self.tick.swap(NEVER, Ordering::AcqRel);
        self.tick.fetch_min(look(), Ordering::Relaxed);
    }

    /// Lowers the armed tick to the tick that the calling registration has published.
    ///
    /// Returns `true` if the armed tick was later. Then the caller must set the alarm or notify the driver's task. If
    /// several threads lower the armed tick to the same tick, only one of them gets `true`.
    pub(crate) fn lower_to(&self, Earlier(next): Earlier) -> bool {
        self.tick.fetch_min(next, Ordering::AcqRel) > next
    }
}
