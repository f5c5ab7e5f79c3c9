//! One command that compares tokio-wheel with the timers that others use, on this machine: every
//! workload that the crate is held to, in rounds that interleave the timers.

mod job;
mod plots;
mod report;
mod requirements;
mod rounds;
mod table;

use std::{fs, path::PathBuf};

use anyhow::{Context as _, ensure};
use clap::{Parser, Subcommand};
use serde::Serialize;
use tokio_wheel_benches::stats::Estimate;

use crate::{
    job::Job,
    report::{Measured, Row},
    requirements::Verdict,
};

/// Measures tokio-wheel beside its peers, and prints a table of what all of them cost and one of what is
/// required. Takes about thirteen minutes on two cores, and 3 GB of memory. Six of these minutes are for the
/// lateness on a saturated runtime.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    rounds: rounds::Args,
    /// Where to write every sample, the medians and the verdicts.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The folder to draw plots into.
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Prints and draws what an earlier run has measured.
    Plot {
        /// What `--json` has written.
        file: PathBuf,
        /// The folder to draw plots into.
        #[arg(long, value_name = "FOLDER")]
        svg: Option<PathBuf>,
    },
    /// One job, in this process.
    #[command(hide = true)]
    One {
        /// As JSON.
        job: String,
    },
}

/// What `--json` writes: what was measured, which can be read again, and what follows from it.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    measured: &'a Measured,
    figures: Vec<Figure<'a>>,
    requirements: &'a [Verdict],
}

/// A cell of the table.
#[derive(Serialize)]
struct Figure<'a> {
    #[serde(flatten)]
    row: &'a Row,
    peer: &'a str,
    estimate: Estimate,
    /// How many times ours it is.
    ratio: Option<Estimate>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    match args.command {
        Some(Command::One { job }) => {
            let job: Job = serde_json::from_str(&job)?;
            println!("{}", serde_json::to_string(&job.run()?)?);
            Ok(())
        }
        Some(Command::Plot { file, svg }) => {
            let context = || format!("cannot read {}", file.display());
            let json = fs::read(&file).with_context(context)?;
            let measured = serde_json::from_slice(&json).with_context(context)?;
            present(&measured, None, svg)
        }
        None => {
            let measured = rounds::run(&args.rounds)?;
            present(&measured, args.json, args.svg)
        }
    }
}

/// Writes what was measured wherever it is wanted.
fn present(measured: &Measured, json: Option<PathBuf>, svg: Option<PathBuf>) -> anyhow::Result<()> {
    let requirements = requirements::verdicts(measured);
    if let Some(file) = json {
        let figures = measured.series.iter().map(|series| Figure {
            row: &series.row,
            peer: &series.peer,
            estimate: series.estimate(),
            ratio: (measured.ours(&series.row)).and_then(|ours| series.ratio_to(ours)),
        });
        let document = Document {
            measured,
            figures: figures.collect(),
            requirements: &requirements,
        };
        fs::write(&file, serde_json::to_vec(&document)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    table::print(measured);
    println!();
    requirements::print(&requirements);
    if let Some(folder) = svg {
        plots::draw(measured, &folder)?;
    }
    ensure!(
        measured.failed.is_empty(),
        "not all was measured:\n{}",
        measured.failed.join("\n")
    );
    Ok(())
}
