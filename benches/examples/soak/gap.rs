//! Runs a storm of timers beside a task that is always ready, on a runtime with one worker.
//!
//! A turn of the driver that does not end, or a lock that is held for too long, keeps the task
//! waiting. So its longest wait has a bound. The wait is counted in CPU time of the worker, because
//! the soak keeps all cores busy with other threads.
//!
//! The CPU time of a thread includes interrupts. On a virtual machine, it also includes time that
//! the host took. So a single storm may exceed the bound. It is a fault if half of the storms do.

use std::sync::{LazyLock, Mutex, PoisonError};

use hdrhistogram::Histogram;
use tokio::runtime;
use tokio_wheel::{Duration, Instant, sleep_until};
use tokio_wheel_benches::process::thread_cpu_time;

use crate::{faults, join_set::Stop};

/// The number of sleeps in a storm. Each of them has a task of its own.
const SIZE: usize = 50_000;

/// The time from the start of the storm until all its sleeps expire. All sleeps cascade before they
/// expire. They are registered by then, unless the machine is very busy.
const AHEAD: Duration = Duration::from_millis(500);

/// The bound of the longest wait. A turn of the driver ends after about a millisecond. Then the
/// tasks that it has woken run once, before the waiting task does. With `tokio::time`, the wait
/// grows with the size of the storm: 200,000 sleeps took up to 92 ms.
pub const BOUND: Duration = Duration::from_millis(5);

/// The number of storms that is enough to judge them.
const ENOUGH: u64 = 5;

/// The longest wait of each storm, in nanoseconds.
static GAPS: LazyLock<Mutex<Histogram<u64>>> = LazyLock::new(|| {
    let gaps = Histogram::new_with_bounds(1, 100_000_000_000, 2);
    Mutex::new(gaps.expect("the bounds are sound"))
});

/// Allocates the histogram. An allocation during an epoch would look like a leak.
pub fn prepare() {
    LazyLock::force(&GAPS);
}

/// Runs one storm after the other, each on a runtime of its own.
pub fn observe(stop: &Stop) {
    while !stop.is_raised() {
        storm();
    }
}

fn storm() {
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("cannot start a runtime");
    let worst = runtime.block_on(async {
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
    });
    let mut gaps = GAPS.lock().unwrap_or_else(PoisonError::into_inner);
    gaps.saturating_record(worst.as_nanos() as u64);
}

/// Returns the longest wait of each storm, and checks their median.
pub fn judge() -> Histogram<u64> {
    let gaps = GAPS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let median = Duration::from_nanos(gaps.value_at_quantile(0.5));
    if gaps.len() >= ENOUGH && median > BOUND {
        faults::found(format!(
            "in half of {} storms of {SIZE} sleeps, another task waited for {median:?} of CPU time or longer",
            gaps.len()
        ));
    }
    gaps
}
