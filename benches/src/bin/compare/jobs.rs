//! Makes the jobs of the comparison, and of its parts. A turn is a list of jobs that are compared
//! with each other.

use std::time::Duration;

use clap::ValueEnum;
use tokio_wheel_benches::{
    cell::{Cell, VARIANTS, WORKLOADS, cells},
    fire, lateness,
    peer::PeerKind,
    process,
    saturated::{LASTING, Load, Sample, Scene},
    stats::in_round,
    wakeup,
};

use crate::{
    Program,
    job::{FIRED, Job, WAITING},
    report::{BARE, TOKIO, is_floored},
};

/// The operations of the screen. Their variants are armed, and for `tokio::time` also unarmed.
const COMPARED: [&str; 5] = ["ready", "io", "reset", "rpc", "churn"];
const STATES: [(&str, &str); 2] = [("solo armed", "solo"), ("x2 armed", "x2")];

/// The operations that register a sleep. The state makes no difference to the other operations.
const REGISTERING: [&str; 3] = ["io", "rpc", "churn"];

/// The operations of `--all`. The other operations compare tasks, streams and keys.
const ALL: [&str; 8] = [
    "ready",
    "churn",
    "io",
    "reset",
    "rpc",
    "rpc_shared",
    "insert_remove",
    "replace",
];

/// The operations of `ops` without `--workload`. The other operations need seconds to begin.
const QUICK: [&str; 11] = [
    "ready",
    "io",
    "reset",
    "rpc",
    "rpc_shared",
    "schedule",
    "schedule_limited",
    "spawn",
    "spawn_unpolled",
    "read",
    "churn",
];

/// The number of sleeps in a `fire` with so few sleeps that workers park between them.
const FEW: u64 = 1_000;

/// The loads of a saturated runtime: the number of tasks that are always ready, and the
/// microseconds of a poll.
const LOADS: [(usize, u64); 3] = [(50, 100), (200, 10), (30, 200)];
const SUSTAINED_LOADS: [(usize, u64); 3] = [(100, 100), (200, 100), (400, 50)];
const CROWD_LOADS: [(usize, u64); 4] = [(0, 100), (50, 100), (300, 100), (1_000, 100)];

/// How long a sample of a saturated runtime lasts in the comparison and with `--quick`, and how long
/// one of [`Scene::Sustained`] and about how long one of [`Scene::Crowd`] lasts.
const SHORT: Duration = Duration::from_millis(1_500);
const SATURATED_QUICK: Duration = Duration::from_secs(2);
const SUSTAINED: Duration = Duration::from_secs(5);
const CROWD: Duration = Duration::from_secs(2);

/// The loads of the requirements: workers, tasks, and microseconds of a poll.
pub(crate) const REQUIRED: [(usize, usize, u64); 2] = [(1, 50, 100), (2, 30, 200)];

/// Returns the jobs of each round. Turns change their order from round to round.
pub(crate) fn in_rounds(rounds: u32, turns: impl Fn(u32) -> Vec<Vec<Job>>) -> Vec<Vec<Job>> {
    let round = |number| {
        turns(number)
            .into_iter()
            .flat_map(|turn| in_round(turn, number))
            .collect()
    };
    (0..rounds).map(round).collect()
}

/// Returns the jobs of each round of the whole comparison.
pub(crate) fn comparison(args: &Program) -> Vec<Vec<Job>> {
    let rounds = if args.quick { 2 } else { args.common.rounds };
    let lasting = Duration::from_millis(if args.quick { 20 } else { 50 });
    let more = args.tables.all || args.tables.requirements;
    // async-io needs 3 GB for ten million sleeps.
    let has_room = process::available_bytes() > 4 << 30;
    in_rounds(rounds, |round| match more {
        true => all(round, lasting, has_room),
        false => [compared_operations(lasting), scenes()].concat(),
    })
}

fn each(job: impl FnMut(PeerKind) -> Job) -> Vec<Job> {
    PeerKind::ALL.into_iter().map(job).collect()
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
    let saturated = |scene, (workers, tasks, length)| {
        each(|peer| short(scene, peer, workers, (tasks, length), 0))
    };
    let [one, two] = REQUIRED;
    vec![
        each(|peer| Job::Memory {
            peer,
            sleeps: WAITING,
        }),
        each(|peer| Job::Lateness {
            scene: lateness::Scene::Idle,
            peer,
        }),
        saturated(Scene::Service, two),
        saturated(Scene::Sleeps, one),
        each(|peer| Job::Fire {
            peer,
            scene: fire::Scene::Storm,
            sleeps: FIRED,
        }),
    ]
}

/// Returns all jobs of a round. Only some rounds have the jobs that take very long.
fn all(round: u32, lasting: Duration, has_room: bool) -> Vec<Vec<Job>> {
    let third = round.is_multiple_of(3);
    let select = |cell: &Cell| {
        ALL.contains(&cell.workload)
            && !["100k", "x16", "x16 armed", "x64", "x64 armed"].contains(&cell.variant)
    };
    let mut turns = operations(select, lasting);
    let most = if third && has_room {
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
    }
    turns.extend(wakeups());
    turns.extend(scenes());
    turns.push(each(|peer| Job::Fire {
        peer,
        scene: fire::Scene::Spread,
        sleeps: FIRED,
    }));
    turns.push(vec![Job::Streams]);
    turns.extend(beside_idle());
    if third {
        turns.push(each(Job::Growth));
        let others = PeerKind::value_variants()
            .iter()
            .filter(|peer| !PeerKind::ALL.contains(peer));
        let job = |scene| move |&peer| Job::Lateness { scene, peer };
        turns.push(others.map(job(lateness::Scene::Idle)).collect());
        let peers = PeerKind::value_variants().iter();
        turns.push(peers.map(job(lateness::Scene::Busy)).collect());
    }
    turns
}

/// Returns the jobs for the required lateness on a saturated runtime, beside several numbers of
/// idle timers. [`scenes`] has the job for one worker without idle timers. Also returns jobs for
/// the lateness of a queue, of 30,000 and of 10,000 sleeps a second, and of a crowd.
fn beside_idle() -> Vec<Vec<Job>> {
    let turn = |scene, (workers, tasks, length), count| -> Vec<Job> {
        let peers = [PeerKind::TokioWheel, PeerKind::Tokio];
        peers
            .map(|peer| short(scene, peer, workers, (tasks, length), count))
            .into()
    };
    let [one, two] = REQUIRED;
    let mut turns = vec![
        turn(Scene::Sleeps, two, 0),
        turn(Scene::Queue, one, 300_000),
        turn(Scene::Steady, two, 0),
    ];
    for load in [one, two] {
        turns.extend([10_000, 300_000, 1_000_000].map(|idle| turn(Scene::Sleeps, load, idle)));
    }
    for workers in [0, 2] {
        turns.push(turn(Scene::Sustained, (workers, 200, 100), 10_000));
        turns.push(turn(Scene::Crowd, (workers, 300, 100), 20_000));
    }
    turns
}

/// Returns a short sample of a saturated runtime.
fn short(scene: Scene, peer: PeerKind, workers: usize, tasks: (usize, u64), count: u64) -> Job {
    let lasting = if scene == Scene::Sustained {
        SUSTAINED
    } else {
        SHORT
    };
    let load = load(scene, workers, tasks, count, lasting);
    Job::Saturated {
        sample: Sample { scene, peer, load },
        detailed: false,
    }
}

/// Returns a load. `count` is the number of sleeping tasks of scenes that have them, and of idle
/// timers otherwise.
fn load(
    scene: Scene,
    workers: usize,
    (tasks, length): (usize, u64),
    count: u64,
    lasting: Duration,
) -> Load {
    let (idle, sleepers) = if scene.has_sleepers() {
        (0, count)
    } else {
        (count, 0)
    };
    let length = Duration::from_micros(length);
    Load {
        workers,
        tasks,
        length,
        channels: false,
        idle,
        sleepers,
        lasting,
    }
}

/// The operations to measure.
#[derive(clap::Args)]
pub(crate) struct Ops {
    /// Measures only these workloads, separated by commas. By default, measures all except
    /// read_limits, touch, insert_remove, replace and drain, which need seconds to begin.
    #[arg(long, value_delimiter = ',', value_parser = WORKLOADS)]
    workload: Vec<String>,
    /// Measures only these variants, separated by commas.
    #[arg(long, value_delimiter = ',', value_parser = VARIANTS)]
    variant: Vec<String>,
    /// Measures only these peers, separated by commas. Leaves out the workloads without a timer,
    /// except for `io` of this crate.
    #[arg(long, value_delimiter = ',')]
    peer: Vec<PeerKind>,
    /// How long one sample should last.
    #[arg(long, default_value_t = 50, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    millis: u64,
}

impl Ops {
    pub(crate) fn ops(&self) -> Vec<Vec<Job>> {
        let selects = |list: &[String], name| list.is_empty() || list.iter().any(|one| one == name);
        let has_peer = |cell: &Cell| {
            // The report subtracts the cost of `io` without a timer from this crate's cost.
            let of_io = |peer: &PeerKind| {
                cell.peer == BARE && cell.workload == "io" && is_floored("io", peer.name())
            };
            let is_cells = |peer: &PeerKind| peer.name() == cell.peer;
            self.peer.is_empty() || self.peer.iter().any(|peer| is_cells(peer) || of_io(peer))
        };
        let select = |cell: &Cell| {
            let is_default = !self.workload.is_empty() || QUICK.contains(&cell.workload);
            is_default
                && selects(&self.workload, cell.workload)
                && selects(&self.variant, cell.variant)
                && has_peer(cell)
        };
        operations(select, Duration::from_millis(self.millis))
    }
}

/// The number of sleeps or tasks in a sample, and the peers to measure.
#[derive(clap::Args)]
pub(crate) struct Sleeps {
    /// Measures only these peers, separated by commas.
    #[arg(long, value_delimiter = ',')]
    peer: Vec<PeerKind>,
    /// How many sleeps or tasks to use instead of the default of each table.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    sleeps: Option<u64>,
}

impl Sleeps {
    /// Returns the jobs of `fire`: busy, alone, and with few sleeps.
    pub(crate) fn fire(&self) -> Vec<Vec<Job>> {
        let scenes = [
            (fire::Scene::SpreadBusy, FIRED),
            (fire::Scene::Spread, FIRED),
            (fire::Scene::Spread, FEW),
        ];
        // With a number from the command line, the second scene and the third are equal.
        let scenes = if self.sleeps.is_none() {
            &scenes[..]
        } else {
            &scenes[..2]
        };
        scenes
            .iter()
            .map(|&(scene, default)| self.firing(scene, default))
            .collect()
    }

    pub(crate) fn storm(&self) -> Vec<Vec<Job>> {
        vec![self.firing(fire::Scene::Storm, FIRED)]
    }

    fn firing(&self, scene: fire::Scene, default: u64) -> Vec<Job> {
        let sleeps = self.sleeps.unwrap_or(default);
        self.each(&PeerKind::ALL, |peer| Job::Fire {
            peer,
            scene,
            sleeps,
        })
    }

    pub(crate) fn lateness(&self) -> Vec<Vec<Job>> {
        let turn = |&scene: &lateness::Scene| {
            let mut turn = self.each(PeerKind::value_variants(), |peer| Job::Lateness {
                scene,
                peer,
            });
            turn.retain(|job| matches!(*job, Job::Lateness { scene, peer } if scene.can(peer)));
            turn
        };
        lateness::Scene::value_variants().iter().map(turn).collect()
    }

    pub(crate) fn memory(&self) -> Vec<Vec<Job>> {
        let sleeps = self.sleeps.unwrap_or(WAITING);
        let mut turns = vec![self.each(&PeerKind::ALL, |peer| Job::Memory { peer, sleeps })];
        if self.peer.is_empty() || self.peer.contains(&PeerKind::TokioWheel) {
            turns.push(vec![Job::Streams]);
        }
        turns
    }

    /// No other peer schedules tasks, so the other peers spawn them.
    pub(crate) fn scheduled(&self) -> Vec<Vec<Job>> {
        let tasks = self.sleeps.unwrap_or(WAITING);
        let default = [PeerKind::TokioWheel, PeerKind::Tokio];
        let spawned = self.each(&default, |peer| Job::Waiting {
            spawned: Some(peer),
            tasks,
        });
        vec![
            vec![Job::Waiting {
                spawned: None,
                tasks,
            }],
            spawned,
        ]
    }

    /// Returns a job for each peer.
    fn each(&self, default: &[PeerKind], job: impl Fn(PeerKind) -> Job) -> Vec<Job> {
        let peers = if self.peer.is_empty() {
            default
        } else {
            &self.peer
        };
        peers.iter().copied().map(job).collect()
    }
}

/// The scenes and loads of a saturated runtime.
#[derive(clap::Args)]
pub(crate) struct Saturated {
    /// What runs beside the load, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "sleeps")]
    scene: Vec<Scene>,
    /// How long a sample lasts, by default 9.3 s, or 5 s for `sustained`. `crowd` ends by itself.
    #[arg(long)]
    seconds: Option<f64>,
    /// Takes samples of two seconds.
    #[arg(long, conflicts_with = "seconds")]
    quick: bool,
    /// The numbers of worker threads, separated by commas. 0 is a current-thread runtime.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    workers: Vec<usize>,
    /// How many tasks are always ready, separated by commas, instead of the scene's own loads.
    #[arg(long, value_delimiter = ',')]
    tasks: Vec<usize>,
    /// How many microseconds a poll of a task of `--tasks` takes.
    #[arg(
        long,
        requires = "tasks",
        value_name = "MICROSECONDS",
        default_value_t = 100
    )]
    length: u64,
    /// Each task that is always ready is a pair of tasks, which sends a message to and fro.
    #[arg(long)]
    channels: bool,
    /// The numbers of idle timers, separated by commas. `sustained` and `crowd` have none.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 300_000, 1_000_000])]
    idle: Vec<u64>,
    /// How many sleeps of `sustained` fire each second, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [10_000])]
    rate: Vec<u64>,
    /// How many sleeps of `crowd` have one deadline, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [20_000])]
    crowd: Vec<u64>,
    /// The peers, separated by commas. Only tokio_wheel and tokio have a queue.
    #[arg(long, value_delimiter = ',', default_values = ["tokio_wheel", "tokio"])]
    peer: Vec<PeerKind>,
}

impl Saturated {
    pub(crate) fn saturated(&self) -> anyhow::Result<Vec<Vec<Job>>> {
        let seconds = (self.seconds.map(Duration::try_from_secs_f64)).transpose()?;
        let seconds = seconds.or(self.quick.then_some(SATURATED_QUICK));
        let asked: Vec<_> = self
            .tasks
            .iter()
            .map(|&tasks| (tasks, self.length))
            .collect();
        let mut turns = Vec::new();
        for &scene in &self.scene {
            let (loads, counts, lasting) = match scene {
                // A service is a load of its own.
                Scene::Service => (&[(0, 0)][..], &self.idle, LASTING),
                Scene::Sustained => (&SUSTAINED_LOADS[..], &self.rate, SUSTAINED),
                Scene::Crowd => (&CROWD_LOADS[..], &self.crowd, CROWD),
                _ => (&LOADS[..], &self.idle, LASTING),
            };
            let loads = match &asked[..] {
                asked if scene != Scene::Service && !asked.is_empty() => asked,
                _ => loads,
            };
            for &workers in &self.workers {
                for &tasks in loads {
                    for &count in counts {
                        let lasting = seconds.unwrap_or(lasting);
                        let load = load(scene, workers, tasks, count, lasting);
                        let load = Load {
                            channels: self.channels,
                            ..load
                        };
                        let peers = self.peer.iter().copied().filter(|&peer| scene.can(peer));
                        let sample = |peer| Sample { scene, peer, load };
                        let job = |peer| Job::Saturated {
                            sample: sample(peer),
                            detailed: true,
                        };
                        turns.push(peers.map(job).collect());
                    }
                }
            }
        }
        Ok(turns)
    }
}

/// Returns the jobs of a driver's wake-up. One turn has shards that hold sleeps, the other turn has
/// empty shards. Each turn has all numbers of shards.
pub(crate) fn wakeups() -> Vec<Vec<Job>> {
    let turn = |held| {
        let shards = wakeup::SHARDS.into_iter().map(Some).chain([None]);
        shards
            .map(move |shards| Job::Wakeup { shards, held })
            .collect()
    };
    [false, true].map(turn).into()
}

/// Returns a turn for each variant of each workload, with all peers that have the workload. The
/// floor takes a turn if the report compares one of the peers to the floor.
fn operations(select: impl Fn(&Cell) -> bool, lasting: Duration) -> Vec<Vec<Job>> {
    let mut turns = Vec::new();
    for workload in WORKLOADS {
        for variant in VARIANTS {
            let of_turn = |cell: &Cell| (cell.workload, cell.variant) == (workload, variant);
            let mut turn = turn_of(|cell| of_turn(cell) && select(cell), lasting);
            let is_floored = |job: &Job| matches!(job, Job::Operation { peer, .. } if is_floored(workload, peer));
            let floored = turn.iter().any(is_floored);
            turn.extend(floored.then_some(Job::Floor { lasting }));
            turns.push(turn);
        }
    }
    turns.retain(|turn| !turn.is_empty());
    turns
}

/// Returns the turn of the selected cells. The workload without a timer comes last.
fn turn_of(select: impl Fn(&Cell) -> bool, lasting: Duration) -> Vec<Job> {
    let mut cells: Vec<_> = cells().into_iter().filter(select).collect();
    cells.sort_by_key(|cell| cell.peer == BARE);
    let job = |cell: &Cell| Job::Operation {
        workload: cell.workload.to_owned(),
        variant: cell.variant.to_owned(),
        peer: cell.peer.to_owned(),
        lasting,
    };
    cells.iter().map(job).collect()
}
