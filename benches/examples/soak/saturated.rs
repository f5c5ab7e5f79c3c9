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
    target::Target,
};

/// The number of tasks that are always ready, and how long each poll of them takes.
const LOAD: (usize, Duration) = (30, Duration::from_micros(100));

/// How long a probe sleeps.
const PROBE: Duration = Duration::from_millis(10);

/// The highest lateness that the histograms tell apart, in nanoseconds.
const LATEST: u64 = 100_000_000_000;

static EPOCHS: AtomicU64 = AtomicU64::new(0);

static LATE: LazyLock<[Mutex<Histogram<u64>>; 2]> = LazyLock::new(|| {
    let histogram = || Histogram::new_with_bounds(1, LATEST, 2).expect("the bounds are sound");
    [Mutex::new(histogram()), Mutex::new(histogram())]
});

/// The timer that a probe observes.
#[derive(Clone, Copy)]
pub enum Probe {
    TokioWheel,
    Tokio,
}

impl Probe {
    pub const ALL: [Self; 2] = [Self::TokioWheel, Self::Tokio];

    pub fn name(self) -> &'static str {
        match self {
            Self::TokioWheel => "this crate",
            Self::Tokio => "tokio::time",
        }
    }

    /// Returns how late the probe's sleeps were, in nanoseconds.
    pub fn late(self) -> Histogram<u64> {
        let late = LATE[self as usize].lock();
        late.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(self, late: Duration) {
        let mut histogram = LATE[self as usize]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        histogram.saturating_record(late.as_nanos() as u64);
    }
}

/// Allocates the histograms. An allocation during an epoch would look like a leak.
pub fn prepare() {
    LazyLock::force(&LATE);
}

/// Starts the load and the probes of an epoch. They end when `stop` returns true.
pub fn saturate(runtime: &Runtime, target: &Arc<Target>, join_set: &mut JoinSet, stop: &Stop) {
    EPOCHS.fetch_add(1, Ordering::Relaxed);
    for probe in Probe::ALL {
        let (target, stop) = (target.clone(), stop.clone());
        let task = runtime.spawn(async move {
            while !stop.is_raised() {
                let deadline = Instant::now() + PROBE;
                match probe {
                    Probe::TokioWheel => target.sleep(PROBE).await,
                    Probe::Tokio => tokio::time::sleep(PROBE).await,
                }
                probe.note(Instant::now().saturating_duration_since(deadline));
            }
        });
        join_set.task(format!("a probe of {}", probe.name()), task);
    }
    let (tasks, length) = LOAD;
    for _ in 0..tasks {
        let stop = stop.clone();
        let load = always_ready(length, move || stop.is_raised());
        join_set.task("a task that is always ready", runtime.spawn(load));
    }
}

/// Returns how many saturated epochs have run.
pub fn so_far() -> u64 {
    EPOCHS.load(Ordering::Relaxed)
}
