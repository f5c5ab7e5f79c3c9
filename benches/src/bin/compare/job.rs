//! Measures one timer in a process of its own. Several timers are global, keep their entries, or
//! have threads of their own. So a workload in the same process would disturb the next one.

use std::{fmt, mem, process::Command, time::Duration};

use anyhow::{Context as _, ensure};
use clap::ValueEnum as _;
use indicatif::HumanCount;
use serde::{Deserialize, Serialize};
use tokio_wheel_benches::{
    cell::{cells, nanos, warm_lab},
    fire, floor,
    lab::WORKERS,
    late::Late,
    lateness,
    peer::{Peer, PeerKind, program_for},
    pending::{self, Waiting},
    saturated::{self, Load, Scene},
    wakeup, with_peer, workload,
};

use crate::{
    cores,
    report::{Row, RowName, Section},
};

/// How many sleeps fire, spread over a second or at once.
pub(crate) const FIRED: u64 = 200_000;

/// How many streams with limits exist at once.
const STREAMS: usize = 200_000;

/// How many sleeps are pending beside the measured sleeps, step by step.
const CROWDS: [u64; 7] = [0, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// The row of the floor, and the rows of its parts.
pub(crate) const FLOOR: RowName<'_> = floor_row("in all");

pub(crate) const fn floor_row(part: &str) -> RowName<'_> {
    (Section::Floor, "floor", part)
}

/// A task that a peer performs. The peer is a [`PeerKind`], or for some operations a queue.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) peer: String,
    pub(crate) task: Task,
}

/// What to measure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// The parts of the floor.
    Floor { lasting: Duration },
    /// A cell of the operations.
    Operation {
        workload: String,
        variant: String,
        lasting: Duration,
    },
    /// Churn beside an increasing number of pending sleeps.
    Pending {
        armed: bool,
        most: u64,
        lasting: Duration,
    },
    /// Very many sleeps that fire.
    Fire { scene: fire::Scene, sleeps: u64 },
    /// The memory of pending sleeps.
    Memory { sleeps: u64 },
    /// The memory of streams with all limits.
    Streams,
    /// A wake-up of the driver. Either each shard holds sleeps, or no shard does.
    Wakeup { shards: usize, held: bool },
    /// The memory of scheduled tasks.
    Scheduled { tasks: u64 },
    /// The memory of spawned tasks that sleep.
    Spawned { tasks: u64 },
    /// How late sleeps of 1 to 100 ms wake.
    Lateness(lateness::Scene),
    /// How late timers are beside tasks that are always ready.
    Saturated(Load),
    /// How the cost of an operation grows with the number of cores.
    Cores(cores::Sample),
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.peer, self.task)
    }
}

/// The rows of a job, with their figures.
pub(crate) type Figures = Vec<(Row, f64)>;

impl Job {
    /// Runs the job in a process of its own, and waits for that process.
    pub(crate) fn run_apart(&self) -> anyhow::Result<Figures> {
        let job = serde_json::to_string(self)?;
        let output = Command::new(program_for(&self.peer)?)
            .args(["one", &job])
            .output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {error}", output.status);
        serde_json::from_slice(&output.stdout).context("the process has printed no figures")
    }

    /// Runs the job in this process.
    pub(crate) fn run(&self) -> anyhow::Result<Figures> {
        let peer = || PeerKind::from_str(&self.peer, false).map_err(anyhow::Error::msg);
        Ok(match self.task {
            Task::Floor { lasting } => {
                let [clock, lock, waker] = floor::parts(lasting);
                let all = [clock, lock, waker, clock + 2.0 * lock + waker];
                let names = floor::PARTS.into_iter().chain([FLOOR.2]);
                let figures: Vec<_> = names.zip(all).map(|(name, ns)| (name, ns, "ns")).collect();
                rows(FLOOR.0, FLOOR.1, &figures)
            }
            Task::Operation {
                ref workload,
                ref variant,
                lasting,
            } => {
                let name = (&**workload, &**variant, &*self.peer);
                let mut cells = cells().into_iter();
                let cell = cells.find(|cell| (cell.workload, cell.variant, cell.peer) == name);
                let cell = mem::ManuallyDrop::new(cell.context("there is no such operation")?);
                let figures = [(&**variant, cell.nanos(lasting), "ns")];
                rows(Section::Operations, workload, &figures)
            }
            Task::Pending {
                armed,
                most,
                lasting,
            } => {
                with_peer!(peer()?, P => beside_pending::<P>(armed, most, lasting))
            }
            Task::Fire { scene, sleeps } => {
                let outcome = with_peer!(peer()?, P => fire::sample::<P>(sleeps, scene));
                firing(scene, sleeps, &outcome)
            }
            Task::Memory { sleeps } => {
                let memory = with_peer!(peer()?, P => pending::memory::<P>(sleeps));
                let figures = [
                    ("per pending sleep", memory.bytes_per_sleep, "B"),
                    ("of which the future", memory.future as f64, "B"),
                ];
                rows(Section::Memory, "memory", &figures)
            }
            Task::Streams => {
                let [at_rest, reading] = pending::streams(STREAMS);
                let figures = [
                    ("beside its inner stream", at_rest, "B"),
                    ("while a read waits", reading, "B"),
                ];
                rows(Section::Memory, "stream, all limits,", &figures)
            }
            Task::Wakeup { shards, held } => {
                let micros = wakeup::sample(shards, held).as_secs_f64() * 1e6;
                let figures = [(&*shards.to_string(), micros, "us")];
                rows(Section::Wakeups, wakeup_workload(held), &figures)
            }
            Task::Scheduled { tasks } => waiting("scheduled", &pending::scheduled(tasks)),
            Task::Spawned { tasks } => {
                let waited = with_peer!(peer()?, P => pending::spawned::<P>(tasks));
                waiting("spawned", &waited)
            }
            Task::Lateness(scene) => {
                let outcome = scene.play(peer()?);
                let late = outcome.late;
                let figures = [
                    ("median", late.ms(0.5) * 1e3, "us"),
                    ("99%", late.ms(0.99) * 1e3, "us"),
                    ("worst", late.ms(1.0) * 1e3, "us"),
                    ("CPU", outcome.cpu.as_secs_f64() * 1e3, "ms"),
                    ("woken early", late.early() as f64, "sleeps"),
                ];
                rows(Section::Lateness, scene.title(), &figures)
            }
            Task::Saturated(load) => saturated(peer()?, load),
            Task::Cores(ref sample) => sample.take(&self.peer)?,
        })
    }
}

/// Returns a row for each variant, value and unit.
fn rows(section: Section, workload: &str, figures: &[(&str, f64, &str)]) -> Figures {
    (figures.iter())
        .map(|&(variant, value, unit)| (Row::new((section, workload, variant), unit), value))
        .collect()
}

/// Names a wake-up of the driver. The variant contains the number of shards.
pub(crate) const fn wakeup_workload(held: bool) -> &'static str {
    match held {
        true => "each shard holds sleeps, shards",
        false => "the other shards are empty, shards",
    }
}

/// Names churn beside pending sleeps. The variant contains their number.
pub(crate) fn pending_workload(threads: usize, armed: bool) -> String {
    format!("churn x{threads}{} over", if armed { " armed" } else { "" })
}

fn beside_pending<P: Peer>(armed: bool, most: u64, lasting: Duration) -> Figures {
    let lab = warm_lab::<P, _>(WORKERS, false, workload::churn::<P>);
    // Leaks the sleeps, because the process ends anyway and dropping them takes long.
    let mut lab = mem::ManuallyDrop::new(lab);
    let mut figures = Vec::new();
    for pending in CROWDS.into_iter().take_while(|&pending| pending <= most) {
        lab.crowd::<P>(pending);
        if armed {
            lab.arm::<P>();
        }
        for threads in 1..=WORKERS {
            let run = |iters| lab.time_per_thread(threads, || workload::churn::<P>(iters));
            let figure = [(&*pending.to_string(), nanos(lasting, run), "ns")];
            let workload = pending_workload(threads, armed);
            figures.extend(rows(Section::Pending, &workload, &figure));
        }
    }
    figures
}

fn firing(scene: fire::Scene, sleeps: u64, outcome: &fire::Outcome) -> Figures {
    let mut name = match scene {
        fire::Scene::Spread => "fire",
        fire::Scene::SpreadBusy => "fire, busy",
        fire::Scene::Storm => "storm",
    }
    .to_owned();
    if sleeps != FIRED {
        name += &format!(" of {}", HumanCount(sleeps));
    }
    let too_late = ("polled too late", outcome.late_starts as f64, "sleeps");
    if outcome.late_starts > 0 {
        // The machine was too slow to register all sleeps in time, so the other figures mean
        // nothing.
        return rows(Section::Firing, &name, &[too_late]);
    }
    let (late, ms) = (&outcome.late, |time: Duration| time.as_secs_f64() * 1e3);
    let mut figures = Vec::new();
    figures.extend(outcome.joined.map(|joined| ("joined", ms(joined), "ms")));
    figures.extend([
        ("CPU", ms(outcome.cpu), "ms"),
        ("context switches", outcome.switches as f64, "times"),
        ("lateness, median", late.ms(0.5) * 1e3, "us"),
        ("lateness, 99%", late.ms(0.99) * 1e3, "us"),
        ("lateness, worst", late.ms(1.0) * 1e3, "us"),
    ]);
    if scene.is_busy() {
        figures.push(("another task's wait", ms(outcome.worst_gap) * 1e3, "us"));
    }
    figures.extend([("woken early", late.early() as f64, "sleeps"), too_late]);
    rows(Section::Firing, &name, &figures)
}

fn waiting(workload: &str, waited: &Waiting) -> Figures {
    let figures = [
        ("per task", waited.bytes_per_task, "B"),
        ("of which the future", waited.future as f64, "B"),
        ("of which the handle", waited.handle as f64, "B"),
        ("tokio tasks", waited.tokio_tasks as f64, "tasks"),
    ];
    rows(Section::Waiting, workload, &figures)
}

fn saturated(peer: PeerKind, load: Load) -> Figures {
    let outcome = saturated::sample(peer, load);
    let mut figures = Vec::new();
    let mut lateness = |of: &str, late: &Late| {
        for (name, part) in [("p50", 0.5), ("p99", 0.99), ("worst", 1.0)] {
            figures.push((format!("{of}{name}"), late.ms(part), "ms"));
        }
    };
    lateness("", &outcome.late);
    if load.scene == Scene::Sustained {
        lateness("last second's ", &outcome.last);
    }
    if let Some(probe) = &outcome.probe {
        lateness("probe's ", probe);
    }
    let mut count = |name: &str, value, unit| figures.push((name.to_owned(), value, unit));
    if load.scene == Scene::Sustained {
        count("spread of fires,", outcome.spread as f64, "times");
    }
    if matches!(load.scene, Scene::Sustained | Scene::Crowd) {
        count("pending at the end of", outcome.pending as f64, "sleeps");
    }
    count("count of", outcome.late.count() as f64, "sleeps");
    count("early of", outcome.late.early() as f64, "sleeps");
    if let Some(share) = outcome.load {
        count("load beside", share * 100.0, "%");
    }
    let row = |(figure, value, unit): (String, f64, &str)| {
        let workload = saturated_workload(&figure, load);
        let name = (Section::Saturated, &*workload, &*load.count.to_string());
        (Row::new(name, unit), value)
    };
    figures.into_iter().map(row).collect()
}

/// Names a figure of a scene. The variant contains the number of idle timers, or of sleeping tasks.
pub(crate) fn saturated_workload(figure: &str, load: Load) -> String {
    let (workers, tasks, length) = (load.workers, load.tasks, load.length.as_micros());
    let over = if load.channels { " over channels" } else { "" };
    let ready = format!("{workers}, {tasks} x {length} us{over}");
    match load.scene {
        Scene::Sleeps => format!("{figure} sleep, {ready}, idle"),
        Scene::Steady => format!("{figure} 30,000/s, {ready}, idle"),
        Scene::Service => format!("{figure} sleep, {workers}, rpc, idle"),
        Scene::Sustained => format!("{figure} sustained, {ready}, per second"),
        Scene::Crowd => format!("{figure} crowd, {ready}, of"),
    }
}
