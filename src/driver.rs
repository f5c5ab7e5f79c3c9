//! The task that drives a timer: park, fire in turns, give way between them.
//!
//! The driver parks until the armed tick (see [`arming`] and [`parking`]), or forever when nothing
//! is registered. When that tick is reached, it fires what is due in all shards.
//!
//! # Turns
//!
//! The driver is a task among others. On a busy runtime its next poll may be milliseconds away, so a
//! turn does as much as a worker can be kept for, about a millisecond at most. A turn has two parts:
//!
//! 1. **What is due.** The shards take turns. A shard's lock is held for at most [`HOLD`] steps of
//!    its wheel. Then the driver wakes what has fired, with no lock held. This part ends after
//!    [`DUE`] steps, or when it has woken as many tasks as it may.
//! 2. **What cascades.** Coarse slots that are reached, and slots in which a hold has ended, are on
//!    their wheel's backlog. This part does [`BACKLOG`] steps, and what the first part has left.
//!
//! So lateness depends on what is due, not on how many entries wait (`timer::starved`).
//!
//! A turn wakes [`WAKES`] tasks, and a quarter more from the backlog. A worker's own queue has room
//! for 256 tasks. More go to the queue that all workers share, at which a busy worker seldom looks.
//! A driver that never woke more would fall behind where its turns are scarce. So the number is
//! multiplied by the milliseconds that the driver has waited for its turn, or by which the last
//! turn was late.
//!
//! Between two turns the driver gives way to other tasks, and stays where other workers can take it
//! (see [`give_way`](crate::give_way); `tests/promises/p03_lateness.rs`).
//!
//! A waker that panics is caught: the rest of its batch is woken, and the driver lives on
//! (`tests/promises/`, promise 8).
//!
//! When the runtime shuts down it drops the task, and with it [`Driver`], whose `Drop` closes
//! the timer, unless that has been shut down before, and wakes everybody who is still waiting on it.
//! Models: `timer::loom_tests`.
//!
//! [`arming`]: crate::arming
//! [`parking`]: crate::parking

use std::{
    future::{Future, poll_fn},
    mem,
    pin::pin,
    sync::Arc,
    task::{Poll, Waker},
};

use tokio::time::Instant;

#[cfg(feature = "test-util")]
use crate::wheel::Order;
use crate::{
    give_way::Turns,
    shard::{Budget, Expiration, Work},
    timer::Core,
    trace, unwind,
    wheel::{Advance, Tick},
};

/// Steps of a wheel under one hold of a shard's lock. With very many entries a step costs two or
/// three cache misses, about 0.2 µs: 25 µs of the 50 that a hold may take.
pub(crate) const HOLD: usize = 128;

/// Steps in a turn for what is due. With [`BACKLOG`] at most 4,096, about 0.8 ms.
pub(crate) const DUE: usize = 3_072;

/// Steps in a turn that what is due leaves to what cascades.
pub(crate) const BACKLOG: usize = 1_024;

/// Tasks that a turn wakes at least, and for each millisecond that the driver has waited. Beside a
/// service that saturates its workers, p99 lateness was 1.7 ms with 64 and 31 ms with 128, which
/// overflow the workers' own queues.
pub(crate) const WAKES: usize = 64;

/// The most milliseconds of waiting that count: what a turn's steps can fire.
const MOST_WAITING: usize = DUE / WAKES;

/// The most milliseconds of lateness that count. A thousand tasks take a worker a millisecond or less
/// if they do little when they are woken: others wait for as long (`measure storm`).
const MOST_LATENESS: usize = 16;

/// A backlog gets one more wake for so many that may be for what is due.
const BACKLOG_SHARE: usize = 4;

/// What wakes the driver, as events call it.
const ALARM: &str = "alarm";
const BELL: &str = "bell";

/// The driver task's state; dropping it closes the timer.
pub(crate) struct Driver {
    core: Arc<Core>,
    /// The number of the shard that comes next. Each part of a turn goes on where the last one has
    /// stopped.
    next_shard: usize,
    /// Whether some shard has a backlog.
    has_backlog: bool,
    /// The wakers of the entries that fired under one hold of a lock. Empty between two holds.
    expired: Vec<Waker>,
    /// Since when the driver has waited for its turn.
    waits_since: Instant,
    /// In ticks; of what has fired in this turn.
    worst_lateness: u64,
    turns: Turns,
}

impl Driver {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        let waits_since = core.clock().present();
        Self {
            core,
            next_shard: 0,
            has_backlog: false,
            expired: Vec::with_capacity(HOLD),
            waits_since,
            worst_lateness: 0,
            turns: Turns::default(),
        }
    }

    /// Drives the timer until it is shut down or nobody can use it any more.
    pub(crate) async fn run(mut self) {
        while !self.core.is_over() {
            while self.turn() == Advance::Interrupted {
                self.give_way().await;
            }
            self.core.arm();
            self.park().await;
        }
    }

    /// Does a turn's work, and says whether there is more.
    fn turn(&mut self) -> Advance {
        let wakes = WAKES * self.urgency();
        let order = self.core.clock().order();
        let mut due = Budget { steps: DUE, wakes };
        let advanced = self.work(&mut due, |now| Work::Advance(now, order));
        let mut backlog = Budget {
            steps: BACKLOG + due.steps,
            wakes: wakes / BACKLOG_SHARE + due.wakes,
        };
        let most = backlog.wakes;
        let mut has_woken = due.wakes < wakes;
        if self.has_backlog && self.work(&mut backlog, Work::Backlog) == Advance::Done {
            self.has_backlog = false;
        }
        has_woken |= backlog.wakes < most;
        if has_woken {
            self.turns.was_of_use();
        }
        match self.has_backlog {
            true => Advance::Interrupted,
            false => advanced,
        }
    }

    /// How often the turn may wake as many tasks as a turn may.
    fn urgency(&mut self) -> usize {
        let clock = self.core.clock();
        let now = clock.present();
        let waited = now.saturating_duration_since(mem::replace(&mut self.waits_since, now));
        let late = clock.duration(mem::take(&mut self.worst_lateness));
        let [waited, late] = [waited, late].map(|time| time.as_millis() as usize);
        waited.min(MOST_WAITING).max(late.min(MOST_LATENESS)).max(1)
    }

    /// Does work in all shards, a hold of each in turn, until it is done or the budget is spent.
    fn work(&mut self, budget: &mut Budget, work: impl Fn(Tick) -> Work) -> Advance {
        let shards = self.core.shards().len();
        // So many in a row had nothing left to do.
        let mut done = 0;
        while done < shards {
            if budget.is_spent() {
                return Advance::Interrupted;
            }
            let shard = self.next_shard;
            self.next_shard = (shard + 1) % shards;
            let work = work(self.core.clock().now());
            let expiration = hold(&self.core, shard, work, budget, &mut self.expired);
            // To find that there is nothing to do is a step as well. There may be 1,024 shards.
            budget.steps = budget.steps.saturating_sub(1);
            self.has_backlog |= expiration.has_backlog;
            self.worst_lateness = self.worst_lateness.max(expiration.worst_lateness);
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
        while !self.core.is_over() {
            let armed = self.core.link().arming.tick();
            if armed <= self.core.clock().now() {
                self.waits_since = self.core.clock().saturating_instant(armed);
                if has_waited {
                    self.worst_lateness = 0;
                } else {
                    // The driver is behind. Nothing else might make it give way to other tasks.
                    self.give_way().await;
                }
                return;
            }
            let mut rung = pin!(self.core.link().bell.notified());
            let woken_by = poll_fn(|cx| {
                if rung.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(BELL);
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
            };
            let work = Work::Advance(core.clock().now(), Order::Strict);
            advance = hold(core, shard, work, &mut budget, &mut expired).advance;
        }
    }
}

/// Does work under one hold of the lock of the shard of that number, and wakes what fires.
/// `expired` is the buffer for it, empty before and after.
fn hold(
    core: &Core,
    number: usize,
    work: Work,
    budget: &mut Budget,
    expired: &mut Vec<Waker>,
) -> Expiration {
    let shard = &core.shards()[number];
    let allowed = budget.steps;
    let expiration = shard.expire(work, HOLD, budget, expired);
    let fired = expired.len();
    expired.drain(..).for_each(wake);
    if expiration.has_spare {
        shard.give_back();
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

/// Wakes, and outlives a waker that panics.
pub(crate) fn wake(waker: Waker) {
    if let Err(payload) = unwind::catch(|| waker.wake()) {
        trace::waker_panicked(&*payload);
        unwind::discard(payload);
    }
}
