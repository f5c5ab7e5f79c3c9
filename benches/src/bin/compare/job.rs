//! What a process of its own measures of one timer. Several timers are global, keep what they were given
//! or have threads of their own, so that no workload is measured after another in the same process.

use std::{
    cell::RefCell,
    mem,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tokio_wheel::DelayQueue;
use tokio_wheel_benches::{
    cell::{self, cells, warm_lab},
    fire,
    lab::WORKERS,
    lateness::{self, Sleeper},
    peer::{Bare, Peer, PeerKind, Timeouts},
    pending,
    process::in_fresh_process,
    queue::{self, Crowded, HashWheel, Queue, SortedMap},
    saturated::{Load, Sample, Scene},
    with_peer, workload,
};

use crate::report::{Curve, Reading, Row, Section};

/// How many sleeps fire, spread over a second or at once.
const SLEEPS: u64 = 200_000;

/// How many sleeps are weighed.
const WEIGHED: u64 = 1_000_000;

/// What a server that sets a thousand timers a second sets in an hour.
const CHURNED: u64 = 3_600_000;

/// How many elements the queues hold.
const QUEUED: usize = 1_000_000;

/// How many sleeps are pending beside the ones that are measured, in steps up to the last that is asked for.
const CROWDS: [u64; 7] = [0, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// One job: everything that is known beforehand.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Job {
    /// A cell of the operations.
    Operation {
        workload: String,
        variant: String,
        peer: String,
        lasting: Duration,
    },
    /// Churn beside more and more that is pending.
    Pending {
        peer: PeerKind,
        most: u64,
        lasting: Duration,
    },
    /// Churn on so many workers.
    Threads {
        peer: PeerKind,
        threads: usize,
        lasting: Duration,
    },
    /// A queue of elements.
    Queue { queue: QueueKind, lasting: Duration },
    /// Very many sleeps that fire over a second.
    Fire(PeerKind),
    /// Very many sleeps that are due at once.
    Storm(PeerKind),
    /// Sleeps to be weighed.
    Memory(PeerKind),
    /// What sleeps leave that were churned.
    Growth(PeerKind),
    /// How late sleeps of 1 to 100 ms wake.
    Lateness {
        scene: lateness::Scene,
        sleeper: Sleeper,
    },
    /// How late timers are beside tasks that are always ready.
    Saturated(Sample),
}

/// The queues under comparison.
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

/// What a job has to say.
#[derive(Serialize, Deserialize)]
pub(crate) enum Outcome {
    Readings(Vec<Reading>),
    Late(Curve),
}

impl Job {
    /// Runs it in a process of its own, and waits for that.
    pub(crate) fn run_apart(&self) -> anyhow::Result<Outcome> {
        let job = serde_json::to_string(self)?;
        let outcome = in_fresh_process(&["one", &job])?;
        serde_json::from_str(&outcome).with_context(|| format!("not an outcome: {outcome}"))
    }

    /// Runs it here.
    pub(crate) fn run(&self) -> anyhow::Result<Outcome> {
        Ok(Outcome::Readings(match *self {
            Self::Operation {
                ref workload,
                ref variant,
                ref peer,
                lasting,
            } => vec![operation(workload, variant, peer, lasting)?],
            Self::Pending {
                peer,
                most,
                lasting,
            } => with_peer!(peer, P => beside_pending::<P>(most, lasting)),
            Self::Threads {
                peer,
                threads,
                lasting,
            } => with_peer!(peer, P => {
                let lab = warm_lab::<P, _>(threads, workload::churn::<P>);
                let churn = |iters| lab.time_per_thread(threads, || workload::churn::<P>(iters));
                let row = Row::new(Section::Threads, "churn", &format!("x{threads}"), "ns");
                vec![row.read(P::NAME, nanos(lasting, churn))]
            }),
            Self::Queue { queue, lasting } => match queue {
                QueueKind::TokioWheel => crowded::<DelayQueue<u32>>(lasting),
                QueueKind::TokioUtil => crowded::<tokio_util::time::DelayQueue<u32>>(lasting),
                QueueKind::NexusTimer => crowded::<nexus_timer::Wheel<u32>>(lasting),
                QueueKind::HashWheel => crowded::<HashWheel>(lasting),
                QueueKind::SortedMap => crowded::<SortedMap>(lasting),
            },
            Self::Fire(peer) => scene(peer, "fire", false),
            Self::Storm(peer) => scene(peer, "storm", true),
            Self::Memory(peer) => {
                let bytes = with_peer!(peer, P => pending::memory::<P>(WEIGHED));
                let row = Row::new(Section::Memory, "memory", "per pending sleep", "B");
                vec![row.read(peer.name(), bytes[0])]
            }
            Self::Growth(peer) => {
                let bytes = with_peer!(peer, P => pending::growth::<P>(CHURNED));
                let row = Row::new(Section::Memory, "growth", "after an hour's churn", "MB");
                vec![row.read(peer.name(), bytes / 1e6)]
            }
            Self::Saturated(sample) => saturated(sample),
            Self::Lateness { scene, sleeper } => {
                let late = sleeper.play(scene).late;
                return Ok(Outcome::Late(Curve {
                    scene,
                    sleeper,
                    late,
                }));
            }
        }))
    }

    /// What it is about, for whoever waits.
    pub(crate) fn title(&self) -> String {
        match self {
            Self::Operation {
                workload,
                variant,
                peer,
                ..
            } => format!("{workload} {variant}: {peer}"),
            Self::Pending { peer, .. } => format!("churn beside pending: {}", peer.name()),
            Self::Threads { peer, threads, .. } => format!("churn x{threads}: {}", peer.name()),
            Self::Queue { queue, .. } => format!("queues: {queue:?}"),
            Self::Fire(peer) => format!("fire: {}", peer.name()),
            Self::Storm(peer) => format!("storm: {}", peer.name()),
            Self::Memory(peer) => format!("memory: {}", peer.name()),
            Self::Growth(peer) => format!("growth: {}", peer.name()),
            Self::Lateness { scene, sleeper } => {
                format!("lateness, {scene:?}: {}", sleeper.name())
            }
            Self::Saturated(Sample { scene, peer, load }) => {
                let load = saturated_workload("", *scene, load);
                format!("{}: {}", load.trim_start(), scene.name_of(*peer))
            }
        }
    }

    /// About how many milliseconds it takes, so that the progress is one of time.
    pub(crate) fn millis(&self) -> u64 {
        match self {
            Self::Operation { lasting, .. } | Self::Threads { lasting, .. } => {
                lasting.as_millis() as u64 * 3 / 2
            }
            Self::Pending { most, lasting, .. } => lasting.as_millis() as u64 * 14 + most / 1_000,
            Self::Queue { lasting, .. } => lasting.as_millis() as u64 * 2 + 600,
            Self::Fire(_) => 2_700,
            Self::Storm(_) => 1_900,
            Self::Memory(_) => 3_000,
            Self::Growth(_) => 1_500,
            Self::Lateness { .. } => 1_200,
            Self::Saturated(Sample { load, .. }) => {
                (load.lead() + load.lasting).as_millis() as u64 + 300
            }
        }
    }
}

/// Nanoseconds per operation.
fn nanos(lasting: Duration, run: impl Fn(u64) -> Duration) -> f64 {
    let mut iters = cell::iters_lasting(lasting, &run);
    loop {
        let elapsed = run(iters);
        if elapsed >= lasting / 2 {
            return elapsed.as_nanos() as f64 / iters as f64;
        }
        // The machine was held up while it was judged how many they are.
        iters *= 2;
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

fn beside_pending<P: Peer>(most: u64, lasting: Duration) -> Vec<Reading> {
    let mut lab = warm_lab::<P, _>(WORKERS, workload::churn::<P>);
    let mut readings = Vec::new();
    for pending in CROWDS.into_iter().take_while(|&pending| pending <= most) {
        lab.crowd::<P>(pending);
        for threads in 1..=WORKERS {
            let churn = |iters| lab.time_per_thread(threads, || workload::churn::<P>(iters));
            let workload = format!("churn x{threads} over");
            let row = Row::new(Section::Pending, &workload, &pending.to_string(), "ns");
            readings.push(row.read(P::NAME, nanos(lasting, churn)));
        }
    }
    // Not worth the time that it takes to give them all back: the process ends.
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

fn scene(peer: PeerKind, name: &str, at_once: bool) -> Vec<Reading> {
    let scene = fire::Scene {
        spread: !at_once,
        yielding: at_once,
    };
    let figures = with_peer!(peer, P => fire::sample::<P>(SLEEPS, scene));
    let shown: &[(&str, &str, &str)] = if at_once {
        &[
            ("drained ms", "drained", "ms"),
            ("joined ms", "joined", "ms"),
            ("worst gap us", "another task's wait", "us"),
            ("late start", "polled too late", "sleeps"),
        ]
    } else {
        &[
            ("cpu ms", "CPU", "ms"),
            ("p50 us", "lateness, median", "us"),
            ("p99 us", "lateness, 99%", "us"),
            ("early", "woken early", "sleeps"),
            ("late start", "polled too late", "sleeps"),
        ]
    };
    (shown.iter())
        .map(|(column, variant, unit)| {
            let column = fire::STORM_COLUMNS.iter().position(|name| name == column);
            let figure = figures[column.expect("no such figure")];
            Row::new(Section::Firing, name, variant, unit).read(peer.name(), figure)
        })
        .collect()
}

fn saturated(sample: Sample) -> Vec<Reading> {
    let figures = sample.take().figures();
    let Sample { scene, peer, load } = sample;
    let read = |(figure, ms)| {
        let workload = saturated_workload(figure, scene, &load);
        let row = Row::new(Section::Saturated, &workload, &load.idle.to_string(), "ms");
        row.read(scene.name_of(peer), ms)
    };
    let shown = [
        ("p50", figures.p50_ms),
        ("p99", figures.p99_ms),
        ("worst", figures.max_ms),
    ];
    // The median of a probe says little. It would fill the table with a row for each count of idle timers.
    let skipped = usize::from(matches!(scene, Scene::Sleeps | Scene::Queue));
    shown.into_iter().skip(skipped).map(read).collect()
}

/// What a figure of a scene is called. The count of the idle timers follows as its variant.
pub(crate) fn saturated_workload(figure: &str, scene: Scene, load: &Load) -> String {
    let Load {
        workers,
        tasks,
        length,
        ..
    } = load;
    let us = length.as_micros();
    match scene {
        Scene::Sleeps => format!("{figure} sleep, {workers}, {tasks} x {us} us, idle"),
        Scene::Queue => format!("{figure} queue, {workers}, {tasks} x {us} us, idle"),
        Scene::Steady => format!("{figure} 30,000/s, {workers}, {tasks} x {us} us, idle"),
        Scene::Service => format!("{figure} sleep, {workers}, rpc, idle"),
    }
}

/// What the operations cost without any timer.
pub(crate) const BARE: &str = Bare::NAME;
