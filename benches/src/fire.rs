//! `fire` and `storm` measure how late very many sleeping tasks wake, and how this delays a task
//! beside them.

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
use tokio::sync::Notify;

use crate::{
    lab::{WORKERS, runtime_for},
    late::{Late, late_by},
    peer::Peer,
    process::{context_switches, cpu_time},
};

/// How long the registration of all sleeps may take before the first sleep expires.
const LEAD: Duration = Duration::from_millis(1_500);

/// When the sleeps expire, and what runs beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scene {
    /// The sleeps expire over a second and nothing else runs. The CPU time is used by the timer and
    /// its tasks.
    Spread,
    /// The sleeps expire over a second. Beside them a task yields in a loop and notes its longest
    /// wait.
    SpreadBusy,
    /// The sleeps expire all at once, beside a task that yields in a loop.
    Storm,
}

impl Scene {
    /// Returns whether a task that yields in a loop runs beside the sleeps.
    pub fn is_busy(self) -> bool {
        matches!(self, Self::SpreadBusy | Self::Storm)
    }
}

/// The results of a scene.
pub struct Outcome {
    /// How late the sleeps woke.
    pub late: Late,
    /// How many sleeps were first polled after their deadline. If there are any, the machine was
    /// too slow to register all sleeps in time, and the other figures mean little.
    pub late_starts: u64,
    /// The CPU time of the process, from shortly before the first deadline.
    pub cpu: Duration,
    /// How often the threads of the process began to wait in this time.
    pub switches: u64,
    /// The longest wait of the task beside the sleeps.
    pub worst_gap: Duration,
    /// The time from the deadline until a task had joined all tasks of a storm. It joins them in
    /// the order in which it spawned them.
    pub joined: Option<Duration>,
}

/// The state that the tasks share.
struct Stage {
    /// The instant at which the first sleep expires.
    base: Instant,
    /// How late each sleep woke, in nanoseconds. The value is negative if the sleep was early.
    lateness: Box<[AtomicI64]>,
    asleep: AtomicU64,
    late_starts: AtomicU64,
    all_awake: Notify,
    done: AtomicBool,
}

/// Runs a scene once, on a runtime of its own.
pub fn sample<P: Peer>(sleeps: u64, scene: Scene) -> Outcome {
    let runtime = runtime_for::<P>(WORKERS);
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
        let over = Duration::from_secs(u64::from(spread));
        let spawn = |i| {
            let offset = over.mul_f64(i as f64 / sleeps as f64);
            tokio::spawn(spawner.clone().sleep::<P>(i as usize, offset))
        };
        if spread {
            (0..sleeps).map(spawn).for_each(drop);
            return None;
        }
        for task in (0..sleeps).map(spawn).collect::<Vec<_>>() {
            task.await.expect("a task panicked");
        }
        Some(spawner.base.elapsed())
    });

    std::thread::sleep(stage.base - Duration::from_millis(5) - Instant::now());
    let neighbour = scene.is_busy().then(|| {
        let stage = stage.clone();
        runtime.spawn(async move { yield_until(&stage.done).await })
    });
    let (cpu, switches) = (cpu_time(), context_switches());
    runtime.block_on(stage.all_awake.notified());
    let (cpu, switches) = (cpu_time() - cpu, context_switches() - switches);
    let joined = runtime.block_on(joined).expect("a task panicked");
    stage.done.store(true, Relaxed);
    let worst_gap = neighbour.map_or(Duration::ZERO, |task| {
        runtime
            .block_on(task)
            .expect("the task beside the sleeps panicked")
    });
    Outcome {
        late: (stage.lateness.iter())
            .map(|late| late.load(Relaxed))
            .collect(),
        late_starts: stage.late_starts.load(Relaxed),
        cpu,
        switches,
        worst_gap,
        joined,
    }
}

/// Yields in a loop until `done` is set. Returns its longest wait.
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
        // The last task sees what all other tasks have stored.
        if self.asleep.fetch_sub(1, AcqRel) == 1 {
            self.all_awake.notify_one();
        }
    }
}
