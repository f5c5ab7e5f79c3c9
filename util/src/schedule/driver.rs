//! The driver of a scheduler: the tokio task that starts the scheduled tasks.
//!
//! | state   | the armed tick | the state ends                                                      |
//! |---------|----------------|---------------------------------------------------------------------|
//! | working | 0              | when no task has expired, or after [`STEPS`] steps, by giving way   |
//! | looking | never          | within the same poll                                                |
//! | waiting | the next tick  | at this tick, by an earlier task, by a shutdown, by the last handle |
//!
//! The driver holds no shard while it waits. So it ends after the last handle is dropped and the last task has ended. If
//! its runtime drops the driver first, the driver closes the shards, and drops the work of the waiting tasks.

use std::{
    future::Future,
    ops::ControlFlow,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use bounded_wheel::{NEVER, Tick};

use super::shard::{Common, Shard};
use crate::ground::{give_way::Yields, tick_sleep::TickSleep, unwind};

/// The largest number of steps in one poll, which take at most about 1 ms.
///
/// A task that starts goes into the queue of the worker, behind the tasks that are ready. The driver gives way behind
/// it. So a crowd of scheduled tasks does not fill the queue faster than the workers empty it.
const STEPS: usize = 1_024;

pub(super) struct Driver {
    shards: Box<[Weak<Shard>]>,
    common: Arc<Common>,
    sleep: TickSleep,
    /// The shard at which the next poll begins, so that each shard has its turn.
    first: usize,
    yields: Yields,
}

impl Driver {
    pub(super) fn new(shards: &[Arc<Shard>], common: Arc<Common>, sleep: TickSleep) -> Self {
        Self {
            shards: shards.iter().map(Arc::downgrade).collect(),
            common,
            sleep,
            first: 0,
            yields: Yields::default(),
        }
    }

    fn shards(&self) -> impl Iterator<Item = Arc<Shard>> {
        self.shards.iter().filter_map(Weak::upgrade)
    }

    /// Starts the tasks that have expired at `now`. Returns `Break` if some of them are left.
    ///
    /// Does at most `steps` steps, and subtracts them.
    pub(super) fn fire(&mut self, now: Tick, steps: &mut usize) -> ControlFlow<()> {
        for _ in 0..self.shards.len() {
            let shard = self.shards[self.first].upgrade();
            self.first = (self.first + 1) % self.shards.len();
            if let Some(shard) = shard {
                shard.fire(now, steps)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Returns the earliest tick at which a wheel has work, or `None` if no shard is left.
    pub(super) fn look(&self) -> Option<Tick> {
        (self.shards()).map(|shard| shard.next_expiration()).min()
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        // If the alarm has fired and this thread's clock is still before the tick of the alarm, the driver uses the
        // tick of the alarm.
        let mut reached = 0;
        let mut steps = STEPS;
        loop {
            if !this.common.begin_turn() {
                return Poll::Ready(());
            }
            let now = this.sleep.clock.now().max(reached);
            if this.fire(now, &mut steps).is_break() {
                this.yields.end_poll(cx);
                return Poll::Pending;
            }
            let mut is_left = true;
            let next = this.common.arm(cx.waker(), || {
                let next = this.look();
                is_left = next.is_some();
                next.unwrap_or(NEVER)
            });
            if !is_left {
                return Poll::Ready(());
            }
            if next > now {
                match this.sleep.poll(next, cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) => reached = next,
                }
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The drop of a task runs user code, so the driver closes all shards before it drops the first task.
        let closed: Vec<_> = self.shards().map(|shard| shard.close()).collect();
        for task in closed.into_iter().flat_map(|nodes| nodes.into_values()) {
            unwind::contain(|| task.abandon());
        }
    }
}
