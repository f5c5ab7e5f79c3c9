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

use serde::{Deserialize, Serialize};
use tokio::{runtime::Runtime, sync::Notify};

use crate::{
    lab::{WORKERS, runtime_for},
    late::{Late, late_by},
    peer::Peer,
    process::cpu_time,
};

/// How long registering them all may take before the first is due.
const LEAD: Duration = Duration::from_millis(1_500);

/// When the sleeps are due, and what runs beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scene {
    /// Over a second, and nothing else: the CPU time is the timer's and its tasks'.
    Spread,
    /// Over a second, beside a task that yields in a loop and notes the longest it was kept waiting.
    SpreadBusy,
    /// All at once, beside such a task.
    Storm,
}

impl Scene {
    /// Whether a task that yields in a loop runs beside the sleeps.
    pub fn is_busy(self) -> bool {
        self != Self::Spread
    }
}

/// What came of a scene.
pub struct Outcome {
    /// How late the sleeps woke.
    pub late: Late,
    /// How many were first polled after their deadline. Other than 0, the machine was too slow to register
    /// all of them in time, and the other figures mean little.
    pub late_starts: u64,
    /// When the last one was awake, counted from the first deadline.
    pub drained: Duration,
    /// What the process has used from shortly before the first deadline.
    pub cpu: Duration,
    /// The longest that the task beside was kept waiting.
    pub worst_gap: Duration,
    /// When a task had joined all tasks of a storm in the order in which it had spawned them, counted from
    /// the deadline.
    pub joined: Option<Duration>,
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

/// Runs a scene once, on a runtime of its own.
pub fn sample<P: Peer>(sleeps: u64, scene: Scene) -> Outcome {
    play::<P>(&runtime_for::<P>(WORKERS), sleeps, scene)
}

/// Runs a scene once, on a runtime that nothing else uses.
pub fn play<P: Peer>(runtime: &Runtime, sleeps: u64, scene: Scene) -> Outcome {
    let stage = Arc::new(Stage {
        base: Instant::now() + LEAD,
        lateness: (0..sleeps).map(|_| AtomicI64::new(0)).collect(),
        asleep: AtomicU64::new(sleeps),
        late_starts: AtomicU64::new(0),
        all_awake: Notify::new(),
        done: AtomicBool::new(false),
    });
    let spawner = stage.clone();
    let spread = scene != Scene::Storm;
    let joined = runtime.spawn(async move {
        let mut storm = Vec::new();
        for i in 0..sleeps {
            let offset = if spread {
                Duration::from_secs(1).mul_f64(i as f64 / sleeps as f64)
            } else {
                Duration::ZERO
            };
            let task = tokio::spawn(spawner.clone().sleep::<P>(i as usize, offset));
            if !spread {
                storm.push(task);
            }
        }
        if spread {
            return None;
        }
        for task in storm {
            task.await.expect("a task panicked");
        }
        Some(spawner.base.elapsed())
    });

    std::thread::sleep(stage.base - Duration::from_millis(5) - Instant::now());
    let neighbour = scene.is_busy().then(|| {
        let stage = stage.clone();
        runtime.spawn(async move { yield_until(&stage.done).await })
    });
    let cpu = cpu_time();
    runtime.block_on(stage.all_awake.notified());
    let drained = stage.base.elapsed();
    let cpu = cpu_time() - cpu;
    let joined = runtime.block_on(joined).expect("a task panicked");
    stage.done.store(true, Relaxed);
    let worst_gap = neighbour.map_or(Duration::ZERO, |task| {
        runtime.block_on(task).expect("the neighbour panicked")
    });
    Outcome {
        late: (stage.lateness.iter())
            .map(|late| late.load(Relaxed))
            .collect(),
        late_starts: stage.late_starts.load(Relaxed),
        drained,
        cpu,
        worst_gap,
        joined,
    }
}

/// Yields in a loop until it is told that all is done, and returns the longest it was kept waiting.
pub async fn yield_until(done: &AtomicBool) -> Duration {
    let mut worst = Duration::ZERO;
    let mut last = Instant::now();
    while !done.load(Relaxed) {
        tokio::task::yield_now().await;
        let now = Instant::now();
        worst = worst.max(now - last);
        last = now;
    }
    worst
}

impl Stage {
    async fn sleep<P: Peer>(self: Arc<Self>, i: usize, offset: Duration) {
        let deadline = self.base + offset;
        let now = Instant::now();
        if now >= deadline {
            self.late_starts.fetch_add(1, Relaxed);
        }
        P::sleep(deadline.saturating_duration_since(now)).await;
        self.lateness[i].store(late_by(deadline), Relaxed);
        // The last one sees what all others stored.
        if self.asleep.fetch_sub(1, AcqRel) == 1 {
            self.all_awake.notify_one();
        }
    }
}
