//! A whole HTTP server under its limits: kept by tokio-wheel, by `tokio::time`, or not at all.
//!
//! ```text
//! cargo run --release -p tokio-wheel-benches --bin http -- compare
//! ```
//!
//! runs it all and prints the table. Server and clients are processes of their own, which `serve` and
//! `load` start by hand.

mod child;
mod compare;
mod files;
mod load;
mod report;
mod sample;
mod serve;
mod timers;

use clap::{Parser, Subcommand};

/// Measures what a server's limits cost: on tokio-wheel, on tokio::time, and without any.
#[derive(Parser)]
#[command(name = "http", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve HTTP/1.1 by hyper. The first line printed is the address.
    Serve(serve::Args),
    /// Load a server, and print what was measured as a line of JSON.
    Load(load::Args),
    /// Serve and load with each timer in turn, in many rounds, and print the table.
    Compare(compare::Args),
}

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Load(args) => load::run(&args),
        Command::Compare(args) => compare::run(&args),
    }
}

/// Reads a number of seconds from the command line.
fn seconds(text: &str) -> Result<std::time::Duration, String> {
    let seconds = text.parse().map_err(|_| "not a number of seconds")?;
    std::time::Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
