//! The state of a timer that its registrations and both halves of its driver share.
//!
//! A registration that has lowered the armed tick [makes the driver wake earlier](Shared::wake_for):
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
//!   `util/tests/schedule/one_shot.rs`. Also, a thread outside the runtime may read another clock.
//! * A worker that sets the alarm wakes no other worker. The calling worker may be the worker that watches
//!   tokio's alarms. If it then runs a long task, all entries are late. `docs/limitations.md` lists this case.

use std::sync::{Arc, atomic::AtomicU64};

use bounded_wheel::NEVER;
use tokio::runtime;

use crate::{
    driver::{arming::Earlier, clock::Clock, ending::Ending, parking::Parking, shard::Shard},
    ground::{
        notify::Notify,
        sync::{AtomicUsize, Ordering, worker_index},
        thread, trace, unwind, waker,
    },
};

/// The state of a timer, except its registrars.
///
/// So the number of registrars shows whether a handle or a future can still use the timer.
#[repr(align(128))]
pub(crate) struct Shared {
    pub(crate) parking: Parking,
    /// Wakes the driver's task. Registrations and the last registrar use it.
    pub(crate) notify: Notify,
    pub(crate) ending: Ending,
    /// The runtime that the driver runs on.
    pub(crate) runtime: runtime::Id,
    pub(crate) shards: Box<[Arc<Shard>]>,
    /// The number of registrars that handles and futures hold. The number changes without a lock when a
    /// registrar is created or dropped.
    pub(crate) registrars: AtomicUsize,
    /// The number of times that the driver was woken. Only the two halves of the driver write this field.
    pub(crate) wakeups: AtomicU64,
    /// A function that runs when the timer has ended, before its shards are closed.
    on_end: fn(&Self),
}

impl Shared {
    pub(crate) fn new(
        runtime: runtime::Id,
        clock: Clock,
        shards: usize,
        on_end: fn(&Self),
    ) -> Self {
        Self {
            parking: Parking::new(clock),
            notify: Notify::new(),
            ending: Ending::new(),
            runtime,
            shards: (0..shards).map(|_| Shard::new()).collect(),
            registrars: AtomicUsize::new(0),
            wakeups: AtomicU64::new(0),
            on_end,
        }
    }

    /// Returns the index of the calling thread's shard.
    ///
    /// The index of a worker determines its shard. For any other thread, the thread's number determines the
    /// shard. So these threads are spread over the shards.
    pub(crate) fn shard_of_thread(&self) -> usize {
        worker_index().unwrap_or_else(thread::number) % self.shards.len()
    }

    /// Raises published ticks that are too early. A cancellation can leave a published tick too early.
    ///
    /// Skips a shard if the corrected tick of another shard is equal or earlier. Test:
    /// `timer::tests::canceled_timers_wake_the_driver_once`.
    pub(crate) fn correct(&self) {
        let mut least = NEVER;
        for shard in &self.shards {
            if shard.published() < least {
                shard.lock().raise();
                least = least.min(shard.published());
            }
        }
    }

    /// Makes the driver wake at the tick that the calling registration has published, unless it wakes earlier.
    ///
    /// A registration that knows that the driver's runtime is the current one passes `true`.
    #[cold]
    pub(crate) fn wake_for(&self, earlier: Earlier, is_current: bool) {
        if !self.parking.arming.lower_to(earlier) {
            return;
        }
        let is_worker = || match is_current {
            true => worker_index().is_some(),
            false => thread::is_worker_of(self.runtime),
        };
        let is_set = is_worker() && unwind::is_ok(self.parking.rearm());
        if !is_set {
            self.notify.notify_one();
        }
    }

    /// Records that the driver was woken. `by` names the reason.
    pub(crate) fn record_wakeup(&self, by: &'static str) {
        self.wakeups.fetch_add(1, Ordering::Relaxed);
        trace::wake_up(by);
    }

    /// Closes the timer. The driver calls this function when it is dropped.
    ///
    /// From now on, the shards refuse registrations. The function wakes the wakers of all pending entries.
    pub(crate) fn close(&self, has_panicked: bool) {
        self.ending.begin(has_panicked);
        (self.on_end)(self);
        let mut pending = 0;
        for shard in &self.shards {
            for waker in shard.close() {
                waker::wake(waker);
                pending += 1;
            }
        }
        trace::shutdown(pending);
    }
}
