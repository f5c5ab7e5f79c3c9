//! The tick that the driver is armed for: how a registration knows whether to set the alarm.
//!
//! # The race
//!
//! The driver looks for the earliest expiration of all shards, one after the other, and then
//! parks until then. A registration that is earlier must make that earlier; one that is later must
//! not, and neither may a cancellation. Three rules settle the race of looking and registering:
//!
//! 1. The driver *disarms* (publishes [`Tick::NEVER`]) before it locks the first shard to look,
//!    and *arms* (lowers to what it found) after the last.
//! 2. A registration reads the armed tick after it has inserted its entry and released the lock.
//!    If its own deadline is earlier it lowers the armed tick to it and, if it was the one that
//!    lowered, sets the alarm of a driver that is [parked](crate::driver::parking), or wakes it.
//! 3. Until it is reached, the armed tick is not raised. So a burst of registrations and
//!    cancellations sets the alarm once, not once each.
//!
//! No entry is lost. If an entry is inserted before the driver locks its shard, the driver sees
//! it. If after, then the shard's lock orders the disarming before the registration's read: what
//! that reads was published by this round of looking or later, and whoever lowers the tick from
//! there either is the driver, which sets its alarm next, or has it set. The lock makes the order, so
//! the atomic operations can be relaxed.
//!
//! While the driver works it stays armed for a tick in the past, and no registration sets the alarm:
//! the driver looks again before it parks.
//!
//! Models: `timer::loom_tests::register_races_arm`, `register_elsewhere_races_arm`,
//! `earlier_reset_races_arm` and `register_races_wake_up`.

use crate::{
    ground::sync::{AtomicU64, Ordering},
    wheel::Tick,
};

/// The earliest tick at which the driver is sure to look at the shards again.
///
/// On cache lines of its own: every registration reads it.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Arming {
    tick: AtomicU64,
}

impl Arming {
    /// Disarmed: the first registration sets the alarm.
    pub(crate) fn new() -> Self {
        Self {
            tick: AtomicU64::new(Tick::NEVER.0),
        }
    }

    /// The armed tick.
    #[inline]
    pub(crate) fn tick(&self) -> Tick {
        Tick(self.tick.load(Ordering::Relaxed))
    }

    /// For the driver: arms for the tick that `look` finds among the shards, or for an earlier
    /// one that a registration has set meanwhile.
    pub(crate) fn arm(&self, look: impl FnOnce() -> Option<Tick>) {
        // A swap, so that every write is a read-modify-write: loom orders plain stores partially.
        self.tick.swap(Tick::NEVER.0, Ordering::Relaxed);
        self.lower(look);
    }

    /// Lowers to the tick that `look` finds.
    pub(crate) fn lower(&self, look: impl FnOnce() -> Option<Tick>) {
        if let Some(next) = look() {
            self.tick.fetch_min(next.0, Ordering::Relaxed);
        }
    }

    /// For a registration: whether the alarm must be set, because `deadline` is earlier than what the
    /// driver is armed for. Says so once for each tick.
    #[inline]
    pub(crate) fn lower_to(&self, deadline: Tick) -> bool {
        deadline < self.tick() && self.tick.fetch_min(deadline.0, Ordering::Relaxed) > deadline.0
    }
}
