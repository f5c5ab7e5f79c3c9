//! The state that registrations share with the driver, and how a registration wakes the driver earlier.
//!
//! A registration that has lowered the armed tick follows one of these rules:
//!
//! | the calling thread | the registration |
//! |---|---|
//! | a worker of the driver's runtime | sets the alarm itself |
//! | any other thread | notifies the driver's task |
//!
//! The reasons:
//!
//! * The worker may run a long task next. The task of the driver could then wait in the worker's queue, and
//!   all entries would be late. The alarm waits in no queue. Test:
//!   `a_worker_that_blocks_makes_no_other_timer_late` in `tests/promises/p03_lateness.rs`.
//! * One worker of a runtime watches tokio's own alarms. If that worker runs a long task, no worker watches
//!   the alarms. If a thread outside the runtime wakes the driver's task, the task runs on an idle worker. The
//!   idle worker then watches the alarms. Test: `a_slow_task_stalls_neither_the_wheel_nor_other_tasks` in
//!   `tests/schedule/classics.rs`. Also, a thread outside the runtime may read another clock.
//! * A worker that sets the alarm wakes no other worker. That worker may be the worker that watches tokio's
//!   alarms. If this worker then runs a long task, all entries are late. `docs/scaling.md` measures this
//!   lateness.
//!
//! # Leaps
//!
//! The driver's time is the time of the clock plus a *lead*. The lead only grows. A
//! [leap](DriverHandle::leap) adds to the lead. Then the driver immediately fires all entries that expire
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

use tokio::{runtime, time::Instant};

use crate::{
    driver::{arming::Arming, clock::Clock, ending::Ending, parking::Parking, turn::Turn},
    ground::sync::{AtomicU64, AtomicUsize, Notify, Ordering, worker_index},
    wheel::Tick,
};

/// The state of a timer that registrations and the driver share.
#[repr(align(128))]
pub(crate) struct DriverHandle {
    pub(crate) arming: Arming,
    pub(crate) parking: Parking,
    /// Wakes the driver's task. Registrations, leaps, shutdowns and the last registrar use it.
    pub(crate) notify: Notify,
    pub(crate) ending: Ending,
    /// The runtime that the driver runs on.
    pub(crate) runtime: runtime::Id,
    /// The number of ticks by which the driver is ahead of the clock. Only [`leap`](Self::leap) raises it,
    /// without a lock.
    lead: AtomicU64,
    /// The tick to which the latest leap moved the driver. Only [`leap`](Self::leap) raises it, without a
    /// lock.
    leapt_to: AtomicU64,
    /// The number of registrars that handles and futures hold. The number changes without a lock when a
    /// registrar is created or dropped.
    registrars: AtomicUsize,
}

impl DriverHandle {
    pub(crate) fn new(runtime: runtime::Id) -> Self {
        Self {
            arming: Arming::new(),
            parking: Parking::new(),
            notify: Notify::new(),
            ending: Ending::new(),
            runtime,
            lead: AtomicU64::new(0),
            leapt_to: AtomicU64::new(0),
            registrars: AtomicUsize::new(0),
        }
    }

    /// Returns `tick` plus the lead. The driver has reached this tick when the clock reaches `tick`.
    #[inline]
    pub(crate) fn ahead(&self, tick: Tick) -> Tick {
        Tick(tick.0 + self.lead.load(Ordering::Relaxed))
    }

    /// Returns the greatest lateness, in ticks, that an entry can have at the driver's tick `now`.
    ///
    /// Lateness is measured from the deadline or from the latest leap, whichever is later. So no entry is
    /// late by more than the time since the latest leap.
    pub(crate) fn late_at_most(&self, now: Tick) -> u64 {
        now.0.saturating_sub(self.leapt_to.load(Ordering::Relaxed))
    }

    /// Returns the number of ticks by which the driver is ahead of the clock.
    #[cfg(any(feature = "hyper", test))]
    pub(crate) fn lead(&self) -> u64 {
        self.lead.load(Ordering::Acquire)
    }

    /// Adds `ticks` to the lead, and wakes the driver.
    #[cfg(any(feature = "hyper", test))]
    pub(crate) fn leap(&self, clock: &Clock, ticks: u64) {
        // This function raises `leapt_to` before it raises the lead. So the leap makes no entry late.
        let leapt_to = self.ahead(clock.now()).0 + ticks;
        self.leapt_to.fetch_max(leapt_to, Ordering::Relaxed);
        self.lead.fetch_add(ticks, Ordering::AcqRel);
        self.notify.notify_one();
    }

    /// Returns the instant at which the driver reaches the armed tick.
    ///
    /// Returns `None` if that instant is beyond the clock's reach.
    fn armed(&self, clock: &Clock) -> Option<Instant> {
        let lead = self.lead.load(Ordering::Relaxed);
        clock.instant(Tick(self.arming.tick().0.saturating_sub(lead)))
    }

    /// Puts the turn back, and sets the alarm for the armed tick.
    pub(crate) fn park(&self, turn: Turn, clock: &Clock) {
        self.parking.end(turn, || self.armed(clock));
    }

    /// Makes the driver wake at the armed tick, which the calling registration has just lowered.
    #[cold]
    pub(crate) fn rearm(&self, clock: &Clock) {
        if worker_of(self.runtime).is_some() {
            self.parking.rearm(|| self.armed(clock));
        } else {
            self.notify.notify_one();
        }
    }

    /// Adds one to the number of registrars.
    pub(crate) fn add_registrar(&self) {
        self.registrars.fetch_add(1, Ordering::Relaxed);
    }

    /// Subtracts one from the number of registrars. The last registrar wakes the driver, and the driver ends.
    pub(crate) fn drop_registrar(&self) {
        if self.registrars.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.notify.notify_one();
        }
    }

    /// Returns whether no handle and no future can reach the timer any more.
    pub(crate) fn has_no_registrars(&self) -> bool {
        self.registrars.load(Ordering::Acquire) == 0
    }
}

/// Returns a handle of `runtime`, if the calling thread is a worker of `runtime`.
///
/// A worker may run code that has entered another runtime through a handle. The function then treats the
/// worker as a worker of the other runtime. So a worker that registers in a timer of its own runtime notifies
/// the driver's task, and a worker that registers in a timer of the other runtime sets the alarm.
pub(crate) fn worker_of(runtime: runtime::Id) -> Option<runtime::Handle> {
    worker_index()?;
    let current = runtime::Handle::try_current().ok()?;
    (current.id() == runtime).then_some(current)
}
