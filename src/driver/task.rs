//! The two halves of the driver: the waker of the alarm, and the task.
//!
//! The driver works in [turns](crate::driver::drive). Two halves can take a turn, like the halves of an
//! interrupt handler:
//!
//! | half | runs when | takes a turn |
//! |---|---|---|
//! | **the waker** of the alarm ([`Shared`] is a [`Wake`]) | the alarm goes off. The runtime calls the waker where it fires the timers of `tokio::time`: a worker looks at its timers before it parks, and after about sixty polls of tasks | always, unless the other half works |
//! | **the task** ([`DriverTask::run`]) | the notifier of the [agenda](crate::driver::agenda) wakes the task | always, unless the other half works |
//!
//! The waker does nearly all of the work, for two reasons:
//!
//! * A wake from within a task notifies an idle worker by a system call. A wake from within the runtime's own
//!   driver only puts the task into the worker's queue. The worker notifies another worker afterwards, once.
//! * On a busy runtime a task waits until all tasks before it have run. The waker waits for no task. If a
//!   task blocks its worker, another worker calls the waker.
//!
//! The task does the rest: work that a turn of the waker leaves, work for threads that must not set the alarm
//! ([`Agenda::wake_for`](crate::driver::agenda::Agenda::wake_for)), and the end of the timer. It also works if the alarm goes off while
//! the lock of the alarm is held.
//!
//! # Rules
//!
//! * One thread at a time takes a turn: it takes the [`Driver`] out of
//!   the [agenda](crate::driver::agenda). The other half never waits for the turn, because a turn runs user
//!   code. Model: `timer::loom_tests::turn_races_turn`.
//! * After its turn, a half arms the driver and sets the alarm. If something is still due, the alarm goes off
//!   when the runtime next looks at its timers, at the earliest in the next millisecond. So work that is left
//!   over waits in no queue. The waker also notifies the task. The half that runs first does the work.
//! * A turn catches the panics of all user code. If this crate itself panics in a turn of the waker, the panic ends
//!   a worker, but the driver is put back and the alarm is set first. Otherwise all timers of the other workers would
//!   stop without a word. A panic in the task closes the timer. Test: `timer::tests::a_turn_that_panics_is_put_back`.
//! * A wake during a turn may register, reset or deregister entries, or drop the timer. It takes locks that
//!   no turn holds. The driver catches the panic of a waker, and then wakes the other entries that have fired
//!   (`tests/promises/`, promises 7 and 8; in `timer::tests`,
//!   `a_sleep_that_is_registered_during_a_turn_sets_the_alarm` and the tests after it).
//! * tokio calls the waker synchronously if a thread sets the alarm to an instant that has passed. The
//!   calling thread then holds the lock of the alarm, and must not fire entries. So the waker only tries to
//!   take the lock, and notifies the task if it fails. Model:
//!   `timer::loom_tests::alarm_goes_off_while_it_is_set`.
//!
//! # End
//!
//! When a runtime shuts down, it drops the task and the task's [`DriverTask`]. The `Drop` of [`DriverTask`] closes
//! the timer and wakes all pending entries. It also drops the alarm,
//! so the waker is not called any more. Another thread may take a turn at this moment. It drops the driver
//! afterwards. Models: `timer::loom_tests::runtime_end_races_turn`, `runtime_end_races_rearm`
//! and `last_handle_races_park`.

use std::{future::poll_fn, panic::resume_unwind, sync::Arc, task::Wake, thread::panicking};

use crate::{
    driver::{
        drive::{Driver, next_tick},
        shared::Shared,
    },
    ground::{give_way::Yields, sync::Ordering, unwind},
};

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let is_left = match self.agenda.try_take() {
            Some(driver) => {
                self.record_wakeup("alarm");
                drive(self, driver).is_left
            }
            None => true,
        };
        if is_left {
            self.agenda.notify.notify_one();
        }
    }
}

/// The driver task. Dropping it closes the timer.
pub(crate) struct DriverTask(pub(crate) Arc<Shared>);

impl DriverTask {
    /// Drives the timer until no handle and no future can use it.
    pub(crate) async fn run(self) {
        let shared = &self.0;
        let mut yields = Yields::default();
        loop {
            poll_fn(|cx| shared.agenda.notify.poll_notified(cx)).await;
            shared.record_wakeup("notified");
            if shared.registrars.load(Ordering::Acquire) == 0 {
                return;
            }
            if shared.agenda.is_due() {
                // The tasks that the waker has woken go first.
                yields.give_way().await;
            }
            // If the waker has the turn, it also sets the alarm, and notifies the task if something is left.
            while let Some(driver) = shared.agenda.take() {
                let driven = drive(shared, driver);
                if driven.has_fired {
                    yields.was_of_use();
                }
                if !driven.is_left {
                    break;
                }
                yields.give_way().await;
            }
        }
    }
}

impl Drop for DriverTask {
    fn drop(&mut self) {
        self.0.close(panicking());
    }
}

/// The result of a turn.
struct Driven {
    has_fired: bool,
    /// Whether another turn must follow: something is due, or the alarm is not set.
    is_left: bool,
}

/// Takes a turn, arms the driver, and sets the alarm.
fn drive(shared: &Shared, mut driver: Driver) -> Driven {
    let Shared { agenda, shards, .. } = shared;
    let has_fired = unwind::catch(|| driver.take_turn(&agenda.clock, shards));
    agenda.arm(|| next_tick(shards));
    let is_set = agenda.put_back(driver);
    Driven {
        has_fired: has_fired.unwrap_or_else(|panic| resume_unwind(panic)),
        is_left: !is_set || agenda.is_due(),
    }
}
