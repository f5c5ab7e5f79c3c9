//! The state of a timer, and the two halves of its driver: the waker of the alarm, and the task.
//!
//! The driver works in [turns](super::drive). Two halves can take a turn, like the halves of an
//! interrupt handler:
//!
//! | half | runs when | takes a turn |
//! |---|---|---|
//! | **the waker** of the alarm ([`Shared`] is a [`Wake`]) | the alarm goes off. The runtime calls the waker where it fires the timers of `tokio::time`: a worker looks at its timers before it parks, and after about sixty polls of tasks | always, unless the other half works |
//! | **the task** ([`DriverTask::run`]) | the notifier of the [agenda](super::agenda) wakes the task | always, unless the other half works |
//!
//! The waker does nearly all of the work, for two reasons:
//!
//! * A wake from within a task notifies an idle worker by a system call. A wake from within the runtime's own
//!   driver only puts the task into the worker's queue. The worker notifies another worker afterwards, once.
//! * On a busy runtime a task waits until all tasks before it have run. The waker waits for no task. If a
//!   task blocks its worker, another worker calls the waker.
//!
//! The task does the rest: work that a turn of the waker leaves, work for threads that must not set the alarm
//! ([`Agenda::wake_for`](super::agenda::Agenda::wake_for)), and the end of the timer. It also works if the alarm goes off while
//! the lock of the alarm is held.
//!
//! # Rules
//!
//! * One thread at a time takes a turn: it takes the [`Driver`] out of
//!   the [agenda](super::agenda). The other half never waits for the turn, because a turn runs user
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

use std::{
    future::{Future, poll_fn},
    mem,
    panic::resume_unwind,
    pin::pin,
    sync::{Arc, atomic},
    task::{Poll, Wake},
    thread::panicking,
};

use tokio::{runtime, task::yield_now};

use crate::{
    driver::{
        agenda::Agenda, clock::Clock, drive::next_tick, ending::Ending, shard::Shard, turn::Driver,
    },
    ground::{
        sync::{AtomicUsize, Ordering, worker_index},
        trace, unwind, wake,
    },
};

/// The state of a timer, except its registrars.
///
/// So the number of registrars shows whether a handle or a future can still use the timer.
#[repr(align(128))]
pub(crate) struct Shared {
    pub(crate) agenda: Agenda,
    pub(crate) ending: Arc<Ending>,
    pub(crate) shards: Box<[Arc<Shard>]>,
    /// The number of registrars that handles and futures hold. The number changes without a lock when a
    /// registrar is created or dropped.
    pub(crate) registrars: AtomicUsize,
    /// The number of times that the driver was woken. Only the two halves of the driver write this field.
    pub(crate) wakeups: atomic::AtomicU64,
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
            agenda: Agenda::new(runtime, clock),
            ending: Ending::new(),
            shards: (0..shards).map(|_| Shard::new()).collect(),
            registrars: AtomicUsize::new(0),
            wakeups: atomic::AtomicU64::new(0),
            on_end,
        }
    }

    /// Returns the index of the calling thread's shard.
    ///
    /// The index of a worker determines its shard. For any other thread, the thread's number determines the
    /// shard. So these threads are spread over the shards.
    pub(crate) fn shard_of_thread(&self) -> usize {
        let number = worker_index().unwrap_or_else(thread_number);
        // Each registration comes here, and a division takes longer than a comparison.
        match number < self.shards.len() {
            true => number,
            false => number % self.shards.len(),
        }
    }

    /// Records that the driver was woken. `by` names the reason.
    pub(crate) fn record_wakeup(&self, by: &'static str) {
        self.wakeups.fetch_add(1, Ordering::Relaxed);
        trace::wake_up(by);
    }

    /// Takes a turn: fires the expired entries, arms the driver, and sets the alarm.
    ///
    /// Returns whether another turn must follow: something is due, or the alarm is not set.
    fn take_turn(&self, mut driver: Driver) -> bool {
        let Self { agenda, shards, .. } = self;
        let fired = unwind::catch(|| driver.fire_expired(&agenda.clock, shards));
        agenda.arm(|| next_tick(shards));
        let is_set = agenda.put_back(driver);
        fired.unwrap_or_else(|panic| resume_unwind(panic));
        !is_set || agenda.is_due()
    }

    /// Fires all expired entries, unless a turn is being taken.
    #[cfg(feature = "test-util")]
    pub(crate) fn expire_now(&self) {
        while self.agenda.is_due() {
            let Some(driver) = self.agenda.take() else {
                return;
            };
            if self.take_turn(driver) {
                self.agenda.notify.notify_one();
            }
        }
    }

    /// Closes the timer. The driver calls this function when it is dropped.
    ///
    /// From now on, the shards refuse registrations. The function wakes the wakers of all pending entries.
    pub(crate) fn close(&self, has_panicked: bool) {
        self.agenda.close();
        self.ending.begin(has_panicked);
        (self.on_end)(self);
        let mut pending = 0;
        for shard in &self.shards {
            for waker in shard.close() {
                wake::wake(waker);
                pending += 1;
            }
        }
        trace::shutdown(pending);
    }
}

/// Returns the number of the calling thread. Threads are numbered in the order in which they first call this
/// function.
pub(crate) fn thread_number() -> usize {
    static THREADS: atomic::AtomicUsize = atomic::AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let is_left = match self.agenda.try_take() {
            Some(driver) => {
                self.record_wakeup("alarm");
                self.take_turn(driver)
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
        let mut pauses = 0;
        loop {
            poll_fn(|cx| shared.agenda.notify.poll_notified(cx)).await;
            shared.record_wakeup("notified");
            if shared.registrars.load(Ordering::Acquire) == 0 {
                return;
            }
            if shared.agenda.is_due() {
                // The tasks that the waker has woken go first.
                give_way(&mut pauses).await;
            }
            // If the waker has the turn, it also sets the alarm, and notifies the task if something is left.
            while let Some(driver) = shared.agenda.take() {
                if !shared.take_turn(driver) {
                    break;
                }
                give_way(&mut pauses).await;
            }
        }
    }
}

impl Drop for DriverTask {
    fn drop(&mut self) {
        self.0.close(panicking());
    }
}

/// After this many pauses, the worker checks its I/O. The turn between two pauses takes at most about 1 ms.
const PAUSES: u32 = 16;

/// Makes the driver's task yield. `pauses` counts how often it did.
///
/// The task wakes itself at the end of a poll. It then runs after the tasks that are ready. Any idle worker can
/// take all of these tasks. [`yield_now`] would instead put the task on a list that only its worker uses. If
/// another task then blocked that worker, the driver would wait, although other workers are idle.
///
/// A worker checks its I/O when it has no task to run, and after about sixty polls of tasks. Sixty turns that wake no
/// task would take too long, so the driver calls `yield_now` in every [`PAUSES`]th pause. The worker then checks its I/O. If a task
/// blocks the worker meanwhile, the alarm, which is set for what is due, takes the next turn on another worker.
async fn give_way(pauses: &mut u32) {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        *pauses = (*pauses + 1) % PAUSES;
        match *pauses {
            0 => pin!(yield_now()).poll(cx),
            _ => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    })
    .await;
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_keeps_its_number() {
        let mine = thread_number();
        let another = thread::spawn(|| [thread_number(), thread_number()]);
        let another = another.join().unwrap();
        assert_eq!(another[0], another[1]);
        assert_ne!(mine, another[0]);
        assert_eq!(mine, thread_number());
    }
}
