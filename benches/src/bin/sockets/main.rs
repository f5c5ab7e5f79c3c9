//! Measures a server over real sockets. tokio-wheel or `tokio::time` keeps its timeouts, or it has
//! no timeouts.
//!
//! ```text
//! cargo run --release -p tokio-wheel-benches --bin sockets -- storm
//! cargo run --release -p tokio-wheel-benches --bin sockets -- saturated
//! cargo run --release -p tokio-wheel-benches --bin sockets -- calm
//! ```
//!
//! | command | the server | the question |
//! |---|---|---|
//! | [`storm`] | thousands of limits expire together while 500 connections stay active | how does the storm delay these 500? |
//! | [`saturated`] | gets more requests than it can answer | do timeouts still fire in time? |
//! | [`calm`] | runs hyper with its usual limits, none of which expires | what do limits cost? |
//!
//! The server and its clients are separate processes, which the program starts with hidden
//! commands. Each timer has fresh processes in each round. The order of the timers changes from
//! round to round.

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

/// Measures a server's timeouts over sockets: on tokio-wheel, on tokio::time, and without timeouts.
#[derive(Parser)]
#[command(name = "sockets", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows how thousands of limits that expire together delay 500 active connections.
    Storm(storm::Args),
    /// Shows how late timeouts fire on a server that gets more requests than it can answer.
    Saturated(saturated::Args),
    /// Shows what the limits of a hyper server cost while none of them expires.
    Calm(calm::Args),
    /// Runs a server for `storm`.
    #[command(hide = true)]
    StormServe(storm::server::Args),
    /// Runs a server for `saturated`.
    #[command(hide = true)]
    SaturatedServe(saturated::server::Args),
    /// Runs an HTTP/1.1 server with hyper, for `calm`. Prints its address first.
    #[command(hide = true)]
    CalmServe(calm::serve::Args),
    /// Loads an HTTP/1.1 server, for `calm`. Prints its measurements as a line of JSON.
    #[command(hide = true)]
    CalmLoad(calm::load::Args),
    /// Sends requests on a fixed schedule.
    #[command(hide = true)]
    Busy(open_loop::Args),
    /// Opens connections and sends nothing more.
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
