//! The tasks that wait: a locked wheel for each worker, and the tick for which the driver waits.
//!
//! # Rules
//!
//! * No user code runs under a lock of this file, and no thread allocates or frees memory under it.
//! * Before the driver starts tasks, it sets the armed tick to 0. So no thread that schedules a task wakes a driver that
//!   works (`schedule::a_driver_that_works_is_not_woken`).
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

/// The parts that all shards of a scheduler share.
pub(super) struct Common {
    pub(super) clock: Clock,
    waiter: Mutex<Waiter>,
    /// A copy of the armed tick, which threads read without the lock.
    armed: AtomicU64,
    /// The limit on waiting tasks, and their number. A scheduler without a limit does not count, because all
    /// threads would write to the cache line of the number.
    limit: Option<(usize, AtomicU64)>,
}

/// The tick for which the driver waits, and the waker of the driver.
struct Waiter {
    armed: Tick,
    waker: Option<Waker>,
    is_shut_down: bool,
}

impl Common {
    pub(super) fn new(clock: Clock, max_pending: Option<usize>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            waiter: Mutex::new(Waiter {
                armed: 0,
                waker: None,
                is_shut_down: false,
            }),
            armed: AtomicU64::new(0),
            limit: max_pending.map(|max| (max, AtomicU64::new(0))),
        })
    }

    /// Sets the armed tick. The caller holds the lock of the `waiter`.
    fn set_armed(&self, waiter: &mut Waiter, tick: Tick) {
        waiter.armed = tick;
        self.armed.store(tick, Ordering::Relaxed);
    }

    /// Records that the driver works, so that no thread wakes it. Returns `false` after a shutdown.
    pub(super) fn begin_turn(&self) -> bool {
        let mut waiter = lock(&self.waiter);
        self.set_armed(&mut waiter, 0);
        !waiter.is_shut_down
    }

    /// Stores the waker of the driver, and arms the driver for the tick that `look` returns. Returns the armed tick,
    /// which is earlier if another thread has scheduled a task for an earlier tick.
    pub(super) fn arm(&self, waker: &Waker, look: impl FnOnce() -> Tick) -> Tick {
        let waker = waker.clone();
        let mut waiter = lock(&self.waiter);
        self.set_armed(&mut waiter, NEVER);
        let replaced = waiter.waker.replace(waker);
        drop(waiter);
        drop(replaced);
        let next = look();
        let mut waiter = lock(&self.waiter);
        let next = next.min(waiter.armed);
        self.set_armed(&mut waiter, next);
        next
    }

    /// Returns whether the driver may wait for a later tick.
    fn is_early(&self, tick: Tick) -> bool {
        tick < self.armed.load(Ordering::Relaxed)
    }

    /// Wakes the driver if it waits for a later tick.
    #[cold]
    pub(super) fn wake_for(&self, tick: Tick) {
        let mut waiter = lock(&self.waiter);
        if tick < waiter.armed {
            self.set_armed(&mut waiter, tick);
            let woken = waiter.waker.take();
            drop(waiter);
            woken.into_iter().for_each(waker::wake);
        }
    }

    /// Makes the driver end.
    pub(super) fn shut_down(&self) {
        lock(&self.waiter).is_shut_down = true;
        self.wake_for(0);
    }

    /// Counts one more waiting task. If `is_limited` and the limit is reached, returns the limit as an error.
    fn add(&self, is_limited: bool) -> Result<(), Refused> {
        let Some((max, pending)) = &self.limit else {
            return Ok(());
        };
        if pending.fetch_add(1, Ordering::Relaxed) >= *max as u64 && is_limited {
            self.subtract(1);
            return Err(Refused::Full { max: *max });
        }
        Ok(())
    }

    fn subtract(&self, tasks: usize) {
        if let Some((_, pending)) = &self.limit {
            pending.fetch_sub(tasks as u64, Ordering::Relaxed);
        }
    }
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
        let replaced = state.wheel.refill(refill);
        // This call opens a chunk in the new memory. Otherwise another thread could find the memory unused, and free it.
        state.wheel.has_room();
        drop(state);
        drop(replaced);
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
    fn unlock(&self, state: MutexGuard<'_, State>) {
        let mut has_unused = state.wheel.has_unused();
        drop(state);
        while has_unused {
            let unused = lock(&self.state).wheel.take_unused();
            has_unused = unused.is_some();
        }
    }

    /// Starts the tasks whose deadline is at `now` or earlier. Does at most `steps` steps, and subtracts them. Returns
    /// `Break` if some tasks are left.
    pub(super) fn fire(&self, now: Tick, steps: &mut usize) -> ControlFlow<()> {
        let mut expired = Vec::with_capacity(HOLD);
        loop {
            let mut hold = HOLD.min(*steps);
            *steps -= hold;
            let mut state = lock(&self.state);
            let wheel = &mut state.wheel;
            let mut advance = wheel.advance(now, Order::DueFirst, &mut hold, |entry| {
                expired.push(entry.value);
                ControlFlow::Continue(())
            });
            if advance.is_continue() {
                advance = wheel.cascade_backlog(&mut hold);
            }
            self.unlock(state);
            *steps += hold;
            self.common.subtract(expired.len());
            expired
                .drain(..)
                .for_each(|task| unwind::contain(|| task.start()));
            if advance.is_continue() || *steps == 0 {
                return advance;
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
