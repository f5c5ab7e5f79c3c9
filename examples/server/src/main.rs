//! A TCP echo server on tokio-wheel that brings its own load, beside the same server on
//! `tokio::time`.
//!
//! Each connection has two timers, like the connections of a real server. A `timeout` limits every
//! read and is nearly always canceled. The idle limit is one `Sleep`, which every message resets.
//! The clients are real clients over loopback sockets. Half of them talk. Some fall silent one by
//! one. The server must close these connections never early, and as little late as it can.
//!
//! Then comes the storm. The other connections expire all at once, together with very many sessions
//! without a socket. During the storm, the talking clients still measure their round trips.
//!
//! ```text
//! cargo run --release -p echo-server                        # both timers in turn, three rounds: 20 s
//! cargo run --release -p echo-server -- --timer wheel       # only tokio-wheel
//! cargo run --release -p echo-server -- --think 0           # capacity: as much as the machine gives
//! cargo run --release -p echo-server -- --help
//! ```
//!
//! What to read:
//!
//! * `server.rs` contains the server. Copy from this file.
//! * `timers.rs` contains the few lines that let one server run on either timer. A real server does
//!   not need them.
//! * `clients.rs` and `sessions.rs` make the load. `plan.rs` and `run.rs` say what each part does,
//!   and when.
//! * `figures.rs`, `os.rs` and `report.rs` measure, ask the operating system, and print.

mod clients;
mod figures;
mod os;
mod plan;
mod report;
mod run;
mod server;
mod sessions;
#[cfg(test)]
mod tests;
mod timers;

use std::{
    io::{self, ErrorKind, Write as _},
    process::{self, ExitCode},
    thread,
    time::Duration,
};

use clap::{Parser, ValueEnum};
use tokio::sync::watch;

use crate::{
    plan::Plan,
    report::{Report, Runs},
    run::run,
    server::Limits,
    timers::{Tokio, Wheel},
};

/// The number of connections if the user gives none and the file descriptors suffice.
const CONNECTIONS: usize = 3_000;

/// The exit status of a process that Ctrl-C has ended, by convention.
const INTERRUPTED: u8 = 130;

/// A TCP echo server on tokio-wheel with a load of its own, beside the same server on tokio::time.
///
/// Active clients measure their round trips, first in a calm, then in a storm:
/// all idle connections and all sessions expire at once.
#[derive(Parser)]
#[command(
    name = "echo-server",
    verbatim_doc_comment,
    next_line_help = true,
    allow_negative_numbers = true
)]
struct Args {
    /// How many clients connect, each over a socket of its own
    /// [default: 3000, or fewer where the limit on file descriptors is low]
    #[arg(long, value_name = "N", value_parser = at_least_one, verbatim_doc_comment)]
    connections: Option<usize>,

    /// The share of clients that talk, from 0 to 1. Of the others, a fifth falls silent
    /// in the calm, and the rest expires in the storm.
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "0.5",
        value_parser = share,
        verbatim_doc_comment
    )]
    active: f64,

    /// How many sessions without a socket expire in the storm.
    #[arg(long, value_name = "N", default_value = "200000", value_parser = number)]
    sessions: usize,

    /// How long the calm lasts.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = positive_seconds)]
    seconds: Duration,

    /// The server closes a connection this long after its last message
    /// [default: 0.6, or 0.3 of --seconds if that is less]
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds, verbatim_doc_comment)]
    idle: Option<Duration>,

    /// How long a client waits between a reply and its next message.
    /// With 0 they saturate the processors, which shows the server's capacity.
    #[arg(
        long,
        value_name = "MILLISECONDS",
        default_value = "50",
        value_parser = clap::value_parser!(u64).range(..=86_400_000),
        verbatim_doc_comment
    )]
    think: u64,

    /// The timers of the server.
    #[arg(long, value_enum, default_value_t = Choice::Both)]
    timer: Choice,

    /// How many times to run on each timer.
    #[arg(long, value_name = "N", default_value = "3", value_parser = at_least_one)]
    rounds: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Choice {
    /// tokio_wheel
    Wheel,
    /// tokio::time
    Tokio,
    /// Both in turn, side by side
    Both,
}

fn main() -> ExitCode {
    match try_main(&Args::parse()) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn try_main(args: &Args) -> Result<ExitCode, String> {
    let plan = plan(args)?;
    let interrupt = on_ctrl_c()?;
    let timers = all_rounds(&plan, args.timer, args.rounds, &interrupt)?;
    let reports = || timers.iter().flat_map(|runs| &runs.reports);
    if reports().next().is_none() {
        print("Interrupted before the calm began: nothing was measured.\n")?;
    } else {
        print(&report::text(&plan, &timers))?;
    }
    Ok(if !reports().all(|run| run.sound(&plan)) {
        ExitCode::FAILURE
    } else if *interrupt.borrow() {
        ExitCode::from(INTERRUPTED)
    } else {
        ExitCode::SUCCESS
    })
}

/// Runs the timers in turn. Each round has the other order than the round before, so that no timer
/// gains from a machine that warms up or slows down.
fn all_rounds(
    plan: &Plan,
    choice: Choice,
    rounds: usize,
    interrupt: &watch::Receiver<bool>,
) -> Result<Vec<Runs>, String> {
    type Run = fn(&Plan, &str, watch::Receiver<bool>) -> Result<Option<Report>, String>;
    let both: [(Choice, &'static str, Run); 2] = [
        (Choice::Wheel, "tokio_wheel", run::<Wheel>),
        (Choice::Tokio, "tokio::time", run::<Tokio>),
    ];
    let runs = |name| Runs {
        name,
        reports: Vec::new(),
    };
    let (mut chosen, mut timers) = (Vec::new(), Vec::new());
    for (timer, name, run) in both {
        if choice == timer || choice == Choice::Both {
            chosen.push((timers.len(), run));
            timers.push(runs(name));
        }
    }
    'rounds: for round in 1..=rounds {
        for (timer, run) in &chosen {
            let timer = &mut timers[*timer];
            let label = format!("round {round}/{rounds} {}", timer.name);
            let Some(report) = run(plan, &label, interrupt.clone())? else {
                break 'rounds;
            };
            let last = report.interrupted;
            timer.reports.push(report);
            if last {
                break 'rounds;
            }
        }
        chosen.reverse();
    }
    Ok(timers)
}

/// Prints to stdout. A closed pipe (`| head`) is no error.
fn print(text: &str) -> Result<(), String> {
    let mut stdout = io::stdout();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("the report could not be printed: {error}"))
        }
        _ => Ok(()),
    }
}

/// Returns a channel that turns `true` at the first Ctrl-C. The second Ctrl-C ends the process at
/// once.
///
/// The handler has a thread of its own, because every run starts new runtimes. So no Ctrl-C gets
/// lost between two runs.
fn on_ctrl_c() -> Result<watch::Receiver<bool>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(|error| format!("no runtime could be started to wait for Ctrl-C: {error}"))?;
    let (interrupt, interrupted) = watch::channel(false);
    thread::spawn(move || {
        runtime.block_on(async {
            // If the program cannot listen for Ctrl-C, Ctrl-C still ends the process.
            if tokio::signal::ctrl_c().await.is_ok() {
                interrupt.send_replace(true);
                if tokio::signal::ctrl_c().await.is_ok() {
                    process::exit(INTERRUPTED.into());
                }
            }
            // Keeps the sender, because a dropped sender would look like an interrupt.
            std::future::pending::<()>().await;
        });
    });
    Ok(interrupted)
}

/// Makes a plan from the arguments, and rejects arguments that do not fit together.
fn plan(args: &Args) -> Result<Plan, String> {
    let idle = args
        .idle
        .unwrap_or_else(|| Duration::from_millis(600).min(args.seconds.mul_f64(0.3)));
    let longest = args.seconds.mul_f64(0.8);
    if idle > longest {
        return Err(format!(
            "--idle {} leaves no time to close silent clients within --seconds {}: use --idle {} or \
             less, or a longer run",
            idle.as_secs_f64(),
            args.seconds.as_secs_f64(),
            longest.as_secs_f64(),
        ));
    }
    let think = Duration::from_millis(args.think);
    if think > idle / 2 {
        return Err(format!(
            "--think {} is more than half of the idle limit of {} ms, so the server might close \
             clients that talk: use --think {} or less, or a longer --idle",
            args.think,
            idle.as_millis(),
            (idle / 2).as_millis(),
        ));
    }
    let connections = os::room_for(args.connections, CONNECTIONS)?;
    Ok(Plan {
        connections,
        active: (connections as f64 * args.active).round() as usize,
        sessions: args.sessions,
        calm: args.seconds,
        think,
        limits: Limits {
            // A read gives up before the idle limit, so the two timers do not coincide.
            read: idle.mul_f64(0.7),
            idle,
        },
    })
}

fn number(text: &str) -> Result<usize, String> {
    const MOST: usize = 10_000_000;
    match text.parse() {
        Ok(number) if number <= MOST => Ok(number),
        _ => Err(format!("must be a whole number from 0 to {MOST}")),
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match number(text) {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("must be a whole number from 1 up, such as 1000".to_owned()),
    }
}

fn positive_seconds(text: &str) -> Result<Duration, String> {
    const SHORTEST: f64 = 0.1;
    const LONGEST: f64 = 86_400.0;
    match text.parse::<f64>() {
        Ok(seconds) if (SHORTEST..=LONGEST).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err(format!(
            "must be a number of seconds from {SHORTEST} to {LONGEST}, such as 10 or 2.5"
        )),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("must be a share of the clients from 0 to 1, such as 0.1 for a tenth".to_owned()),
    }
}
