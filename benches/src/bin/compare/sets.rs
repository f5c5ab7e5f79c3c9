//! Makes the jobs of the comparison: the jobs that every user wants, and all other jobs. Some
//! rounds leave out jobs that take very long.

use std::time::Duration;

use clap::ValueEnum;
use tokio_wheel_benches::{
    cell::Cell,
    fire,
    lateness::{self, Sleeper},
    peer::PeerKind,
    process,
    saturated::{self, Load, Sample},
    turns::in_round,
};

use crate::{
    job::{FIRED, Job, QueueKind, STREAMS, WAITING},
    parts::{SUSTAINED_LASTING, operations, turn_of, wakeups},
    report::{BARE, TOKIO},
    rounds::Output,
};

/// The operations of the screen. Their variants are armed, and for `tokio::time` also unarmed.
const COMPARED: [&str; 5] = ["ready", "io", "reset", "rpc", "churn"];
const STATES: [(&str, &str); 2] = [("solo armed", "solo"), ("x2 armed", "x2")];

/// The operations that register a sleep. The state makes no difference to the other operations.
const REGISTERING: [&str; 3] = ["io", "rpc", "churn"];

/// All operations in comparisons of timers. The other operations compare tasks.
const OPERATIONS: [&str; 6] = ["ready", "churn", "io", "reset", "rpc", "rpc_shared"];

/// The ways to sleep that the screen compares.
const SLEEPERS: [Sleeper; 5] = [
    Sleeper::TokioWheel,
    Sleeper::Tokio,
    Sleeper::Pingora,
    Sleeper::FuturesTimer,
    Sleeper::AsyncIo,
];

/// The numbers of worker threads. Most machines for such a run have fewer cores than the highest
/// number.
const THREADS: [usize; 4] = [1, 2, 4, 8];

/// The loads of a saturated runtime: workers, tasks that are always ready, and microseconds of a
/// poll.
pub(crate) const SATURATED: [(usize, usize, u64); 2] = [(1, 50, 100), (2, 30, 200)];

/// The numbers of idle timers beside the loads.
pub(crate) const IDLE: [u64; 4] = [0, 10_000, 300_000, 1_000_000];

/// The scenes in which very many sleeps fire on a saturated runtime: the tasks that are always
/// ready, and the sleeping tasks.
const FIRING: [(saturated::Scene, usize, u64); 2] = [
    (saturated::Scene::Sustained, 200, 10_000),
    (saturated::Scene::Crowd, 300, 20_000),
];

/// How long a sample of a saturated runtime lasts.
const SATURATED_LASTING: Duration = Duration::from_millis(1_500);

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often each figure is measured. Fewer than six rounds give no verdicts.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Runs two rounds of shorter samples in about two minutes. It never gives verdicts, because two rounds
    /// decide nothing.
    #[arg(long, conflicts_with_all = ["rounds", "all", "requirements"])]
    quick: bool,
    #[command(flatten)]
    pub(crate) tables: Tables,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// What to print beside the screen.
#[derive(clap::Args)]
pub(crate) struct Tables {
    /// Also prints every row with its interval. Measuring all rows takes about 25 minutes.
    #[arg(long)]
    pub(crate) all: bool,
    /// Also prints the crate's requirements for itself. Measuring them takes about 25 minutes.
    #[arg(long)]
    pub(crate) requirements: bool,
}

impl Args {
    /// Returns the jobs of each round.
    pub(crate) fn rounds(&self) -> Vec<Vec<Job>> {
        let rounds = if self.quick { 2 } else { self.rounds };
        let lasting = Duration::from_millis(if self.quick { 20 } else { 50 });
        let more = self.tables.all || self.tables.requirements;
        (0..rounds)
            .map(|round| {
                let turns = if more {
                    all(round, lasting, has_room_for_all())
                } else {
                    let mut turns = compared_operations(lasting);
                    turns.extend(scenes());
                    turns
                };
                let in_round = |turn| in_round(turn, round);
                turns.into_iter().flat_map(in_round).collect()
            })
            .collect()
    }
}

/// Returns whether ten million sleeps of each timer fit into memory. async-io needs 3 GB for them.
fn has_room_for_all() -> bool {
    process::available_bytes() > 4 << 30
}

fn peers() -> impl Iterator<Item = PeerKind> {
    PeerKind::value_variants().iter().copied()
}

fn each(job: impl FnMut(PeerKind) -> Job) -> Vec<Job> {
    peers().map(job).collect()
}

/// Returns the operations of the screen, after the floor.
fn compared_operations(lasting: Duration) -> Vec<Vec<Job>> {
    let mut turns = vec![vec![Job::Floor { lasting }]];
    for workload in COMPARED {
        for (armed, unarmed) in STATES {
            let takes_part = |cell: &Cell| match cell.peer {
                TOKIO if REGISTERING.contains(&workload) => {
                    [armed, unarmed].contains(&cell.variant)
                }
                BARE => cell.variant == armed && ["io", "rpc"].contains(&workload),
                _ => cell.variant == armed,
            };
            turns.push(turn_of(
                |cell| cell.workload == workload && takes_part(cell),
                lasting,
            ));
        }
    }
    turns
}

/// Returns the jobs of the screen for memory and lateness.
fn scenes() -> Vec<Vec<Job>> {
    let lateness = |sleeper| Job::Lateness {
        scene: lateness::Scene::Idle,
        sleeper,
    };
    let saturated = |scene, load| each(|peer| saturated_job(scene, peer, load, (0, 0)));
    let [one, two] = SATURATED;
    let storm = fire::Scene::Storm;
    vec![
        each(|peer| Job::Memory {
            peer,
            sleeps: WAITING,
        }),
        SLEEPERS.map(lateness).into(),
        saturated(saturated::Scene::Service, two),
        saturated(saturated::Scene::Sleeps, one),
        each(|peer| fire_job(peer, storm)),
    ]
}

/// Returns all jobs of a round.
fn all(round: u32, lasting: Duration, room_for_all: bool) -> Vec<Vec<Job>> {
    let third = round.is_multiple_of(3);
    let select = |cell: &Cell| OPERATIONS.contains(&cell.workload) && !cell.is_crowded();
    let mut turns = operations(select, lasting);
    let most = if third && room_for_all {
        10_000_000
    } else {
        1_000_000
    };
    for armed in [false, true] {
        turns.push(each(|peer| Job::Pending {
            peer,
            armed,
            most,
            lasting,
        }));
        turns.extend(THREADS.map(|threads| {
            each(|peer| Job::Threads {
                peer,
                armed,
                threads,
                // The sample is long enough for threads that share a core to take turns.
                lasting: lasting * 2,
            })
        }));
    }
    let queue = |&queue| Job::Queue { queue, lasting };
    turns.push(QueueKind::ALL.iter().map(queue).collect());
    turns.extend(wakeups());
    turns.extend(scenes());
    turns.push(each(|peer| fire_job(peer, fire::Scene::Spread)));
    turns.push(vec![Job::Streams { streams: STREAMS }]);
    turns.extend(beside_idle());
    if third {
        turns.push(each(Job::Growth));
        for scene in [lateness::Scene::Idle, lateness::Scene::Busy] {
            let is_known =
                |sleeper: &Sleeper| scene == lateness::Scene::Idle && SLEEPERS.contains(sleeper);
            let sleepers = Sleeper::value_variants().iter();
            let sleepers = sleepers.filter(|sleeper| !is_known(sleeper));
            let job = |&sleeper| Job::Lateness { scene, sleeper };
            turns.push(sleepers.map(job).collect());
        }
    }
    turns
}

fn fire_job(peer: PeerKind, scene: fire::Scene) -> Job {
    Job::Fire {
        peer,
        scene,
        sleeps: FIRED,
    }
}

/// Returns the jobs for the required lateness on a saturated runtime, beside several numbers of
/// idle timers. [`scenes`] has the job for one worker without idle timers. Also returns jobs for
/// the lateness of a queue, of 30,000 and of 10,000 sleeps a second, and of a crowd.
fn beside_idle() -> Vec<Vec<Job>> {
    let beside = |scene, load, timers| -> Vec<Job> {
        [PeerKind::TokioWheel, PeerKind::Tokio]
            .map(|peer| saturated_job(scene, peer, load, timers))
            .into()
    };
    let turn = |scene, load, idle| beside(scene, load, (idle, 0));
    let [one, two] = SATURATED;
    let sleeps = saturated::Scene::Sleeps;
    let mut turns = vec![
        turn(sleeps, two, 0),
        turn(saturated::Scene::Queue, one, 300_000),
        turn(saturated::Scene::Steady, two, 0),
    ];
    for load in [one, two] {
        let idle = IDLE.iter().filter(|&&idle| idle > 0);
        turns.extend(idle.map(|&idle| turn(sleeps, load, idle)));
    }
    for (scene, tasks, sleepers) in FIRING {
        let load = |workers| (workers, tasks, 100);
        turns.extend([0, 2].map(|workers| beside(scene, load(workers), (0, sleepers))));
    }
    turns
}

fn saturated_job(
    scene: saturated::Scene,
    peer: PeerKind,
    (workers, tasks, length): (usize, usize, u64),
    (idle, sleepers): (u64, u64),
) -> Job {
    let load = Load {
        workers,
        tasks,
        length: Duration::from_micros(length),
        channels: false,
        idle,
        sleepers,
        lasting: match scene {
            saturated::Scene::Sustained => SUSTAINED_LASTING,
            _ => SATURATED_LASTING,
        },
    };
    Job::Saturated {
        sample: Sample { scene, peer, load },
        detailed: false,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        args: Args,
    }

    fn minutes(arguments: &[&str]) -> f64 {
        let program = ["compare"].iter().chain(arguments);
        let args = <Program as clap::Parser>::parse_from(program).args;
        let millis: u64 = args.rounds().iter().flatten().map(Job::millis).sum();
        millis as f64 / 60_000.0
    }

    /// The texts of `--help` and of the README state this number.
    #[test]
    fn the_times_are_those_that_the_help_states() {
        for (arguments, stated) in [
            (&[][..], 5.0..7.0),
            (&["--quick"], 1.5..2.5),
            (&["--all"], 18.0..30.0),
            (&["--requirements"], 18.0..30.0),
        ] {
            let minutes = minutes(arguments);
            assert!(
                stated.contains(&minutes),
                "{arguments:?}: {minutes} minutes"
            );
        }
        Program::command().debug_assert();
    }

    /// Each verdict of the screen has as many samples as there are rounds.
    #[test]
    fn every_round_has_the_same_jobs() {
        let args = <Program as clap::Parser>::parse_from(["compare"]).args;
        let sorted = |jobs: &Vec<Job>| {
            let mut jobs: Vec<_> = jobs.iter().map(|job| format!("{job:?}")).collect();
            jobs.sort();
            jobs
        };
        let rounds: Vec<_> = args.rounds().iter().map(sorted).collect();
        assert_eq!(rounds.len(), 6);
        assert!(rounds.iter().all(|round| *round == rounds[0]));
    }
}
