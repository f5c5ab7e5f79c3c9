//! Runs the operations of users at random. An operation is complete before the next one begins.

use std::{
    future::{pending, poll_fn},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Wake, Waker},
    thread,
};

use fastrand::Rng;
use futures_util::future::{Either, select};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, duplex},
    task::yield_now,
};
use tokio_wheel::{
    DelayQueue, Duration, Instant,
    idle::{IdleSet, Touched},
};
use tokio_wheel_util::io::{Limits, TimeoutStream};

use crate::{
    faults::{self, Deliberate},
    ledger::{Class, Line},
    migration::Migration,
    target::{Target, Tracked},
};

/// The operations, as the report counts them.
#[derive(Clone, Copy)]
enum Op {
    Sleep,
    TimeoutInTime,
    TimeoutElapsed,
    Burst,
    ResetLater,
    ResetEarlier,
    Select,
    Interval,
    Queue,
    Schedule,
    Cancel,
    Periodic,
    Idle,
    Read,
    Migrate,
    HostileWaker,
    Block,
}

/// The relative frequency of each operation, and its name.
const OPS: [(Op, usize, &str); 17] = [
    (Op::Sleep, 20, "sleep"),
    (Op::TimeoutInTime, 20, "timeout, in time"),
    (Op::TimeoutElapsed, 5, "timeout, elapsed"),
    (Op::Burst, 5, "up to 200 sleeps polled and dropped"),
    (Op::ResetLater, 10, "sleep reset to later"),
    (Op::ResetEarlier, 10, "sleep reset to earlier"),
    (Op::Select, 10, "select among sleeps"),
    (Op::Interval, 4, "interval"),
    (Op::Queue, 3, "DelayQueue filled and emptied"),
    (Op::Schedule, 8, "task scheduled and run"),
    (Op::Cancel, 8, "task scheduled and canceled"),
    (Op::Periodic, 3, "periodic task"),
    (Op::Idle, 2, "IdleSet touched and reaped"),
    (Op::Read, 5, "reader with a timeout"),
    (Op::Migrate, 20, "sleep sent elsewhere"),
    (Op::HostileWaker, 3, "waker that panics"),
    (Op::Block, 1, "worker blocked"),
];

static DONE: [AtomicU64; OPS.len()] = [const { AtomicU64::new(0) }; OPS.len()];

/// Returns how often each operation was done.
pub fn done() -> impl Iterator<Item = (&'static str, u64)> {
    OPS.iter()
        .map(|&(op, _, name)| (name, DONE[op as usize].load(Ordering::Relaxed)))
}

/// Runs operations until `stop` returns true or the target ends.
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

fn draw(rng: &mut Rng) -> Op {
    let mut left = rng.usize(..OPS.iter().map(|(_, weight, _)| weight).sum::<usize>());
    let is_it = |&&(_, weight, _): &&(Op, usize, &str)| {
        let is_it = left < weight;
        left = left.saturating_sub(weight);
        is_it
    };
    OPS.iter()
        .find(is_it)
        .expect("it is less than the sum of the weights")
        .0
}

async fn one(target: &Arc<Target>, rng: &mut Rng) {
    let op = draw(rng);
    match op {
        Op::Sleep => target.sleep(short(rng)).await,
        Op::TimeoutInTime => timeout_in_time(target, rng).await,
        Op::TimeoutElapsed => timeout_elapsed(target, rng).await,
        Op::Burst => burst(target, rng).await,
        Op::ResetLater => reset_later(target, rng).await,
        Op::ResetEarlier => reset_earlier(target, rng).await,
        Op::Select => select_first(target, rng).await,
        Op::Interval => interval(target, rng).await,
        Op::Queue => queue(target, rng).await,
        Op::Schedule => schedule(target, rng).await,
        Op::Cancel => cancel(target, rng).await,
        Op::Periodic => periodic(target, rng).await,
        Op::Idle => idle(target, rng).await,
        Op::Read => read(target, rng).await,
        Op::Migrate => migrate(target, rng).await,
        Op::HostileWaker => hostile_waker(target, rng).await,
        Op::Block if target.env.blocks => thread::sleep(Duration::from_millis(rng.u64(1..8))),
        Op::Block => return,
    }
    DONE[op as usize].fetch_add(1, Ordering::Relaxed);
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

/// Returns a duration for which no operation waits.
fn long(rng: &mut Rng) -> Duration {
    Duration::from_secs(rng.u64(30..100_000))
}

/// Polls once with the current task's waker, and returns whether the sleep is pending.
async fn is_pending(sleep: &mut Tracked) -> bool {
    poll_fn(|cx| sleep.is_pending(cx).into()).await
}

async fn timeout_in_time(target: &Arc<Target>, rng: &mut Rng) {
    let limit = long(rng);
    let line = Line::open(target, target.class, Instant::now() + limit);
    let turns = rng.u8(..4);
    let answer = async {
        for _ in 0..turns {
            yield_now().await;
        }
    };
    if target.timeout(limit, answer).await.is_err() {
        faults::found(format!("a timeout of {limit:?} elapsed at once: {target}"));
        line.fired();
    }
}

async fn timeout_elapsed(target: &Arc<Target>, rng: &mut Rng) {
    let limit = short(rng);
    let line = Line::open(target, target.class, Instant::now() + limit);
    let Err(_elapsed) = target.timeout(limit, pending::<()>()).await else {
        return;
    };
    line.fired();
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

async fn reset_later(target: &Arc<Target>, rng: &mut Rng) {
    let mut sleep = target.sleep(short(rng));
    for _ in 0..rng.u8(1..4) {
        let _ = is_pending(&mut sleep).await;
        let later = sleep.deadline().max(Instant::now()) + short(rng) / 4;
        sleep.reset(target, later);
        if rng.bool() {
            yield_now().await;
        }
    }
    sleep.await;
}

async fn reset_earlier(target: &Arc<Target>, rng: &mut Rng) {
    let mut sleep = target.sleep(long(rng));
    for _ in 0..rng.u8(1..4) {
        let _ = is_pending(&mut sleep).await;
        sleep.reset(target, Instant::now() + short(rng));
        if rng.bool() {
            yield_now().await;
        }
    }
    sleep.await;
}

async fn select_first(target: &Arc<Target>, rng: &mut Rng) {
    let (one, other) = (target.sleep(short(rng)), target.sleep(short(rng)));
    let rest = match select(one, other).await {
        Either::Left(((), rest)) | Either::Right(((), rest)) => rest,
    };
    if rng.bool() {
        rest.await;
    }
}

async fn interval(target: &Arc<Target>, rng: &mut Rng) {
    let period = Duration::from_micros(rng.u64(500..10_000));
    let mut interval = match &target.timer {
        Some(timer) => timer.interval(period),
        None => tokio_wheel::interval(period),
    };
    let mut next = interval.tick().await + period;
    for _ in 0..rng.u8(1..5) {
        let line = Line::open(target, target.class, next);
        let scheduled = interval.tick().await;
        line.fired();
        // Missed ticks come in a burst, so each tick is where the previous tick predicted it.
        if scheduled != next {
            faults::found(format!("an interval leapt: {target}"));
        }
        next = scheduled + period;
    }
}

async fn queue(target: &Arc<Target>, rng: &mut Rng) {
    let mut queue = match &target.timer {
        Some(timer) => DelayQueue::with_timer(timer),
        None => DelayQueue::new(),
    };
    let mut keys = Vec::new();
    for _ in 0..rng.usize(1..100) {
        let delay = short(rng) / 2;
        let line = Line::open(target, Class::Queue, Instant::now() + delay);
        keys.push(queue.insert(line, delay));
    }
    for key in keys {
        match rng.u8(..10) {
            0..3 => drop(queue.try_remove(&key)),
            3..5 => {
                let later = Instant::now() + short(rng) / 2;
                // The line belongs to the element, so the queue removes the element and takes it in
                // again.
                if let Some(expired) = queue.try_remove(&key) {
                    let mut line = expired.into_inner();
                    line.move_to(later);
                    queue.insert_at(line, later);
                }
            }
            _ => {}
        }
    }
    while let Some(expired) = poll_fn(|cx| queue.poll_expired(cx)).await {
        expired.into_inner().fired();
    }
}

async fn schedule(target: &Arc<Target>, rng: &mut Rng) {
    let delay = short(rng);
    let line = Line::open(target, Class::Scheduled, Instant::now() + delay);
    match target.timer().schedule(delay, async { line.fired() }) {
        Ok(task) => {
            if let Err(error) = task.await
                && !target.may_end()
            {
                faults::found(format!("a scheduled task did not run: {error}: {target}"));
            }
        }
        Err(refused) => {
            let is_full = target.class == Class::Limited && refused.is_full();
            if !is_full && !target.may_end() {
                faults::found(format!("a task was refused: {refused}: {target}"));
            }
        }
    }
}

async fn cancel(target: &Arc<Target>, rng: &mut Rng) {
    let delay = if rng.bool() { short(rng) } else { long(rng) };
    let line = Line::open(target, Class::Scheduled, Instant::now() + delay);
    if let Ok(task) = target.timer().schedule(delay, async { line.fired() }) {
        if rng.bool() {
            target.sleep(short(rng) / 4).await;
        }
        // Either the task runs, or this call cancels it, or the timer has ended before both.
        let cancelled = task.cancel();
        let is_sound = match task.await {
            Ok(()) => !cancelled,
            Err(error) if error.is_cancelled() => cancelled,
            Err(_) => !cancelled && target.may_end(),
        };
        if !is_sound {
            faults::found(format!(
                "`cancel` returned {cancelled}, which contradicts the task: {target}"
            ));
        }
    }
}

async fn periodic(target: &Arc<Target>, rng: &mut Rng) {
    let period = Duration::from_micros(rng.u64(500..5_000));
    let start = Instant::now();
    let runs = Arc::new(AtomicU64::new(0));
    let counted = runs.clone();
    let described = target.clone();
    let run = move || {
        let nth = counted.fetch_add(1, Ordering::Relaxed) as u32 + 1;
        if Instant::now() < start + period * nth {
            faults::found(format!("a periodic task ran early: {described}"));
        }
        async {}
    };
    let timer = target.timer();
    let scheduled = match rng.bool() {
        true => timer.schedule_at_fixed_rate(period, period, run),
        false => timer.schedule_with_fixed_delay(period, period, run),
    };
    if let Ok(task) = scheduled {
        target.sleep(period * rng.u32(..5)).await;
        task.cancel();
        let _cancelled = task.await;
    }
}

async fn idle(target: &Arc<Target>, rng: &mut Rng) {
    let timeout = Duration::from_micros(rng.u64(1_000..20_000));
    let (set, mut reaper) = match &target.timer {
        Some(timer) => IdleSet::with_timer(timeout, timer),
        None => IdleSet::new(timeout),
    };
    let mut lines: Vec<_> = (0..rng.usize(1..300))
        .map(|key| {
            let line = Line::open(target, Class::Idle, Instant::now() + timeout);
            set.touch(&key);
            Some(line)
        })
        .collect();
    for (key, line) in lines.iter_mut().enumerate() {
        match rng.u8(..10) {
            0..4 => {
                let put_off = Instant::now() + timeout;
                if let Some(line) = line
                    && set.touch_existing(&key) == Touched::Present
                {
                    line.move_to(put_off);
                }
            }
            4..6 => *line = set.remove(&key).and(None),
            _ => {}
        }
    }
    while !set.is_empty() {
        let Some(key) = reaper.reap().await else {
            break;
        };
        match lines[key].take() {
            Some(line) => line.fired(),
            None => faults::found(format!("an idle key expired twice: {target}")),
        }
    }
    if lines.iter().any(Option::is_some) && !target.may_end() {
        faults::found(format!("an idle key never expired: {target}"));
    }
}

async fn read(target: &Arc<Target>, rng: &mut Rng) {
    let (mut there, here) = duplex(64);
    let mut reader = match &target.timer {
        Some(timer) => TimeoutStream::with_timer(here, timer),
        None => TimeoutStream::new(here),
    };
    let mut buffer = [0; 64];
    reader.set_limits(Limits::new().read_timeout(Duration::from_secs(30)));
    for _ in 0..rng.u8(..4) {
        let line = Line::open(
            target,
            target.class,
            Instant::now() + Duration::from_secs(30),
        );
        let write = async {
            yield_now().await;
            there.write_all(b"x").await
        };
        let (read, written) = tokio::join!(reader.read(&mut buffer), write);
        if read.is_err() || written.is_err() {
            faults::found(format!("a reader did not read: {target}"));
            line.fired();
        }
    }
    let limit = short(rng);
    reader.set_limits(Limits::new().read_timeout(limit));
    let line = Line::open(target, target.class, Instant::now() + limit);
    if reader.read(&mut buffer).await.is_err() {
        line.fired();
    }
}

/// Sends a sleep to another task, worker, runtime or thread.
async fn migrate(target: &Arc<Target>, rng: &mut Rng) {
    let is_registered = rng.u8(..5) == 0;
    let mut sleep = target.sleep(if is_registered { long(rng) } else { short(rng) });
    if is_registered {
        let _ = is_pending(&mut sleep).await;
        sleep.reset(target, Instant::now() + short(rng));
    }
    sleep.is_not_awaited();
    let is_bound = is_registered || target.timer.is_some() || rng.bool();
    if is_bound && !is_pending(&mut sleep).await {
        return;
    }
    let bound_to = is_bound.then(|| target.clone());
    let migration = Migration {
        sleep,
        target: bound_to,
    };
    target.env.migrations.send(migration);
}

struct Hostile;

impl Wake for Hostile {
    fn wake(self: Arc<Self>) {
        std::panic::panic_any(Deliberate);
    }
}

/// Registers a waker that panics, and awaits the sleep afterwards, or just before it fires.
async fn hostile_waker(target: &Arc<Target>, rng: &mut Rng) {
    let mut sleep = target.sleep(short(rng));
    sleep.is_not_awaited();
    let waker = Waker::from(Arc::new(Hostile));
    if sleep.is_pending(&mut Context::from_waker(&waker)) {
        let until = sleep.deadline().saturating_duration_since(Instant::now());
        let factor = rng.u32(1..5);
        target.sleep(until * factor / 2).await;
        sleep.await;
    }
}
