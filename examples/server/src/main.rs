//! A TCP echo server on tokio-wheel with its own load, compared with the same server on `tokio::time`.
//!
//! Each connection has two timers, like the connections of a real server. A `timeout` limits every
//! read and is nearly always canceled. The idle limit is one `Sleep`, which every message resets.
//! The clients are real clients over loopback sockets.
//!
//! After some steady load comes a storm: half of the connections expire at once, together with very many
//! sessions without a socket. No connection may be closed early, and all should be closed soon. Meanwhile,
//! the other clients send messages and measure their round trips.
//!
//! A second scene measures the round trips beside a task that blocks its worker.
//!
//! ```text
//! cargo run --release -p echo-server                        # three rounds of each timer: 35 s
//! cargo run --release -p echo-server -- --think 0           # as many messages as the machine can handle
//! ```
//!
//! This program compares two timers, so its server is generic over them. To copy a plain server, take one of these:
//!
//! * [`util/examples/axum_server.rs`](../../../util/examples/axum_server.rs): HTTP, with axum
//! * [`util/examples/idle_reaper.rs`](../../../util/examples/idle_reaper.rs): a protocol of your own on TCP
//! * [`examples/tonic`](../../tonic/src/main.rs): gRPC, with tonic
//!
//! The files:
//!
//! * `server.rs` contains the server.
//! * `timers.rs` contains the few lines that let one server run on either timer.
//! * `load.rs` makes the load of the storm, and `run.rs` says when each part of it begins.
//! * `block.rs` is the second scene. `report.rs` prints.

mod block;
mod load;
mod report;
mod run;
mod server;
#[cfg(test)]
mod tests;
mod timers;

use std::{io, process::ExitCode, time::Duration};

use clap::Parser;

use crate::{
    load::Plan,
    report::Run,
    run::run,
    server::Limits,
    timers::{Tokio, Wheel},
};

/// Compares a TCP echo server on tokio-wheel with the same server on tokio::time.
///
/// Clients measure their round trips under steady load, in a storm (all idle connections and all
/// sessions expire at once), and beside a task that blocks.
#[derive(Parser)]
#[command(name = "echo-server")]
struct Args {
    /// How many clients connect, each over a socket and a local port of its own. Half of them send messages.
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(10..=16_000))]
    connections: u64,

    /// How many sessions without a socket expire in the storm.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(..=10_000_000))]
    sessions: u64,

    /// How many milliseconds the steady load before the storm lasts.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(300..=86_400_000))]
    millis: u64,

    /// How many milliseconds a client waits between a reply and its next message. With 0, the
    /// clients saturate the processors, which shows the server's capacity.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(..=300))]
    think: u64,

    /// How many times to run on each timer.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

impl Args {
    fn plan(&self) -> Plan {
        // A calm leaves time to close the clients that fall silent in it.
        let idle = Duration::from_millis((self.millis * 3 / 10).min(600));
        Plan {
            connections: self.connections as usize,
            sessions: self.sessions as usize,
            calm: Duration::from_millis(self.millis),
            think: Duration::from_millis(self.think).min(idle / 2),
            // A read gives up before the idle limit, so the two timers do not coincide.
            limits: Limits {
                read: idle.mul_f64(0.7),
                idle,
            },
        }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    match all_rounds(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the timers in turn, and prints the report. Each round has the other order than the round
/// before, so that no timer gains from a machine that warms up or slows down. Returns whether the
/// timers kept their promises.
fn all_rounds(args: &Args) -> Result<bool, String> {
    let plan = args.plan();
    load::make_room(plan.connections)?;
    let (mut wheel, mut tokio) = (Vec::<Run>::new(), Vec::new());
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}", args.rounds);
        if round % 2 == 1 {
            wheel.push(run::<Wheel>(&plan)?);
            tokio.push(run::<Tokio>(&plan)?);
        } else {
            tokio.push(run::<Tokio>(&plan)?);
            wheel.push(run::<Wheel>(&plan)?);
        }
    }
    report::print(&plan, [("tokio_wheel", &wheel), ("tokio::time", &tokio)]);
    let blocked = |run: fn() -> io::Result<block::Run>| run().map_err(|error| error.to_string());
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        with.push(blocked(block::run::<Wheel>)?);
        without.push(blocked(block::run::<Tokio>)?);
    }
    report::print_blocked([("tokio_wheel", &with), ("tokio::time", &without)]);
    Ok(wheel.iter().chain(&tokio).all(|run| run.sound(&plan)))
}
