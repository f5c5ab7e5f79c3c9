//! The driver of a timer, as registrations see it; and how one that is earlier than the armed tick wakes it in time.
//!
//! A worker that registers a deadline before the armed tick sets the alarm itself, in the driver's
//! name. If it woke the driver instead, that would be the next task of this worker, and tokio lets
//! no other worker have it: if the task that has registered goes on for long, all timers would be
//! late by as much (`tests/promises/p03_lateness.rs`,
//! `a_worker_that_blocks_makes_no_other_timer_late`). A deadline that is reached, or all but,
//! leaves nothing to set the alarm for: then the driver is woken, and moved out of that place. But
//! somebody has to watch tokio's alarms. If it is that worker which did, and it wakes nobody before
//! its task goes on for long, they wait, and all timers with them (`docs/scaling.md`).
//!
//! Any other thread wakes the driver. That goes to a worker that has nothing to do, and takes it to
//! tokio's alarms, which may be without a worker to watch them: if the one that did has fired a
//! timer and now runs a task that goes on for long (`tests/schedule/classics.rs`,
//! `a_slow_task_stalls_neither_the_wheel_nor_other_tasks`).
//!
//! # Leaps
//!
//! The driver's time is the clock's, and a *lead* that only grows. A [leap](DriverHandle::leap) adds to the lead. All entries
//! within the leap then fire at once, and no other cost arises, however many entries there are. Timers of users never
//! leap: only feature `hyper` has timers that do, and each of their entries must bear to fire early.
//!
//! A thread that registers an entry reads the lead first, then whatever its deadline depends on, and registers the
//! deadline plus the lead. A thread that changes what deadlines depend on does so first, and leaps then. So a
//! registration that has missed the change has read the lead from before the leap, and fires by it. Models:
//! `timer::loom_tests::leap_races_park` and `leap_races_register`.
//!
//! An entry that a leap makes due is late only from the leap on (`timer::tests::a_leap_makes_no_entry_late`).

use std::task::{Context, Poll};

use tokio::{runtime, time::Instant};

use crate::{
    driver::{
        alarm::{Alarm, LEAD},
        arming::Arming,
        clock::Clock,
        ending::Ending,
        parking::Parking,
        worker::{offer_next_task, worker_of},
    },
    ground::sync::{AtomicU64, AtomicUsize, Notify, Ordering},
    wheel::Tick,
};

/// The state by which registrations reach the driver of their timer.
#[repr(align(128))]
pub(crate) struct DriverHandle {
    pub(crate) arming: Arming,
    pub(crate) parking: Parking,
    /// Wakes the driver.
    pub(crate) notify: Notify,
    pub(crate) ending: Ending,
    /// Where the driver runs.
    pub(crate) runtime: runtime::Id,
    /// How many ticks the driver is ahead of the clock.
    lead: AtomicU64,
    /// The tick of the driver that the latest leap has reached.
    leapt_to: AtomicU64,
    /// Registrars that a handle or a future still holds.
    registrars: AtomicUsize,
}

impl DriverHandle {
    pub(crate) fn new(runtime: runtime::Id, alarm: Box<dyn Alarm>) -> Self {
        Self {
            arming: Arming::new(),
            parking: Parking::new(alarm),
            notify: Notify::new(),
            ending: Ending::new(),
            runtime,
            lead: AtomicU64::new(0),
            leapt_to: AtomicU64::new(0),
            registrars: AtomicUsize::new(0),
        }
    }

    /// Returns the tick of the driver at a tick of the clock.
    #[inline]
    pub(crate) fn ahead(&self, tick: Tick) -> Tick {
        Tick(tick.0 + self.lead.load(Ordering::Relaxed))
    }

    /// Returns the most ticks that an entry can be late which fires at this tick of the driver: those since the latest
    /// leap.
    pub(crate) fn late_at_most(&self, now: Tick) -> u64 {
        now.0.saturating_sub(self.leapt_to.load(Ordering::Relaxed))
    }

    /// Returns how many ticks the driver is ahead of the clock.
    #[cfg(any(feature = "hyper", test))]
    pub(crate) fn lead(&self) -> u64 {
        self.lead.load(Ordering::Acquire)
    }

    /// Moves the driver ahead by a number of ticks, and wakes it.
    #[cfg(any(feature = "hyper", test))]
    pub(crate) fn leap(&self, clock: &Clock, ticks: u64) {
        // Before the lead, so that no entry counts as late for the leap.
        let leapt_to = self.ahead(clock.now()).0 + ticks;
        self.leapt_to.fetch_max(leapt_to, Ordering::Relaxed);
        self.lead.fetch_add(ticks, Ordering::AcqRel);
        self.notify.notify_one();
    }

    /// Returns the instant at which the armed tick is reached, if that is within the clock's reach.
    fn armed(&self, clock: &Clock) -> Option<Instant> {
        let lead = self.lead.load(Ordering::Relaxed);
        clock.instant(Tick(self.arming.tick().0.saturating_sub(lead)))
    }

    /// Polls the alarm for the driver, after setting it for the armed tick.
    pub(crate) fn poll_alarm(&self, clock: &Clock, cx: &mut Context<'_>) -> Poll<()> {
        self.parking.poll(|| self.armed(clock), cx)
    }

    /// Has the driver wake at the armed tick, which a registration has just lowered.
    #[cold]
    pub(crate) fn rearm(&self, clock: &Clock) {
        let armed = || self.armed(clock);
        let is_all_but_due = || armed().is_some_and(|armed| armed <= clock.present() + LEAD);
        let Some(runtime) = worker_of(self.runtime) else {
            return self.notify.notify_one();
        };
        if is_all_but_due() {
            self.notify.notify_one();
        } else {
            self.parking.rearm(armed);
        }
        // Then the driver was woken, if not by this call, then by the alarm; or it is at work.
        if is_all_but_due() {
            offer_next_task(&runtime);
        }
    }

    /// Counts a registrar.
    pub(crate) fn add_registrar(&self) {
        self.registrars.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a registrar that is dropped. The last one wakes the driver, which ends.
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
