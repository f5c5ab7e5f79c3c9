//! The task that drives a timer: park, expire the shards, wake in batches, yield.
//!
//! The driver parks until the armed tick (see [`arming`] and [`parking`]), or for ever when nothing
//! is registered. When that tick is reached it takes what has expired out of every shard, a batch
//! at a time: the shard's lock is held for at most [`BATCH`] steps of the wheel, then the wakers of
//! the batch are woken with no lock held, and before the next batch the task yields. It does so by
//! tokio's `yield_now`, which gives way to I/O and to other tasks that yielded; a task that wakes
//! itself is polled some sixty times before those are.
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
    pin::pin,
    sync::Arc,
    task::{Poll, Waker},
};

use tokio::task::yield_now;

use crate::{shard::Shard, timer::Core, trace, unwind, wheel::Advance};

/// Steps of a wheel under one hold of a shard's lock, and so the most wakers of a batch.
///
/// A step costs two or three cache misses when there are very many entries, about 0.2 µs. Half
/// of a worker's local queue of tasks: what a batch wakes does not spill into the shared one.
pub(crate) const BATCH: usize = 128;

/// What wakes the driver, as events call it.
const ALARM: &str = "alarm";
const BELL: &str = "bell";

/// The driver task's state; dropping it closes the timer.
pub(crate) struct Driver {
    core: Arc<Core>,
}

impl Driver {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// Drives the timer until it is shut down or nobody can use it any more.
    pub(crate) async fn run(self) {
        let mut expired = Vec::with_capacity(BATCH);
        while !self.core.is_over() {
            self.expire(&mut expired).await;
            self.core.arm();
            self.park().await;
        }
    }

    /// Fires what is due, a batch of each shard in turn, so that a crowd in one of them does not
    /// keep the others waiting. Yields whenever a batch's worth of steps is done.
    async fn expire(&self, expired: &mut Vec<Waker>) {
        let mut steps = BATCH;
        let mut interrupted = true;
        while std::mem::take(&mut interrupted) {
            for shard in self.core.shards().enumerate() {
                let advance = expire_batch(&self.core, shard, &mut steps, expired);
                interrupted |= advance == Advance::Interrupted;
                if steps == 0 {
                    yield_now().await;
                    steps = BATCH;
                }
            }
        }
    }

    /// Waits until the armed tick is reached, which registrations may lower meanwhile, or until
    /// the timer is over.
    async fn park(&self) {
        let mut has_waited = false;
        while !self.core.is_over() {
            if self.core.link().arming.tick() <= self.core.clock().now() {
                if !has_waited {
                    // The driver is behind. Nothing else might make it give way to other tasks.
                    yield_now().await;
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
    let mut expired = Vec::with_capacity(BATCH);
    for shard in core.shards().enumerate() {
        while expire_batch(core, shard, &mut { BATCH }, &mut expired) == Advance::Interrupted {}
    }
}

/// Takes what is due now out of the shard of that number, in at most `steps`, and wakes it.
/// `expired` is the buffer for it, empty before and after.
fn expire_batch(
    core: &Core,
    (number, shard): (usize, &Shard),
    steps: &mut usize,
    expired: &mut Vec<Waker>,
) -> Advance {
    let allowed = *steps;
    let expiration = shard.expire(core.clock().now(), steps, expired);
    let fired = expired.len();
    expired.drain(..).for_each(wake);
    if expiration.has_spare {
        shard.give_back();
    }
    // After the wakes, so that a slow subscriber makes no timer of the batch late.
    trace::batch(&trace::Batch {
        shard: number,
        fired,
        steps: allowed - *steps,
        interrupted: expiration.advance == Advance::Interrupted,
        worst_lateness: core.clock().duration(expiration.worst_lateness),
    });
    expiration.advance
}

/// Wakes, and outlives a waker that panics.
pub(crate) fn wake(waker: Waker) {
    if let Err(payload) = unwind::catch(|| waker.wake()) {
        trace::waker_panicked(&*payload);
        unwind::discard(payload);
    }
}
