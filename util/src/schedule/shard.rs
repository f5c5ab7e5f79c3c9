//! The tasks that wait: a locked wheel for each worker, and the tick for which the driver waits.
//!
//! # Rules
//!
//! * No user code runs under a lock of this file, and no thread allocates or frees memory under it.
//! * Before the driver starts tasks, it sets the armed tick to 0. So no thread that schedules a task wakes a driver that
//!   works (`tests::a_driver_that_works_is_not_woken`).
//! * Before the driver looks for the next task, it sets the armed tick to [`NEVER`]. It then locks one wheel after
//!   another. A thread inserts its task under the lock of a wheel, and reads the armed tick afterwards. So either the
//!   driver sees the task, or the thread sees `NEVER` or a later armed tick, and wakes the driver
//!   (`loom_tests::schedule_races_arm`).
//! * A closed wheel is empty and refuses tasks.

use std::{ops::ControlFlow, sync::Arc, task::Waker};

use bounded_wheel::{Key, NEVER, Nodes, Order, Refill, Tick};
use tokio::time::Instant;

use super::entry::Task;
use crate::ground::{
    clock::Clock,
    sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock},
    unwind, waker,
};

#[cfg(not(tokio_wheel_util_loom))]
type Wheel = bounded_wheel::Wheel<Arc<dyn Task>>;
#[cfg(tokio_wheel_util_loom)]
type Wheel = bounded_wheel::Wheel<Arc<dyn Task>, 3, 4>;

/// The largest number of steps under one hold of a lock, which take at most about 50 µs. A step starts a task, or
/// moves a task to another slot of the wheel.
const HOLD: usize = 128;

/// While coarse slots of a wheel wait for their cascade, one step out of this many belongs to them. Otherwise a crowd of
/// expired tasks could stop the cascades, and with them all tasks of these slots.
const BACKLOG_SHARE: usize = 4;

/// The parts that all shards of a scheduler share.
pub(super) struct Common {
    pub(super) clock: Clock,
    waiter: Mutex<Waiter>,
    /// The tick for which the driver waits. Threads write it under the lock of the `waiter`, and read it without.
    armed: Armed,
    /// The limit on waiting tasks, and their number. A scheduler without a limit does not count, because all
    /// threads would write to the cache line of the number.
    limit: Option<(usize, AtomicU64)>,
}

/// A tick on cache lines of its own, because the driver writes the fields beside it.
#[repr(align(128))]
struct Armed(AtomicU64);

struct Waiter {
    /// The waker of the driver, while it looks or waits.
    waker: Option<Waker>,
    is_shut_down: bool,
}

impl Common {
    pub(super) fn new(clock: Clock, max_pending: Option<usize>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            waiter: Mutex::new(Waiter {
                waker: None,
                is_shut_down: false,
            }),
            armed: Armed(AtomicU64::new(0)),
            limit: max_pending.map(|max| (max, AtomicU64::new(0))),
        })
    }

    fn armed(&self) -> Tick {
        self.armed.0.load(Ordering::Relaxed)
    }

    /// Sets the armed tick. The caller holds the lock of the `_waiter`.
    fn set_armed(&self, _waiter: &mut Waiter, tick: Tick) {
        self.armed.0.store(tick, Ordering::Relaxed);
    }

    /// Records that the driver works, so that no thread wakes it. Returns `false` after a shutdown.
    pub(super) fn begin_turn(&self) -> bool {
        let mut waiter = lock(&self.waiter);
        self.set_armed(&mut waiter, 0);
        !waiter.is_shut_down
    }

    /// Stores the waker of the driver, and arms the driver for the tick that `look` returns. Returns the armed tick,
    /// which is earlier if another thread has scheduled a task for an earlier tick, and 0 after a shutdown.
    pub(super) fn arm(&self, waker: &Waker, look: impl FnOnce() -> Tick) -> Tick {
        let waker = waker.clone();
        let mut waiter = lock(&self.waiter);
        self.set_armed(&mut waiter, NEVER);
        let replaced = waiter.waker.replace(waker);
        drop(waiter);
        drop(replaced);
        let next = look();
        let mut waiter = lock(&self.waiter);
        let next = match waiter.is_shut_down {
            true => 0,
            false => next.min(self.armed()),
        };
        self.set_armed(&mut waiter, next);
        next
    }

    /// Returns whether the driver may wait for a later tick.
    fn is_early(&self, tick: Tick) -> bool {
        tick < self.armed()
    }

    /// Wakes the driver if it waits for a later tick.
    #[cold]
    pub(super) fn wake_for(&self, tick: Tick) {
        let mut waiter = lock(&self.waiter);
        if tick < self.armed() {
            self.set_armed(&mut waiter, tick);
            let woken = waiter.waker.take();
            drop(waiter);
            woken.into_iter().for_each(waker::wake);
        }
    }

    /// Makes the driver end. A driver that works sees it when it [arms](Self::arm).
    pub(super) fn shut_down(&self) {
        let mut waiter = lock(&self.waiter);
        waiter.is_shut_down = true;
        self.set_armed(&mut waiter, 0);
        // The waker keeps parts of the runtime alive.
        let woken = waiter.waker.take();
        drop(waiter);
        woken.into_iter().for_each(waker::wake);
    }

    /// Counts one more waiting task. If `is_limited` and the limit is reached, returns the limit as an error.
    fn add(&self, is_limited: bool) -> Result<(), Refused> {
        let Some((max, pending)) = &self.limit else {
            return Ok(());
        };
        let one_more = |pending| (!is_limited || pending < *max as u64).then_some(pending + 1);
        match pending.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(()),
            Err(_) => Err(Refused::Full { max: *max }),
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

/// The reason why a scheduler refused a task.
#[derive(Clone, Copy)]
pub(super) enum Refused {
    /// The scheduler has shut down.
    Closed,
    /// The scheduler has as many waiting tasks as its limit allows.
    Full { max: usize },
}

/// A locked wheel, on cache lines of its own.
///
/// The handles of the scheduler and its tasks hold the shards. A waiting task is in its shard, so the shard lives until
/// its last task has ended. The driver ends after the last shard is dropped.
#[repr(align(128))]
pub(super) struct Shard {
    pub(super) common: Arc<Common>,
    state: Mutex<State>,
}

struct State {
    is_closed: bool,
    wheel: Wheel,
}

/// A task that was inserted.
#[must_use]
pub(super) struct Inserted {
    pub(super) key: Key,
    /// The tick of a task that is earlier than the armed tick. The caller releases its locks, and passes the tick to
    /// [`Common::wake_for`].
    pub(super) early: Option<Tick>,
}

impl Shard {
    pub(super) fn new(common: Arc<Common>) -> Arc<Self> {
        let wheel = Wheel::new(common.clock.now());
        Arc::new(Self {
            common,
            state: Mutex::new(State {
                is_closed: false,
                wheel,
            }),
        })
    }

    /// Inserts a task. The limit refuses only a limited task. `now` is the current time.
    ///
    /// A task that has expired gets the current tick, because the next tick would make it late.
    #[inline]
    pub(super) fn insert(
        &self,
        now: Instant,
        deadline: Instant,
        is_limited: bool,
        task: Arc<dyn Task>,
    ) -> Result<Inserted, Refused> {
        self.common.add(is_limited)?;
        let clock = &self.common.clock;
        let tick = match deadline <= now {
            true => clock.reached(now),
            false => clock.deadline(deadline),
        };
        let Some(mut state) = self.lock_with_room() else {
            self.common.subtract(1);
            return Err(Refused::Closed);
        };
        let key = state.wheel.insert_in_room(tick, task);
        drop(state);
        let early = self.common.is_early(tick).then_some(tick);
        Ok(Inserted { key, early })
    }

    /// Locks the wheel, which then has memory for one more task. Returns `None` if the shard is closed.
    #[inline]
    fn lock_with_room(&self) -> Option<MutexGuard<'_, State>> {
        loop {
            let mut state = lock(&self.state);
            if state.is_closed {
                return None;
            } else if state.wheel.has_room() {
                return Some(state);
            }
            let chunks = state.wheel.chunks_wanted();
            drop(state);
            self.refill(Refill::allocate(chunks));
        }
    }

    #[cold]
    fn refill(&self, refill: Refill<Arc<dyn Task>>) {
        let mut state = lock(&self.state);
        if !state.is_closed {
            let replaced = state.wheel.refill(refill);
            // This call opens a chunk in the new memory. Otherwise another thread could find the memory unused, and free
            // it.
            state.wheel.has_room();
            drop(state);
            drop(replaced);
        }
    }

    /// Removes a task, if it is still in the wheel.
    #[inline]
    pub(super) fn remove(&self, key: Key) {
        let mut state = lock(&self.state);
        let removed = state.wheel.remove(key);
        self.unlock(state);
        if removed.is_some() {
            self.common.subtract(1);
        }
    }

    /// Releases the lock, and then frees memory that the tasks no longer need.
    #[inline]
    fn unlock(&self, state: MutexGuard<'_, State>) {
        let has_unused = state.wheel.has_unused();
        drop(state);
        if has_unused {
            self.free_unused();
        }
    }

    #[cold]
    fn free_unused(&self) {
        loop {
            let unused = lock(&self.state).wheel.take_unused();
            if unused.is_none() {
                return;
            }
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
        loop {
            let given = HOLD.min(budget.steps);
            let mut state = lock(&self.state);
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
            self.unlock(state);
            self.common.subtract(expired.len());
            expired
                .drain(..)
                .for_each(|task| unwind::contain(|| task.start()));
            match has_more {
                false => return ControlFlow::Continue(()),
                true if !may_go_on => return ControlFlow::Break(()),
                true => {}
            }
        }
    }

    /// Returns the tick at which the wheel next has work.
    pub(super) fn next_expiration(&self) -> Tick {
        lock(&self.state).wheel.next_expiration().unwrap_or(NEVER)
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.state).wheel.len()
    }

    pub(super) fn is_closed(&self) -> bool {
        lock(&self.state).is_closed
    }

    /// Closes the shard. Returns the tasks that were waiting.
    pub(super) fn close(&self) -> Nodes<Arc<dyn Task>> {
        let mut state = lock(&self.state);
        state.is_closed = true;
        let tasks = state.wheel.len();
        let nodes = state.wheel.take();
        drop(state);
        self.common.subtract(tasks);
        nodes
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        self.common.wake_for(0);
    }
}

#[cfg(all(test, not(tokio_wheel_util_loom)))]
mod tests {
    use std::{
        any::Any,
        sync::atomic::AtomicBool,
        task::{Poll, Waker},
    };

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

        fn is_finished(&self) -> bool {
            unreachable!()
        }

        fn poll_result(&self, _: &Waker, _: &mut dyn Any) -> Poll<()> {
            unreachable!()
        }

        fn detach(&self) {}
    }

    #[test]
    fn a_driver_that_works_is_not_woken() {
        let common = Common::new(Clock::new(Duration::from_secs(3_600)), None);
        let shard = Shard::new(common.clone());
        let deadline = common.clock.saturating_instant(5);
        let is_early = || {
            let inserted = shard.insert(Instant::now(), deadline, false, Arc::<Noted>::default());
            inserted.is_ok_and(|inserted| inserted.early == Some(5))
        };
        for _ in 0..2 {
            common.begin_turn();
            assert!(!is_early(), "it works");
            common.arm(Waker::noop(), || 9);
            assert!(is_early(), "it waits for a later tick");
            common.wake_for(5);
            assert!(!is_early(), "it is woken already");
        }
    }

    /// The crowd uses up all steps of each poll. Meanwhile, the slot of the far task must cascade.
    #[test]
    fn a_crowd_does_not_stop_the_cascades() {
        let common = Common::new(Clock::new(Duration::from_secs(3_600)), None);
        let clock = common.clock;
        let shard = Shard::new(common);
        let start = clock.saturating_instant(0);
        let insert = |tick, task| {
            let deadline = clock.saturating_instant(tick);
            let inserted = shard.insert(start, deadline, false, task);
            assert!(inserted.is_ok_and(|inserted| inserted.early.is_none()));
        };
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
