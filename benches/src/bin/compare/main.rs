//! Compares tokio-wheel with other timers on this machine, in rounds that interleave the timers.
//! The program prints its answer on one screen. A subcommand measures a part and prints every row
//! of it.

mod cores;
mod job;
mod jobs;
mod plots;
mod report;
mod requirements;
mod screen;

use std::{
    fs,
    path::PathBuf,
    process,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use tokio_wheel_benches::{
    fire,
    machine::{self, Ticks, describe},
};

use crate::{job::Job, report::Measured};

/// Measures what a program gains on this machine if it moves from tokio::time to tokio-wheel, and
/// prints the result on one screen. Takes about six minutes on two cores and 1 GB of memory; with
/// --quick, about two minutes.
///
/// tokio's alternative timer takes part if it was built before:
/// RUSTFLAGS="--cfg tokio_unstable" cargo build --release -p tokio-wheel-benches --target-dir target/alt
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Program {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    common: Common,
    /// Runs two rounds of shorter samples. It never gives verdicts, because two rounds decide
    /// nothing.
    #[arg(long, conflicts_with_all = ["rounds", "all", "requirements"])]
    quick: bool,
    #[command(flatten)]
    tables: Tables,
}

/// How often to measure, and where to write the figures.
#[derive(clap::Args)]
struct Common {
    /// How often each figure is measured. Fewer than six rounds give no intervals.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Writes every sample into this file, after each round. `compare plot` reads it.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draws plots of the figures into this folder.
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
}

/// The options of a part.
#[derive(clap::Args)]
struct Part<T: clap::Args> {
    #[command(flatten)]
    own: T,
    #[command(flatten)]
    common: Common,
}

/// What to print beside the screen.
#[derive(clap::Args)]
struct Tables {
    /// Also prints every row with its interval. Measuring all rows takes about 25 minutes.
    #[arg(long)]
    all: bool,
    /// Also prints the crate's requirements for itself. Measuring them takes about 25 minutes.
    #[arg(long)]
    requirements: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Measures the cost of each operation in nanoseconds per thread, and for this crate also in
    /// floors.
    Ops(Part<jobs::Ops>),
    /// Measures how late sleeps fire that are spread over a second: beside a busy task, and alone.
    Fire(Part<jobs::Sleeps>),
    /// Measures how long sleeps with one deadline take to wake, and how long another task waits.
    Storm(Part<jobs::Sleeps>),
    /// Measures how late timers and threads wake from sleeps of 1 to 100 ms.
    Lateness(Part<jobs::Sleeps>),
    /// Measures the memory of a pending sleep, and of a stream with all limits.
    Memory(Part<jobs::Sleeps>),
    /// Measures the memory of scheduled tasks of 64 bytes, and of spawned tasks that sleep instead.
    Scheduled(Part<jobs::Sleeps>),
    /// Measures how late timers fire on a runtime whose workers always have another task to run.
    Saturated(Part<jobs::Saturated>),
    /// Measures the CPU time of a driver's wake-up that fires one timer, for several numbers of
    /// shards.
    Wakeup(Common),
    /// Measures churn and reset on 1, 2, 4 and so on up to all cores, in less than five minutes, and
    /// prints them beside the model of docs/scaling.md.
    Cores(Common),
    /// Prints and draws the figures of an earlier run.
    Plot {
        /// A file that `--json` has written.
        file: PathBuf,
        /// Draws plots into this folder.
        #[arg(long, value_name = "FOLDER")]
        svg: Option<PathBuf>,
        #[command(flatten)]
        tables: Tables,
    },
    /// Runs one job in this process.
    #[command(hide = true)]
    One {
        /// The job as JSON.
        job: String,
    },
}

fn main() -> anyhow::Result<()> {
    let args = Program::parse();
    let Some(command) = args.command else {
        let rounds = jobs::comparison(&args);
        let measured = run(&rounds, &args.common)?;
        return print(&measured, &args.tables, args.common.svg);
    };
    let (turns, common) = match command {
        Command::Ops(part) => (part.own.turns(), part.common),
        Command::Fire(part) => {
            let scenes = [fire::Scene::SpreadBusy, fire::Scene::Spread];
            (part.own.fire(&scenes), part.common)
        }
        Command::Storm(part) => (part.own.fire(&[fire::Scene::Storm]), part.common),
        Command::Lateness(part) => (part.own.lateness(), part.common),
        Command::Memory(part) => (part.own.memory(), part.common),
        Command::Scheduled(part) => (part.own.scheduled(), part.common),
        Command::Saturated(part) => (part.own.turns()?, part.common),
        Command::Wakeup(common) => (jobs::wakeups(), common),
        Command::Cores(common) => {
            let measured = run(&jobs::in_rounds(common.rounds, |_| cores::turns()), &common)?;
            screen::print_machine(&measured);
            cores::print(&measured);
            return finish(&measured, common.svg);
        }
        Command::Plot { file, svg, tables } => {
            let context = || format!("cannot read {}", file.display());
            let json = fs::read(&file).with_context(context)?;
            let measured = serde_json::from_slice(&json).with_context(context)?;
            return print(&measured, &tables, svg);
        }
        Command::One { job } => {
            let job: Job = serde_json::from_str(&job)?;
            println!("{}", serde_json::to_string(&job.run()?)?);
            // Dropping what the job has leaked would take long.
            process::exit(0);
        }
    };
    ensure!(
        !turns.is_empty(),
        "the lists must select something that a peer has, got nothing"
    );
    let measured = run(&jobs::in_rounds(common.rounds, |_| turns.clone()), &common)?;
    screen::print_machine(&measured);
    report::print(&measured);
    finish(&measured, common.svg)
}

/// Runs the jobs of each round, and returns what they measured. In each round the timers take turns
/// job by job, so a machine that slows down slows all timers.
fn run(rounds: &[Vec<Job>], output: &Common) -> anyhow::Result<Measured> {
    if let Some(busy) = machine::look() {
        eprintln!("{}", describe(busy));
    }
    let style = ProgressStyle::with_template("{wide_bar} {percent}%, {eta} left  {msg:60!}")?;
    let jobs = rounds.iter().map(Vec::len).sum::<usize>();
    let progress = ProgressBar::new(jobs as u64).with_style(style);
    progress.enable_steady_tick(Duration::from_secs(1));

    let mut measured = Measured::new(rounds.len() as u32);
    let (start, before) = (Instant::now(), Ticks::read());
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
        measured.busy = (before.zip(Ticks::read())).and_then(|(before, now)| now.since(before));
        if let Some(file) = &output.json {
            fs::write(file, serde_json::to_vec(&measured)?)
                .with_context(|| format!("cannot write {}", file.display()))?;
        }
    }
    progress.finish_and_clear();
    Ok(measured)
}

/// Prints the screen, and the requested tables.
fn print(measured: &Measured, tables: &Tables, svg: Option<PathBuf>) -> anyhow::Result<()> {
    screen::print(measured);
    if tables.all {
        report::print(measured);
    }
    if tables.requirements {
        println!();
        requirements::print(measured);
    }
    finish(measured, svg)
}

/// Draws the plots if a folder is given, and fails if a job has failed.
fn finish(measured: &Measured, svg: Option<PathBuf>) -> anyhow::Result<()> {
    if let Some(folder) = svg {
        plots::draw(measured, &folder)?;
    }
    ensure!(
        measured.failed.is_empty(),
        "not all was measured, the other figures stand:\n{}\n\
         A job that was killed needs more memory: end other programs, and run this again.",
        measured.failed.join("\n")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Program::command().debug_assert();
    }
}
