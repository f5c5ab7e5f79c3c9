//! Runs the echo server and its clients, and prints the results.
//!
//! ```text
//! cargo run -p tokio-wheel-quic
//! ```

use std::time::Duration;

use tokio_wheel_quic::echo::{Error, Plan, run};

/// Each client sends its messages, then falls silent. The idle limit of QUIC closes its connection.
const PLAN: Plan = Plan {
    clients: 100,
    messages: 10,
    idle: Duration::from_secs(1),
};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let report = run(PLAN).await?;
    let echoes: usize = report.fates.iter().map(|fate| fate.echoes).sum();
    let silent = report.fates.iter().map(|fate| fate.silent);
    println!(
        "{} clients received {echoes} echoes. The idle limit of {:?} closed their connections, {:.2?} to \
         {:.2?} after their last message. The server saw {} connections end by its idle limit. quinn's \
         timers registered {} times with the wheel, and {} fired.",
        PLAN.clients,
        PLAN.idle,
        silent.clone().min().unwrap_or_default(),
        silent.max().unwrap_or_default(),
        report.idle_at_server,
        report.metrics.registered(),
        report.metrics.fired(),
    );
    assert_eq!(echoes, PLAN.clients * PLAN.messages);
    Ok(())
}
