//! Measures one timer in a process of its own. Several timers are global, keep their entries, or
//! have threads of their own. So a workload in the same process would disturb the next one.

use std::{
    cell::RefCell,
    mem,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use indicatif::HumanCount;
use serde::{Deserialize, Serialize};
use tokio_wheel::DelayQueue;
use tokio_wheel_benches::{
    cell::{self, cells, warm_lab},
    fire,
    floor::{self, Floor},
    lab::WORKERS,
    late::Late,
    lateness::{self, Sleeper},
    peer::{Peer, PeerKind, Timeouts, Tokio},
    pending,
    process::in_fresh_process,
    queue::{self, Crowded, HashWheel, Queue, SortedMap},
    saturated::{Load, Sample, Scene},
    scheduled::{self, Waiting},
    stream, touch, wakeup, with_peer, workload,
};

use crate::report::{BARE, Curve, OURS, Reading, Row, RowName, Section};

/// How many sleeps fire, spread over a second or at once.
pub(crate) const FIRED: u64 = 200_000;

/// How many sleeps or tasks wait while the program measures their memory and CPU time.
pub(crate) const WAITING: u64 = 1_000_000;

/// How many timers a server sets in an hour if it sets a thousand a second.
const CHURNED: u64 = 3_600_000;

/// How many streams with limits exist at once.
pub(crate) const STREAMS: usize = 200_000;

/// How many elements the queues hold.
const QUEUED: usize = 1_000_000;

/// How many sleeps are pending beside the measured sleeps, step by step.
const CROWDS: [u64; 7] = [0, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// Names the row of a part of the floor.
pub(crate) const fn floor_row(part: &'static str) -> RowName {
    (Section::Floor, "floor", part)
}

/// Names the row of the floor.
pub(crate) const FLOOR: RowName = floor_row("in all");

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
    /// Measures churn on a number of workers.
    Threads {
        peer: PeerKind,
        armed: bool,
        threads: usize,
        lasting: Duration,
    },
    /// Measures a queue of elements.
    Queue { queue: QueueKind, lasting: Duration },
    /// Measures touches of keys, for each way to keep them.
    Touch { keys: u64, lasting: Duration },
    /// Measures very many sleeps that fire.
    Fire {
        peer: PeerKind,
        scene: fire::Scene,
        sleeps: u64,
    },
    /// Measures the memory of pending sleeps.
    Memory { peer: PeerKind, sleeps: u64 },
    /// Measures the memory of streams with all limits.
    Streams { streams: usize },
    /// Measures a wake-up of the driver. Either each shard holds sleeps, or no shard does.
    Wakeup { shards: usize, held: bool },
    /// Measures a wake-up of `tokio::time`, which has no driver.
    NoWakeup,
    /// Measures the memory that churned sleeps leave behind.
    Growth(PeerKind),
    /// Measures the cost of pending sleeps while nothing happens.
    Idle { peer: PeerKind, sleeps: u64 },
    /// Measures the memory of scheduled tasks, and their cost while nothing happens.
    Scheduled { tasks: u64 },
    /// Measures the memory and the cost of spawned tasks that sleep.
    Spawned { peer: PeerKind, tasks: u64 },
    /// Measures how late sleeps of 1 to 100 ms wake.
    Lateness {
        scene: lateness::Scene,
        sleeper: Sleeper,
    },
    /// Measures how late timers are beside tasks that are always ready. The table of `--all` leaves
    /// the details out.
    Saturated { sample: Sample, detailed: bool },
}

/// The compared queues.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum QueueKind {
    TokioWheel,
    TokioUtil,
    NexusTimer,
    HashWheel,
    SortedMap,
}

impl QueueKind {
    pub(crate) const ALL: [Self; 5] = [
        Self::TokioWheel,
        Self::TokioUtil,
        Self::NexusTimer,
        Self::HashWheel,
        Self::SortedMap,
    ];
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
        let late = None;
        Self { readings, late }
    }
}

impl Job {
    /// Runs the job in a process of its own, and waits for that process.
    pub(crate) fn run_apart(&self) -> anyhow::Result<Outcome> {
        let job = serde_json::to_string(self)?;
        let outcome = in_fresh_process(&["one", &job])?;
        serde_json::from_str(&outcome).with_context(|| format!("not an outcome: {outcome}"))
    }

    /// Runs the job in this process.
    pub(crate) fn run(&self) -> anyhow::Result<Outcome> {
        let readings = match *self {
            Self::Floor { lasting } => floor_parts(lasting),
            Self::Operation {
                ref workload,
                ref variant,
                ref peer,
                lasting,
            } => vec![operation(workload, variant, peer, lasting)?],
            Self::Pending {
                peer,
                armed,
                most,
                lasting,
            } => with_peer!(peer, P => beside_pending::<P>(armed, most, lasting)),
            Self::Threads {
                peer,
                armed,
                threads,
                lasting,
            } => with_peer!(peer, P => {
                let lab = warm_lab::<P, _>(threads, workload::churn::<P>);
                if armed {
                    lab.arm::<P>();
                }
                let run = |iters| lab.time_per_thread(threads, || workload::churn::<P>(iters));
                let row = Row::new(Section::Threads, churn(armed), &format!("x{threads}"), "ns");
                vec![row.read(P::NAME, nanos(lasting, run))]
            }),
            Self::Queue { queue, lasting } => match queue {
                QueueKind::TokioWheel => crowded::<DelayQueue<u32>>(lasting),
                QueueKind::TokioUtil => crowded::<tokio_util::time::DelayQueue<u32>>(lasting),
                QueueKind::NexusTimer => crowded::<nexus_timer::Wheel<u32>>(lasting),
                QueueKind::HashWheel => crowded::<HashWheel>(lasting),
                QueueKind::SortedMap => crowded::<SortedMap>(lasting),
            },
            Self::Touch { keys, lasting } => touches(keys, lasting),
            Self::Fire {
                peer,
                scene,
                sleeps,
            } => firing(peer, scene, sleeps),
            Self::Memory { peer, sleeps } => {
                let memory = with_peer!(peer, P => pending::memory::<P>(sleeps));
                let row = |workload, variant| Row::new(Section::Memory, workload, variant, "B");
                vec![
                    row("memory", "per pending sleep").read(peer.name(), memory.bytes_per_sleep),
                    row("of which", "the future").read(peer.name(), memory.future as f64),
                ]
            }
            Self::Streams { streams } => {
                let memory = stream::memory(streams);
                let figures = [
                    ("beside its inner stream", memory.at_rest, "B"),
                    ("of which its size", memory.size as f64, "B"),
                    ("while a read waits", memory.reading, "B"),
                ];
                read_all(Section::Memory, "stream, all limits,", OURS, &figures)
            }
            Self::Wakeup { shards, held } => {
                let micros = wakeup::sample(shards, held).as_secs_f64() * 1e6;
                let workload = wakeup_workload(held);
                let row = Row::new(Section::Wakeups, workload, &shards.to_string(), "us");
                vec![row.read(OURS, micros)]
            }
            Self::NoWakeup => {
                let micros = wakeup::without().as_secs_f64() * 1e6;
                let row = Row::new(
                    Section::Wakeups,
                    "no driver:",
                    "a sleep of tokio::time",
                    "us",
                );
                vec![row.read(Tokio::NAME, micros)]
            }
            Self::Growth(peer) => {
                let bytes = with_peer!(peer, P => pending::growth::<P>(CHURNED));
                let row = Row::new(Section::Memory, "growth", "after an hour's churn", "MB");
                vec![row.read(peer.name(), bytes / 1e6)]
            }
            Self::Idle { peer, sleeps } => {
                let spent = with_peer!(peer, P => pending::idle::<P>(sleeps));
                idling("sleeps", peer, &spent)
            }
            Self::Scheduled { tasks } => waiting(
                "scheduled",
                PeerKind::TokioWheel,
                &scheduled::scheduled(tasks),
            ),
            Self::Spawned { peer, tasks } => {
                let waited = with_peer!(peer, P => scheduled::spawned::<P>(tasks));
                waiting("spawned", peer, &waited)
            }
            Self::Lateness { scene, sleeper } => return Ok(lateness(scene, sleeper)),
            Self::Saturated { sample, detailed } => saturated(sample, detailed),
        };
        Ok(readings.into())
    }

    /// Returns about how many milliseconds the job takes. With it, the progress bar shows time.
    pub(crate) fn millis(&self) -> u64 {
        match self {
            Self::Floor { lasting }
            | Self::Operation { lasting, .. }
            | Self::Threads { lasting, .. } => lasting.as_millis() as u64 * 3 / 2,
            Self::Pending { most, lasting, .. } => lasting.as_millis() as u64 * 14 + most / 1_000,
            Self::Queue { lasting, .. } => lasting.as_millis() as u64 * 2 + 600,
            Self::Touch { lasting, .. } => lasting.as_millis() as u64 * 8 + 2_000,
            Self::Fire {
                scene: fire::Scene::Storm,
                ..
            } => 1_900,
            Self::Fire { .. } => 2_700,
            Self::Memory { .. } => 3_000,
            Self::Streams { .. } => 300,
            // tokio's alarm takes a millisecond.
            Self::Wakeup { .. } | Self::NoWakeup => u64::from(wakeup::WAKE_UPS) + 50,
            Self::Idle { .. } => 13_000,
            Self::Scheduled { .. } | Self::Spawned { .. } => 14_500,
            Self::Growth(_) => 1_500,
            Self::Lateness { .. } => 1_200,
            Self::Saturated { sample, .. } => {
                let load = sample.load;
                (load.lead() + load.lasting).as_millis() as u64 + 300
            }
        }
    }
}

/// Returns the nanoseconds per operation.
fn nanos(lasting: Duration, run: impl Fn(u64) -> Duration) -> f64 {
    let mut iters = cell::iters_lasting(lasting, &run);
    loop {
        let elapsed = run(iters);
        if elapsed >= lasting / 2 {
            return elapsed.as_nanos() as f64 / iters as f64;
        }
        // The machine was delayed during the estimate of the number of operations.
        iters *= 2;
    }
}

/// Measures the parts of the floor one after the other, and adds their sum.
fn floor_parts(lasting: Duration) -> Vec<Reading> {
    let floor = Floor::default();
    let each = lasting / 3;
    let clock = nanos(each, |iters| floor.clock_reads(iters));
    let lock = nanos(each, |iters| floor.lock_pairs(iters));
    let waker = nanos(each, |iters| floor.waker_clones(iters));
    let (section, workload, in_all) = FLOOR;
    let figures = [
        (floor::CLOCK, clock, "ns"),
        (floor::LOCK, lock, "ns"),
        (floor::WAKER, waker, "ns"),
        (in_all, clock + 2.0 * lock + waker, "ns"),
    ];
    read_all(section, workload, BARE, &figures)
}

/// Names a wake-up of the driver. The variant contains the number of shards.
pub(crate) const fn wakeup_workload(held: bool) -> &'static str {
    if held {
        "each shard holds sleeps, shards"
    } else {
        "the other shards are empty, shards"
    }
}

fn operation(
    workload: &str,
    variant: &str,
    peer: &str,
    lasting: Duration,
) -> anyhow::Result<Reading> {
    let cell = cells()
        .into_iter()
        .find(|cell| (cell.workload, cell.variant, cell.peer) == (workload, variant, peer));
    let cell = cell.with_context(|| format!("there is no {workload} {variant} of {peer}"))?;
    let row = Row::new(Section::Operations, workload, variant, "ns");
    Ok(row.read(peer, nanos(lasting, |iters| cell.run(iters))))
}

/// Names churn with an earlier pending timer (`armed`) or without one.
pub(crate) const fn churn(armed: bool) -> &'static str {
    if armed { "churn armed" } else { "churn" }
}

/// Names churn beside pending sleeps. The variant contains their number.
pub(crate) fn pending_workload(threads: usize, armed: bool) -> String {
    let state = if armed { " armed" } else { "" };
    format!("churn x{threads}{state} over")
}

fn beside_pending<P: Peer>(armed: bool, most: u64, lasting: Duration) -> Vec<Reading> {
    let mut lab = warm_lab::<P, _>(WORKERS, workload::churn::<P>);
    let mut readings = Vec::new();
    for pending in CROWDS.into_iter().take_while(|&pending| pending <= most) {
        lab.crowd::<P>(pending);
        if armed {
            lab.arm::<P>();
        }
        for threads in 1..=WORKERS {
            let run = |iters| lab.time_per_thread(threads, || workload::churn::<P>(iters));
            let workload = pending_workload(threads, armed);
            let row = Row::new(Section::Pending, &workload, &pending.to_string(), "ns");
            readings.push(row.read(P::NAME, nanos(lasting, run)));
        }
    }
    // Leaks the sleeps, because the process ends anyway and dropping them takes long.
    mem::forget(lab);
    readings
}

fn crowded<Q: Queue>(lasting: Duration) -> Vec<Reading> {
    let runtime = queue::runtime();
    let _guard = runtime.enter();
    let mut crowded = Crowded::<Q>::new(QUEUED);
    let mut read = |workload: &str, operate: fn(&mut Crowded<Q>)| {
        let row = Row::new(Section::Queues, workload, "", "ns");
        let crowded = RefCell::new(&mut crowded);
        let run = |iters| {
            let queue = &mut **crowded.borrow_mut();
            let start = Instant::now();
            for _ in 0..iters {
                operate(queue);
            }
            start.elapsed()
        };
        row.read(Q::NAME, nanos(lasting, run))
    };
    let readings = vec![
        read("insert, remove", Crowded::insert_remove),
        read("replace", Crowded::replace),
    ];
    mem::forget(crowded);
    readings
}

fn touches(keys: u64, lasting: Duration) -> Vec<Reading> {
    (touch::cases(keys).iter())
        .map(|case| {
            let workload = format!("touch x{} of", case.threads);
            let row = Row::new(Section::Touches, &workload, &keys.to_string(), "ns");
            row.read(case.peer, nanos(lasting, |iters| case.run(iters)))
        })
        .collect()
}

fn firing(peer: PeerKind, scene: fire::Scene, sleeps: u64) -> Vec<Reading> {
    let outcome = with_peer!(peer, P => fire::sample::<P>(sleeps, scene));
    let mut name = match scene {
        fire::Scene::Spread => "fire",
        fire::Scene::SpreadBusy => "fire, busy",
        fire::Scene::Storm => "storm",
        fire::Scene::Intervals => "intervals of 1 ms",
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
    let mut figures = Vec::new();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    if let Some(joined) = outcome.joined {
        figures.push(("drained", ms(outcome.drained), "ms"));
        figures.push(("joined", ms(joined), "ms"));
    }
    figures.extend([
        ("CPU", ms(outcome.cpu), "ms"),
        ("context switches", outcome.switches as f64, "times"),
        ("lateness, median", outcome.late.quantile_us(0.5), "us"),
        ("lateness, 99%", outcome.late.quantile_us(0.99), "us"),
        ("lateness, worst", outcome.late.max_us(), "us"),
    ]);
    if scene.is_busy() {
        let micros = outcome.worst_gap.as_secs_f64() * 1e6;
        figures.push(("another task's wait", micros, "us"));
    }
    figures.extend([
        ("woken early", outcome.late.early() as f64, "sleeps"),
        too_late,
    ]);
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
        .map(|&(variant, value, unit)| Row::new(section, workload, variant, unit).read(peer, value))
        .collect()
}

fn waiting(workload: &str, peer: PeerKind, waited: &Waiting) -> Vec<Reading> {
    let figures = [
        ("per task", waited.bytes_per_task, "B"),
        ("of which the future", waited.future as f64, "B"),
        ("of which the handle", waited.handle as f64, "B"),
        ("tokio tasks", waited.tokio_tasks as f64, "tasks"),
    ];
    let mut readings = read_all(Section::Waiting, workload, peer.name(), &figures);
    readings.extend(idling(workload, peer, &waited.spent));
    readings
}

fn idling(workload: &str, peer: PeerKind, spent: &pending::Idling) -> Vec<Reading> {
    let figures = [
        ("CPU", spent.cpu.as_secs_f64() * 1e3, "ms"),
        ("context switches", spent.context_switches as f64, "times"),
    ];
    read_all(Section::Waiting, workload, peer.name(), &figures)
}

fn lateness(scene: lateness::Scene, sleeper: Sleeper) -> Outcome {
    let outcome = sleeper.play(scene);
    let late = outcome.late;
    let mut figures = vec![
        ("median", late.quantile_us(0.5), "us"),
        ("99%", late.quantile_us(0.99), "us"),
        ("worst", late.max_us(), "us"),
        ("CPU", outcome.cpu.as_secs_f64() * 1e3, "ms"),
        ("woken early", late.early() as f64, "sleeps"),
    ];
    if scene == lateness::Scene::Crowd {
        figures.push(("polled too late", outcome.late_starts as f64, "sleeps"));
    }
    Outcome {
        readings: read_all(Section::Lateness, scene.title(), &sleeper.name(), &figures),
        late: Some(Curve {
            scene,
            sleeper,
            late,
        }),
    }
}

fn saturated(sample: Sample, detailed: bool) -> Vec<Reading> {
    let outcome = sample.take();
    let Sample { scene, peer, load } = sample;
    let read = |figure, value, unit| {
        let workload = saturated_workload(figure, scene, &load);
        let timers = if scene.has_sleepers() {
            load.sleepers
        } else {
            load.idle
        };
        let row = Row::new(Section::Saturated, &workload, &timers.to_string(), unit);
        row.read(scene.name_of(peer), value)
    };
    let late = &outcome.late;
    let ms = |late: &Late, quantile| late.quantile_us(quantile) / 1e3;
    let mut readings = Vec::new();
    // The median of a probe means little.
    if detailed || !matches!(scene, Scene::Sleeps | Scene::Queue) {
        readings.push(read("p50", ms(late, 0.5), "ms"));
    }
    if scene != Scene::Crowd {
        readings.push(read("p99", ms(late, 0.99), "ms"));
    }
    readings.push(read("worst", ms(late, 1.0), "ms"));
    if scene == Scene::Sustained {
        let last = &outcome.last;
        readings.push(read("last second's p50", ms(last, 0.5), "ms"));
        readings.push(read("last second's p99", ms(last, 0.99), "ms"));
        readings.push(read("last second's worst", ms(last, 1.0), "ms"));
        readings.push(read("spread of fires,", outcome.spread as f64, "times"));
    }
    if let Some(probe) = &outcome.probe {
        readings.push(read("probe's worst", ms(probe, 1.0), "ms"));
    }
    if scene.has_sleepers() {
        readings.push(read(
            "pending at the end of",
            outcome.pending as f64,
            "sleeps",
        ));
    }
    if detailed {
        readings.push(read("count of", late.count() as f64, "sleeps"));
        readings.push(read("early of", late.early() as f64, "sleeps"));
        if let Some(load) = outcome.load {
            readings.push(read("load beside", load * 100.0, "%"));
        }
    }
    readings
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
    let us = length.as_micros();
    let ready = match channels {
        true => format!("{workers}, {tasks} x {us} us over channels"),
        false => format!("{workers}, {tasks} x {us} us"),
    };
    match scene {
        Scene::Sleeps => format!("{figure} sleep, {ready}, idle"),
        Scene::Queue => format!("{figure} queue, {ready}, idle"),
        Scene::Steady => format!("{figure} 30,000/s, {ready}, idle"),
        Scene::Service => format!("{figure} sleep, {workers}, rpc, idle"),
        Scene::Sustained => format!("{figure} sustained, {ready}, per second"),
        Scene::Crowd => format!("{figure} crowd, {ready}, of"),
    }
}
