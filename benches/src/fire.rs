//! `fire` and `storm` measure how late very many sleeping tasks wake, and how this delays a task
//! beside them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::{
    Figure,
    lab::{WORKERS, runtime_for},
    late::{Late, late_by},
    peer::Peer,
    process::{context_switches, cpu_time},
};

/// How long the registration of all sleeps may take before the first sleep expires.
const LEAD: Duration = Duration::from_millis(1_500);

const SLEEPS: u64 = 200_000;

/// When the sleeps expire, and what runs beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scene {
    /// The sleeps expire over a second and nothing else runs.
    Spread,
    /// The sleeps expire over a second, beside a task that yields in a loop.
    SpreadBusy,
    /// The sleeps expire all at once, beside such a task.
    Storm,
}

impl Scene {
    pub fn name(self) -> &'static str {
        match self {
            Self::Spread => "fire",
            Self::SpreadBusy => "fire, busy",
            Self::Storm => "storm",
        }
    }
}

struct Stage {
    base: Instant,
    /// How late each sleep woke, in nanoseconds. The value is negative if the sleep was early.
    lateness: Box<[AtomicI64]>,
    asleep: AtomicU64,
    late_starts: AtomicU64,
    all_awake: Notify,
    done: AtomicBool,
}

/// Runs a scene once. If a sleep was first polled after its deadline, the machine was too slow to
/// register all sleeps in time, and the scene has no other figures.
pub fn sample<P: Peer>(scene: Scene) -> Vec<Figure> {
    let runtime = runtime_for::<P>(WORKERS);
    let stage = Arc::new(Stage {
        base: Instant::now() + LEAD,
        lateness: (0..SLEEPS).map(|_| AtomicI64::new(0)).collect(),
        asleep: AtomicU64::new(SLEEPS),
        late_starts: AtomicU64::new(0),
        all_awake: Notify::new(),
        done: AtomicBool::new(false),
    });
    let spawner = stage.clone();
    let spread = scene != Scene::Storm;
    let joined = runtime.spawn(async move {
        let over = Duration::from_secs(u64::from(spread));
        let spawn = |i| {
            let offset = over.mul_f64(i as f64 / SLEEPS as f64);
            tokio::spawn(spawner.clone().sleep::<P>(i as usize, offset))
        };
        if spread {
            (0..SLEEPS).map(spawn).for_each(drop);
            return None;
        }
        for task in (0..SLEEPS).map(spawn).collect::<Vec<_>>() {
            task.await.expect("a task panicked");
        }
        Some(spawner.base.elapsed())
    });

    std::thread::sleep(stage.base - Duration::from_millis(5) - Instant::now());
    let neighbor = (scene != Scene::Spread).then(|| {
        let stage = stage.clone();
        runtime.spawn(async move { yield_until(&stage.done).await })
    });
    let (cpu, switches) = (cpu_time(), context_switches());
    runtime.block_on(stage.all_awake.notified());
    let (cpu, switches) = (cpu_time() - cpu, context_switches() - switches);
    let joined = runtime.block_on(joined).expect("a task panicked");
    stage.done.store(true, Ordering::Relaxed);
    let worst_wait = neighbor.map(|task| runtime.block_on(task).expect("a task panicked"));

    let late_starts = stage.late_starts.load(Ordering::Relaxed) as f64;
    if late_starts > 0.0 {
        return vec![("polled too late", late_starts, "sleeps")];
    }
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let late: Late = (stage.lateness.iter())
        .map(|late| late.load(Ordering::Relaxed))
        .collect();
    let mut figures = Vec::new();
    // A task joins the tasks of a storm in the order in which it spawned them.
    figures.extend(joined.map(|joined| ("joined", ms(joined), "ms")));
    figures.extend([
        // From shortly before the first deadline.
        ("CPU", ms(cpu), "ms"),
        ("context switches", switches as f64, "times"),
        ("lateness, median", late.ms(0.5) * 1e3, "us"),
        ("lateness, 99%", late.ms(0.99) * 1e3, "us"),
        ("lateness, worst", late.ms(1.0) * 1e3, "us"),
    ]);
    figures.extend(worst_wait.map(|wait| ("another task's wait", ms(wait) * 1e3, "us")));
    figures.push(("woken early", late.early() as f64, "sleeps"));
    figures
}

/// Yields in a loop until `done` is set. Returns its longest wait.
pub async fn yield_until(done: &AtomicBool) -> Duration {
    let mut worst = Duration::ZERO;
    let mut last = Instant::now();
    while !done.load(Ordering::Relaxed) {
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
            self.late_starts.fetch_add(1, Ordering::Relaxed);
        }
        P::sleep(deadline.saturating_duration_since(now)).await;
        self.lateness[i].store(late_by(deadline), Ordering::Relaxed);
        // The last task sees what all other tasks have stored.
        if self.asleep.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.all_awake.notify_one();
        }
    }
}
