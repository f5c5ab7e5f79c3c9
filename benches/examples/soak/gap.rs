//! Runs a storm of timers beside a task that is always ready, on a runtime with one worker.
//!
//! A turn of the driver that does not end, or a lock that is held for too long, keeps the task waiting. The wait is
//! counted in CPU time of the worker, because the soak keeps all cores busy. This time includes interrupts, and on a
//! virtual machine what the host took. So it is a fault only if half of the storms exceed the bound.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::runtime;
use tokio_wheel::{Duration, Instant, sleep_until};
use tokio_wheel_benches::process::thread_cpu_time;

use crate::{faults, target::Epoch};

const SIZE: usize = 50_000;

/// The time until all sleeps expire. They are registered by then, unless the machine is very busy, and cascade first.
const AHEAD: Duration = Duration::from_millis(500);

/// The bound of the longest wait. A turn of the driver ends after about a millisecond, and the tasks that it has woken run
/// before the waiting task does. With `tokio::time`, 200,000 sleeps took up to 92 ms.
const BOUND: Duration = Duration::from_millis(5);

const ENOUGH: u64 = 5;

static STORMS: AtomicU64 = AtomicU64::new(0);
static ABOVE_BOUND: AtomicU64 = AtomicU64::new(0);
static WORST_NANOS: AtomicU64 = AtomicU64::new(0);

pub fn observe(epoch: &Epoch) {
    while !epoch.is_over() {
        let gap = storm();
        STORMS.fetch_add(1, Relaxed);
        ABOVE_BOUND.fetch_add(u64::from(gap > BOUND), Relaxed);
        WORST_NANOS.fetch_max(gap.as_nanos() as u64, Relaxed);
    }
}

fn storm() -> Duration {
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("cannot start a runtime");
    runtime.block_on(async {
        let deadline = Instant::now() + AHEAD;
        let storm = tokio::spawn(async move {
            let sleeps = (0..SIZE).map(|_| tokio::spawn(sleep_until(deadline)));
            for sleep in sleeps.collect::<Vec<_>>() {
                sleep.await.expect("it does not panic");
            }
        });
        let neighbor = tokio::spawn(async move {
            // The worker that registers the sleeps keeps the task waiting too.
            tokio::time::sleep_until(deadline - AHEAD / 10).await;
            let mut worst = Duration::ZERO;
            let mut last = thread_cpu_time();
            while !storm.is_finished() {
                tokio::task::yield_now().await;
                let now = thread_cpu_time();
                worst = worst.max(now.saturating_sub(last));
                last = now;
            }
            worst
        });
        neighbor.await.expect("it does not panic")
    })
}

pub fn judge() {
    let (storms, above) = (STORMS.load(Relaxed), ABOVE_BOUND.load(Relaxed));
    let worst = Duration::from_nanos(WORST_NANOS.load(Relaxed));
    let gaps = format!(
        "in {above} of {storms} storms of {SIZE} sleeps, another task waited for more than {BOUND:?} \
         of CPU time, at most {worst:.1?}"
    );
    println!("{gaps}");
    if storms >= ENOUGH && 2 * above > storms {
        faults::found(gaps);
    }
}
