//! Leaps: how a timer moves ahead of the clock.
//!
//! The driver's time is the time of the clock plus a *lead*. The lead only grows. A
//! [leap](Lead::leap) adds to the lead. Then the driver immediately fires all entries that expire
//! within these additional ticks. A leap has no other cost, however many entries the timer has. Only timers
//! of feature `hyper` leap, and their entries may fire early. Timers of users never leap.
//!
//! Registrations and leaps follow two rules about the order of their steps:
//!
//! 1. A registering thread first reads the lead. Then it reads the state on which its deadline depends. It
//!    registers the deadline plus the lead.
//! 2. A leaping thread first changes the state on which deadlines depend. Then it raises the lead.
//!
//! So if a registration has read the old state, it has also read the old lead. The leap then fires the entry
//! of this registration. Models: `timer::loom_tests::leap_races_park` and `leap_races_register`.
//!
//! If a leap fires an entry, the lateness of the entry is measured from the leap. Test:
//! `timer::tests::a_leap_makes_no_entry_late`.

#[cfg(test)]
use crate::driver::clock::Clock;
use crate::{
    ground::sync::{AtomicU64, Ordering},
    wheel::Tick,
};

/// How far the driver is ahead of the clock.
pub(crate) struct Lead {
    /// The number of ticks by which the driver is ahead of the clock. Only [`leap`](Self::leap) raises it,
    /// without a lock.
    ticks: AtomicU64,
    /// The tick to which the latest leap moved the driver. Only [`leap`](Self::leap) raises it, without a
    /// lock.
    leapt_to: AtomicU64,
}

impl Lead {
    pub(crate) fn new() -> Self {
        Self {
            ticks: AtomicU64::new(0),
            leapt_to: AtomicU64::new(0),
        }
    }

    /// Returns `tick` plus the lead. The driver has reached this tick when the clock reaches `tick`.
    #[inline]
    pub(crate) fn ahead(&self, tick: Tick) -> Tick {
        Tick(tick.0 + self.ticks.load(Ordering::Relaxed))
    }

    /// Returns the tick of the clock at which the driver reaches `tick`.
    pub(crate) fn behind(&self, tick: Tick) -> Tick {
        Tick(tick.0.saturating_sub(self.ticks.load(Ordering::Relaxed)))
    }

    /// Returns the greatest lateness, in ticks, that an entry can have at the driver's tick `now`.
    ///
    /// Lateness is measured from the deadline or from the latest leap, whichever is later. So no entry is
    /// late by more than the time since the latest leap.
    pub(crate) fn late_at_most(&self, now: Tick) -> u64 {
        now.0.saturating_sub(self.leapt_to.load(Ordering::Relaxed))
    }

    /// Returns the number of ticks by which the driver is ahead of the clock.
    #[cfg(test)]
    pub(crate) fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Acquire)
    }

    /// Adds `ticks` to the lead. The caller then wakes the driver.
    #[cfg(test)]
    pub(crate) fn leap(&self, clock: &Clock, ticks: u64) {
        // This function raises `leapt_to` before it raises the lead. So the leap makes no entry late.
        let leapt_to = self.ahead(clock.now()).0 + ticks;
        self.leapt_to.fetch_max(leapt_to, Ordering::Relaxed);
        self.ticks.fetch_add(ticks, Ordering::AcqRel);
    }
}
