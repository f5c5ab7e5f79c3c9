//! Measures a pipelined client of a real redis-server. Each request has a timeout of tokio-wheel or
//! of `tokio::time`, or no timeout.
//!
//! ```text
//! cargo run --release -p tokio-wheel-benches --bin redis
//! cargo run --release -p tokio-wheel-benches --bin redis -- count
//! ```
//!
//! The first command measures requests per second, CPU time and latency in interleaved rounds. The
//! second command counts system calls and instructions. Both start a redis-server of their own and
//! stop it.
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
//! With many requests in flight, one read returns many answers. A write on tokio's multi-thread
//! runtime sends one request only. A write on its current_thread runtime (`--workers 0`) sends
//! many. `count` shows both. The probable reason is that a worker first polls the task that was
//! woken last. A task that sends wakes the connection's task, which then finds one message.
//!
//! # No other timer
//!
//! The client's own timeouts are off, because they would use `tokio::time`. `server.rs` proves on
//! each run that no request needs `tokio::time`.

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
    /// Measure in interleaved rounds. This is the default command.
    Compare(compare::Args),
    /// Count the system calls of a request with strace, and its instructions with valgrind.
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

/// Runs `work` until it ends, or until a signal asks the program to end.
///
/// Then drops the work, which stops the server and the clients.
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
