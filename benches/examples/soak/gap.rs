//! Bounds how long a task waits for its turn beside very many timers. That is what a user feels if
//! the driver works for too long, or holds a lock for too long.
//!
//! A runtime with one worker has a task that yields in a loop, and timers that cascade and expire
//! together. The task measures the CPU time of its worker between two of its turns, so that other
//! threads do not disturb it. An interrupt or the host of a virtual machine does, from time to
//! time. So it is a fault only if many gaps exceed the bound.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use fastrand::Rng;
use tokio::{
    runtime,
    task::{JoinSet, yield_now},
};
use tokio_wheel::{Duration, Instant};
use tokio_wheel_benches::process::thread_cpu_time;

use crate::{faults, join_set::Stop};

/// The longest gap that the driver may cause: a turn of about a millisecond, the tasks that it
/// wakes, and as much again.
pub const BOUND: Duration = Duration::from_millis(5);

/// How many gaps may exceed the bound, and how many more in a million.
const FEW: u64 = 5;
const MORE_IN_A_MILLION: u64 = 10;

/// How many timers expire together, and how far ahead at most.
const TIMERS: u64 = 20_000;
const AHEAD: Duration = Duration::from_millis(400);

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

/// Lets very many sleeps expire together, again and again.
async fn expire(seed: u64, stop: Stop) {
    let mut rng = Rng::with_seed(seed);
    while !stop.is_raised() {
        let due = Instant::now() + AHEAD.mul_f64(rng.f64());
        let early = Arc::new(AtomicU64::new(0));
        let mut sleeps = JoinSet::new();
        for i in 0..TIMERS {
            let early = early.clone();
            sleeps.spawn(async move {
                tokio_wheel::sleep_until(due).await;
                early.fetch_add(u64::from(Instant::now() < due), Relaxed);
            });
            if i % 64 == 0 {
                yield_now().await;
            }
        }
        while sleeps.join_next().await.is_some() {}
        if early.load(Relaxed) > 0 {
            faults::found(format!(
                "{} sleeps beside a neighbor were early",
                early.load(Relaxed)
            ));
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

/// Returns how many gaps there were, how many of them exceeded the bound, and the worst. Reports
/// a fault if too many exceeded it.
pub fn judge() -> (u64, u64, Duration) {
    let (gaps, over) = (GAPS.load(Relaxed), OVER.load(Relaxed));
    let worst = Duration::from_nanos(WORST.load(Relaxed));
    if over > FEW + gaps / 1_000_000 * MORE_IN_A_MILLION {
        faults::found(format!(
            "{over} of {gaps} gaps of a task exceeded {BOUND:?}, the worst {worst:?}"
        ));
    }
    (gaps, over, worst)
}
