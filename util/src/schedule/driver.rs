//! The driver of a scheduler: the tokio task that starts the scheduled tasks.
//!
//! | state   | the armed tick | the state ends                                                      |
//! |---------|----------------|---------------------------------------------------------------------|
//! | working | 0              | when no task has expired, or after [`STEPS`] steps, by giving way   |
//! | looking | never          | within the same poll                                                |
//! | waiting | the next tick  | at this tick, by an earlier task, by a shutdown, by the last handle |
//!
//! The driver holds no shard while it waits. So it ends after the last handle is dropped and the last task has ended. If
//! its runtime drops the driver first, or if its timer ends, the driver closes the shards, and drops the work of the
//! waiting tasks.
//!
//! # A crowd of tasks
//!
//! [`room`](super::room) decides how many tasks a poll may start.

use std::{
    future::Future,
    ops::ControlFlow,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use bounded_wheel::{NEVER, Tick};
use tokio::runtime::Handle;
use tokio_wheel::Timer;

use super::{
    entry::Task,
    room::Room,
    shard::{Budget, Common, Shard},
};
use crate::ground::{give_way::Yields, tick_sleep::TickSleep, unwind};

/// The largest number of steps in one poll, in which the driver starts tasks and cascades.
const STEPS: usize = 1_024;

/// The number of ticks after which a driver without a task wakes up. The sleep also tells the driver of the end of its
/// timer.
const FAR: Tick = 1 << 40;

pub(super) struct Driver {
    shards: Box<[Weak<Shard>]>,
    common: Arc<Common>,
    timer: Timer,
    sleep: TickSleep,
    /// The shard at which the next poll begins, so that each shard has its turn.
    first: usize,
    /// A buffer for the tasks of one hold of a lock.
    expired: Vec<Arc<dyn Task>>,
    room: Room,
    yields: Yields,
}

impl Driver {
    /// Creates the driver of these shards. `sleep` is a sleep on `timer`.
    pub(super) fn new(
        shards: &[Arc<Shard>],
        common: Arc<Common>,
        timer: Timer,
        sleep: TickSleep,
    ) -> Self {
        Self {
            shards: shards.iter().map(Arc::downgrade).collect(),
            common,
            timer,
            sleep,
            first: 0,
            expired: Vec::new(),
            room: Room::new(&Handle::current()),
            yields: Yields::default(),
        }
    }

    fn shards(&self) -> impl Iterator<Item = Arc<Shard>> {
        self.shards.iter().filter_map(Weak::upgrade)
    }

    /// Starts the tasks that have expired at `now`. Returns `Break` if some of them are left.
    pub(super) fn fire(&mut self, now: Tick, budget: &mut Budget) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        for _ in 0..self.shards.len() {
            let shard = self.shards[self.first].upgrade();
            self.first = (self.first + 1) % self.shards.len();
            if let Some(shard) = shard {
                if shard.fire(now, budget, &mut self.expired).is_break() {
                    flow = ControlFlow::Break(());
                }
            }
            if budget.steps == 0 {
                return ControlFlow::Break(());
            }
        }
        flow
    }

    /// Returns the earliest tick at which a wheel has work, or `None` if no open shard is left.
    pub(super) fn look(&self) -> Option<Tick> {
        self.shards()
            .filter_map(|shard| shard.next_expiration())
            .min()
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        // If the alarm has fired and this thread's clock is still before the tick of the alarm, the driver uses the
        // tick of the alarm.
        let mut reached = 0;
        let mut budget = Budget {
            steps: STEPS,
            starts: this.room.starts(),
        };
        loop {
            this.common.armed.disarm();
            // A sleep of a timer that has ended would panic.
            if this.timer.is_shutdown() {
                return Poll::Ready(());
            }
            let now = this.sleep.clock.now().max(reached);
            if this.fire(now, &mut budget).is_break() {
                this.room.begin_backlog();
                this.yields.end_poll(cx);
                return Poll::Pending;
            }
            this.room.end_backlog();
            let mut is_left = true;
            let next = this.common.armed.arm(cx.waker(), || {
                let next = this.look();
                is_left = next.is_some();
                next.unwrap_or(NEVER)
            });
            if !is_left {
                return Poll::Ready(());
            }
            if next > now {
                match this.sleep.poll(next.min(now + FAR), cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) => reached = next.min(now + FAR),
                }
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The drop of a task runs user code, so the driver closes all shards before it drops the first task.
        let closed: Vec<_> = self.shards().map(|shard| shard.close()).collect();
        self.common.armed.disarm();
        for task in closed.into_iter().flatten() {
            unwind::contain(|| task.abandon());
        }
    }
}
