//! Measures a server over real sockets. tokio-wheel, `tokio::time` or tokio's alternative timer keeps
//! its timeouts, or it has no timeouts.
//!
//! This process is the clients: one thread sends all requests ([`clients`]). Each timer has a fresh
//! server process in each round, in an order that changes.

mod blocked;
mod calm;
mod child;
mod clients;
mod net;
mod report;
mod serve;
mod storm;
mod timeline;
mod timer;
mod tunnel;

use clap::{Parser, Subcommand};
use tokio_wheel_benches::{
    lab,
    peer::{Bare, Tokio, TokioAlt, TokioWheel},
};

use crate::{
    calm::Limits,
    child::Role,
    timer::{Timer, WORKERS},
};

/// Measures a server's timeouts over sockets: on tokio-wheel, on tokio::time, on tokio's alternative
/// timer, and without timeouts.
#[derive(Parser)]
#[command(name = "sockets", version)]
struct Args {
    #[command(subcommand)]
    scene: Scene,
    /// How often each timer is measured. Fewer than six rounds give no intervals.
    #[arg(long, global = true, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

#[derive(Subcommand)]
enum Scene {
    /// Shows how thousands of limits that expire together delay 500 active connections.
    Storm(storm::Args),
    /// Shows how a task that blocks a worker delays all connections and timers.
    Blocked(blocked::Args),
    /// Shows what the limits of a hyper server cost while none of them expires.
    Calm(calm::Args),
    /// Shows what `serve` with limits costs beside `axum::serve`.
    Serve,
    /// Shows what a tunnel with limits costs beside `tokio::io::copy_bidirectional`.
    Tunnel(tunnel::Args),
    /// Plays a role for the process that started this one.
    #[command(hide = true)]
    Child { role: String },
}

fn play<P: Limits>(role: Role) -> anyhow::Result<()> {
    let runtime = lab::unbound_runtime_for::<P>;
    match role {
        Role::StormServer(limits) => storm::serve::<P>(&runtime(WORKERS), limits),
        Role::CalmServer => calm::serve::<P>(&runtime(WORKERS)),
        Role::BlockedServer(workers) => blocked::serve::<P>(&runtime(workers)),
        Role::AxumServer(server, cpu) => serve::be_server(server, cpu),
        Role::Silent(server, connections) => calm::be_silent(server, connections),
    }
}

fn main() -> anyhow::Result<()> {
    let Args { scene, rounds } = Args::parse();
    match scene {
        Scene::Storm(args) => storm::run(&args, rounds),
        Scene::Blocked(args) => blocked::run(&args, rounds),
        Scene::Calm(args) => calm::run(&args, rounds),
        Scene::Serve => serve::run(rounds),
        Scene::Tunnel(args) => tunnel::run(&args, rounds),
        Scene::Child { role } => {
            let (timer, role): (Timer, Role) = serde_json::from_str(&role)?;
            match timer {
                Timer::None => play::<Bare>(role),
                Timer::Tokio => play::<Tokio>(role),
                Timer::Alternative => play::<TokioAlt>(role),
                Timer::Wheel => play::<TokioWheel>(role),
            }
        }
    }
}
