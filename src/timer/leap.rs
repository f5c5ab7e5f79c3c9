//! Moves a timer ahead of the clock.
//!
//! Only services of this crate move their timers ahead. The entries of such a timer may fire early: see
//! [`lead`](crate::driver::lead).

use std::time::Duration;

use super::Timer;

impl Timer {
    /// Moves the timer ahead by a duration, which is rounded up to whole ticks. All entries that expire
    /// within this duration fire.
    pub(crate) fn leap(&self, by: Duration) {
        let clock = self.core().clock();
        let ticks = by.as_nanos().div_ceil(clock.duration(1).as_nanos());
        let ticks = u64::try_from(ticks).unwrap_or(u64::MAX);
        let driver = self.core().driver();
        driver.lead.leap(clock, ticks);
        driver.notify.notify_one();
    }

    /// Returns how far the timer is ahead of the clock.
    pub(crate) fn lead(&self) -> Duration {
        let core = self.core();
        core.clock().duration(core.driver().lead.ticks())
    }
}
