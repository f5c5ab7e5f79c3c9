//! Makes the jobs of the comparison, and of its parts. A turn is a list of jobs that are compared
//! with each other.

use std::{collections::BTreeMap, time::Duration};

use clap::ValueEnum;
use tokio_wheel_benches::{
    cell::{Cell, WORKLOADS, cells},
    fire, lateness,
    peer::{Peer as _, PeerKind, TokioAlt, alternative},
    process,
    saturated::{LASTING, Load, Scene},
    stats::in_round,
    wakeup,
};

use crate::{
    Program,
    job::{FIRED, Job, Task},
    report::{BARE, OURS, TOKIO, is_floored},
};

/// How many sleeps or tasks wait while the program measures their memory.
const WAITING: u64 = 1_000_000;

/// The operations of the screen.
const COMPARED: [&str; 5] = ["ready", "io", "reset", "rpc", "churn"];

/// The operations that need seconds to begin.
const SLOW: [&str; 4] = ["touch", "insert_remove", "replace", "drain"];

/// The loads of a saturated runtime: the number of tasks that are always ready, and the
/// microseconds of a poll.
const LOADS: [(usize, u64); 3] = [(50, 100), (200, 10), (30, 200)];
const SUSTAINED_LOADS: [(usize, u64); 3] = [(100, 100), (200, 100), (400, 50)];
const CROWD_LOADS: [(usize, u64); 4] = [(0, 100), (50, 100), (300, 100), (1_000, 100)];

/// How long a sample of a saturated runtime lasts in the comparison and with `--quick`, and how long
/// one of [`Scene::Sustained`] lasts.
const SHORT: Duration = Duration::from_millis(1_500);
const SATURATED_QUICK: Duration = Duration::from_secs(2);
const SUSTAINED: Duration = Duration::from_secs(5);

/// Workers, tasks that are always ready, and microseconds of a poll.
type Ready = (usize, usize, u64);

/// The loads of the requirements.
pub(crate) const REQUIRED: [Ready; 2] = [(1, 50, 100), (2, 30, 200)];

/// Jobs that are compared with each other, one for each peer.
type Turn = Vec<Job>;

/// Returns the jobs of each round. Turns change their order from round to round.
pub(crate) fn in_rounds(rounds: u32, turns: impl Fn(u32) -> Vec<Turn>) -> Vec<Vec<Job>> {
    let round = |number| {
        let turns = turns(number).into_iter();
        turns.flat_map(|turn| in_round(turn, number)).collect()
    };
    (0..rounds).map(round).collect()
}

/// Returns the jobs of each round of the whole comparison.
pub(crate) fn comparison(args: &Program) -> Vec<Vec<Job>> {
    let rounds = if args.quick { 2 } else { args.common.rounds };
    let lasting = Duration::from_millis(if args.quick { 20 } else { 50 });
    // async-io needs 3 GB for ten million sleeps.
    let has_room = process::available_bytes() > 4 << 30;
    in_rounds(rounds, |round| {
        if args.tables.all || args.tables.requirements {
            // Ten million sleeps take very long.
            let most = if has_room && round.is_multiple_of(3) {
                10_000_000
            } else {
                1_000_000
            };
            return all(most, lasting);
        }
        let on_screen = |cell: &Cell| {
            COMPARED.contains(&cell.workload)
                && match cell.variant {
                    "solo armed" | "x2 armed" => true,
                    "solo" | "x2" => cell.peer == TOKIO,
                    _ => false,
                }
        };
        [operations(on_screen, lasting), scenes()].concat()
    })
}

/// Returns the peers of the whole comparison.
fn usual() -> Vec<PeerKind> {
    let alternative = alternative().map(|_| PeerKind::TokioAlt);
    PeerKind::ALL.into_iter().chain(alternative).collect()
}

/// Returns this crate and the timers that it replaces.
fn compatible() -> Vec<PeerKind> {
    let mut peers = usual();
    peers.retain(|peer| peer.name().starts_with("tokio"));
    peers
}

/// Returns a job of a saturated runtime for each peer. A current-thread runtime has no alternative
/// timer: tokio silently uses the other one.
fn each_saturated(peers: &[PeerKind], load: Load) -> Turn {
    let exists = |peer: &&PeerKind| load.workers > 0 || **peer != PeerKind::TokioAlt;
    let peers: Vec<_> = peers.iter().filter(exists).copied().collect();
    each(&peers, &Task::Saturated(load))
}

/// Returns a job for each peer.
fn each(peers: &[PeerKind], task: &Task) -> Turn {
    let names = peers.iter().map(|peer| peer.name());
    names.map(|peer| job(peer, task.clone())).collect()
}

fn job(peer: &str, task: Task) -> Job {
    let peer = peer.to_owned();
    Job { peer, task }
}

fn firing(scene: fire::Scene, sleeps: u64) -> Task {
    Task::Fire { scene, sleeps }
}

/// Returns the jobs of the screen for memory and lateness.
fn scenes() -> Vec<Turn> {
    let [one, two] = REQUIRED;
    [
        Task::Memory { sleeps: WAITING },
        Task::Lateness(lateness::Scene::Idle),
        Task::Saturated(saturated(Scene::Service, two, 0)),
        Task::Saturated(saturated(Scene::Sleeps, one, 0)),
        firing(fire::Scene::Storm, FIRED),
    ]
    .map(|task| each(&usual(), &task))
    .into()
}

/// Returns all jobs of a round.
fn all(most: u64, lasting: Duration) -> Vec<Turn> {
    let select = |cell: &Cell| {
        let with_elements = ["insert_remove", "replace"].contains(&cell.workload);
        (with_elements || COMPARED.contains(&cell.workload))
            && !["100k", "x16", "x16 armed", "x64", "x64 armed"].contains(&cell.variant)
    };
    let mut turns = operations(select, lasting);
    let beside = |armed| Task::Pending {
        armed,
        most,
        lasting,
    };
    let spread = firing(fire::Scene::Spread, FIRED);
    turns.extend([beside(false), beside(true), spread].map(|task| each(&usual(), &task)));
    turns.extend(wakeups());
    turns.extend(scenes());
    turns.push(vec![job(OURS, Task::Streams)]);
    turns.extend(beside_idle());
    turns
}

/// Returns the jobs for the required lateness on a saturated runtime, beside several numbers of
/// idle timers. [`scenes`] has the job for one worker without idle timers. Also returns jobs for
/// the lateness of 30,000 and of 10,000 sleeps a second, and of a crowd.
fn beside_idle() -> Vec<Turn> {
    let [one, two] = REQUIRED;
    let mut loads = vec![
        saturated(Scene::Sleeps, two, 0),
        saturated(Scene::Steady, two, 0),
    ];
    for ready in [one, two] {
        let beside = |idle| saturated(Scene::Sleeps, ready, idle);
        loads.extend([300_000, 1_000_000].map(beside));
    }
    for workers in [0, 2] {
        loads.push(saturated(Scene::Sustained, (workers, 200, 100), 10_000));
        loads.push(saturated(Scene::Crowd, (workers, 300, 100), 20_000));
    }
    let peers = compatible();
    let turn = |load| each_saturated(&peers, load);
    loads.into_iter().map(turn).collect()
}

/// Returns a short sample of a saturated runtime.
fn saturated(scene: Scene, ready: Ready, count: u64) -> Load {
    let lasting = match scene {
        Scene::Sustained => SUSTAINED,
        _ => SHORT,
    };
    load(scene, ready, count, lasting)
}

/// Returns a load of tasks that wake themselves.
pub(crate) fn load(
    scene: Scene,
    (workers, tasks, length): Ready,
    count: u64,
    lasting: Duration,
) -> Load {
    Load {
        scene,
        workers,
        tasks,
        length: Duration::from_micros(length),
        channels: false,
        count,
        lasting,
    }
}

/// The operations to measure.
#[derive(clap::Args)]
pub(crate) struct Ops {
    /// Measures only these workloads, separated by commas. By default, measures all except touch,
    /// insert_remove, replace and drain, which need seconds to begin.
    #[arg(long, value_delimiter = ',', value_parser = WORKLOADS)]
    workload: Vec<String>,
    /// Measures only these variants, separated by commas: solo, x1, x2, x4, x8, x16, x64, also
    /// "solo armed" and so on; 100k, 1M, "100k x2", "1M x2".
    #[arg(long, value_delimiter = ',')]
    variant: Vec<String>,
    /// Measures only these peers, separated by commas, and the workloads without a timer.
    #[arg(long, value_delimiter = ',')]
    peer: Vec<PeerKind>,
    /// How long one sample should last.
    #[arg(long, default_value_t = 50, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    millis: u64,
}

impl Ops {
    pub(crate) fn turns(&self) -> Vec<Turn> {
        let select = |cell: &Cell| {
            let of_workload = match &self.workload[..] {
                [] => !SLOW.contains(&cell.workload),
                workloads => workloads.iter().any(|name| name == cell.workload),
            };
            of_workload
                && (self.variant.is_empty() || self.variant.iter().any(|v| v == cell.variant))
                && (self.peer.is_empty()
                    || cell.peer == BARE
                    || self.peer.iter().any(|peer| peer.name() == cell.peer))
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
    /// Returns the jobs of scenes in which sleeps fire.
    pub(crate) fn fire(&self, scenes: &[fire::Scene]) -> Vec<Turn> {
        let sleeps = self.sleeps.unwrap_or(FIRED);
        let turn = |&scene| self.each(&usual(), &firing(scene, sleeps));
        scenes.iter().map(turn).collect()
    }

    pub(crate) fn lateness(&self) -> Vec<Turn> {
        let more = [
            PeerKind::TokioWheelHigh,
            PeerKind::TokioHrtime,
            PeerKind::Thread,
        ];
        let peers = [usual(), more.into()].concat();
        let turn = |&scene| self.each(&peers, &Task::Lateness(scene));
        lateness::Scene::value_variants().iter().map(turn).collect()
    }

    pub(crate) fn memory(&self) -> Vec<Turn> {
        let sleeps = self.sleeps.unwrap_or(WAITING);
        let streams = self.each(&[PeerKind::TokioWheel], &Task::Streams);
        let streams = streams.into_iter().filter(|job| job.peer == OURS);
        vec![
            self.each(&usual(), &Task::Memory { sleeps }),
            streams.collect(),
        ]
    }

    /// No other peer schedules tasks, so the other peers spawn them.
    pub(crate) fn scheduled(&self) -> Vec<Turn> {
        let tasks = self.sleeps.unwrap_or(WAITING);
        let spawned = self.each(&compatible(), &Task::Spawned { tasks });
        vec![vec![job(OURS, Task::Scheduled { tasks })], spawned]
    }

    fn each(&self, default: &[PeerKind], task: &Task) -> Turn {
        each(or(&self.peer, default), task)
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
    /// The peers, separated by commas: by default tokio_wheel, tokio, and on worker threads tokio_alt
    /// if it was built.
    #[arg(long, value_delimiter = ',')]
    peer: Vec<PeerKind>,
}

impl Saturated {
    pub(crate) fn turns(&self) -> anyhow::Result<Vec<Turn>> {
        let seconds = (self.seconds.map(Duration::try_from_secs_f64)).transpose()?;
        let seconds = seconds.or(self.quick.then_some(SATURATED_QUICK));
        let asked: Vec<_> = (self.tasks.iter())
            .map(|&tasks| (tasks, self.length))
            .collect();
        let (compatible, mut turns) = (compatible(), Vec::new());
        for &scene in &self.scene {
            let (loads, counts, lasting) = match scene {
                // A service is a load of its own.
                Scene::Service => (&[(0, 0)][..], &self.idle, LASTING),
                Scene::Sustained => (or(&asked, &SUSTAINED_LOADS), &self.rate, SUSTAINED),
                Scene::Crowd => (or(&asked, &CROWD_LOADS), &self.crowd, LASTING),
                _ => (or(&asked, &LOADS), &self.idle, LASTING),
            };
            for &workers in &self.workers {
                for &(tasks, length) in loads {
                    for &count in counts {
                        let lasting = seconds.unwrap_or(lasting);
                        let load = Load {
                            channels: self.channels,
                            ..load(scene, (workers, tasks, length), count, lasting)
                        };
                        turns.push(each_saturated(or(&self.peer, &compatible), load));
                    }
                }
            }
        }
        Ok(turns)
    }
}

/// Returns a list, or another one if the list is empty.
fn or<'a, T>(list: &'a [T], default: &'a [T]) -> &'a [T] {
    if list.is_empty() { default } else { list }
}

/// Returns the jobs of a driver's wake-up. One turn has shards that hold sleeps, the other turn has
/// empty shards. Each turn has all numbers of shards.
pub(crate) fn wakeups() -> Vec<Turn> {
    let turn = |held| {
        let task = |shards| job(OURS, Task::Wakeup { shards, held });
        wakeup::SHARDS.map(task).into()
    };
    [false, true].map(turn).into()
}

/// Returns a turn for each variant of each workload, with all peers that have the workload. The
/// floor takes a turn if the report compares one of the peers to the floor.
fn operations(select: impl Fn(&Cell) -> bool, lasting: Duration) -> Vec<Turn> {
    let mut cells = cells();
    cells.retain(|cell| select(cell) && (cell.peer != TokioAlt::NAME || alternative().is_some()));
    let mut turns: BTreeMap<_, Turn> = BTreeMap::new();
    for cell in &cells {
        let workload = WORKLOADS.iter().position(|&name| name == cell.workload);
        let variant = cells.iter().position(|other| other.variant == cell.variant);
        let turn = turns.entry((workload, variant)).or_default();
        if is_floored(cell.workload, cell.peer) {
            turn.push(job(BARE, Task::Floor { lasting }));
        }
        let task = Task::Operation {
            workload: cell.workload.to_owned(),
            variant: cell.variant.to_owned(),
            lasting,
        };
        turn.push(job(cell.peer, task));
    }
    turns.into_values().collect()
}
