//! Makes the jobs of the comparison, and of its parts. The jobs of a turn are compared with each other.

use std::{collections::BTreeMap, time::Duration};

use clap::ValueEnum;
use tokio_wheel_benches::{
    cell::{Cell, cells, name, worker_counts},
    fire,
    lab::cores,
    lateness,
    model::Operation,
    peer::{Peer as _, PeerKind, TokioAlt, alternative},
    process,
    saturated::{Load, Scene},
    stats::in_round,
    wakeup,
};

use crate::{
    job::{Job, Task},
    report::{BARE, OURS},
};

const COMPARED: [&str; 5] = ["ready", "io", "reset", "rpc", "churn"];

const SLOW: [&str; 4] = ["touch", "insert_remove", "replace", "drain"];

/// The numbers of idle timers, how many sleeps fire each second, and how many have one deadline.
const IDLE: [u64; 3] = [0, 300_000, 1_000_000];
const RATE: u64 = 10_000;
const CROWD: u64 = 20_000;

/// How long samples of a saturated runtime last, usually and at most with `--quick`, and when sustained.
const SHORT: Duration = Duration::from_millis(1_500);
const QUICK: Duration = Duration::from_secs(2);
const SUSTAINED: Duration = Duration::from_secs(5);

/// Workers, tasks that are always ready, and microseconds of a poll.
type Ready = (usize, usize, u64);

pub(crate) const REQUIRED: [Ready; 2] = [(1, 50, 100), (2, 30, 200)];

/// Workers, tasks that block, and microseconds of a block.
const BLOCKED: Ready = (2, 1, 300_000);

/// Workers, tasks that wait for a broadcast, and microseconds of the work of each.
const BROADCAST: Ready = (2, 5_000, 5);

pub(crate) type Turn = Vec<Job>;

/// Returns the jobs of each round. Turns change their order from round to round.
pub(crate) fn in_rounds(rounds: u32, turns: impl Fn(u32) -> Vec<Turn>) -> Vec<Vec<Job>> {
    let round = |number| {
        let turns = turns(number).into_iter();
        turns.flat_map(|turn| in_round(turn, number)).collect()
    };
    (0..rounds).map(round).collect()
}

pub(crate) fn short() -> Vec<Turn> {
    let select = |cell: &Cell| {
        COMPARED.contains(&cell.workload) && ["solo armed", "x2 armed"].contains(&&*cell.variant)
    };
    [operations(select), scenes()].concat()
}

pub(crate) fn all(round: u32) -> Vec<Turn> {
    // Ten million sleeps take very long, and async-io needs 3 GB for them.
    let has_room = process::available_bytes() > 4 << 30;
    let most = match has_room && round.is_multiple_of(3) {
        true => 10_000_000,
        false => 1_000_000,
    };
    let select = |cell: &Cell| match cell.workload {
        "insert_remove" | "replace" => cell.variant == "1M",
        workload => COMPARED.contains(&workload),
    };
    let mut turns = operations(select);
    let beside = |armed| Task::Pending { armed, most };
    let spread = Task::Fire(fire::Scene::Spread);
    turns.extend([beside(false), beside(true), spread].map(|task| each(&usual(), &task)));
    turns.extend(wakeups());
    turns.extend(scenes());
    turns.push(vec![Job::new(OURS, Task::Streams)]);
    turns.extend(beside_idle());
    turns
}

fn usual() -> Vec<PeerKind> {
    let alternative = alternative().map(|_| PeerKind::TokioAlt);
    PeerKind::ALL.into_iter().chain(alternative).collect()
}

fn compatible() -> Vec<PeerKind> {
    let mut peers = usual();
    peers.retain(|peer| peer.name().starts_with("tokio"));
    peers
}

/// Returns a job for each peer. A current-thread runtime has no alternative timer: tokio silently uses the other one.
fn each(peers: &[PeerKind], task: &Task) -> Turn {
    let has_alternative = !matches!(task, Task::Saturated(load) if load.workers == 0);
    (peers.iter())
        .filter(|&&peer| has_alternative || peer != PeerKind::TokioAlt)
        .map(|peer| Job::new(peer.name(), task.clone()))
        .collect()
}

fn scenes() -> Vec<Turn> {
    let [one, two] = REQUIRED;
    [
        Task::Memory,
        Task::Lateness(lateness::Scene::Idle),
        Task::Saturated(load(Scene::Service, two, 0, SHORT)),
        Task::Saturated(load(Scene::Sleeps, one, 0, SHORT)),
        Task::Saturated(load(Scene::Blocked, BLOCKED, 0, SHORT)),
        Task::Fire(fire::Scene::Storm),
    ]
    .map(|task| each(&usual(), &task))
    .into()
}

/// Returns the jobs for the required lateness on a saturated runtime. [`scenes`] has the job for one
/// worker without idle timers.
fn beside_idle() -> Vec<Turn> {
    let [one, two] = REQUIRED;
    let mut loads = vec![
        load(Scene::Sleeps, two, 0, SHORT),
        load(Scene::Steady, two, 0, SHORT),
        load(Scene::Broadcast, BROADCAST, 0, SHORT),
    ];
    for ready in [one, two] {
        let beside = |&idle| load(Scene::Sleeps, ready, idle, SHORT);
        loads.extend(IDLE[1..].iter().map(beside));
    }
    for workers in [0, 2] {
        loads.push(load(Scene::Sustained, (workers, 200, 100), RATE, SUSTAINED));
        loads.push(load(Scene::Crowd, (workers, 300, 100), CROWD, SHORT));
    }
    let turn = |load| each(&compatible(), &Task::Saturated(load));
    loads.into_iter().map(turn).collect()
}

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
        count,
        lasting,
    }
}

#[derive(clap::Args)]
pub(crate) struct Ops {
    /// Measures only these workloads, separated by commas. By default, measures all except touch,
    /// insert_remove, replace and drain, which need seconds to begin.
    #[arg(long, value_delimiter = ',')]
    workload: Vec<String>,
    /// Measures only these variants, separated by commas: solo, x1, x2, x4, x8, also "solo armed"
    /// and so on; 100k, 1M, "100k x2", "1M x2".
    #[arg(long, value_delimiter = ',')]
    variant: Vec<String>,
}

impl Ops {
    pub(crate) fn turns(&self) -> Vec<Turn> {
        operations(|cell| {
            let of_workload = match &self.workload[..] {
                [] => !SLOW.contains(&cell.workload),
                workloads => workloads.iter().any(|name| name == cell.workload),
            };
            of_workload && (self.variant.is_empty() || self.variant.contains(&cell.variant))
        })
    }
}

pub(crate) fn fire() -> Vec<Turn> {
    let turn = |scene| each(&usual(), &Task::Fire(scene));
    [fire::Scene::SpreadBusy, fire::Scene::Spread]
        .map(turn)
        .into()
}

pub(crate) fn lateness() -> Vec<Turn> {
    let more = [
        PeerKind::TokioWheelHigh,
        PeerKind::TokioHrtime,
        PeerKind::Thread,
    ];
    let peers = [usual(), more.into()].concat();
    let turn = |&scene| each(&peers, &Task::Lateness(scene));
    lateness::Scene::value_variants().iter().map(turn).collect()
}

pub(crate) fn memory() -> Vec<Turn> {
    let streams = vec![Job::new(OURS, Task::Streams)];
    vec![each(&usual(), &Task::Memory), streams]
}

/// No other peer schedules tasks, so the other peers spawn them.
pub(crate) fn scheduled() -> Vec<Turn> {
    let scheduled = vec![Job::new(OURS, Task::Scheduled)];
    vec![scheduled, each(&compatible(), &Task::Spawned)]
}

fn wakeups() -> Vec<Turn> {
    let job = |shards| Job::new(OURS, Task::Wakeup(shards));
    vec![wakeup::SHARDS.map(job).into()]
}

pub(crate) fn cores_in_use() -> Vec<Turn> {
    let counts = worker_counts(cores().len()).into_iter();
    let variants: Vec<_> = counts.map(|workers| name(workers, true)).collect();
    let mut turns = operations(|cell| {
        let is_modelled = Operation::find(cell.peer, cell.workload).is_some();
        is_modelled && variants.contains(&cell.variant)
    });
    turns.push(vec![Job::new(BARE, Task::Transfers)]);
    turns
}

#[derive(clap::Args)]
pub(crate) struct Saturated {
    /// Measures only these scenes, separated by commas.
    #[arg(long, value_delimiter = ',')]
    scene: Vec<Scene>,
    /// Takes samples of two seconds of `sustained`, not of five.
    #[arg(long)]
    quick: bool,
    /// The numbers of worker threads, separated by commas. 0 is a current-thread runtime. By default,
    /// each scene runs with the numbers of the whole comparison.
    #[arg(long, value_delimiter = ',')]
    workers: Vec<usize>,
    /// How many tasks are always ready, separated by commas. By default, as in the whole comparison.
    #[arg(long, value_delimiter = ',')]
    tasks: Vec<usize>,
}

impl Saturated {
    pub(crate) fn turns(&self) -> Vec<Turn> {
        let or = |asked: &[usize], usual| match asked {
            [] => vec![usual],
            _ => asked.to_vec(),
        };
        let compared = [scenes(), beside_idle()].concat();
        let mut loads = Vec::new();
        for job in compared.iter().flatten() {
            let Task::Saturated(mut load) = job.task else {
                continue;
            };
            if !self.scene.is_empty() && !self.scene.contains(&load.scene) {
                continue;
            }
            if self.quick {
                load.lasting = load.lasting.min(QUICK);
            }
            for workers in or(&self.workers, load.workers) {
                for tasks in or(&self.tasks, load.tasks) {
                    let asked = Load {
                        workers,
                        tasks,
                        ..load
                    };
                    if !loads.contains(&asked) {
                        loads.push(asked);
                    }
                }
            }
        }
        let turn = |load| each(&compatible(), &Task::Saturated(load));
        loads.into_iter().map(turn).collect()
    }
}

/// Returns a turn for each variant of each workload, with the floor if a requirement counts in it.
fn operations(select: impl Fn(&Cell) -> bool) -> Vec<Turn> {
    let mut cells = cells();
    cells.retain(|cell| select(cell) && (cell.peer != TokioAlt::NAME || alternative().is_some()));
    let mut turns: BTreeMap<_, Turn> = BTreeMap::new();
    for cell in &cells {
        // `churn` runs last. It leaves entries in a timer that forgets nothing, and these entries
        // would slow the other workloads down.
        let is_last = cell.workload == "churn";
        let workload = (cells.iter()).position(|other| other.workload == cell.workload);
        let variant = cells.iter().position(|other| other.variant == cell.variant);
        let turn = turns.entry((is_last, workload, variant)).or_default();
        if cell.peer == OURS && ["churn", "io", "reset", "ready"].contains(&cell.workload) {
            turn.push(Job::new(BARE, Task::Floor));
        }
        let task = Task::Operation {
            workload: cell.workload.to_owned(),
            variant: cell.variant.clone(),
        };
        turn.push(Job::new(cell.peer, task));
    }
    turns.into_values().collect()
}
