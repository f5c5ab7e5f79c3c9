//! Measurements whose every sample takes a process of its own: peers keep global timers and threads,
//! freed memory is not given back, and CPU time is counted per process.

use anyhow::{Context as _, ensure};
use clap::ValueEnum;
use tokio_wheel_benches::{
    fire::{self, Scene},
    peer::PeerKind,
    pending,
    process::in_fresh_process,
    with_peer,
};

use crate::{
    scheduled,
    table::{self, median},
};

/// How often, how many, whose.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many samples to take of each peer.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How many sleeps, instead of each table's own default.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    sleeps: Option<u64>,
    /// Only these peers.
    #[arg(long)]
    peer: Vec<PeerKind>,
}

/// One sample.
#[derive(clap::Args)]
pub(crate) struct One {
    kind: Kind,
    peer: PeerKind,
    sleeps: u64,
}

/// What is sampled.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Kind {
    /// Spread over a second, beside a task that yields in a loop.
    Busy,
    /// Spread over a second, with nothing beside, so that the CPU time is the timer's and its tasks'.
    Alone,
    /// A few spread over a second, so that workers park in between.
    Idling,
    /// All due at once, beside a task that yields in a loop.
    Storm,
    /// Far off, to be weighed.
    Memory,
    /// Far off, to be waited beside.
    Idle,
    /// Tasks that are scheduled, to be weighed and waited beside.
    Scheduled,
    /// The same tasks, spawned and asleep.
    Spawned,
}

impl Kind {
    fn title(self) -> &'static str {
        match self {
            Self::Busy => "fire, busy: sleeps over 1 s, beside a task that yields in a loop",
            Self::Alone => "fire, alone: sleeps over 1 s and nothing else",
            Self::Idling => "fire, idle: few sleeps over 1 s and nothing else",
            Self::Storm => "storm: all due at once, beside a task that yields in a loop",
            Self::Memory => "memory: pending sleeps, future and entry",
            Self::Idle => "idle: 10 s with far sleeps pending",
            Self::Scheduled => "scheduled: 10 s with far tasks scheduled",
            Self::Spawned => "spawned: 10 s with the same tasks spawned, asleep",
        }
    }

    fn default_sleeps(self) -> u64 {
        match self {
            Self::Busy | Self::Alone | Self::Storm => 200_000,
            Self::Idling => 1_000,
            Self::Memory | Self::Idle | Self::Scheduled | Self::Spawned => 1_000_000,
        }
    }

    fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Busy | Self::Alone | Self::Idling => fire::COLUMNS,
            Self::Storm => fire::STORM_COLUMNS,
            Self::Memory => pending::MEMORY_COLUMNS,
            Self::Idle => pending::IDLE_COLUMNS,
            Self::Scheduled | Self::Spawned => scheduled::COLUMNS,
        }
    }

    /// Those to sample of the ones that were asked for, if any.
    fn peers(self, asked: &[PeerKind]) -> &[PeerKind] {
        match (self, asked) {
            // Nobody else schedules.
            (Self::Scheduled, _) => &[PeerKind::TokioWheel],
            (Self::Spawned, []) => &[PeerKind::TokioWheel, PeerKind::Tokio],
            (_, []) => PeerKind::value_variants(),
            (_, asked) => asked,
        }
    }
}

impl One {
    /// Takes the sample and prints it as [`table()`] expects it.
    pub(crate) fn print(&self) {
        let sleeps = self.sleeps;
        let values = with_peer!(self.peer, P => match self.kind {
            Kind::Busy => fire::sample::<P>(sleeps, Scene { spread: true, yielding: true }),
            Kind::Alone | Kind::Idling => {
                fire::sample::<P>(sleeps, Scene { spread: true, yielding: false })
            }
            Kind::Storm => fire::sample::<P>(sleeps, Scene { spread: false, yielding: true }),
            Kind::Memory => pending::memory::<P>(sleeps),
            Kind::Idle => pending::idle::<P>(sleeps),
            Kind::Scheduled => scheduled::scheduled(sleeps),
            Kind::Spawned => scheduled::spawned::<P>(sleeps),
        });
        let values: Vec<_> = values.iter().map(f64::to_string).collect();
        println!("{}", values.join(" "));
    }
}

/// Samples the peers in turn, round by round, and prints the medians.
pub(crate) fn table(args: &Args, kind: Kind) -> anyhow::Result<()> {
    let sleeps = args.sleeps.unwrap_or(kind.default_sleeps());
    let peers = kind.peers(&args.peer);
    let mut samples = vec![Vec::new(); peers.len()];
    for _ in 0..args.rounds {
        for (&peer, samples) in peers.iter().zip(&mut samples) {
            samples.push(take(kind, peer, sleeps)?);
        }
    }

    let mut rows = vec![vec![String::new()]];
    rows[0].extend(kind.columns().iter().map(|&column| column.to_owned()));
    for (&peer, samples) in peers.iter().zip(&samples) {
        let mut row = vec![peer.name().to_owned()];
        row.extend((0..kind.columns().len()).map(|column| {
            let values = samples.iter().map(|sample: &Vec<f64>| sample[column]);
            format!("{:.1}", median(values.collect()))
        }));
        rows.push(row);
    }
    println!(
        "{} ({sleeps} of them, {} rounds)",
        kind.title(),
        args.rounds
    );
    table::print(&rows);
    println!();
    Ok(())
}

fn take(kind: Kind, peer: PeerKind, sleeps: u64) -> anyhow::Result<Vec<f64>> {
    let kind_name = kind.to_possible_value().context("a kind without a name")?;
    let sleeps = sleeps.to_string();
    let line = in_fresh_process(&["sample", kind_name.get_name(), peer.name(), &sleeps])?;
    let values: Vec<f64> = line
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    ensure!(values.len() == kind.columns().len(), "not a sample: {line}");
    Ok(values)
}
