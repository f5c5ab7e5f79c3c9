//! What is measured over real sockets: a server whose timeouts are kept by tokio-wheel, by `tokio::time`, or
//! not at all.
//!
//! ```text
//! cargo run --release -p tokio-wheel-benches --bin sockets -- storm
//! cargo run --release -p tokio-wheel-benches --bin sockets -- saturated
//! cargo run --release -p tokio-wheel-benches --bin sockets -- calm
//! ```
//!
//! | command | the server | the question |
//! |---|---|---|
//! | [`storm`] | thousands of limits expire together, and 500 connections go on | what do these 500 notice? |
//! | [`saturated`] | it gets more requests than it can answer | do timeouts still fire in time? |
//! | [`calm`] | hyper with its usual limits, none of which expires | what do limits cost? |
//!
//! The server and its clients are processes of their own, which the program starts by hidden commands. They are
//! fresh for each timer in each round, and the order of the timers turns from round to round.

mod calm;
mod child;
mod clock;
mod connect;
mod files;
mod idle;
mod open_loop;
mod progress;
mod saturated;
mod serve;
mod storm;
mod summary;
mod timer;
mod wire;

use clap::{Parser, Subcommand};

/// Measures a server's timeouts over sockets: on tokio-wheel, on tokio::time, and without any.
#[derive(Parser)]
#[command(name = "sockets", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows what 500 active connections notice while thousands of limits expire together.
    Storm(storm::Args),
    /// Shows how late timeouts fire on a server that gets more requests than it can answer.
    Saturated(saturated::Args),
    /// Shows what the limits of a hyper server cost while none of them expires.
    Calm(calm::Args),
    /// Serves for `storm`.
    #[command(hide = true)]
    StormServe(storm::server::Args),
    /// Serves for `saturated`.
    #[command(hide = true)]
    SaturatedServe(saturated::server::Args),
    /// Serves HTTP/1.1 by hyper, for `calm`. Prints its address first.
    #[command(hide = true)]
    CalmServe(calm::serve::Args),
    /// Loads a server of HTTP/1.1, for `calm`. Prints what it has measured as a line of JSON.
    #[command(hide = true)]
    CalmLoad(calm::load::Args),
    /// Sends on a fixed schedule.
    #[command(hide = true)]
    Busy(open_loop::Args),
    /// Keeps connections open and says nothing.
    #[command(hide = true)]
    Idle(idle::Args),
}

fn main() -> anyhow::Result<()> {
    let command = Args::parse().command;
    if !matches!(
        command,
        Command::Storm(_) | Command::Saturated(_) | Command::Calm(_)
    ) {
        child::end_with_parent()?;
    }
    match command {
        Command::Storm(args) => storm::run(&args),
        Command::Saturated(args) => saturated::run(&args),
        Command::Calm(args) => calm::run(&args),
        Command::StormServe(args) => storm::server::run(&args),
        Command::SaturatedServe(args) => saturated::server::run(&args),
        Command::CalmServe(args) => calm::serve::run(&args),
        Command::CalmLoad(args) => calm::load::run(&args),
        Command::Busy(args) => open_loop::run(&args),
        Command::Idle(args) => idle::run(&args),
    }
}

/// Reads a number of seconds from the command line.
fn seconds(text: &str) -> Result<std::time::Duration, String> {
    let seconds = text.parse().map_err(|_| "not a number of seconds")?;
    std::time::Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
