//! The state that registrations share with the driver, and how a registration wakes the driver earlier.
//!
//! A registration that has lowered the armed tick follows one of these rules:
//!
//! | the calling thread | the registration |
//! |---|---|
//! | a worker of the driver's runtime | sets the alarm itself. If the deadline has expired, also notifies the driver's task |
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
//!   `tests/schedule/one_shot.rs`. Also, a thread outside the runtime may read another clock.
//! * A worker that sets the alarm wakes no other worker. That worker may be the worker that watches tokio's
//!   alarms. If this worker then runs a long task, all entries are late. `docs/scaling.md` measures this
//!   lateness.

use tokio::{runtime, time::Instant};

use crate::{
    driver::{
        arming::Arming, clock::Clock, ending::Ending, lead::Lead, parking::Parking, turn::Turn,
    },
    ground::sync::{AtomicUsize, Notify, Ordering, worker_index},
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
    pub(crate) lead: Lead,
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
            lead: Lead::new(),
            registrars: AtomicUsize::new(0),
        }
    }

    /// Returns the instant at which the driver reaches the armed tick.
    ///
    /// Returns `None` if that instant is beyond the clock's reach.
    fn armed(&self, clock: &Clock) -> Option<Instant> {
        clock.instant(self.lead.behind(self.arming.tick()))
    }

    /// Puts the turn back, and sets the alarm for the armed tick.
    pub(crate) fn park(&self, turn: Turn, clock: &Clock) {
        self.parking.end(turn, || self.armed(clock));
    }

    /// Makes the driver wake at the armed tick, which the calling registration has just lowered.
    #[cold]
    pub(crate) fn rearm(&self, clock: &Clock) {
        let is_worker = worker_of(self.runtime).is_some();
        if is_worker {
            self.parking.rearm(|| self.armed(clock));
        }
        let is_due = || self.arming.tick() <= self.lead.ahead(clock.now());
        if !is_worker || is_due() {
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
