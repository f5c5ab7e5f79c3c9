//! The tasks that wait: a locked wheel for each worker.
//!
//! # Rules
//!
//! * No user code runs under the lock of a wheel.
//! * A thread that schedules a task inserts it under the lock of a wheel, and reads the [armed](Armed) tick afterwards
//!   (`loom_tests::schedule_races_arm`).
//! * The driver disarms before it starts tasks. So no thread that schedules a task wakes a driver that works
//!   (`tests::a_driver_that_works_is_not_woken`).
//! * A thread that shuts the scheduler down closes all shards before it wakes the driver
//!   (`loom_tests::shutdown_races_arm`).

use std::{ops::ControlFlow, sync::Arc};

use bounded_wheel::{Key, NEVER, Order, Tick};
use tokio::time::Instant;

use super::entry::Task;
use crate::ground::{
    armed::Armed,
    clock::Clock,
    locked_wheel::LockedWheel,
    sync::{AtomicU64, Ordering},
    unwind,
};

/// The largest number of steps under one hold of a lock, which take at most about 50 µs. A step starts a task, or
/// moves a task to another slot of the wheel.
const HOLD: usize = 128;

/// While coarse slots of a wheel wait for their cascade, one step out of this many belongs to them. Otherwise a crowd of
/// expired tasks could stop the cascades, and with them all tasks of these slots.
const BACKLOG_SHARE: usize = 4;

/// The parts that all shards of a scheduler share.
pub(super) struct Common {
    pub(super) clock: Clock,
    /// The tick for which the driver waits.
    pub(super) armed: Armed,
    /// The limit on waiting tasks, and their number. A scheduler without a limit does not count, because all
    /// threads would write to the cache line of the number.
    limit: Option<(usize, AtomicU64)>,
}

impl Common {
    pub(super) fn new(clock: Clock, max_pending: Option<usize>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            armed: Armed::new(),
            limit: max_pending.map(|max| (max, AtomicU64::new(0))),
        })
    }

    /// Returns the tick of a task. `now` is the current time.
    ///
    /// A task that has expired gets the current tick, because the next tick would make it late.
    #[inline]
    pub(super) fn tick(&self, now: Instant, deadline: Instant) -> Tick {
        match deadline <= now {
            true => self.clock.reached(now),
            false => self.clock.deadline(deadline),
        }
    }

    /// Counts one more waiting task. If `is_limited` and the limit is reached, returns the limit as an error.
    fn add(&self, is_limited: bool) -> Result<(), usize> {
        let Some((max, pending)) = &self.limit else {
            return Ok(());
        };
        let one_more = |pending| (!is_limited || pending < *max as u64).then_some(pending + 1);
        match pending.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(()),
            Err(_) => Err(*max),
        }
    }

    fn subtract(&self, tasks: usize) {
        if let Some((_, pending)) = &self.limit {
            pending.fetch_sub(tasks as u64, Ordering::Relaxed);
        }
    }
}

/// The work that the driver may still do in one poll.
pub(super) struct Budget {
    pub(super) steps: usize,
    /// The number of tasks that the driver may still start.
    pub(super) starts: usize,
}

/// The wheel of a worker, on cache lines of its own. The first of them has the fields that every operation uses.
///
/// The handles of the scheduler and its tasks hold the shards. A waiting task is in its shard, so the shard lives until
/// its last task has ended. The driver ends after the last shard is dropped.
#[repr(C, align(128))]
pub(super) struct Shard {
    pub(super) common: Arc<Common>,
    wheel: LockedWheel<Arc<dyn Task>>,
}

impl Shard {
    pub(super) fn new(common: Arc<Common>) -> Arc<Self> {
        let wheel = LockedWheel::new(common.clock.now(), ());
        Arc::new(Self { common, wheel })
    }

    /// Inserts a task. The limit refuses only a limited task.
    ///
    /// The error is the limit that refused the task, or `None` if the scheduler has shut down. If the driver is armed for
    /// [a later tick](Armed::is_later_than), the caller releases its locks and wakes the driver.
    #[inline]
    pub(super) fn insert(
        &self,
        tick: Tick,
        is_limited: bool,
        task: Arc<dyn Task>,
    ) -> Result<Key, Option<usize>> {
        self.common.add(is_limited).map_err(Some)?;
        let Some(mut state) = self.wheel.lock_with_room() else {
            self.common.subtract(1);
            return Err(None);
        };
        Ok(state.wheel.insert_in_room(tick, task))
    }

    /// Removes a task, if it is still in the wheel.
    #[inline]
    pub(super) fn remove(&self, key: Key) {
        let Some(mut state) = self.wheel.lock() else {
            return;
        };
        let removed = state.wheel.remove(key);
        self.wheel.unlock_and_free(state);
        if removed.is_some() {
            self.common.subtract(1);
        }
    }

    /// Starts tasks whose deadline is at `now` or earlier, and cascades, within the `budget`. Returns `Break` if some work
    /// is left. `expired` is an empty buffer.
    pub(super) fn fire(
        &self,
        now: Tick,
        budget: &mut Budget,
        expired: &mut Vec<Arc<dyn Task>>,
    ) -> ControlFlow<()> {
        expired.reserve(HOLD);
        while let Some(mut state) = self.wheel.lock() {
            let given = HOLD.min(budget.steps);
            let wheel = &mut state.wheel;
            let reserved = match wheel.has_cascades() {
                true => given / BACKLOG_SHARE,
                false => 0,
            };
            let mut steps = given - reserved;
            if budget.starts > 0 {
                // The next hold does what is left.
                let _ = wheel.advance(now, Order::DueFirst, &mut steps, |entry| {
                    expired.push(entry.value);
                    budget.starts -= 1;
                    match budget.starts {
                        0 => ControlFlow::Break(()),
                        _ => ControlFlow::Continue(()),
                    }
                });
            }
            steps += reserved;
            let _ = wheel.cascade_backlog(&mut steps);
            // A hold that finds nothing to do costs a step too.
            budget.steps = budget.steps.saturating_sub((given - steps).max(1));
            let has_more = wheel.next_expiration().is_some_and(|next| next <= now);
            let may_go_on = budget.steps > 0 && (budget.starts > 0 || wheel.has_cascades());
            self.wheel.unlock_and_free(state);
            self.common.subtract(expired.len());
            expired
                .drain(..)
                .for_each(|task| unwind::contain(|| task.start()));
            match has_more {
                false => break,
                true if !may_go_on => return ControlFlow::Break(()),
                true => {}
            }
        }
        ControlFlow::Continue(())
    }

    /// Returns the tick at which the wheel next has work, or `None` if the shard is closed.
    pub(super) fn next_expiration(&self) -> Option<Tick> {
        let state = self.wheel.lock()?;
        Some(state.wheel.next_expiration().unwrap_or(NEVER))
    }

    pub(super) fn len(&self) -> usize {
        self.wheel.lock().map_or(0, |state| state.wheel.len())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.wheel.lock().is_none()
    }

    /// Closes the shard. Returns the tasks that were waiting.
    pub(super) fn close(&self) -> Vec<Arc<dyn Task>> {
        let ((), nodes) = self.wheel.close(());
        let tasks: Vec<_> = nodes.into_values().collect();
        self.common.subtract(tasks.len());
        tasks
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        self.common.armed.wake_for(0);
    }
}

#[cfg(all(test, not(tokio_wheel_util_loom)))]
mod tests {
    use std::{sync::atomic::AtomicBool, task::Waker};

    use tokio_wheel::Duration;

    use super::{
        super::{entry::Status, unstarted::Unstarted},
        *,
    };

    const STEPS: usize = 64;

    /// A task that only knows whether it was started.
    #[derive(Default)]
    struct Noted(AtomicBool);

    impl Task for Noted {
        fn start(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }

        fn leave(&self) -> Option<Unstarted> {
            None
        }

        fn abandon(&self) {}

        fn cancel(&self) -> bool {
            unreachable!()
        }

        fn status(&self) -> Status {
            unreachable!()
        }

        fn detach(&self) {}
    }

    #[test]
    fn a_driver_that_works_is_not_woken() {
        let common = Common::new(Clock::new(Duration::from_secs(3_600)), None);
        let shard = Shard::new(common.clone());
        let is_early = || {
            let inserted = shard.insert(5, false, Arc::<Noted>::default());
            inserted.is_ok() && common.armed.is_later_than(5)
        };
        for _ in 0..2 {
            common.armed.disarm();
            assert!(!is_early(), "it works");
            common.armed.arm(Waker::noop(), || 9);
            assert!(is_early(), "it waits for a later tick");
            common.armed.wake_for(5);
            assert!(!is_early(), "it is woken already");
        }
    }

    /// The crowd uses up all steps of each poll. Meanwhile, the slot of the far task must cascade.
    #[test]
    fn a_crowd_does_not_stop_the_cascades() {
        let common = Common::new(Clock::new(Duration::from_secs(3_600)), None);
        let shard = Shard::new(common);
        let insert = |tick, task| assert!(shard.insert(tick, false, task).is_ok());
        let far = Arc::new(Noted::default());
        insert(5_000, far.clone());
        (0..2 * STEPS).for_each(|_| insert(10, Arc::new(Noted::default())));
        for now in 6_000..6_100 {
            (0..2 * STEPS).for_each(|_| insert(now, Arc::new(Noted::default())));
            let mut budget = Budget {
                steps: STEPS,
                starts: STEPS,
            };
            let _ = shard.fire(now, &mut budget, &mut Vec::new());
            if far.0.load(Ordering::Relaxed) {
                return;
            }
        }
        panic!("the far task has not started");
    }
}
