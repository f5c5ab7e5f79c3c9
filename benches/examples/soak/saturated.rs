//! Epochs in which tasks that are always ready keep all workers of the steady runtime busy.
//!
//! Everything else goes on beside them. Two probes sleep 10 ms again and again: one on this crate, one on
//! `tokio::time`. Both see the same load, so their lateness can be compared. It is reported and never a fault.

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

/// The tasks that are always ready, and how long each poll of them takes.
const LOAD: (usize, Duration) = (30, Duration::from_micros(100));

/// How long a probe sleeps.
const PROBE: Duration = Duration::from_millis(10);

/// Later than any lateness that is told apart, in nanoseconds.
const LATEST: u64 = 100_000_000_000;

static EPOCHS: AtomicU64 = AtomicU64::new(0);

static LATE: LazyLock<[Mutex<Histogram<u64>>; 2]> = LazyLock::new(|| {
    let histogram = || Histogram::new_with_bounds(1, LATEST, 2).expect("the bounds are sound");
    [Mutex::new(histogram()), Mutex::new(histogram())]
});

/// Whose sleeps a probe observes.
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

    /// How late its sleeps were, in nanoseconds.
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

/// Takes the memory of the histograms. Taken in an epoch, it would look like a leak.
pub fn prepare() {
    LazyLock::force(&LATE);
}

/// Starts the load and the probes of an epoch. They end when `stop` says so.
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

/// How many epochs there have been.
pub fn so_far() -> u64 {
    EPOCHS.load(Ordering::Relaxed)
}
