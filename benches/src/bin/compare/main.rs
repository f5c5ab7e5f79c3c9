//! Compares tokio-wheel with other timers on this machine, in rounds that interleave the timers.
//! The program prints its answer on one screen. A subcommand measures a part and prints every row
//! of it.

mod job;
mod machine;
mod parts;
mod plots;
mod report;
mod requirements;
mod rounds;
mod screen;
mod sets;
mod table;

use std::{fs, path::PathBuf};

use anyhow::{Context as _, ensure};
use clap::{Parser, Subcommand};

use crate::{job::Job, report::Measured, rounds::Output, sets::Tables};

/// Measures what a program gains on this machine if it moves from tokio::time to tokio-wheel, and
/// prints the result on one screen. Takes about six minutes on two cores and 1 GB of memory; with
/// --quick, about two minutes. Prints the expected time before it starts.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Program {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    comparison: sets::Args,
}

#[derive(Subcommand)]
enum Command {
    /// Measures the cost of each operation in nanoseconds per thread, and for this crate also in
    /// floors.
    Ops(parts::Ops),
    /// Measures the cost of touching one of very many keys, in nanoseconds per thread.
    Touch(parts::Touch),
    /// Measures how late sleeps fire that are spread over a second: beside a busy task, alone, and
    /// only a few. Also measures 100 tasks that sleep 1 ms again and again.
    Fire(parts::Sleeps),
    /// Measures how long sleeps with one deadline take to wake, and how long another task waits.
    Storm(parts::Sleeps),
    /// Measures how late timers and threads wake from sleeps of 1 to 100 ms, and from very many
    /// sleeps over a second.
    Lateness(parts::Lateness),
    /// Measures the memory of a pending sleep, and of a stream with all limits.
    Memory(parts::Sleeps),
    /// Measures the CPU time and the context switches of pending sleeps, over ten seconds in which none fires.
    Idle(parts::Sleeps),
    /// Measures scheduled tasks of 64 bytes, and spawned tasks that sleep instead: their memory,
    /// and their cost over ten seconds in which none runs.
    Scheduled(parts::Sleeps),
    /// Measures how late timers fire on a runtime whose workers always have another task to run.
    Saturated(parts::Saturated),
    /// Measures the CPU time of a driver's wake-up that fires one timer, for several numbers of
    /// shards.
    Wakeup(parts::Common),
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
        let args = args.comparison;
        let measured = rounds::run(&args.rounds(), &args.output)?;
        return print(&measured, &args.tables, args.output.svg);
    };
    match command {
        Command::Ops(args) => measure(&args.rounds()?, args.common.output),
        Command::Touch(args) => measure(&args.rounds(), args.common.output),
        Command::Fire(args) => measure(&args.fire(), args.common.output),
        Command::Storm(args) => measure(&args.storm(), args.common.output),
        Command::Lateness(args) => measure(&args.rounds(), args.common.output),
        Command::Memory(args) => measure(&args.memory(), args.common.output),
        Command::Idle(args) => measure(&args.idle(), args.common.output),
        Command::Scheduled(args) => measure(&args.scheduled(), args.common.output),
        Command::Saturated(args) => measure(&args.rounds()?, args.common.output),
        Command::Wakeup(args) => measure(&args.rounds(parts::wakeups().into()), args.output),
        Command::Plot { file, svg, tables } => {
            let context = || format!("cannot read {}", file.display());
            let json = fs::read(&file).with_context(context)?;
            let measured = serde_json::from_slice(&json).with_context(context)?;
            print(&measured, &tables, svg)
        }
        Command::One { job } => {
            let job: Job = serde_json::from_str(&job)?;
            println!("{}", serde_json::to_string(&job.run()?)?);
            Ok(())
        }
    }
}

/// Measures and prints a part.
fn measure(rounds: &[Vec<Job>], output: Output) -> anyhow::Result<()> {
    let measured = rounds::run(rounds, &output)?;
    screen::print_machine(&measured);
    table::print(&measured);
    finish(&measured, output.svg)
}

/// Prints the screen, and the requested tables.
fn print(measured: &Measured, tables: &Tables, svg: Option<PathBuf>) -> anyhow::Result<()> {
    screen::print(measured);
    if tables.all {
        table::print(measured);
    }
    if tables.requirements {
        println!();
        requirements::print(&requirements::verdicts(measured));
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

    use super::Program;

    #[test]
    fn the_command_line_is_sound() {
        Program::command().debug_assert();
    }
}
