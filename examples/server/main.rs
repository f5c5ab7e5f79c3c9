//! A TCP echo server whose every timer is tokio-wheel's, with its own load.
//!
//! Each connection has two timers, as servers do: a `timeout` around every read, cancelled
//! nearly always, and an idle limit, one `Sleep` moved by `reset` on every message. The clients
//! are real ones over loopback sockets. A share of them falls silent, and the server must close
//! those: never early, and as little late as it can.
//!
//! ```text
//! cargo run --release --example server                      # 2,000 clients for 10 s
//! cargo run --release --example server -- --think 100       # paced: latency, not capacity
//! cargo run --release --example server -- --timer tokio     # the same server on tokio::time
//! cargo run --release --example server -- --compare         # both in turn, side by side
//! ```
//!
//! What to read:
//!
//! * `server.rs`: the server. This is the file to copy from.
//! * `timers.rs`: the few lines that let one server run on either timer. A server that has made
//!   its choice does not need them.
//! * `clients.rs`, `run.rs`, `report.rs`, `os.rs`: the load, one measured run, its figures, and
//!   what is asked of the operating system.

mod clients;
mod os;
mod report;
mod run;
mod server;
mod timers;

use std::{
    io::{self, Write as _},
    process::{self, ExitCode},
    thread,
    time::Duration,
};

use clap::{Parser, ValueEnum};
use tokio::sync::watch;

use crate::{
    report::Report,
    run::{Plan, run},
    server::Limits,
    timers::{Tokio, Wheel},
};

/// A TCP echo server on tokio-wheel that brings its own load.
#[derive(Parser)]
#[command(name = "server")]
struct Args {
    /// How many clients connect, each over a socket of its own.
    #[arg(long, value_name = "N", default_value = "2000", value_parser = at_least_one)]
    connections: usize,

    /// How long to measure, once all clients are connected.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = positive_seconds)]
    seconds: Duration,

    /// The share of clients that falls silent during the run, from 0 to 1.
    #[arg(long, value_name = "SHARE", default_value = "0.1", value_parser = share)]
    silent: f64,

    /// The server closes a connection this long after its last message
    /// [default: 2, or half of --seconds if that is less].
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    idle: Option<Duration>,

    /// How long a client waits between a reply and its next message.
    ///
    /// With 0 the clients keep the processor saturated. That shows the server's capacity; round
    /// trips and lateness are then mostly queueing for the processor. Pace the clients, with 100
    /// say, to see those at ease.
    #[arg(long, value_name = "MILLISECONDS", default_value = "0")]
    think: u64,

    /// Whose timers the server uses.
    #[arg(long, value_enum, default_value_t = Choice::Wheel, conflicts_with = "compare")]
    timer: Choice,

    /// Run the server on both timers in turn and print them side by side.
    #[arg(long)]
    compare: bool,

    /// How many rounds to compare.
    #[arg(long, value_name = "N", default_value = "3", value_parser = at_least_one, requires = "compare")]
    rounds: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Choice {
    /// tokio_wheel
    Wheel,
    /// tokio::time
    Tokio,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = plan(&args).and_then(|plan| {
        os::room_for(plan.connections)?;
        let interrupt = on_ctrl_c()?;
        if args.compare {
            compare(&plan, args.rounds, &interrupt)
        } else {
            single(&plan, args.timer, &interrupt)
        }
    });
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

/// One run and its report. `Ok(false)` if the timers broke a promise.
fn single(plan: &Plan, timer: Choice, interrupt: &watch::Receiver<bool>) -> Result<bool, String> {
    match run_on(timer, plan, timer.name(), interrupt)? {
        Some(report) => {
            print(&report.to_string());
            Ok(report.sound())
        }
        None => Ok(nothing_measured()),
    }
}

/// Both timers in turn, each round in the other order than the round before, so that neither gains
/// from a machine that warms up or slows down.
fn compare(plan: &Plan, rounds: usize, interrupt: &watch::Receiver<bool>) -> Result<bool, String> {
    let (mut wheel, mut tokio) = (Vec::new(), Vec::new());
    'rounds: for round in 1..=rounds {
        let mut order = [Choice::Wheel, Choice::Tokio];
        if round % 2 == 0 {
            order.reverse();
        }
        for timer in order {
            let label = format!("round {round}/{rounds} {}", timer.name());
            let Some(report) = run_on(timer, plan, &label, interrupt)? else {
                break 'rounds;
            };
            let last = report.interrupted;
            match timer {
                Choice::Wheel => wheel.push(report),
                Choice::Tokio => tokio.push(report),
            }
            if last {
                break 'rounds;
            }
        }
    }
    if wheel.is_empty() && tokio.is_empty() {
        return Ok(nothing_measured());
    }
    print(&report::side_by_side(&wheel, &tokio));
    Ok(wheel.iter().chain(&tokio).all(Report::sound))
}

fn run_on(
    timer: Choice,
    plan: &Plan,
    label: &str,
    interrupt: &watch::Receiver<bool>,
) -> Result<Option<Report>, String> {
    match timer {
        Choice::Wheel => run::<Wheel>(plan, timer.name(), label, interrupt.clone()),
        Choice::Tokio => run::<Tokio>(plan, timer.name(), label, interrupt.clone()),
    }
}

impl Choice {
    fn name(self) -> &'static str {
        match self {
            Choice::Wheel => "tokio_wheel",
            Choice::Tokio => "tokio::time",
        }
    }
}

fn nothing_measured() -> bool {
    print("Interrupted before all clients were connected: nothing was measured.\n");
    true
}

/// Prints to stdout; a reader that has gone away (`| head`) is no reason to panic.
fn print(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}

/// Turns `true` at the first Ctrl-C; the second one ends the process where it stands.
///
/// A thread of its own, because every run has its own runtime and no Ctrl-C may fall between two.
fn on_ctrl_c() -> Result<watch::Receiver<bool>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(|error| format!("no runtime to wait for Ctrl-C: {error}"))?;
    let (interrupt, interrupted) = watch::channel(false);
    thread::spawn(move || {
        runtime.block_on(async {
            // Failing to listen leaves Ctrl-C what it was: it ends the process.
            if tokio::signal::ctrl_c().await.is_ok() {
                interrupt.send_replace(true);
                if tokio::signal::ctrl_c().await.is_ok() {
                    process::exit(130);
                }
            }
            // Dropping the sender would look like an interrupt to come: keep it.
            std::future::pending::<()>().await;
        });
    });
    Ok(interrupted)
}

/// What to run, from the arguments that only make sense together.
fn plan(args: &Args) -> Result<Plan, String> {
    let idle = args
        .idle
        .unwrap_or_else(|| Duration::from_secs(2).min(args.seconds / 2));
    let plan = Plan {
        connections: args.connections,
        silent: (args.connections as f64 * args.silent).round() as usize,
        seconds: args.seconds,
        think: Duration::from_millis(args.think),
        // A read gives up before the idle limit does, and not at a fraction of it that would let
        // the two coincide.
        limits: Limits {
            read: idle.mul_f64(0.7),
            idle,
        },
    };
    if plan.silent > 0 && idle > args.seconds.mul_f64(0.8) {
        return Err(format!(
            "--idle {} leaves no time to see silent clients closed within --seconds {}. \
             Use --idle {} or less, a longer run, or --silent 0.",
            idle.as_secs_f64(),
            args.seconds.as_secs_f64(),
            args.seconds.mul_f64(0.8).as_secs_f64(),
        ));
    }
    if plan.think > idle / 2 {
        return Err(format!(
            "--think {} keeps clients quiet for too large a part of the idle limit of {} ms: the \
             server would close those that work. Use --think {} or less, or a longer --idle.",
            args.think,
            idle.as_millis(),
            (idle / 2).as_millis(),
        ));
    }
    Ok(plan)
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("there must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("not a whole number from 1 up, such as 1000".to_owned()),
    }
}

fn positive_seconds(text: &str) -> Result<Duration, String> {
    const SHORTEST: f64 = 0.1;
    const LONGEST: f64 = 86_400.0;
    match text.parse::<f64>() {
        Ok(seconds) if (SHORTEST..=LONGEST).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        Ok(_) => Err(format!("give {SHORTEST} to {LONGEST} seconds")),
        Err(_) => Err("not a number of seconds, such as 10 or 2.5".to_owned()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("give a share of the clients from 0 to 1, such as 0.1 for a tenth".to_owned()),
    }
}
