//! Runs the echo server and its clients, and prints the results.
//!
//! ```text
//! cargo run -p tokio-wheel-quic -- --clients 100 --idle 1000
//! ```

use std::time::Duration;

use clap::Parser;
use tokio_wheel_quic::echo::{Error, Plan, run};

/// A QUIC echo server on quinn and tokio-wheel that brings its own clients.
///
/// Each client sends its messages, then falls silent. The idle limit of QUIC closes its connection.
#[derive(Parser)]
#[command(name = "quic")]
struct Args {
    /// How many clients connect.
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u16).range(1..))]
    clients: u16,
    /// How many messages each client sends.
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u16).range(1..))]
    messages: u16,
    /// How many milliseconds a connection may carry no packet. It must leave time for a handshake.
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = clap::value_parser!(u32).range(200..))]
    idle: u32,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let args = Args::parse();
    let plan = Plan {
        clients: args.clients.into(),
        messages: args.messages.into(),
        idle: Duration::from_millis(args.idle.into()),
    };
    let report = run(plan).await?;
    let echoes: usize = report.fates.iter().map(|fate| fate.echoes).sum();
    let silent = report.fates.iter().map(|fate| fate.silent);
    println!(
        "{} clients received {echoes} echoes. The idle limit of {:?} closed their connections, {:.2?} to \
         {:.2?} after their last message. The server saw {} connections end by its idle limit. quinn's \
         timers registered {} times with the wheel, and {} fired.",
        plan.clients,
        plan.idle,
        silent.clone().min().unwrap_or_default(),
        silent.max().unwrap_or_default(),
        report.idle_at_server,
        report.metrics.registered(),
        report.metrics.fired(),
    );
    Ok(())
}
