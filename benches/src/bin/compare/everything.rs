//! The jobs of a whole comparison, of every workload that the crate is held to. A job that takes long is
//! left out of some rounds.

use std::time::Duration;

use clap::ValueEnum;
use tokio_wheel_benches::{
    cell::Cell,
    fire,
    lateness::{Scene, Sleeper},
    peer::PeerKind,
    process,
    saturated::{self, Load, Sample},
    turns::in_round,
};

use crate::{
    job::{FIRED, Job, QueueKind, STREAMS, WAITING},
    parts::{operations, wakeups},
    report::COARSE,
    rounds::Output,
};

/// The operations that are also measured on a coarse timer. `compare ops` has more of them.
const COARSE_OPERATIONS: [&str; 2] = ["ready", "churn"];

/// The operations that are compared; the others are about tasks.
const OPERATIONS: [&str; 6] = ["ready", "churn", "io", "reset", "rpc", "rpc_shared"];

/// Worker threads, up to more than most machines have cores that would tell.
const THREADS: [usize; 4] = [1, 2, 4, 8];

/// The loads of a saturated runtime: workers, tasks that are always ready, microseconds of a poll.
pub(crate) const SATURATED: [(usize, usize, u64); 2] = [(1, 50, 100), (2, 30, 200)];

/// The idle timers beside them.
pub(crate) const IDLE: [u64; 6] = [0, 1_000, 10_000, 100_000, 300_000, 1_000_000];

/// The idle timers of peers that the crate is not held to.
const IDLE_OF_OTHERS: [u64; 3] = [0, 100_000, 1_000_000];

/// How long a sample of a saturated runtime lasts.
const SATURATED_LASTING: Duration = Duration::from_secs(2);

/// How long to measure.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often each operation is measured. What takes longer is measured in every second or every
    /// third round. Fewer than six rounds give no intervals.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// One round, of operations that take a fifth of the time, beside 1,000,000 pending at most: a look
    /// in three minutes.
    #[arg(long, conflicts_with = "rounds")]
    quick: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl Args {
    /// The jobs of each round.
    pub(crate) fn rounds(&self) -> Vec<Vec<Job>> {
        let rounds = if self.quick { 1 } else { self.rounds };
        (0..rounds).map(|number| jobs(number, self.quick)).collect()
    }
}

/// The jobs of a round.
fn jobs(round: u32, quick: bool) -> Vec<Job> {
    let lasting = Duration::from_millis(if quick { 10 } else { 50 });
    let (second, third) = (round.is_multiple_of(2), round.is_multiple_of(3));
    // Of async-io these take 3 GB.
    let room_for_all = process::available_bytes() > 4 << 30;
    let most = if third && !quick && room_for_all {
        10_000_000
    } else {
        1_000_000
    };
    let peers: Vec<_> = (PeerKind::value_variants().iter().copied())
        .filter(|peer| peer.name() != COARSE)
        .collect();
    let fire = |scene| {
        move |peer| Job::Fire {
            peer,
            scene,
            sleeps: FIRED,
        }
    };
    let each = |job: &dyn Fn(PeerKind) -> Job| peers.iter().copied().map(job).collect();

    let select = |cell: &Cell| {
        OPERATIONS.contains(&cell.workload)
            && !cell.is_crowded()
            && (cell.peer != COARSE || COARSE_OPERATIONS.contains(&cell.workload))
    };
    let mut turns: Vec<Vec<Job>> = operations(select, lasting);
    let (mut every_second, mut every_third) = (Vec::new(), Vec::new());
    let pending = |peer| Job::Pending {
        peer,
        most,
        lasting,
    };
    turns.push(each(&pending));
    turns.extend(THREADS.map(|threads| {
        each(&|peer| Job::Threads {
            peer,
            threads,
            // Long enough for threads that share a core to take turns.
            lasting: lasting * 2,
        })
    }));
    let queue = |&queue| Job::Queue { queue, lasting };
    turns.push(QueueKind::ALL.iter().map(queue).collect());
    turns.extend(wakeups());
    if second {
        every_second.push(each(&fire(fire::Scene::Spread)));
    }
    turns.push(each(&fire(fire::Scene::Storm)));
    if third {
        every_third.push(each(&|peer| Job::Memory {
            peer,
            sleeps: WAITING,
        }));
        every_third.push(vec![Job::Streams { streams: STREAMS }]);
        every_third.push(each(&Job::Growth));
        every_third.extend([Scene::Idle, Scene::Busy].map(|scene| {
            let sleepers = Sleeper::value_variants().iter();
            sleepers
                .map(|&sleeper| Job::Lateness { scene, sleeper })
                .collect()
        }));
        every_third.extend(saturated(&peers, quick));
    }
    let turns = [
        (round, turns),
        (round / 2, every_second),
        (round / 3, every_third),
    ];
    (turns.into_iter())
        .flat_map(|(before, turns)| {
            turns
                .into_iter()
                .flat_map(move |turn| in_round(turn, before))
        })
        .collect()
}

/// The samples of a saturated runtime: about three minutes of them, or forty seconds for a quick look.
fn saturated(peers: &[PeerKind], quick: bool) -> Vec<Vec<Job>> {
    let tokio = |peer| matches!(peer, PeerKind::TokioWheel | PeerKind::Tokio);
    let turn = |scene: saturated::Scene, (workers, tasks, length), idle| -> Vec<Job> {
        let load = Load {
            workers,
            tasks,
            length: Duration::from_micros(length),
            idle,
            lasting: SATURATED_LASTING,
        };
        let on_all = scene == saturated::Scene::Sleeps
            && (workers, tasks, length) == SATURATED[0]
            && !quick
            && IDLE_OF_OTHERS.contains(&idle);
        (peers.iter())
            .filter(|&&peer| on_all || tokio(peer))
            .map(|&peer| Job::Saturated {
                sample: Sample { scene, peer, load },
                detailed: false,
            })
            .collect()
    };
    let mut turns = Vec::new();
    let [one, two] = SATURATED;
    for &load in if quick { &SATURATED[..1] } else { &SATURATED } {
        let idle = if quick {
            &[0, 300_000, 1_000_000][..]
        } else {
            &IDLE
        };
        turns.extend((idle.iter()).map(|&idle| turn(saturated::Scene::Sleeps, load, idle)));
    }
    for &idle in if quick {
        &[300_000][..]
    } else {
        &[300_000, 1_000_000]
    } {
        turns.push(turn(saturated::Scene::Queue, one, idle));
    }
    if !quick {
        turns.push(turn(saturated::Scene::Steady, two, 0));
        turns.push(turn(saturated::Scene::Service, two, 0));
    }
    turns
}
