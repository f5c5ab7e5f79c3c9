//! Compares tokio-wheel with other timers on this machine, in rounds that interleave the timers.
//! A subcommand measures a part.

mod cores;
mod job;
mod jobs;
mod plots;
mod report;
mod requirements;

use std::{
    fs,
    path::PathBuf,
    process,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use tokio_wheel_benches::{machine, peer::PeerKind};

use crate::{
    job::Job,
    report::{BARE, Measured},
};

/// Measures what a program gains on this machine if it moves from tokio::time to tokio-wheel. Takes
/// about six minutes on two cores and 1 GB of memory.
#[derive(Parser)]
#[command(version)]
struct Program {
    #[command(subcommand)]
    command: Option<Command>,
    /// How often each figure is measured. Fewer than six rounds give no intervals.
    #[arg(long, global = true, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Measures only these peers, separated by commas, and the workloads without a timer.
    #[arg(long, global = true, value_delimiter = ',')]
    peer: Vec<PeerKind>,
    /// Writes every sample into this file, after each round. `compare plot` reads it.
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draws plots of the figures into this folder.
    #[arg(long, global = true, value_name = "FOLDER")]
    svg: Option<PathBuf>,
    /// Measures every row. This takes about 25 minutes.
    #[arg(long)]
    all: bool,
    /// Also prints the crate's requirements for itself. Without a command, measures every row.
    #[arg(long, global = true)]
    requirements: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Measures the cost of each operation in nanoseconds per thread.
    Ops(jobs::Ops),
    /// Measures how late sleeps fire that are spread over a second: beside a busy task, and alone.
    Fire,
    /// Measures how late timers and threads wake from sleeps of 1 to 100 ms.
    Lateness,
    /// Measures the memory of a pending sleep, and of a stream with all limits.
    Memory,
    /// Measures the memory of scheduled tasks of 64 bytes, and of spawned tasks that sleep instead.
    Scheduled,
    /// Measures how late timers fire on a runtime whose workers always have another task to run.
    Saturated(jobs::Saturated),
    /// Measures churn and reset on 1, 2, 4 and so on up to all cores, in less than five minutes, and
    /// prints them beside the model of docs/scaling.md.
    Cores,
    /// Prints and draws the figures of an earlier run.
    Plot {
        /// A file that `--json` has written.
        file: PathBuf,
    },
    /// Runs one job in this process.
    #[command(hide = true)]
    One { job: String },
}

fn main() -> anyhow::Result<()> {
    let args = Program::parse();
    let turns = match &args.command {
        None if args.all || args.requirements => None,
        None => Some(jobs::short()),
        Some(Command::Ops(ops)) => Some(ops.turns()),
        Some(Command::Fire) => Some(jobs::fire()),
        Some(Command::Lateness) => Some(jobs::lateness()),
        Some(Command::Memory) => Some(jobs::memory()),
        Some(Command::Scheduled) => Some(jobs::scheduled()),
        Some(Command::Saturated(saturated)) => Some(saturated.turns()),
        Some(Command::Cores) => Some(jobs::cores_in_use()),
        Some(Command::Plot { file }) => {
            let context = || format!("cannot read {}", file.display());
            let json = fs::read(file).with_context(context)?;
            return print(&args, &serde_json::from_slice(&json).with_context(context)?);
        }
        Some(Command::One { job }) => {
            let job: Job = serde_json::from_str(job)?;
            println!("{}", serde_json::to_string(&job.run()?)?);
            // Dropping what the job has leaked would take long.
            process::exit(0);
        }
    };
    let mut rounds = jobs::in_rounds(args.rounds, |round| match &turns {
        Some(turns) => turns.clone(),
        None => jobs::all(round),
    });
    let mut peers: Vec<_> = args.peer.iter().map(|peer| peer.name()).collect();
    peers.push(BARE);
    let is_wanted = |job: &Job| args.peer.is_empty() || peers.contains(&&*job.peer);
    rounds.iter_mut().for_each(|jobs| jobs.retain(is_wanted));
    ensure!(
        rounds.iter().all(|jobs| !jobs.is_empty()),
        "the lists must select something that a peer has, got nothing"
    );
    print(&args, &run(&rounds, &args)?)
}

/// Runs the jobs of each round, job by job, so that a machine that slows down slows all timers.
fn run(rounds: &[Vec<Job>], output: &Program) -> anyhow::Result<Measured> {
    machine::warn();
    let style = ProgressStyle::with_template("{wide_bar} {percent}%, {eta} left  {msg:60!}")?;
    let jobs = rounds.iter().map(Vec::len).sum::<usize>();
    let progress = ProgressBar::new(jobs as u64).with_style(style);
    progress.enable_steady_tick(Duration::from_secs(1));

    let mut measured = Measured::new(rounds.len() as u32);
    let start = Instant::now();
    for (number, jobs) in (0..).zip(rounds) {
        for job in jobs {
            progress.set_message(format!("{job:?}"));
            match job.run_apart() {
                Ok(figures) => measured.add(number, &job.peer, figures),
                // Continues, because the other figures are still useful.
                Err(error) => (measured.failed).push(format!("{job:?}: {error:#}")),
            }
            progress.inc(1);
        }
        measured.seconds = start.elapsed().as_secs_f64();
        if let Some(file) = &output.json {
            fs::write(file, serde_json::to_vec(&measured)?)
                .with_context(|| format!("cannot write {}", file.display()))?;
        }
    }
    progress.finish_and_clear();
    Ok(measured)
}

fn print(args: &Program, measured: &Measured) -> anyhow::Result<()> {
    match args.command {
        Some(Command::Cores) => cores::print(measured),
        _ => report::print(measured),
    }
    if args.requirements {
        println!();
        requirements::print(measured);
    }
    if let Some(folder) = &args.svg {
        plots::draw(measured, folder)?;
    }
    ensure!(
        measured.failed.is_empty(),
        "not all was measured, the other figures stand:\n{}\n\
         A job that was killed needs more memory: end other programs, and run this again.",
        measured.failed.join("\n")
    );
    Ok(())
}
