//! Measures a server over real sockets. tokio-wheel or `tokio::time` keeps its timeouts, or it has
//! no timeouts.
//!
//! | command | the server | the question |
//! |---|---|---|
//! | [`storm`] | thousands of limits expire together while 500 connections stay active | how does the storm delay these 500? |
//! | [`saturated`] | gets more requests than it can answer | do timeouts still fire in time? |
//! | [`calm`] | runs hyper with its usual limits, none of which expires | what do limits cost? |
//!
//! The server and its clients are separate processes. Each timer has fresh processes in each round.
//! The order of the timers changes from round to round.

mod calm;
mod child;
mod net;
mod open_loop;
mod report;
mod saturated;
mod storm;
mod timer;

use std::{net::SocketAddr, time::Duration};

use clap::{Parser, Subcommand};
use serde::{Deserialize, Serialize};

use crate::timer::{Timer, with_timer};

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
    /// Runs a server or its clients.
    #[command(hide = true)]
    Child {
        /// The role as JSON.
        role: String,
    },
}

/// What a process does that this program starts.
#[derive(Serialize, Deserialize)]
enum Role {
    StormServer {
        timer: Timer,
        storms: storm::Limits,
    },
    SaturatedServer {
        timer: Timer,
        idle: u64,
        cascade: u64,
    },
    CalmServer {
        timer: Timer,
    },
    CalmClients {
        server: SocketAddr,
        plan: calm::Plan,
    },
    /// Sends requests on a fixed schedule.
    Active {
        server: SocketAddr,
        connections: u64,
    },
    /// Says once how long each connection may be silent, and is then silent.
    Silent {
        server: SocketAddr,
        connections: u64,
    },
}

impl Role {
    fn play(self) -> anyhow::Result<()> {
        child::end_with_parent()?;
        net::raise_files()?;
        match self {
            Self::StormServer { timer, storms } => {
                with_timer!(timer, D => storm::serve::<D>(storms, timer != Timer::None))
            }
            Self::SaturatedServer {
                timer,
                idle,
                cascade,
            } => {
                with_timer!(timer, D => saturated::serve::<D>(idle, cascade))
            }
            Self::CalmServer { timer } => with_timer!(timer, D => calm::serve::<D>()),
            Self::CalmClients { server, plan } => calm::load(server, plan),
            Self::Active {
                server,
                connections,
            } => open_loop::run(server, connections),
            Self::Silent {
                server,
                connections,
            } => storm::be_silent(server, connections),
        }
    }
}

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Storm(args) => storm::run(&args),
        Command::Saturated(args) => saturated::run(&args),
        Command::Calm(args) => calm::run(&args),
        Command::Child { role } => serde_json::from_str::<Role>(&role)?.play(),
    }
}

/// Reads a number of seconds from the command line.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| "not a number of seconds")?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
