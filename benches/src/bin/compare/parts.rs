//! Makes the jobs of a part of the comparison, from the options of the command line.

use std::time::Duration;

use anyhow::ensure;
use clap::ValueEnum;
use tokio_wheel_benches::{
    cell::{Cell, VARIANTS, WORKLOADS, cells},
    fire,
    lateness::{self, Sleeper},
    peer::PeerKind,
    saturated::{LASTING, Load, Sample, Scene},
    touch,
    turns::in_round,
    wakeup,
};

use crate::{
    job::{FIRED, Job, STREAMS, WAITING},
    report::{BARE, is_floored},
    rounds::Output,
};

/// The number of sleeps in a `fire` with so few sleeps that workers park between them.
const FEW: u64 = 1_000;

/// The number of tasks that sleep like an interval.
const INTERVALS: u64 = 100;

/// The loads of a saturated runtime: the number of tasks that are always ready, and the
/// microseconds of a poll.
const LOADS: [(usize, u64); 3] = [(50, 100), (200, 10), (30, 200)];

/// The loads of [`Scene::Sustained`] and of [`Scene::Crowd`].
const SUSTAINED_LOADS: [(usize, u64); 3] = [(100, 100), (200, 100), (400, 50)];
const CROWD_LOADS: [(usize, u64); 4] = [(0, 100), (50, 100), (300, 100), (1_000, 100)];

/// How long a sample of [`Scene::Sustained`] lasts by default, and about how long one of
/// [`Scene::Crowd`].
pub(crate) const SUSTAINED_LASTING: Duration = Duration::from_secs(5);
const CROWD_LASTING: Duration = Duration::from_secs(2);

/// How long a sample of a saturated runtime lasts with `--quick`.
const QUICK: Duration = Duration::from_secs(2);

/// How often to measure, and where to write the figures.
#[derive(clap::Args)]
pub(crate) struct Common {
    /// How often each figure is measured. Fewer than six rounds give no intervals.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl Common {
    /// Returns the rounds of the given turns. Jobs of a turn are compared with each other, and
    /// change their order from round to round.
    pub(crate) fn rounds(&self, turns: Vec<Vec<Job>>) -> Vec<Vec<Job>> {
        let round = |number| {
            let turns = turns.iter().cloned();
            turns.flat_map(|turn| in_round(turn, number)).collect()
        };
        (0..self.rounds).map(round).collect()
    }
}

/// The operations to measure.
#[derive(clap::Args)]
pub(crate) struct Ops {
    /// Measures only these workloads, separated by commas.
    #[arg(long, value_delimiter = ',', value_parser = WORKLOADS)]
    workload: Vec<String>,
    /// Measures only these variants, separated by commas. By default, measures all variants except
    /// x1+1M and x2+1M. These run beside a million pending sleeps and take seconds to register
    /// them.
    #[arg(long, value_delimiter = ',', value_parser = VARIANTS)]
    variant: Vec<String>,
    /// Measures only these peers, separated by commas. Leaves out the workloads without a timer,
    /// except for `io` of this crate.
    #[arg(long, value_delimiter = ',')]
    peer: Vec<PeerKind>,
    /// How long one sample should last.
    #[arg(long, default_value_t = 50, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    millis: u64,
    #[command(flatten)]
    pub(crate) common: Common,
}

impl Ops {
    /// Returns the jobs of each round.
    pub(crate) fn rounds(&self) -> anyhow::Result<Vec<Vec<Job>>> {
        let has_peer = |cell: &Cell| {
            // The report subtracts the cost of `io` without a timer from this crate's cost.
            let of_io = |peer: &PeerKind| {
                cell.peer == BARE && cell.workload == "io" && is_floored("io", peer.name())
            };
            let is_cells = |peer: &PeerKind| peer.name() == cell.peer;
            self.peer.is_empty() || self.peer.iter().any(|peer| is_cells(peer) || of_io(peer))
        };
        let select = |cell: &Cell| {
            (self.workload.is_empty() || self.workload.iter().any(|w| w == cell.workload))
                && has_peer(cell)
                && match &self.variant[..] {
                    [] => !cell.is_crowded(),
                    variants => variants.iter().any(|variant| variant == cell.variant),
                }
        };
        let turns = operations(select, Duration::from_millis(self.millis));
        ensure!(
            !turns.is_empty(),
            "the lists must select an operation that a peer has, got none"
        );
        Ok(self.common.rounds(turns))
    }
}

/// The samples of a touch.
#[derive(clap::Args)]
pub(crate) struct Touch {
    /// How long one sample should last.
    #[arg(long, default_value_t = 50, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    millis: u64,
    #[command(flatten)]
    pub(crate) common: Common,
}

impl Touch {
    /// Returns the jobs of each round.
    pub(crate) fn rounds(&self) -> Vec<Vec<Job>> {
        let lasting = Duration::from_millis(self.millis);
        let turns = touch::CROWDS.map(|keys| vec![Job::Touch { keys, lasting }]);
        self.common.rounds(turns.into())
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
    #[command(flatten)]
    pub(crate) common: Common,
}

impl Sleeps {
    /// Returns the jobs of each round of `fire`: busy, alone, with few sleeps, and with intervals.
    pub(crate) fn fire(&self) -> Vec<Vec<Job>> {
        let scenes = [
            (fire::Scene::SpreadBusy, FIRED),
            (fire::Scene::Spread, FIRED),
            (fire::Scene::Spread, FEW),
            (fire::Scene::Intervals, INTERVALS),
        ];
        let turn = |(scene, default)| {
            self.each(|peer| Job::Fire {
                peer,
                scene,
                sleeps: self.sleeps.unwrap_or(default),
            })
        };
        let scenes = match self.sleeps {
            None => &scenes[..],
            // With a number from the command line, the second scene and the third are equal.
            Some(_) => &scenes[..2],
        };
        self.common
            .rounds(scenes.iter().copied().map(turn).collect())
    }

    /// Returns the jobs of each round of `storm`.
    pub(crate) fn storm(&self) -> Vec<Vec<Job>> {
        let turn = self.each(|peer| Job::Fire {
            peer,
            scene: fire::Scene::Storm,
            sleeps: self.sleeps.unwrap_or(FIRED),
        });
        self.common.rounds(vec![turn])
    }

    /// Returns the jobs of each round of `memory`.
    pub(crate) fn memory(&self) -> Vec<Vec<Job>> {
        let sleeps = self.sleeps.unwrap_or(WAITING);
        let mut turns = vec![self.each(|peer| Job::Memory { peer, sleeps })];
        if self.peer.is_empty() || self.peer.contains(&PeerKind::TokioWheel) {
            turns.push(vec![Job::Streams { streams: STREAMS }]);
        }
        self.common.rounds(turns)
    }

    /// Returns the jobs of each round of `idle`.
    pub(crate) fn idle(&self) -> Vec<Vec<Job>> {
        let sleeps = self.sleeps.unwrap_or(WAITING);
        let turn = self.each(|peer| Job::Idle { peer, sleeps });
        self.common.rounds(vec![turn])
    }

    /// Returns the jobs of each round of `scheduled`. No other peer schedules tasks, so the other
    /// peers spawn them.
    pub(crate) fn scheduled(&self) -> Vec<Vec<Job>> {
        let tasks = self.sleeps.unwrap_or(WAITING);
        let spawned = match &self.peer[..] {
            [] => &[PeerKind::TokioWheel, PeerKind::Tokio],
            asked => asked,
        };
        let spawned = spawned.iter().map(|&peer| Job::Spawned { peer, tasks });
        self.common
            .rounds(vec![vec![Job::Scheduled { tasks }], spawned.collect()])
    }

    /// Returns a job for each peer.
    fn each(&self, job: impl Fn(PeerKind) -> Job) -> Vec<Job> {
        let peers = match &self.peer[..] {
            [] => PeerKind::value_variants(),
            asked => asked,
        };
        peers.iter().copied().map(job).collect()
    }
}

/// The ways to sleep.
#[derive(clap::Args)]
pub(crate) struct Lateness {
    /// Measures only these ways to sleep, separated by commas.
    #[arg(long, value_delimiter = ',')]
    peer: Vec<Sleeper>,
    #[command(flatten)]
    pub(crate) common: Common,
}

impl Lateness {
    /// Returns the jobs of each round.
    pub(crate) fn rounds(&self) -> Vec<Vec<Job>> {
        let sleepers = match &self.peer[..] {
            [] => Sleeper::value_variants(),
            asked => asked,
        };
        let turn = |&scene: &lateness::Scene| {
            (sleepers.iter().copied())
                .filter(|sleeper| sleeper.can(scene))
                .map(|sleeper| Job::Lateness { scene, sleeper })
                .collect()
        };
        let scenes = lateness::Scene::value_variants();
        self.common.rounds(scenes.iter().map(turn).collect())
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
    #[command(flatten)]
    pub(crate) common: Common,
}

impl Saturated {
    /// Returns the jobs of each round.
    pub(crate) fn rounds(&self) -> anyhow::Result<Vec<Vec<Job>>> {
        let turn = |(scene, load): (Scene, Load)| {
            (self.peer.iter().copied())
                .filter(|&peer| scene.can(peer))
                .map(|peer| Job::Saturated {
                    sample: Sample { scene, peer, load },
                    detailed: true,
                })
                .collect()
        };
        let turns = self.cells()?.into_iter().map(turn).collect();
        Ok(self.common.rounds(turns))
    }

    fn cells(&self) -> anyhow::Result<Vec<(Scene, Load)>> {
        let seconds = (self.seconds.map(Duration::try_from_secs_f64)).transpose()?;
        let seconds = seconds.or(self.quick.then_some(QUICK));
        let asked: Vec<_> = (self.tasks.iter())
            .map(|&tasks| (tasks, self.length))
            .collect();
        let mut cells = Vec::new();
        for &scene in &self.scene {
            let (loads, counts, lasting) = match scene {
                // A service is a load of its own.
                Scene::Service => (&[(0, 0)][..], &self.idle, LASTING),
                Scene::Sustained => (&SUSTAINED_LOADS[..], &self.rate, SUSTAINED_LASTING),
                Scene::Crowd => (&CROWD_LOADS[..], &self.crowd, CROWD_LASTING),
                _ => (&LOADS[..], &self.idle, LASTING),
            };
            let loads = match &asked[..] {
                asked if scene != Scene::Service && !asked.is_empty() => asked,
                _ => loads,
            };
            for &workers in &self.workers {
                for &(tasks, length) in loads {
                    for &count in counts {
                        let (idle, sleepers) = match scene.has_sleepers() {
                            true => (0, count),
                            false => (count, 0),
                        };
                        let load = Load {
                            workers,
                            tasks,
                            length: Duration::from_micros(length),
                            channels: self.channels,
                            idle,
                            sleepers,
                            lasting: seconds.unwrap_or(lasting),
                        };
                        cells.push((scene, load));
                    }
                }
            }
        }
        Ok(cells)
    }
}

/// Returns the jobs of a driver's wake-up. One turn has shards that hold sleeps, the other turn has
/// empty shards. Each turn has all numbers of shards.
pub(crate) fn wakeups() -> [Vec<Job>; 2] {
    [false, true].map(|held| {
        let wakeup = |shards| Job::Wakeup { shards, held };
        let mut turn = wakeup::SHARDS.map(wakeup).to_vec();
        turn.push(Job::NoWakeup);
        turn
    })
}

/// Returns a turn for each variant of each workload, with all peers that have the workload. The
/// floor takes a turn if the report compares one of the peers to the floor.
pub(crate) fn operations(select: impl Fn(&Cell) -> bool, lasting: Duration) -> Vec<Vec<Job>> {
    let mut turns = Vec::new();
    for workload in WORKLOADS {
        for variant in VARIANTS {
            let of_turn = |cell: &Cell| (cell.workload, cell.variant) == (workload, variant);
            let mut turn = turn_of(|cell| of_turn(cell) && select(cell), lasting);
            let floored = (turn.iter()).any(
                |job| matches!(job, Job::Operation { peer, .. } if is_floored(workload, peer)),
            );
            turn.extend(floored.then_some(Job::Floor { lasting }));
            turns.push(turn);
        }
    }
    turns.retain(|turn| !turn.is_empty());
    turns
}

/// Returns the turn of the selected cells. The workload without a timer comes last.
pub(crate) fn turn_of(select: impl Fn(&Cell) -> bool, lasting: Duration) -> Vec<Job> {
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
