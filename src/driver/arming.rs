//! The tick that the driver is armed for: how a registration knows whether to set the alarm.
//!
//! # The race
//!
//! Each shard publishes a tick that no deadline in it is before (see [`locked`](super::locked)). The driver looks for the
//! earliest published tick of all shards, without a lock, and then parks until that tick. A registration
//! with an earlier deadline must wake it earlier. A later registration must not, and a cancellation must not either. Three
//! rules settle the race:
//!
//! 1. The driver *disarms* (exchanges the armed tick for [`Tick::NEVER`]) before it reads the first published tick. It
//!    *arms* (lowers the armed tick to what it found) after the last.
//! 2. A registration compares its deadline with the published tick of its shard, under the lock. If the deadline is earlier,
//!    the registration publishes an earlier tick, and *lowers* the armed tick to that. If the armed tick was later,
//!    the registration sets the alarm of a driver that is [parked](crate::driver::parking), or wakes the driver.
//! 3. The armed tick does not rise until it is reached. The published tick of a shard rises only when the
//!    driver visits the shard. So a burst of registrations and cancellations sets the alarm once, not once each.
//!
//! No entry is lost. Consider the thread that published the tick of an entry's shard, for this entry or for an earlier
//! one. That thread lowers the armed tick afterwards, by a read-modify-write, as the driver disarms:
//!
//! * If it lowers before the driver disarms, the driver reads what it published.
//! * If it lowers after that, it compares with what this look has armed, or with no tick at all, and sets the alarm.
//!
//! So a registration that publishes nothing does nothing else: it does not even read the armed tick, which all threads share.
//! It counts on the thread that has published. If the system takes the processor from that thread in between, the
//! driver learns of both entries only when that thread goes on.
//!
//! While the driver works it stays armed for a tick in the past, and no registration sets the alarm:
//! the driver looks again before it parks.
//!
//! Models: `timer::loom_tests::register_races_arm`, `register_elsewhere_races_arm`, `second_registration_races_arm`,
//! `earlier_reset_races_arm` and `register_races_wake_up`.

use crate::{
    ground::sync::{AtomicU64, Ordering},
    wheel::Tick,
};

/// The earliest tick at which the driver is sure to look at the shards again.
///
/// On cache lines of its own: a registration that lowers it takes no other line from other threads.
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

    /// Returns the armed tick.
    pub(crate) fn tick(&self) -> Tick {
        Tick(self.tick.load(Ordering::Relaxed))
    }

    /// For the driver: arms for the tick that `look` finds among the shards, or for an earlier
    /// one that a registration sets in the meantime.
    pub(crate) fn arm(&self, look: impl FnOnce() -> Tick) {
        self.tick.swap(Tick::NEVER.0, Ordering::AcqRel);
        self.tick.fetch_min(look().0, Ordering::Relaxed);
    }

    /// For a registration that has published `next`: returns whether it must set the alarm, because the driver is armed for
    /// a later tick. Returns `true` once for each tick.
    #[cold]
    pub(crate) fn lower_to(&self, next: Tick) -> bool {
        self.tick.fetch_min(next.0, Ordering::AcqRel) > next.0
    }
}
