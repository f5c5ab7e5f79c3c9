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
use futures_lite::future::block_on;
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use crate::{
    Figure,
    fire::yield_until,
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

/// What runs beside about 1,000 sleeps of 1 to 100 ms in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Scene {
    Idle,
    Busy,
}

impl Scene {
    pub fn title(self) -> &'static str {
        match self {
            Self::Idle => "1,000 in 1 s, idle",
            Self::Busy => "1,000 in 1 s, busy",
        }
    }

    /// Plays the scene once. Lateness counts from before each sleep was made.
    pub fn play(self, peer: PeerKind) -> Vec<Figure> {
        match peer {
            PeerKind::Thread => threads(self),
            _ => with_peer!(peer, P => tasks::<P>(self)),
        }
    }
}

fn tasks<P: Peer>(scene: Scene) -> Vec<Figure> {
    let runtime = &lab::runtime_for::<P>(WORKERS);
    // Peers with a thread or a driver of their own start it here.
    on_workers(runtime, WORKERS, |_| async {
        P::sleep(Duration::from_millis(20)).await;
    });
    observed(runtime, scene, || {
        let chains = (0..CHAINS).map(|number| runtime.spawn(chain(number, P::sleep)));
        let chains = runtime.block_on(try_join_all(chains));
        (chains.expect("a task panicked").into_iter().flatten()).collect()
    })
}

fn threads(scene: Scene) -> Vec<Figure> {
    observed(&lab::runtime(WORKERS), scene, || {
        let sleep = |duration| async move { thread::sleep(duration) };
        let spawn = |number| thread::spawn(move || block_on(chain(number, sleep)));
        let chains: Vec<_> = (0..CHAINS).map(spawn).collect();
        (chains.into_iter())
            .flat_map(|thread| thread.join().expect("a thread panicked"))
            .collect()
    })
}

/// Sleeps again and again, for durations that are the same for every peer. Returns how late each sleep ended.
async fn chain<F>(number: u64, sleep: impl Fn(Duration) -> F) -> Vec<i64>
where
    F: Future<Output = ()>,
{
    let mut random = Rng::with_seed(number);
    let mut late = Vec::with_capacity(LINKS);
    for _ in 0..LINKS {
        let duration = Duration::from_nanos(random.u64(1_000_000..=100_000_000));
        let deadline = Instant::now() + duration;
        sleep(duration).await;
        late.push(late_by(deadline));
    }
    late
}

fn observed(runtime: &Runtime, scene: Scene, sleep: impl FnOnce() -> Late) -> Vec<Figure> {
    let done = Arc::new(AtomicBool::new(false));
    if scene == Scene::Busy {
        let done = done.clone();
        runtime.spawn(async move { yield_until(&done).await });
    }
    let cpu = cpu_time();
    let late = sleep();
    let cpu = cpu_time() - cpu;
    done.store(true, Relaxed);
    vec![
        ("median", late.ms(0.5) * 1e3, "us"),
        ("99%", late.ms(0.99) * 1e3, "us"),
        ("worst", late.ms(1.0) * 1e3, "us"),
        ("CPU", cpu.as_secs_f64() * 1e3, "ms"),
        ("woken early", late.early() as f64, "sleeps"),
    ]
}
