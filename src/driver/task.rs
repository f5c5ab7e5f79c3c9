//! The driver task of a timer. The task parks, fires entries in turns, and gives way between turns.
//!
//! The driver parks until the armed tick (see [`arming`] and [`parking`]). If the timer has no entries, the
//! driver parks until it is notified. When the armed tick is reached, the driver fires the expired entries of
//! all shards.
//!
//! # Turns
//!
//! On a busy runtime the next poll of the driver may be milliseconds away. So a turn does as much work as
//! possible, but occupies a worker for at most about a millisecond. A turn has three parts:
//!
//! 1. **Expired entries.** This part ends after [`DUE_STEPS`] steps, or when it has woken as many tasks as
//!    the turn may wake. When a coarse slot is reached, the driver moves the entries of this slot to the
//!    backlog of the wheel. If the driver cannot fire all expired entries, it moves the remaining expired
//!    entries to the backlog.
//! 2. **Cascades.** This part does at most [`CASCADE_STEPS`] steps on the backlogs, plus the steps that part
//!    1 did not use. Then the driver fires the expired entries that it found on the backlogs. For these
//!    entries it may use the wakes that part 1 did not use.
//! 3. **Late entries** on the backlogs. This part does at most [`LATE_STEPS`] steps, plus the steps that the
//!    other parts did not use. It may wake a quarter of the number of tasks that part 1 may wake. It may also
//!    use the wakes that the other parts did not use.
//!
//! In each part the driver visits the shards one after the other. It visits only shards whose published tick
//! is reached (see [`locked`]). The driver holds the lock of a shard for at most [`HOLD`] steps. Then it
//! releases the lock, and wakes the entries that have fired.
//!
//! So lateness depends on the number of expired entries, and not on the number of pending entries (tests:
//! `timer::starved`).
//!
//! # Wakes
//!
//! A worker's own queue has room for 256 tasks. When the queue is full, half of its tasks move to the queue
//! that all workers share. A busy worker seldom looks at the shared queue, so the tasks in the shared queue
//! run late. The driver itself may be in the shared queue. So the number of wakes of a turn is limited. The
//! limit is [`MOST_WAKES`] minus the number of tasks in the shared queue, but not less than [`WAKES`].
//!
//! Between two turns the driver gives way to other tasks. In the meantime, another worker can take the
//! driver. See [`give_way`](crate::ground::give_way) and `tests/promises/p03_lateness.rs`.
//!
//! The driver catches the panic of a waker. Then it wakes the other entries that have fired
//! (`tests/promises/`, promise 8).
//!
//! # End
//!
//! When a runtime shuts down, it drops the task and the task's [`Driver`]. The `Drop` of [`Driver`] closes
//! the timer and wakes all pending entries, unless the timer was already shut down. Models:
//! `timer::loom_tests`.
//!
//! [`arming`]: crate::driver::arming
//! [`locked`]: crate::driver::locked
//! [`parking`]: crate::driver::parking

use std::{
    future::{Future, poll_fn},
    mem,
    pin::pin,
    sync::Arc,
    task::{Poll, Waker},
};

use tokio::runtime::RuntimeMetrics;

#[cfg(feature = "test-util")]
use crate::wheel::Order;
use crate::{
    driver::{
        core::Core,
        shard::{Budget, Expiration, Work},
    },
    ground::{give_way::Turns, trace, waker},
    wheel::{Advance, Tick},
};

/// The maximum number of steps that the driver does while it holds the lock of a shard.
///
/// These steps take about 25 µs. A thread may hold the lock for at most 50 µs. In a wheel with very many
/// entries, a step costs two or three cache misses, which take about 0.2 µs.
pub(crate) const HOLD: usize = 128;

/// The number of steps of a turn for expired entries.
///
/// A turn also has [`CASCADE_STEPS`] and [`LATE_STEPS`]. The sum is 4,096 steps, which take about 0.8 ms.
pub(crate) const DUE_STEPS: usize = 3_072;

/// The number of steps of a turn that are reserved for cascades.
pub(crate) const CASCADE_STEPS: usize = 768;

/// The number of steps of a turn that are reserved for late entries.
pub(crate) const LATE_STEPS: usize = 256;

/// The number of tasks that a turn may always wake. The length of the shared queue does not lower this
/// number.
pub(crate) const WAKES: usize = 64;

/// The number of tasks that a turn may wake if the shared queue is empty.
///
/// Two measurements with `compare saturated --scene steady,service` are the reasons for 128:
///
/// * Bursts of 3,000 entries fired beside 50 ready tasks, which took 100 µs each. With 64 wakes in every
///   turn, the p99 lateness was 1.5 times the p99 lateness of tokio. With 128 wakes, the factor was 0.2.
/// * A service saturated its workers. With 256 wakes, its p99 lateness was 10 ms. With 128 wakes, its p99
///   lateness was 1.4 ms.
const MOST_WAKES: usize = 128;

/// The driver divides the wakes of a turn by this number. The result is the number of additional wakes for
/// late entries.
const LATE_SHARE: usize = 4;

/// The reasons why the driver woke up. These names appear in the events.
const ALARM: &str = "alarm";
const NOTIFIED: &str = "notified";

/// The parts of a turn.
#[derive(Clone, Copy)]
enum Part {
    Due,
    Cascade,
    Late,
}

/// The state of the driver task. Only the task uses this state, so the state needs no lock.
///
/// Dropping a `Driver` closes the timer.
pub(crate) struct Driver {
    core: Arc<Core>,
    /// For each part of a turn: the index of the shard that comes next. Each part continues at the shard
    /// where it stopped in the previous turn.
    next_shard: [usize; 3],
    /// Whether a shard still had a backlog after the driver's latest visit.
    has_backlog: bool,
    /// A buffer for the wakers of entries that fire. The driver fills it under the lock of a shard, and
    /// empties it after it has released the lock.
    expired: Vec<Waker>,
    /// Whether an entry has fired in this turn.
    has_woken: bool,
    runtime: RuntimeMetrics,
    turns: Turns,
}

impl Driver {
    pub(crate) fn new(core: Arc<Core>, runtime: RuntimeMetrics) -> Self {
        Self {
            core,
            next_shard: [0; 3],
            has_backlog: false,
            expired: Vec::with_capacity(HOLD),
            has_woken: false,
            runtime,
            turns: Turns::default(),
        }
    }

    /// Drives the timer until it is shut down, or until no handle and no future can use it.
    pub(crate) async fn run(mut self) {
        while !self.core.should_end() {
            let mut is_of_use = false;
            loop {
                let advance = self.turn();
                is_of_use |= mem::take(&mut self.has_woken);
                if advance == Advance::Done {
                    break;
                }
                self.give_way().await;
            }
            if !is_of_use {
                // No entry has fired. So the driver has visited shards only for canceled entries. Other
                // shards may also publish the ticks of canceled entries.
                self.core.correct();
            }
            self.core.arm();
            self.park().await;
        }
    }

    /// Does the work of one turn. Returns whether all work is done.
    fn turn(&mut self) -> Advance {
        let order = self.core.clock().order();
        let wakes = self.wakes();
        let due = |now| Work::Advance(now, order);
        let mut budget = Budget {
            steps: DUE_STEPS,
            wakes,
            late_at_most: 0,
        };
        let mut advance = self.work(Part::Due, &mut budget, due);
        if self.has_backlog {
            let mut cascade = Budget {
                steps: CASCADE_STEPS + budget.steps,
                wakes: 1,
                late_at_most: 0,
            };
            self.work(Part::Cascade, &mut cascade, |_| Work::Cascade);
            budget.steps = cascade.steps;
            advance = self.work(Part::Due, &mut budget, due);
            budget.steps += LATE_STEPS;
            budget.wakes += wakes / LATE_SHARE;
            self.has_backlog = false;
            let late = self.work(Part::Late, &mut budget, Work::Late);
            if self.has_backlog || late == Advance::Interrupted {
                self.has_backlog = true;
                advance = Advance::Interrupted;
            }
        }
        if self.has_woken {
            self.turns.was_of_use();
        }
        advance
    }

    /// Returns the number of tasks that the turn may wake.
    fn wakes(&self) -> usize {
        let queued = self.runtime.global_queue_depth();
        MOST_WAKES.saturating_sub(queued).max(WAKES)
    }

    /// Does one kind of work in all shards, until the work is done or the budget is spent.
    ///
    /// The driver visits one shard after the other, and takes the lock of a shard once per visit.
    fn work(&mut self, part: Part, budget: &mut Budget, work: impl Fn(Tick) -> Work) -> Advance {
        let shards = self.core.shards().len();
        let mut now = self.core.now();
        // The number of consecutive visited shards that have no work left.
        let mut done = 0;
        while done < shards {
            if budget.is_spent() {
                return Advance::Interrupted;
            }
            let next = &mut self.next_shard[part as usize];
            let shard = *next;
            // A division would cost more than reading the published tick of a shard.
            *next = if shard + 1 < shards { shard + 1 } else { 0 };
            if self.core.shards()[shard].next_expiration() > now {
                done += 1;
                continue;
            }
            let expiration = hold(&self.core, shard, now, &work, budget, &mut self.expired);
            now = self.core.now();
            // Each visit costs one additional step, even if it finds no work.
            budget.steps = budget.steps.saturating_sub(1);
            self.has_backlog |= expiration.has_backlog;
            self.has_woken |= expiration.has_woken;
            done = match expiration.advance {
                Advance::Done => done + 1,
                Advance::Interrupted => 0,
            };
        }
        Advance::Done
    }

    /// Lets the other tasks that are ready run before the driver continues.
    async fn give_way(&mut self) {
        let mut has_ended = false;
        poll_fn(|cx| {
            if mem::replace(&mut has_ended, true) {
                return Poll::Ready(());
            }
            self.turns.end(cx);
            Poll::Pending
        })
        .await;
    }

    /// Waits until the armed tick is reached or the timer ends. Registrations may lower the armed tick in the
    /// meantime.
    async fn park(&mut self) {
        let mut has_waited = false;
        while !self.core.should_end() {
            let armed = self.core.driver().arming.tick();
            if armed <= self.core.now() {
                if !has_waited {
                    // The driver is late. Without this call it might never give way to other tasks.
                    self.give_way().await;
                }
                return;
            }
            let mut notified = pin!(self.core.driver().notify.notified());
            let woken_by = poll_fn(|cx| {
                if notified.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(NOTIFIED);
                }
                let reached = self.core.poll_alarm(cx);
                has_waited |= reached.is_pending();
                reached.map(|()| ALARM)
            })
            .await;
            self.core.count_wakeup();
            trace::wake_up(woken_by);
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.core.abandon();
    }
}

/// Fires all expired entries in every shard of `core` at once.
#[cfg(feature = "test-util")]
pub(crate) fn expire_now(core: &Core) {
    let mut expired = Vec::with_capacity(HOLD);
    for shard in 0..core.shards().len() {
        let mut advance = Advance::Interrupted;
        while advance == Advance::Interrupted {
            let mut budget = Budget {
                steps: usize::MAX,
                wakes: usize::MAX,
                late_at_most: 0,
            };
            let work = |now| Work::Advance(now, Order::Strict);
            advance = hold(core, shard, core.now(), work, &mut budget, &mut expired).advance;
        }
    }
}

/// Takes the lock of the shard with the index `number` once, and does work in the shard. Then wakes the
/// wakers of the entries that have fired.
///
/// `expired` is a buffer for the wakers. The buffer is empty before and after the call.
fn hold(
    core: &Core,
    number: usize,
    now: Tick,
    work: impl Fn(Tick) -> Work,
    budget: &mut Budget,
    expired: &mut Vec<Waker>,
) -> Expiration {
    let shard = &core.shards()[number];
    let allowed = budget.steps;
    budget.late_at_most = core.driver().late_at_most(now);
    let expiration = shard.expire(work(now), HOLD, budget, expired);
    let fired = expired.len();
    expired.drain(..).for_each(waker::wake);
    if expiration.has_unused {
        shard.free_unused();
    }
    // The event comes after the wakes, so that a slow subscriber delays no entry of the batch.
    trace::batch(&trace::Batch {
        shard: number,
        fired,
        steps: allowed - budget.steps,
        interrupted: expiration.advance == Advance::Interrupted,
        worst_lateness: core.clock().duration(expiration.worst_lateness),
    });
    expiration
}
