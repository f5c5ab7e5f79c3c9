//! The table of how late timers fire on a saturated runtime: a row for each cell, its peers side by side.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context as _, ensure};
use clap::ValueEnum;
use serde::Serialize;
use tokio_wheel_benches::{
    peer::PeerKind,
    process::in_fresh_process,
    saturated::{Figures, LASTING, Load, Sample, Scene},
};

use crate::table::{self, median};

/// The loads by default: so many tasks that are always ready, and the microseconds of a poll.
const LOADS: [(usize, u64); 3] = [(50, 100), (200, 10), (30, 200)];

/// The seconds of a sample with `--quick`.
const QUICK: f64 = 2.0;

/// The cells to measure, and how often.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What runs beside the load. May be given several times.
    #[arg(long, default_value = "sleeps")]
    scene: Vec<Scene>,
    /// How many samples to take of each peer in each cell.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long a sample lasts; 9.3 by default.
    #[arg(long)]
    seconds: Option<f64>,
    /// Takes samples of two seconds instead of 9.3.
    #[arg(long, conflicts_with = "seconds")]
    quick: bool,
    /// The worker threads; a list, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    workers: Vec<usize>,
    /// The tasks that are always ready, instead of the three loads of the table.
    #[arg(long, requires = "length")]
    tasks: Option<usize>,
    /// The microseconds that a poll of such a task takes.
    #[arg(long, requires = "tasks", value_name = "MICROSECONDS")]
    length: Option<u64>,
    /// The idle timers; a list, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 300_000, 1_000_000])]
    idle: Vec<u64>,
    /// The peers; a list, separated by commas. A queue is measured of tokio_wheel and tokio alone.
    #[arg(long, value_delimiter = ',', default_values = ["tokio_wheel", "tokio"])]
    peer: Vec<PeerKind>,
    /// Where to write the figures of each round and their medians.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// One sample.
#[derive(clap::Args)]
pub(crate) struct One {
    /// As JSON.
    sample: String,
}

impl One {
    /// Takes the sample and prints the figures as [`run`] expects them.
    pub(crate) fn print(&self) -> anyhow::Result<()> {
        let sample: Sample = serde_json::from_str(&self.sample)?;
        println!("{}", serde_json::to_string(&sample.take().figures())?);
        Ok(())
    }
}

/// What one peer showed in one cell.
#[derive(Serialize)]
struct Measured {
    peer: &'static str,
    medians: Figures,
    /// The worst lateness of all rounds.
    worst_ms: f64,
    rounds: Vec<Figures>,
}

/// A row of the table.
#[derive(Serialize)]
struct Row {
    scene: Scene,
    load: Load,
    peers: Vec<Measured>,
}

/// Measures, prints, and writes a file if a path is given.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    let cells = cells(args)?;
    for (i, &(scene, load)) in cells.iter().enumerate() {
        let peers = (args.peer.iter().copied()).filter(|&peer| scene.can(peer));
        let mut measured: Vec<_> = peers.map(|peer| (peer, Vec::new())).collect();
        for _ in 0..args.rounds {
            for (peer, rounds) in &mut measured {
                let peer = *peer;
                rounds.push(take(Sample { scene, peer, load })?);
            }
        }
        let peers = (measured.into_iter())
            .map(|(peer, rounds)| Measured::of(scene.name_of(peer), rounds))
            .collect();
        let row = Row { scene, load, peers };
        // A long run shows how far it is, and leaves what it has measured if it is stopped.
        eprintln!("{}/{}: {}", i + 1, cells.len(), row.cells().join("  "));
        rows.push(row);
    }
    print(&rows, args);
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&rows)?;
        fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn cells(args: &Args) -> anyhow::Result<Vec<(Scene, Load)>> {
    let lasting = match args.seconds {
        Some(seconds) => Duration::try_from_secs_f64(seconds)?,
        None if args.quick => Duration::from_secs_f64(QUICK),
        None => LASTING,
    };
    ensure!(
        !args.workers.contains(&0),
        "workers must be at least 1, got 0"
    );
    let loads = match (args.tasks, args.length) {
        (Some(tasks), Some(length)) => vec![(tasks, length)],
        _ => LOADS.to_vec(),
    };
    let mut cells = Vec::new();
    for &scene in &args.scene {
        // A service is a load of its own.
        let loads = match scene {
            Scene::Service => &[(0, 0)],
            _ => &loads[..],
        };
        for &workers in &args.workers {
            for &(tasks, length) in loads {
                for &idle in &args.idle {
                    let load = Load {
                        workers,
                        tasks,
                        length: Duration::from_micros(length),
                        idle,
                        lasting,
                    };
                    cells.push((scene, load));
                }
            }
        }
    }
    Ok(cells)
}

fn take(sample: Sample) -> anyhow::Result<Figures> {
    let json = serde_json::to_string(&sample)?;
    Ok(serde_json::from_str(&in_fresh_process(&[
        "saturated-sample",
        &json,
    ])?)?)
}

impl Measured {
    fn of(peer: &'static str, rounds: Vec<Figures>) -> Self {
        let all = |figure: fn(&Figures) -> f64| rounds.iter().map(figure);
        let middle = |figure: fn(&Figures) -> f64| median(all(figure).collect());
        Self {
            peer,
            medians: Figures {
                count: middle(|round| round.count as f64) as u64,
                p50_ms: middle(|round| round.p50_ms),
                p99_ms: middle(|round| round.p99_ms),
                max_ms: middle(|round| round.max_ms),
                early: rounds.iter().map(|round| round.early).sum(),
                load: (rounds.iter().map(|round| round.load).collect::<Option<_>>()).map(median),
            },
            worst_ms: all(|round| round.max_ms).fold(0.0, f64::max),
            rounds,
        }
    }
}

/// What is shown of each peer.
const COLUMNS: [&str; 7] = ["count", "p50", "p99", "worst", "of all", "early", "load"];

impl Row {
    fn cells(&self) -> Vec<String> {
        let Load {
            workers,
            tasks,
            length,
            idle,
            ..
        } = self.load;
        let scene = self.scene.to_possible_value();
        let scene = scene.map_or_else(String::new, |value| value.get_name().to_owned());
        let load = match self.scene {
            Scene::Service => "rpc".to_owned(),
            _ => format!("{tasks}x{}us", length.as_micros()),
        };
        let mut cells = vec![scene, workers.to_string(), load, idle.to_string()];
        for Measured {
            medians, worst_ms, ..
        } in &self.peers
        {
            cells.extend([
                medians.count.to_string(),
                format!("{:.2}", medians.p50_ms),
                format!("{:.2}", medians.p99_ms),
                format!("{:.2}", medians.max_ms),
                format!("{worst_ms:.2}"),
                medians.early.to_string(),
                (medians.load).map_or_else(String::new, |load| format!("{:.0}%", load * 100.0)),
            ]);
        }
        for peer in self.others() {
            let tokio = self.tokio().expect("others are compared with it");
            for figure in [|f: &Figures| f.p99_ms, |f: &Figures| f.max_ms] {
                let ratio = figure(&peer.medians) / figure(&tokio.medians);
                cells.push(format!("{ratio:.2}x"));
            }
        }
        cells
    }

    fn tokio(&self) -> Option<&Measured> {
        let name = self.scene.name_of(PeerKind::Tokio);
        self.peers.iter().find(|measured| measured.peer == name)
    }

    /// The peers that are compared with tokio.
    fn others(&self) -> impl Iterator<Item = &Measured> {
        let tokio = self.tokio().map(|tokio| tokio.peer);
        (self.peers.iter())
            .filter(move |measured| tokio.is_some_and(|tokio| tokio != measured.peer))
    }
}

fn print(rows: &[Row], args: &Args) {
    // Scenes differ in their peers.
    for rows in rows.chunk_by(|one, next| one.scene == next.scene) {
        let mut heading = ["scene", "workers", "load", "idle"]
            .map(str::to_owned)
            .to_vec();
        for measured in &rows[0].peers {
            heading.push(format!("{}: {}", measured.peer, COLUMNS[0]));
            heading.extend(COLUMNS[1..].iter().map(|&column| column.to_owned()));
        }
        for measured in rows[0].others() {
            heading.push(format!("{}/tokio: p99", measured.peer));
            heading.push("worst".to_owned());
        }
        let cells = rows.iter().map(Row::cells);
        table::print(&std::iter::once(heading).chain(cells).collect::<Vec<_>>());
        println!();
    }
    println!(
        "Lateness in milliseconds, medians of {} rounds. of all: the worst of all rounds. load: the part \
         of the workers' time that the tasks got that are always ready.",
        args.rounds
    );
}
