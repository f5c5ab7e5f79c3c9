//! Measures one timer in a process of its own. Several timers are global, keep their entries, or
//! have threads of their own. So a workload in the same process would disturb the next one.

use std::{env, mem, process::Command, time::Duration};

use anyhow::{Context as _, ensure};
use indicatif::HumanCount;
use serde::{Deserialize, Serialize};
use tokio_wheel_benches::{
    cell::{cells, nanos, warm_lab},
    fire, floor,
    lab::WORKERS,
    late::Late,
    lateness,
    peer::{Peer, PeerKind},
    pending::{self, Waiting},
    saturated::{Load, Sample, Scene},
    wakeup, with_peer, workload,
};

use crate::report::{BARE, Curve, OURS, Reading, Row, RowName, Section, TOKIO};

/// How many sleeps fire, spread over a second or at once.
pub(crate) const FIRED: u64 = 200_000;

/// How many sleeps or tasks wait while the program measures their memory and CPU time.
pub(crate) const WAITING: u64 = 1_000_000;

/// How many timers a server sets in an hour if it sets a thousand a second.
const CHURNED: u64 = 3_600_000;

/// How many streams with limits exist at once.
const STREAMS: usize = 200_000;

/// How many sleeps are pending beside the measured sleeps, step by step.
const CROWDS: [u64; 7] = [0, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// The row of the floor, and the rows of its parts.
pub(crate) const FLOOR: RowName<'_> = floor_row("in all");

pub(crate) const fn floor_row(part: &str) -> RowName<'_> {
    (Section::Floor, "floor", part)
}

/// A job with all its parameters.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Job {
    /// Measures the parts of the floor.
    Floor { lasting: Duration },
    /// Measures a cell of the operations.
    Operation {
        workload: String,
        variant: String,
        peer: String,
        lasting: Duration,
    },
    /// Measures churn beside an increasing number of pending sleeps.
    Pending {
        peer: PeerKind,
        armed: bool,
        most: u64,
        lasting: Duration,
    },
    /// Measures very many sleeps that fire.
    Fire {
        peer: PeerKind,
        scene: fire::Scene,
        sleeps: u64,
    },
    /// Measures the memory of pending sleeps.
    Memory { peer: PeerKind, sleeps: u64 },
    /// Measures the memory of streams with all limits.
    Streams,
    /// Measures a wake-up of the driver. Either each shard holds sleeps, or no shard does. Without
    /// shards, measures a wake-up of `tokio::time`, which has no driver.
    Wakeup { shards: Option<usize>, held: bool },
    /// Measures the memory that churned sleeps leave behind.
    Growth(PeerKind),
    /// Measures the memory of scheduled tasks or of spawned tasks that sleep, and their cost while
    /// nothing happens.
    Waiting {
        spawned: Option<PeerKind>,
        tasks: u64,
    },
    /// Measures how late sleeps of 1 to 100 ms wake.
    Lateness {
        scene: lateness::Scene,
        peer: PeerKind,
    },
    /// Measures how late timers are beside tasks that are always ready. The table of `--all` leaves
    /// the details out.
    Saturated { sample: Sample, detailed: bool },
}

/// The results of a job.
#[derive(Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) readings: Vec<Reading>,
    /// The distribution behind the figures, which plots show.
    pub(crate) late: Option<Curve>,
}

impl From<Vec<Reading>> for Outcome {
    fn from(readings: Vec<Reading>) -> Self {
        Self {
            readings,
            late: None,
        }
    }
}

impl Job {
    /// Runs the job in a process of its own, and waits for that process.
    pub(crate) fn run_apart(&self) -> anyhow::Result<Outcome> {
        let job = serde_json::to_string(self)?;
        let output = Command::new(env::current_exe()?)
            .args(["one", &job])
            .output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {error}", output.status);
        serde_json::from_slice(&output.stdout).context("the process has printed no outcome")
    }

    /// Runs the job in this process.
    pub(crate) fn run(&self) -> anyhow::Result<Outcome> {
        let readings = match *self {
            Self::Floor { lasting } => {
                let [clock, lock, waker] = floor::parts(lasting);
                let all = [clock, lock, waker, clock + 2.0 * lock + waker];
                let names = floor::PARTS.into_iter().chain(["in all"]);
                let figures: Vec<_> = names.zip(all).map(|(name, ns)| (name, ns, "ns")).collect();
                read_all(Section::Floor, "floor", BARE, &figures)
            }
            Self::Operation {
                ref workload,
                ref variant,
                ref peer,
                lasting,
            } => {
                let name = (&**workload, &**variant, &**peer);
                let mut cells = cells().into_iter();
                let cell = cells.find(|cell| (cell.workload, cell.variant, cell.peer) == name);
                let cell = mem::ManuallyDrop::new(cell.context("there is no such operation")?);
                let figures = [(&**variant, cell.nanos(lasting), "ns")];
                read_all(Section::Operations, workload, peer, &figures)
            }
            Self::Pending {
                peer,
                armed,
                most,
                lasting,
            } => {
                with_peer!(peer, P => beside_pending::<P>(armed, most, lasting))
            }
            Self::Fire {
                peer,
                scene,
                sleeps,
            } => firing(peer, scene, sleeps),
            Self::Memory { peer, sleeps } => {
                let memory = with_peer!(peer, P => pending::memory::<P>(sleeps));
                let figures = [("per pending sleep", memory.bytes_per_sleep, "B")];
                let mut readings = read_all(Section::Memory, "memory", peer.name(), &figures);
                let figures = [("the future", memory.future as f64, "B")];
                readings.extend(read_all(Section::Memory, "of which", peer.name(), &figures));
                readings
            }
            Self::Streams => {
                let [at_rest, reading] = pending::streams(STREAMS);
                let figures = [
                    ("beside its inner stream", at_rest, "B"),
                    ("while a read waits", reading, "B"),
                ];
                read_all(Section::Memory, "stream, all limits,", OURS, &figures)
            }
            Self::Wakeup { shards, held } => {
                let sample =
                    shards.map_or_else(wakeup::without, |shards| wakeup::sample(shards, held));
                let shards = shards.map(|shards| shards.to_string());
                let (workload, variant, peer) = match &shards {
                    Some(shards) => (wakeup_workload(held), &**shards, OURS),
                    None => ("no driver:", "a sleep of tokio::time", TOKIO),
                };
                let figures = [(variant, sample.as_secs_f64() * 1e6, "us")];
                read_all(Section::Wakeups, workload, peer, &figures)
            }
            Self::Growth(peer) => {
                let bytes = with_peer!(peer, P => pending::growth::<P>(CHURNED));
                let figures = [("after an hour's churn", bytes / 1e6, "MB")];
                read_all(Section::Memory, "growth", peer.name(), &figures)
            }
            Self::Waiting {
                spawned: None,
                tasks,
            } => waiting(
                "scheduled",
                PeerKind::TokioWheel,
                &pending::scheduled(tasks),
            ),
            Self::Waiting {
                spawned: Some(peer),
                tasks,
            } => {
                let waited = with_peer!(peer, P => pending::spawned::<P>(tasks));
                waiting("spawned", peer, &waited)
            }
            Self::Lateness { scene, peer } => return Ok(lateness(scene, peer)),
            Self::Saturated { sample, detailed } => saturated(sample, detailed),
        };
        Ok(readings.into())
    }

    /// Returns about how many milliseconds the job takes. With it, the progress bar shows time.
    pub(crate) fn millis(&self) -> u64 {
        match self {
            Self::Floor { lasting } => lasting.as_millis() as u64 * 3 / 2,
            Self::Operation {
                workload, lasting, ..
            } => {
                let setup = match &**workload {
                    "touch" => 1_000,
                    "insert_remove" | "replace" | "drain" => 600,
                    _ => 0,
                };
                setup + lasting.as_millis() as u64 * 3 / 2
            }
            Self::Pending { most, lasting, .. } => lasting.as_millis() as u64 * 14 + most / 1_000,
            Self::Fire {
                scene: fire::Scene::Storm,
                ..
            } => 1_900,
            Self::Fire { .. } => 2_700,
            Self::Memory { .. } => 3_000,
            Self::Streams => 300,
            // tokio's alarm takes a millisecond.
            Self::Wakeup { .. } => u64::from(wakeup::WAKE_UPS) + 50,
            Self::Waiting { .. } => 14_500,
            Self::Growth(_) => 1_500,
            Self::Lateness { .. } => 1_200,
            Self::Saturated {
                sample: Sample { load, .. },
                ..
            } => (load.lead() + load.lasting).as_millis() as u64 + 300,
        }
    }
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

fn beside_pending<P: Peer>(armed: bool, most: u64, lasting: Duration) -> Vec<Reading> {
    let lab = warm_lab::<P, _>(WORKERS, false, workload::churn::<P>);
    // Leaks the sleeps, because the process ends anyway and dropping them takes long.
    let mut lab = mem::ManuallyDrop::new(lab);
    let mut readings = Vec::new();
    for pending in CROWDS.into_iter().take_while(|&pending| pending <= most) {
        lab.crowd::<P>(pending);
        if armed {
            lab.arm::<P>();
        }
        for threads in 1..=WORKERS {
            let run = |iters| lab.time_per_thread(threads, || workload::churn::<P>(iters));
            let figures = [(&*pending.to_string(), nanos(lasting, run), "ns")];
            let workload = pending_workload(threads, armed);
            readings.extend(read_all(Section::Pending, &workload, P::NAME, &figures));
        }
    }
    readings
}

fn firing(peer: PeerKind, scene: fire::Scene, sleeps: u64) -> Vec<Reading> {
    let outcome = with_peer!(peer, P => fire::sample::<P>(sleeps, scene));
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
        return read_all(Section::Firing, &name, peer.name(), &[too_late]);
    }
    let (late, ms) = (&outcome.late, |time: Duration| time.as_secs_f64() * 1e3);
    let mut figures = Vec::new();
    if let Some(joined) = outcome.joined {
        figures.push(("drained", ms(outcome.drained), "ms"));
        figures.push(("joined", ms(joined), "ms"));
    }
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
    read_all(Section::Firing, &name, peer.name(), &figures)
}

/// Returns a reading for each variant, value and unit.
fn read_all(
    section: Section,
    workload: &str,
    peer: &str,
    figures: &[(&str, f64, &str)],
) -> Vec<Reading> {
    (figures.iter())
        .map(|&(variant, value, unit)| {
            Row::new((section, workload, variant), unit).read(peer, value)
        })
        .collect()
}

fn waiting(workload: &str, peer: PeerKind, waited: &Waiting) -> Vec<Reading> {
    let figures = [
        ("per task", waited.bytes_per_task, "B"),
        ("of which the future", waited.future as f64, "B"),
        ("of which the handle", waited.handle as f64, "B"),
        ("tokio tasks", waited.tokio_tasks as f64, "tasks"),
        ("CPU", waited.spent.cpu.as_secs_f64() * 1e3, "ms"),
        (
            "context switches",
            waited.spent.context_switches as f64,
            "times",
        ),
    ];
    read_all(Section::Waiting, workload, peer.name(), &figures)
}

fn lateness(scene: lateness::Scene, peer: PeerKind) -> Outcome {
    let outcome = scene.play(peer);
    let late = outcome.late;
    let mut figures = vec![
        ("median", late.ms(0.5) * 1e3, "us"),
        ("99%", late.ms(0.99) * 1e3, "us"),
        ("worst", late.ms(1.0) * 1e3, "us"),
        ("CPU", outcome.cpu.as_secs_f64() * 1e3, "ms"),
        ("woken early", late.early() as f64, "sleeps"),
    ];
    if scene == lateness::Scene::Crowd {
        figures.push(("polled too late", outcome.late_starts as f64, "sleeps"));
    }
    Outcome {
        readings: read_all(Section::Lateness, scene.title(), peer.name(), &figures),
        late: Some(Curve { scene, peer, late }),
    }
}

fn saturated(sample: Sample, detailed: bool) -> Vec<Reading> {
    let outcome = sample.take();
    let Sample { scene, peer, load } = sample;
    let mut figures = Vec::new();
    let mut lateness = |of: &'static str, late: &Late, parts: &[(&'static str, f64)]| {
        let parts = parts.iter();
        figures.extend(parts.map(|&(name, part)| (format!("{of}{name}"), late.ms(part), "ms")));
    };
    const ALL: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("worst", 1.0)];
    match scene {
        Scene::Crowd => lateness("", &outcome.late, &[ALL[0], ALL[2]]),
        // The median of a probe means little.
        Scene::Sleeps | Scene::Queue if !detailed => lateness("", &outcome.late, &ALL[1..]),
        _ => lateness("", &outcome.late, &ALL),
    }
    if scene == Scene::Sustained {
        lateness("last second's ", &outcome.last, &ALL);
    }
    if let Some(probe) = &outcome.probe {
        lateness("probe's ", probe, &ALL[2..]);
    }
    let mut count = |name: &str, value, unit| figures.push((name.to_owned(), value, unit));
    if scene == Scene::Sustained {
        count("spread of fires,", outcome.spread as f64, "times");
    }
    if scene.has_sleepers() {
        count("pending at the end of", outcome.pending as f64, "sleeps");
    }
    if detailed {
        count("count of", outcome.late.count() as f64, "sleeps");
        count("early of", outcome.late.early() as f64, "sleeps");
        if let Some(load) = outcome.load {
            count("load beside", load * 100.0, "%");
        }
    }
    let timers = if scene.has_sleepers() {
        load.sleepers
    } else {
        load.idle
    };
    let read = |(figure, value, unit): (String, f64, &str)| {
        let workload = saturated_workload(&figure, scene, &load);
        let row = Row::new((Section::Saturated, &workload, &timers.to_string()), unit);
        row.read(scene.name_of(peer), value)
    };
    figures.into_iter().map(read).collect()
}

/// Names a figure of a scene. The variant contains the number of idle timers, or of sleeping tasks.
pub(crate) fn saturated_workload(figure: &str, scene: Scene, load: &Load) -> String {
    let Load {
        workers,
        tasks,
        length,
        channels,
        ..
    } = load;
    let over = if *channels { " over channels" } else { "" };
    let ready = format!("{workers}, {tasks} x {} us{over}", length.as_micros());
    match scene {
        Scene::Sleeps => format!("{figure} sleep, {ready}, idle"),
        Scene::Queue => format!("{figure} queue, {ready}, idle"),
        Scene::Steady => format!("{figure} 30,000/s, {ready}, idle"),
        Scene::Service => format!("{figure} sleep, {workers}, rpc, idle"),
        Scene::Sustained => format!("{figure} sustained, {ready}, per second"),
        Scene::Crowd => format!("{figure} crowd, {ready}, of"),
    }
}
