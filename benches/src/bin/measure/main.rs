//! Side-by-side tables of tokio-wheel and its peers: medians of interleaved rounds.

mod lateness;
mod ops;
mod sample;
mod saturated;
mod scheduled;
mod touch;

use clap::{Parser, Subcommand};
use tokio_wheel_benches::table;

/// Measures tokio-wheel beside its peers; every figure is the median over rounds that interleave them.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// What each operation costs, in nanoseconds per thread, and as a multiple of tokio_wheel's.
    Ops(ops::Args),
    /// What a touch of one key of very many costs, in nanoseconds per thread.
    Touch(touch::Args),
    /// How late sleeps fire that are spread over a second.
    Fire(sample::Args),
    /// How long sleeps take that are all due at once, and what that does to another task.
    Storm(sample::Args),
    /// How late sleeps of 1 to 100 ms wake, and very many over a second: by timers and by threads.
    Lateness(lateness::Args),
    /// How much memory a pending sleep holds.
    Memory(sample::Args),
    /// What pending sleeps cost while nothing happens, over ten seconds.
    Idle(sample::Args),
    /// What scheduled tasks of 64 bytes hold, and cost over ten seconds in which nothing happens; and the
    /// same tasks when they are spawned and sleep.
    Scheduled(sample::Args),
    /// How late timers fire on a runtime whose workers always have another task to run.
    Saturated(saturated::Args),
    /// One sample of one peer, as a line of numbers: what the tables of samples run in fresh processes.
    #[command(hide = true)]
    Sample(sample::One),
    /// One scene of one sleeper: what `lateness` runs in fresh processes.
    #[command(hide = true)]
    LatenessSample(lateness::One),
    /// One sample of one peer: what `saturated` runs in fresh processes.
    #[command(hide = true)]
    SaturatedSample(saturated::One),
}

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Ops(args) => ops::run(&args),
        Command::Touch(args) => touch::run(&args),
        Command::Fire(args) => {
            sample::table(&args, sample::Kind::Busy)?;
            sample::table(&args, sample::Kind::Alone)?;
            sample::table(&args, sample::Kind::Idling)?;
        }
        Command::Storm(args) => sample::table(&args, sample::Kind::Storm)?,
        Command::Lateness(args) => lateness::run(&args)?,
        Command::Memory(args) => sample::table(&args, sample::Kind::Memory)?,
        Command::Idle(args) => sample::table(&args, sample::Kind::Idle)?,
        Command::Scheduled(args) => {
            sample::table(&args, sample::Kind::Scheduled)?;
            sample::table(&args, sample::Kind::Spawned)?;
        }
        Command::Saturated(args) => saturated::run(&args)?,
        Command::Sample(one) => one.print(),
        Command::LatenessSample(one) => one.print()?,
        Command::SaturatedSample(one) => one.print()?,
    }
    Ok(())
}
