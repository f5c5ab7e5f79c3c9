//! `lateness` measures how late sleeps of 1 to 100 ms wake, for every practical way to sleep.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use clap::ValueEnum;
use fastrand::Rng;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use crate::{
    fire::{self, yield_until},
    lab::{self, WORKERS, on_workers},
    late::{Late, late_by},
    peer::{Peer, PeerKind},
    process::cpu_time,
    with_peer,
};

/// The number of tasks or threads, each of which sleeps again and again. No other task starts the
/// sleeps, because the wake-ups of that task would disturb the figures.
const CHAINS: u64 = 50;

/// The number of sleeps of each task. Together they take a second on average.
const LINKS: usize = 20;

/// The number of sleeps in the crowd.
const CROWD: u64 = 200_000;

/// What a sample does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Scene {
    /// About 1,000 sleeps of 1 to 100 ms run in a second, and nothing else runs.
    Idle,
    /// The same sleeps run beside a task that yields in a loop.
    Busy,
    /// 200,000 sleeps expire over a second, and nothing else runs. This is `fire` without the task
    /// that yields.
    Crowd,
}

impl Scene {
    /// Returns the name of the scene in tables.
    pub fn title(self) -> &'static str {
        match self {
            Self::Idle => "1,000 in 1 s, idle",
            Self::Busy => "1,000 in 1 s, busy",
            Self::Crowd => "200,000 in 1 s, idle",
        }
    }

    /// Returns whether a peer can take part. No process can open a descriptor or a thread for each
    /// of 200,000 sleeps.
    pub fn can(self, peer: PeerKind) -> bool {
        self != Self::Crowd || !matches!(peer, PeerKind::TokioHrtime | PeerKind::Thread)
    }

    /// Plays the scene once. The peer must be one that [can](Self::can) take part.
    pub fn play(self, peer: PeerKind) -> Outcome {
        if peer == PeerKind::Thread {
            return threads(self);
        }
        with_peer!(peer, P => tasks::<P>(self))
    }
}

/// The results of a scene.
pub struct Outcome {
    /// How late the sleeps woke, counted from before each sleep was made.
    pub late: Late,
    /// How many sleeps of a crowd were first polled after their deadline. If there are any, the
    /// machine was too slow to register all sleeps in time, and the other figures mean little.
    pub late_starts: u64,
    /// The CPU time of the process.
    pub cpu: Duration,
}

fn tasks<P: Peer>(scene: Scene) -> Outcome {
    let runtime = &lab::runtime_for::<P>(WORKERS);
    // Peers with a thread or a driver of their own start it here.
    on_workers(runtime, WORKERS, |_| async {
        P::sleep(Duration::from_millis(20)).await;
    });
    if scene == Scene::Crowd {
        let outcome = fire::play::<P>(runtime, CROWD, fire::Scene::Spread);
        return Outcome {
            late: outcome.late,
            late_starts: outcome.late_starts,
            cpu: outcome.cpu,
        };
    }
    observed(runtime, scene, || {
        let chain = |chain| async move {
            let mut late = Vec::with_capacity(LINKS);
            for duration in durations(chain) {
                let deadline = Instant::now() + duration;
                P::sleep(duration).await;
                late.push(late_by(deadline));
            }
            late
        };
        let chains = (0..CHAINS).map(|number| runtime.spawn(chain(number)));
        let chains = runtime.block_on(join_all(chains));
        chains
            .into_iter()
            .flat_map(|late| late.expect("a task panicked"))
            .collect()
    })
}

fn threads(scene: Scene) -> Outcome {
    observed(&lab::runtime(WORKERS), scene, || {
        let link = |duration| {
            let deadline = Instant::now() + duration;
            thread::sleep(duration);
            late_by(deadline)
        };
        let chain = move |chain| durations(chain).map(link).collect::<Vec<_>>();
        let chains: Vec<_> = (0..CHAINS)
            .map(|i| thread::spawn(move || chain(i)))
            .collect();
        let late = chains
            .into_iter()
            .map(|thread| thread.join().expect("a thread panicked"));
        late.flatten().collect()
    })
}

/// Returns the durations of a chain. They are the same for every peer and differ from chain to
/// chain.
fn durations(chain: u64) -> impl Iterator<Item = Duration> + Send {
    let mut random = Rng::with_seed(chain);
    (0..LINKS).map(move |_| Duration::from_nanos(random.u64(1_000_000..=100_000_000)))
}

fn observed(runtime: &Runtime, scene: Scene, sleep: impl FnOnce() -> Late) -> Outcome {
    let done = Arc::new(AtomicBool::new(false));
    let neighbor = (scene == Scene::Busy).then(|| {
        let done = done.clone();
        runtime.spawn(async move { yield_until(&done).await })
    });
    let cpu = cpu_time();
    let late = sleep();
    let cpu = cpu_time() - cpu;
    done.store(true, Relaxed);
    if let Some(neighbor) = neighbor {
        runtime
            .block_on(neighbor)
            .expect("the task beside the sleeps panicked");
    }
    Outcome {
        late,
        late_starts: 0,
        cpu,
    }
}
