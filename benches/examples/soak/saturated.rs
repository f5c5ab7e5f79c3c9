//! Runs epochs in which tasks that are always ready keep all workers of the steady runtime busy.
//!
//! All other load runs beside them. Two probes sleep 10 ms again and again, one on this crate and
//! one on `tokio::time`. Both run beside the same load, so their lateness can be compared. The
//! report shows the lateness and never treats it as a fault.

use std::sync::{
    Arc, LazyLock, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use hdrhistogram::Histogram;
use tokio::runtime::Runtime;
use tokio_wheel::{Duration, Instant};
use tokio_wheel_benches::saturated::always_ready;

use crate::{
    join_set::{JoinSet, Stop},
    ledger::LATEST,
    target::Target,
};

/// The number of tasks that are always ready, and how long each poll of them takes.
const LOAD: (usize, Duration) = (30, Duration::from_micros(100));

/// How long a probe sleeps.
const PROBE: Duration = Duration::from_millis(10);

/// The timers that the probes observe.
pub const PROBES: [&str; 2] = ["this crate", "tokio::time"];

static EPOCHS: AtomicU64 = AtomicU64::new(0);

/// How late the probes were, in nanoseconds.
static LATE: LazyLock<[Mutex<Histogram<u64>>; 2]> = LazyLock::new(|| {
    let histogram = || Histogram::new_with_bounds(1, LATEST, 2).expect("the bounds are sound");
    [Mutex::new(histogram()), Mutex::new(histogram())]
});

/// Allocates the histograms. An allocation during an epoch would look like a leak.
pub fn prepare() {
    LazyLock::force(&LATE);
}

/// Starts the load and the probes of an epoch. They end when `stop` returns true.
pub fn saturate(runtime: &Runtime, target: &Arc<Target>, join_set: &mut JoinSet, stop: &Stop) {
    EPOCHS.fetch_add(1, Ordering::Relaxed);
    for (probe, name) in PROBES.into_iter().enumerate() {
        let (target, stop) = (target.clone(), stop.clone());
        let task = runtime.spawn(async move {
            while !stop.is_raised() {
                let deadline = Instant::now() + PROBE;
                match probe {
                    0 => target.sleep(PROBE).await,
                    _ => tokio::time::sleep(PROBE).await,
                }
                let late = Instant::now().saturating_duration_since(deadline);
                let mut histogram = LATE[probe].lock().unwrap_or_else(PoisonError::into_inner);
                histogram.saturating_record(late.as_nanos() as u64);
            }
        });
        join_set.task(format!("a probe of {name}"), task);
    }
    let (tasks, length) = LOAD;
    for _ in 0..tasks {
        let stop = stop.clone();
        let load = always_ready(length, move || stop.is_raised());
        join_set.task("a task that is always ready", runtime.spawn(load));
    }
}

/// Returns how many saturated epochs have run, and how late the probes were.
pub fn so_far() -> (u64, [Histogram<u64>; 2]) {
    let late = |probe: usize| {
        LATE[probe]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    };
    (EPOCHS.load(Ordering::Relaxed), [late(0), late(1)])
}
