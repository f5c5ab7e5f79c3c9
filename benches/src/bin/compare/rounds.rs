//! The rounds: in each, the timers take their turns job by job, so that a machine that slows down slows
//! all of them. What takes long is left out of some rounds.

use std::time::Duration;

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use tokio_wheel_benches::{
    cell::cells,
    lateness::{Scene, Sleeper},
    peer::PeerKind,
    process,
    saturated::{self, Load, Sample},
};

use crate::{
    job::{BARE, Job, QueueKind},
    report::Measured,
};

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
}

/// Runs all of them.
pub(crate) fn run(args: &Args) -> anyhow::Result<Measured> {
    let rounds: Vec<_> = (0..if args.quick { 1 } else { args.rounds })
        .map(|number| jobs(number, args.quick))
        .collect();
    let total = rounds.iter().flatten().map(Job::millis).sum();
    let style = ProgressStyle::with_template("{wide_bar} {percent}%, {eta} left  {msg:40!}")?;
    let progress = ProgressBar::new(total).with_style(style);
    progress.enable_steady_tick(Duration::from_secs(1));
    let mut measured = Measured::new(rounds.len() as u32);
    for (number, jobs) in (0..).zip(&rounds) {
        for job in jobs {
            progress.set_message(job.title());
            match job.run_apart() {
                Ok(outcome) => measured.add(number, outcome),
                // The rest is worth having.
                Err(error) => (measured.failed).push(format!("{}: {error:#}", job.title())),
            }
            progress.inc(job.millis());
        }
    }
    progress.finish_and_clear();
    Ok(measured)
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
    // Nobody else has a coarse timer, and `measure` compares it.
    let peers: Vec<_> = (PeerKind::value_variants().iter().copied())
        .filter(|&peer| peer != PeerKind::TokioWheelCoarse)
        .collect();
    let each = |job: &dyn Fn(PeerKind) -> Job| peers.iter().copied().map(job).collect();

    let mut turns: Vec<Vec<Job>> = operations(&peers, lasting);
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
    if second {
        every_second.push(each(&Job::Fire));
    }
    turns.push(each(&Job::Storm));
    if third {
        every_third.push(each(&Job::Memory));
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
        .flat_map(|(before, turns)| turns.into_iter().flat_map(move |turn| shift(turn, before)))
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
            .map(|&peer| Job::Saturated(Sample { scene, peer, load }))
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

/// The turns of a job in their order, so many such jobs having been before. At first, which makes the order
/// of the columns, everyone stays in place. From then on each comes as often after one as after another.
fn shift(mut turn: Vec<Job>, before: u32) -> Vec<Job> {
    let first = (before / 2) as usize % turn.len();
    turn.rotate_left(first);
    if before % 2 == 1 {
        turn.reverse();
    }
    turn
}

/// An operation, in one variant, of whoever has it.
fn operations(peers: &[PeerKind], lasting: Duration) -> Vec<Vec<Job>> {
    let has_turn = |peer: &str| peer == BARE || peers.iter().any(|known| known.name() == peer);
    let mut turns = Vec::new();
    for workload in OPERATIONS {
        let cells: Vec<_> = (cells().into_iter())
            .filter(|cell| cell.workload == workload && !cell.is_crowded() && has_turn(cell.peer))
            .collect();
        let mut variants: Vec<_> = cells.iter().map(|cell| cell.variant).collect();
        variants.sort_by_key(|&variant| {
            ["solo", "x1", "x2", "x2 armed"]
                .iter()
                .position(|&v| v == variant)
        });
        variants.dedup();
        for variant in variants {
            let turn = cells.iter().filter(|cell| cell.variant == variant);
            let job = |peer: &str| Job::Operation {
                workload: workload.to_owned(),
                variant: variant.to_owned(),
                peer: peer.to_owned(),
                lasting,
            };
            // Whoever has no timer comes last.
            let (bare, timers): (Vec<_>, Vec<_>) =
                turn.map(|cell| cell.peer).partition(|&peer| peer == BARE);
            turns.push(timers.into_iter().chain(bare).map(job).collect());
        }
    }
    turns
}
