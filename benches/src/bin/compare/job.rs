//! Measures one timer in a process of its own, because several timers are global, keep their entries,
//! or have threads of their own.

use std::{mem, process::Command};

use anyhow::{Context as _, ensure};
use clap::ValueEnum as _;
use indicatif::HumanCount;
use serde::{Deserialize, Serialize};
use tokio_wheel_benches::{
    Figure,
    cell::{Cell, LASTING, nanos, warm_lab},
    fire, floor,
    lab::{WORKERS, cores},
    lateness,
    model::measure_transfer,
    peer::{Peer, PeerKind, program_for},
    pending,
    saturated::{self, Load},
    wakeup, with_peer, workload,
};

use crate::report::{Figures, Row};

pub(crate) const CROWDS: [u64; 7] = [0, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) peer: String,
    pub(crate) task: Task,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    Floor,
    Operation { workload: String, variant: String },
    Pending { armed: bool, most: u64 },
    Fire(fire::Scene),
    Memory,
    Streams,
    Wakeup(usize),
    Scheduled,
    Spawned,
    Lateness(lateness::Scene),
    Saturated(Load),
    Transfers,
}

impl Job {
    pub(crate) fn new(peer: &str, task: Task) -> Self {
        let peer = peer.to_owned();
        Self { peer, task }
    }

    pub(crate) fn run_apart(&self) -> anyhow::Result<Figures> {
        let job = serde_json::to_string(self)?;
        let output = Command::new(program_for(&self.peer)?)
            .args(["one", &job])
            .output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {error}", output.status);
        serde_json::from_slice(&output.stdout).context("the process has printed no figures")
    }

    pub(crate) fn run(&self) -> anyhow::Result<Figures> {
        let peer = || PeerKind::from_str(&self.peer, false).map_err(anyhow::Error::msg);
        Ok(match self.task {
            Task::Floor => rows("floor", floor::measure()),
            Task::Operation {
                ref workload,
                ref variant,
            } => {
                let cell = mem::ManuallyDrop::new(Cell::find(workload, variant, &self.peer));
                let name = format!("{workload} {variant}");
                vec![(Row::new(name, "ns"), cell.nanos())]
            }
            Task::Pending { armed, most } => {
                with_peer!(peer()?, P => beside_pending::<P>(armed, most))
            }
            Task::Fire(scene) => {
                with_peer!(peer()?, P => rows(scene.name(), fire::sample::<P>(scene)))
            }
            Task::Memory => with_peer!(peer()?, P => rows("memory", pending::memory::<P>())),
            Task::Streams => rows("stream, all limits,", pending::streams()),
            Task::Wakeup(shards) => {
                let micros = wakeup::sample(shards).as_secs_f64() * 1e6;
                vec![(Row::new(wakeup::name(shards), "us"), micros)]
            }
            Task::Scheduled => rows("scheduled", pending::scheduled()),
            Task::Spawned => with_peer!(peer()?, P => rows("spawned", pending::spawned::<P>())),
            Task::Lateness(scene) => rows(scene.title(), scene.play(peer()?)),
            Task::Saturated(load) => {
                let figures = saturated::sample(peer()?, load).into_iter();
                let row = |(figure, value, unit)| (Row::new(load.name(figure), unit), value);
                figures.map(row).collect()
            }
            Task::Transfers => {
                let row = |core| Row::new(transfer(core), "ns");
                let cores = 1..cores().len();
                cores
                    .map(|core| (row(core), measure_transfer(0, core)))
                    .collect()
            }
        })
    }
}

fn rows(workload: &str, figures: Vec<Figure>) -> Figures {
    (figures.into_iter())
        .map(|(name, value, unit)| (Row::new(format!("{workload} {name}"), unit), value))
        .collect()
}

pub(crate) fn transfer(core: usize) -> String {
    format!("line from the first core to core {core}")
}

pub(crate) fn beside(threads: usize, armed: bool, pending: u64) -> String {
    let armed = if armed { " armed" } else { "" };
    format!("churn x{threads}{armed} over {}", HumanCount(pending))
}

fn beside_pending<P: Peer>(armed: bool, most: u64) -> Figures {
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
            let row = Row::new(beside(threads, armed, pending), "ns");
            figures.push((row, nanos(LASTING, run)));
        }
    }
    figures
}
