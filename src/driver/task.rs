//! The task that drives a timer: park, fire in turns, give way between them.
//!
//! The driver parks until the armed tick (see [`arming`] and [`parking`]), or forever when nothing
//! is registered. When that tick is reached, it fires what is due in all shards.
//!
//! # Turns
//!
//! The driver is a task among others. On a busy runtime its next poll may be milliseconds away, so a
//! turn does as much as a worker can be kept for, about a millisecond at most. A turn has three
//! parts:
//!
//! 1. **What is due.** This part ends after [`DUE_STEPS`] steps, or when it has woken as many tasks as it
//!    may. Coarse slots that are reached, and what is due beyond that, go to their wheel's backlog.
//! 2. **What cascades.** This part does [`CASCADE_STEPS`] steps on the backlogs, and what the first part
//!    has left. If the first part has wakes left, they are for what turns out to be due by it.
//! 3. **What is late**, on the backlogs. This part does [`LATE_STEPS`] steps, and what the other parts have
//!    left, and wakes a quarter of the first part's tasks, and as many as that has left.
//!
//! In each part the shards take turns. The driver visits only shards that publish a tick which is reached (see
//! [`locked`]). A shard's lock is held for at most [`HOLD`] steps of its wheel. Then the driver wakes what has fired, with
//! no lock held.
//!
//! So lateness depends on what is due, not on how many entries wait (`timer::starved`).
//!
//! A worker's own queue has room for 256 tasks. When it is full, half of it goes to the queue that
//! all workers share, at which a busy worker seldom looks: whatever is in there is late, be it the
//! driver. So a turn wakes at most [`MOST_WAKES`] tasks, less what is in the shared queue already,
//! and at least [`WAKES`].
//!
//! Between two turns the driver gives way to other tasks, and stays where other workers can take it
//! (see [`give_way`](crate::ground::give_way); `tests/promises/p03_lateness.rs`).
//!
//! A waker that panics is caught: the rest of its batch is woken, and the driver lives on
//! (`tests/promises/`, promise 8).
//!
//! A runtime that shuts down drops the task, and with it [`Driver`], whose `Drop` closes
//! the timer, unless that has been shut down before, and wakes everybody who is still waiting on it.
//! Models: `timer::loom_tests`.
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

/// Steps of a wheel under one hold of a shard's lock. With very many entries a step costs two or
/// three cache misses, about 0.2 µs: 25 µs of the 50 that a hold may take.
pub(crate) const HOLD: usize = 128;

/// Steps in a turn for what is due. With [`CASCADE_STEPS`] and [`LATE_STEPS`] at most 4,096, about 0.8 ms.
pub(crate) const DUE_STEPS: usize = 3_072;

/// Steps in a turn that what is due leaves to what cascades.
pub(crate) const CASCADE_STEPS: usize = 768;

/// Steps in a turn that the other parts leave to what is late.
pub(crate) const LATE_STEPS: usize = 256;

/// Tasks that a turn wakes at least, if so many are due.
pub(crate) const WAKES: usize = 64;

/// Tasks that a turn wakes if the shared queue is empty. With [`WAKES`] always, bursts of 3,000
/// beside 50 tasks of 100 µs were 1.5 times as late as tokio's at p99, with this 0.2 times. With 256
/// a service that saturates its workers saw 10 ms at p99, with this 1.4
/// (`compare saturated --scene steady,service`).
const MOST_WAKES: usize = 128;

/// What is late gets one more wake for so many that a turn may do.
const LATE_SHARE: usize = 4;

/// What wakes the driver, as events call it.
const ALARM: &str = "alarm";
const NOTIFIED: &str = "bell";

/// The parts of a turn.
#[derive(Clone, Copy)]
enum Part {
    Due,
    Cascade,
    Late,
}

/// The driver task's state; dropping it closes the timer.
pub(crate) struct Driver {
    core: Arc<Core>,
    /// The number of the shard that comes next. Each part of a turn goes on where it has stopped in
    /// the last one.
    next_shard: [usize; 3],
    /// Whether some shard had a backlog when it was last visited.
    has_backlog: bool,
    /// The wakers of the entries that fired under one hold of a lock. Empty between two holds.
    expired: Vec<Waker>,
    /// Whether something has fired in this turn.
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

    /// Drives the timer until it is shut down or nobody can use it any more.
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
                // The shard was visited for entries that were canceled. Other shards may publish the like.
                self.core.correct();
            }
            self.core.arm();
            self.park().await;
        }
    }

    /// Does a turn's work, and says whether there is more.
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

    /// How many tasks the turn may wake.
    fn wakes(&self) -> usize {
        let queued = self.runtime.global_queue_depth();
        MOST_WAKES.saturating_sub(queued).max(WAKES)
    }

    /// Does work in all shards, a hold of each in turn, until it is done or the budget is spent.
    fn work(&mut self, part: Part, budget: &mut Budget, work: impl Fn(Tick) -> Work) -> Advance {
        let shards = self.core.shards().len();
        let mut now = self.core.now();
        // So many in a row had nothing left to do.
        let mut done = 0;
        while done < shards {
            if budget.is_spent() {
                return Advance::Interrupted;
            }
            let next = &mut self.next_shard[part as usize];
            let shard = *next;
            // A division costs more than a look at a shard.
            *next = if shard + 1 < shards { shard + 1 } else { 0 };
            if self.core.shards()[shard].next_expiration() > now {
                done += 1;
                continue;
            }
            let expiration = hold(&self.core, shard, now, &work, budget, &mut self.expired);
            now = self.core.now();
            // To find that there is nothing to do is a step as well.
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

    /// Lets the tasks go first that are ready.
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

    /// Waits until the armed tick is reached, which registrations may lower in the meantime, or
    /// until the timer is over.
    async fn park(&mut self) {
        let mut has_waited = false;
        while !self.core.should_end() {
            let armed = self.core.driver().arming.tick();
            if armed <= self.core.now() {
                if !has_waited {
                    // The driver is behind. Nothing else might make it give way to other tasks.
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

/// Fires what is due now in every shard of `core`, at once.
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

/// Does work at a tick under one hold of the lock of the shard of that number, and wakes what fires.
/// `expired` is the buffer for it, empty before and after.
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
    // After the wakes, so that a slow subscriber makes no timer of the batch late.
    trace::batch(&trace::Batch {
        shard: number,
        fired,
        steps: allowed - budget.steps,
        interrupted: expiration.advance == Advance::Interrupted,
        worst_lateness: core.clock().duration(expiration.worst_lateness),
    });
    expiration
}
