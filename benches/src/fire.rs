//! `fire` and `storm`: how late very many sleeping tasks wake up, and what that does to their neighbour.

use std::{
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicI64, AtomicU64,
            Ordering::{AcqRel, Relaxed},
        },
    },
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Notify;

use crate::{
    lab::{WORKERS, runtime},
    peer::Peer,
};

/// What a sample consists of. `late start` counts the sleeps first polled after their deadline: other
/// than 0, the machine was too slow to register them all in time, and the other figures mean little.
pub const COLUMNS: &[&str] = &[
    "p50 us",
    "p99 us",
    "max us",
    "drained ms",
    "early",
    "late start",
    "cpu ms",
    "worst gap us",
];

/// How long registering them all may take before the first is due.
const LEAD: Duration = Duration::from_millis(1_500);

/// What the sleeps look like, and what runs beside them.
#[derive(Clone, Copy)]
pub struct Scene {
    /// Deadlines lie evenly over a second, otherwise they are all the same.
    pub spread: bool,
    /// A task that yields in a loop runs beside, and notes the longest it was kept waiting.
    pub yielding: bool,
}

/// The CPU time that all threads of this process have used.
pub fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What the tasks share.
struct Stage {
    /// When the first sleep is due.
    base: Instant,
    /// How late each sleep woke, in nanoseconds; negative if it was early.
    lateness: Box<[AtomicI64]>,
    asleep: AtomicU64,
    late_starts: AtomicU64,
    all_awake: Notify,
    done: AtomicBool,
}

/// Runs a scene once, and returns a figure for each of the [`COLUMNS`].
pub fn sample<P: Peer>(sleeps: u64, scene: Scene) -> Vec<f64> {
    let stage = Arc::new(Stage {
        base: Instant::now() + LEAD,
        lateness: (0..sleeps).map(|_| AtomicI64::new(0)).collect(),
        asleep: AtomicU64::new(sleeps),
        late_starts: AtomicU64::new(0),
        all_awake: Notify::new(),
        done: AtomicBool::new(false),
    });
    let runtime = runtime(WORKERS);
    let spawner = stage.clone();
    runtime.spawn(async move {
        for i in 0..sleeps {
            let offset = if scene.spread {
                Duration::from_secs(1).mul_f64(i as f64 / sleeps as f64)
            } else {
                Duration::ZERO
            };
            tokio::spawn(spawner.clone().sleep::<P>(i as usize, offset));
        }
    });

    std::thread::sleep(stage.base - Duration::from_millis(5) - Instant::now());
    let neighbour = scene
        .yielding
        .then(|| runtime.spawn(stage.clone().yield_in_a_loop()));
    let cpu = process_cpu();
    runtime.block_on(stage.all_awake.notified());
    let drained = stage.base.elapsed();
    let cpu = process_cpu() - cpu;
    stage.done.store(true, Relaxed);
    let worst_gap = neighbour.map_or(Duration::ZERO, |task| {
        runtime.block_on(task).expect("the neighbour panicked")
    });
    stage.figures(drained, cpu, worst_gap)
}

impl Stage {
    async fn sleep<P: Peer>(self: Arc<Self>, i: usize, offset: Duration) {
        let deadline = self.base + offset;
        let now = Instant::now();
        if now >= deadline {
            self.late_starts.fetch_add(1, Relaxed);
        }
        P::sleep(deadline.saturating_duration_since(now)).await;
        let woken = Instant::now();
        let late = match woken.checked_duration_since(deadline) {
            Some(late) => late.as_nanos() as i64,
            None => -((deadline - woken).as_nanos() as i64),
        };
        self.lateness[i].store(late, Relaxed);
        // The last one sees what all others stored.
        if self.asleep.fetch_sub(1, AcqRel) == 1 {
            self.all_awake.notify_one();
        }
    }

    async fn yield_in_a_loop(self: Arc<Self>) -> Duration {
        let mut worst = Duration::ZERO;
        let mut last = Instant::now();
        while !self.done.load(Relaxed) {
            tokio::task::yield_now().await;
            let now = Instant::now();
            worst = worst.max(now - last);
            last = now;
        }
        worst
    }

    /// In the order of [`COLUMNS`].
    fn figures(&self, drained: Duration, cpu: Duration, worst_gap: Duration) -> Vec<f64> {
        let mut histogram = Histogram::<u64>::new(3).expect("3 digits are allowed");
        let mut early = 0;
        for late in &self.lateness {
            let late = late.load(Relaxed);
            early += u64::from(late < 0);
            histogram += late.max(0) as u64;
        }
        let micros = |nanos: u64| nanos as f64 / 1e3;
        vec![
            micros(histogram.value_at_quantile(0.5)),
            micros(histogram.value_at_quantile(0.99)),
            micros(histogram.max()),
            drained.as_secs_f64() * 1e3,
            early as f64,
            self.late_starts.load(Relaxed) as f64,
            cpu.as_secs_f64() * 1e3,
            worst_gap.as_secs_f64() * 1e6,
        ]
    }
}
