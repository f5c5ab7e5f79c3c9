//! Bounds how long a task waits for its turn beside very many timers. That is what a user feels if
//! the driver works for too long, or holds a lock for too long.
//!
//! A runtime with one worker has a task that yields in a loop, and very many timers that expire
//! together, again and again. The task measures the CPU time of its worker between two of its
//! turns, so that other threads do not disturb it. An interrupt or the host of a virtual machine
//! does, from time to time. A driver that fires all timers at once takes too long in each storm.

use std::{
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use fastrand::Rng;
use tokio::{runtime, task::yield_now};
use tokio_wheel::{Duration, Instant, Timer};
use tokio_wheel_benches::{lab, process::thread_cpu_time};

use crate::{faults, join_set::Stop};

/// The longest gap. A turn takes about a millisecond; on a machine with ten times more threads than
/// cores, 19 ms were measured. To fire all timers at once would take 30 ms or more.
pub const BOUND: Duration = Duration::from_millis(20);

/// How many gaps may exceed the bound, beside one in four storms.
const FEW: u64 = 3;

/// How many timers expire together, and how far ahead at least and at most. Their registration
/// takes less.
const TIMERS: usize = 500_000;
const AHEAD: (Duration, Duration) = (Duration::from_millis(600), Duration::from_millis(1_200));

static STORMS: AtomicU64 = AtomicU64::new(0);
static GAPS: AtomicU64 = AtomicU64::new(0);
static OVER: AtomicU64 = AtomicU64::new(0);
static WORST: AtomicU64 = AtomicU64::new(0);

/// Runs the runtime until `stop`.
pub fn observe(seed: u64, stop: &Stop) {
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let runtime = runtime.expect("cannot start a runtime");
    let load = runtime.spawn(expire(seed, stop.clone()));
    let neighbor = runtime.spawn(measure(stop.clone()));
    // Panics were noted where they happened.
    let _ended = runtime.block_on(async { (load.await, neighbor.await) });
}

/// Lets very many sleeps expire together, again and again. They wake no task, because tokio's queue
/// of woken tasks would delay the neighbor too.
async fn expire(seed: u64, stop: Stop) {
    let mut rng = Rng::with_seed(seed);
    let timer = Timer::current();
    while !stop.is_raised() {
        let ahead = AHEAD.0 + (AHEAD.1 - AHEAD.0).mul_f64(rng.f64());
        let due = Instant::now() + ahead;
        let before = timer.metrics().fired();
        let mut sleeps = Vec::with_capacity(TIMERS);
        for _ in 0..TIMERS {
            let mut sleep = timer.sleep_until(due);
            let _is_pending = lab::is_pending(Pin::new(&mut sleep));
            sleeps.push(sleep);
            if sleeps.len() % 64 == 0 {
                yield_now().await;
            }
        }
        if Instant::now() < due {
            timer.sleep_until(due).await;
            while timer.metrics().fired() < before + TIMERS as u64 {
                yield_now().await;
            }
            STORMS.fetch_add(1, Relaxed);
        }
        while !sleeps.is_empty() {
            sleeps.truncate(sleeps.len().saturating_sub(64));
            yield_now().await;
        }
    }
}

/// Notes the CPU time between two turns.
async fn measure(stop: Stop) {
    let mut last = thread_cpu_time();
    while !stop.is_raised() {
        yield_now().await;
        let now = thread_cpu_time();
        let gap = now - last;
        GAPS.fetch_add(1, Relaxed);
        OVER.fetch_add(u64::from(gap > BOUND), Relaxed);
        WORST.fetch_max(gap.as_nanos() as u64, Relaxed);
        last = now;
    }
}

/// Returns how many storms and gaps there were, how many gaps exceeded the bound, and the worst.
/// Reports a fault if too many exceeded it.
pub fn judge() -> (u64, u64, u64, Duration) {
    let [storms, gaps, over] = [&STORMS, &GAPS, &OVER].map(|count| count.load(Relaxed));
    let worst = Duration::from_nanos(WORST.load(Relaxed));
    if over > FEW + storms / 4 {
        faults::found(format!(
            "{over} gaps of a task exceeded {BOUND:?} in {storms} storms, {worst:?} at worst"
        ));
    }
    (storms, gaps, over, worst)
}
