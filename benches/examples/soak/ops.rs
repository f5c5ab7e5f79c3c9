//! Runs the operations of users at random. An operation is complete before the next one begins.

use std::{
    future::{pending, poll_fn},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use fastrand::Rng;
use tokio::task::yield_now;
use tokio_wheel::{Duration, Instant};

use crate::{
    faults,
    target::{Line, Target, Tracked},
};

pub static DONE: AtomicU64 = AtomicU64::new(0);

pub async fn act(target: Arc<Target>, seed: u64, stop: impl Fn() -> bool) {
    let mut rng = Rng::with_seed(seed);
    let load = async {
        while !stop() && !target.has_ended() {
            one(&target, &mut rng).await;
            yield_now().await;
        }
    };
    target.outlive(load).await;
}

async fn one(target: &Arc<Target>, rng: &mut Rng) {
    match rng.u8(..107) {
        0..20 => target.sleep(short(rng)).await,
        20..45 => timeout(target, rng).await,
        45..50 => burst(target, rng).await,
        50..70 => reset(target, rng).await,
        70..86 => schedule(target, rng).await,
        86..106 => migrate(target, rng).await,
        _ if target.env.blocks => thread::sleep(Duration::from_millis(rng.u64(1..8))),
        _ => return,
    }
    DONE.fetch_add(1, Ordering::Relaxed);
}

/// Returns a duration that is usually some milliseconds, sometimes zero, and rarely longer.
fn short(rng: &mut Rng) -> Duration {
    Duration::from_micros(match rng.u8(..100) {
        0..3 => 0,
        3..60 => rng.u64(..5_000),
        60..98 => rng.u64(..40_000),
        _ => rng.u64(..300_000),
    })
}

fn long(rng: &mut Rng) -> Duration {
    Duration::from_secs(rng.u64(30..100_000))
}

pub async fn is_pending(sleep: &mut Tracked) -> bool {
    poll_fn(|cx| sleep.is_pending(cx).into()).await
}

/// Awaits a timeout that elapses, or that is far longer than its future.
async fn timeout(target: &Arc<Target>, rng: &mut Rng) {
    let elapses = rng.u8(..5) == 0;
    let limit = if elapses { short(rng) } else { long(rng) };
    let line = Line::open(target, Instant::now() + limit);
    let turns = rng.u8(..4);
    let answer = async {
        for _ in 0..turns {
            yield_now().await;
        }
        if elapses {
            pending::<()>().await;
        }
    };
    if target.timeout(limit, answer).await.is_err() {
        line.fired();
    }
}

async fn burst(target: &Arc<Target>, rng: &mut Rng) {
    let count = rng.usize(1..200);
    let mut sleeps: Vec<_> = (0..count).map(|_| target.sleep(long(rng))).collect();
    for sleep in &mut sleeps {
        if !is_pending(sleep).await {
            faults::found(format!("a far sleep was ready: {target}"));
        }
    }
    rng.shuffle(&mut sleeps);
    if rng.bool() {
        yield_now().await;
    }
}

async fn reset(target: &Arc<Target>, rng: &mut Rng) {
    let mut sleep = target.sleep(if rng.bool() { short(rng) } else { long(rng) });
    for _ in 0..rng.u8(1..4) {
        let _ = is_pending(&mut sleep).await;
        sleep.reset(target, Instant::now() + short(rng));
        if rng.bool() {
            yield_now().await;
        }
    }
    sleep.await;
}

async fn schedule(target: &Arc<Target>, rng: &mut Rng) {
    let is_near = rng.u8(..4) > 0;
    let delay = if is_near { short(rng) } else { long(rng) };
    let line = Line::open(target, Instant::now() + delay);
    let task = match target.env.scheduler.schedule(delay, async { line.fired() }) {
        Ok(task) => task,
        Err(refused) => {
            if !refused.is_full() && !target.env.may_refuse() {
                faults::found(format!("a task was refused: {refused}: {target}"));
            }
            return;
        }
    };
    let mut cancelled = false;
    if !is_near || rng.bool() {
        if rng.bool() {
            target.sleep(short(rng) / 4).await;
        }
        cancelled = task.cancel();
    }
    // Either the task runs, or this call cancels it, or the timer has ended before both.
    let is_sound = match task.await {
        Ok(()) => !cancelled,
        Err(error) if error.is_cancelled() => cancelled,
        Err(_) => !cancelled && target.env.may_refuse(),
    };
    if !is_sound {
        faults::found(format!(
            "`cancel` returned {cancelled}, which contradicts the task: {target}"
        ));
    }
}

/// Sends a sleep to another task, worker, runtime or thread, and awaits a sleep from elsewhere.
async fn migrate(target: &Arc<Target>, rng: &mut Rng) {
    let is_long = rng.bool();
    let mut sleep = target.sleep(if is_long { long(rng) } else { short(rng) });
    if !is_pending(&mut sleep).await {
        return;
    }
    if is_long {
        sleep.reset(target, Instant::now() + short(rng));
    }
    let mine = (sleep, target.clone());
    if let Some((sleep, holder)) = target.env.epoch.exchange(mine, rng) {
        holder.outlive(sleep).await;
    }
}
