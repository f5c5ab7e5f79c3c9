//! A pipelined client of a real redis-server, with each request under a timeout: kept by tokio-wheel, by
//! `tokio::time`, or not at all.
//!
//! ```text
//! cargo run --release -p tokio-wheel-benches --bin redis
//! cargo run --release -p tokio-wheel-benches --bin redis -- count
//! ```
//!
//! The first command measures requests per second, CPU time and latency in interleaved rounds. The second one
//! counts system calls and instructions. Both start a redis-server of their own and stop it.
//!
//! # What a request does
//!
//! N tasks share one connection of the crate `redis`. Each task sends GET after GET.
//!
//! ```text
//! task             timeout(30 s, GET): encodes, sends to the connection's task, waits for the answer
//! connection       takes what the tasks have sent, writes it                                  -> redis-server
//! (one task)       reads what has arrived with one system call, wakes a task for each answer  <- redis-server
//! task             drops the timeout, and sends the next GET
//! ```
//!
//! With many requests in flight, one read serves many answers. A write serves one request only on tokio's
//! multi-thread runtime, and many on its current_thread runtime (`--workers 0`). `count` shows both. The presumed
//! reason: a worker first polls the task that was woken last. A task that sends wakes the connection's task, which then
//! finds one message.
//!
//! # No other timer
//!
//! The client's own timeouts are off: it would keep them on `tokio::time`. `server.rs` proves on each run that no
//! request needs `tokio::time`.

mod child;
mod compare;
mod count;
mod load;
mod report;
mod server;
mod timers;

use std::{future::Future, process::ExitCode};

use anyhow::bail;
use clap::{Parser, Subcommand};
use tokio::{
    runtime, select,
    signal::unix::{SignalKind, signal},
};

/// Measures what a timeout for each request costs a pipelined redis client, timer by timer.
#[derive(Parser)]
#[command(name = "redis", version, args_conflicts_with_subcommands = true, about)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    compare: compare::Args,
}

#[derive(Subcommand)]
enum Command {
    /// Measure in interleaved rounds. This is what the program does without a command.
    Compare(compare::Args),
    /// Count system calls (strace) and instructions (valgrind) of a request.
    Count(count::Args),
    /// Be a client that takes turns.
    #[command(hide = true)]
    Load(load::Args),
    /// Become a redis-server that ends with its parent.
    #[command(hide = true)]
    Server(server::Args),
}

fn main() -> ExitCode {
    let Args { command, compare } = Args::parse();
    let outcome = match command.unwrap_or(Command::Compare(compare)) {
        Command::Compare(args) => compare::run(&args),
        Command::Count(args) => count::run(&args),
        Command::Load(args) => load::run(&args),
        Command::Server(args) => server::run(&args),
    };
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    eprintln!("{error:#}");
    if error.is::<server::NotInstalled>() {
        ExitCode::from(2)
    } else {
        ExitCode::FAILURE
    }
}

/// Runs some work until it ends, or until a signal asks the program to end.
///
/// Then it drops the work, and so stops the server and the clients.
fn unless_signaled<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        select! {
            outcome = work => outcome,
            _ = interrupt.recv() => bail!("interrupted: the server and the clients are stopped"),
            _ = terminate.recv() => bail!("terminated: the server and the clients are stopped"),
        }
    })
}
