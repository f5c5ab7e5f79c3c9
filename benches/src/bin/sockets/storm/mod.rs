//! `storm` measures a server on which thousands of limits expire together while 500 connections
//! stay active. It shows how the storm delays these 500.
//!
//! Limits of many connections expire together for three reasons:
//!
//! * A deploy gives all connections the same deadline, such as "drain until 12:00:30".
//! * A process or a virtual machine stops for seconds, because it is throttled or migrated.
//!   Afterwards all limits have expired.
//! * An upstream fails, and all requests that wait for it time out.
//!
//! # Processes
//!
//! | process | threads | does |
//! |---|---|---|
//! | server | 2 workers of tokio | echoes frames. Each connection has one limit, which each message resets. When the limit expires, the server closes the socket |
//! | active clients | 1 | send 10,000 frames a second in all, on a fixed schedule ([`open_loop`](crate::open_loop)) |
//! | idle clients | 1 | keep the other connections open. The process is blocked when the server closes them ([`idle`](crate::idle)) |
//!
//! # Schedule
//!
//! ```text
//! T - lead    the idle clients send a frame each, which sets their limits; or the server starts its timers
//! T - 1.0 s   the active clients begin
//! T - 0.6 s   the calm window begins, and lasts 0.5 s
//! T           the limits expire, at once or within a second; the window begins, 0.5 s or 1.2 s long
//! ```
//!
//! # Figures
//!
//! * Round trips of the active connections, each counted from its scheduled time. The window has
//!   the same length for all timers, so a long storm does not dilute a short one.
//! * The longest time in which no active connection got an answer.
//! * How late each limit expired, by the server's clock, and how many expired early.
//! * The CPU time of the server within the window.
//!
//! The program does not measure the network, because all traffic uses loopback. It also does not
//! measure what the closed clients do next. The clients share the machine's cores with the server,
//! so a round trip includes a wait for a core.

mod plot;
mod report;
pub(crate) mod server;

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tokio_wheel_benches::turns::in_round;

use crate::{
    child::Child,
    clock, files,
    open_loop::{Answers, Load},
    progress,
    storm::{
        report::{Report, Run},
        server::Expiries,
    },
    summary::{MS, Series},
    timer::{TIMERS, Timer},
};

/// How long before the storm the active clients begin.
const WARM_UP: u64 = 1_000 * MS;

/// The beginning and the end of the calm window, as times before the storm.
const CALM: (u64, u64) = (600 * MS, 100 * MS);

/// How long to wait for answers after the window.
const PATIENCE: u64 = 20_000 * MS;

/// What to measure. Takes about eight minutes by default.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The storms to measure: all by default.
    #[arg(long, value_delimiter = ',')]
    scene: Vec<Scene>,
    /// How often each timer is measured. Fewer than six rounds give no intervals.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How many connections to open, as far as RLIMIT_NOFILE allows. All connections except the
    /// active ones expire.
    #[arg(long, default_value_t = 18_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    connections: u64,
    /// How many of the connections are active.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..))]
    active: u64,
    /// How many timers without a connection expire, in the scenes with such timers.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    timers: u64,
    /// How many round trips per second the active connections make in all.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    rate: u64,
    /// Draw plots of the round trips over time into this folder.
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
    /// Write the figures of all runs into this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What expires in a storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scene {
    /// Connections expire, all at one instant.
    Instant,
    /// Connections expire, evenly over one second.
    Second,
    /// Timers without connections expire, all at one instant.
    TimersInstant,
    /// Timers without connections expire, evenly over one second.
    TimersSecond,
}

impl Scene {
    fn spread(self) -> u64 {
        match self {
            Self::Instant | Self::TimersInstant => 0,
            Self::Second | Self::TimersSecond => 1_000 * MS,
        }
    }

    fn window(self) -> u64 {
        match self {
            Self::Instant | Self::TimersInstant => 500 * MS,
            Self::Second | Self::TimersSecond => 1_200 * MS,
        }
    }

    fn closes_connections(self) -> bool {
        matches!(self, Self::Instant | Self::Second)
    }

    fn name(self) -> String {
        let value = self.to_possible_value().expect("none is skipped");
        value.get_name().to_owned()
    }
}

/// A storm, with times in nanoseconds of [`clock::now`].
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Storm {
    /// The time at which the storm begins.
    at: u64,
    /// How long the storm lasts.
    spread: u64,
    /// How many limits expire.
    count: u64,
    /// How long the window lasts.
    window: u64,
}

impl Storm {
    /// Returns when the `i`th limit expires.
    pub(crate) fn deadline(&self, i: u64) -> u64 {
        self.at + (u128::from(self.spread) * u128::from(i) / u128::from(self.count)) as u64
    }

    /// Returns when the calm window begins and ends.
    fn calm(&self) -> (u64, u64) {
        (self.at - CALM.0, self.at - CALM.1)
    }
}

/// Runs all measurements and prints the result.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let connections = files::afford(args.connections)?;
    ensure!(
        args.active < connections,
        "--active is {}, but must be less than the number of connections, {connections}",
        args.active,
    );
    let args = Args {
        connections,
        scene: if args.scene.is_empty() {
            Scene::value_variants().to_vec()
        } else {
            args.scene.clone()
        },
        svg: args.svg.clone(),
        json: args.json.clone(),
        ..*args
    };
    let series = || {
        TIMERS.map(|timer| Series {
            timer,
            runs: vec![],
        })
    };
    let mut scenes: Vec<_> = (args.scene.iter())
        .map(|&scene| (scene, series()))
        .collect();
    let steps = u64::from(args.rounds) * (args.scene.len() * TIMERS.len()) as u64;
    let progress = progress::bar(steps, "run");
    for round in 0..args.rounds {
        for (scene, series) in &mut scenes {
            for i in in_round((0..TIMERS.len()).collect(), round) {
                let run = args.measure(*scene, series[i].timer)?;
                series[i].runs.push(run);
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();

    let report = Report::new(&args, scenes);
    report.print();
    if let Some(folder) = &args.svg {
        plot::draw(&report, folder)?;
    }
    if let Some(file) = &args.json {
        fs::write(file, serde_json::to_vec_pretty(&report)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

impl Args {
    /// Returns how many limits expire.
    fn expiring(&self, scene: Scene) -> u64 {
        if scene.closes_connections() {
            self.connections - self.active
        } else {
            self.timers
        }
    }

    /// Runs a storm. If the machine is too slow to set all limits in time, repeats the storm with
    /// more time.
    fn measure(&self, scene: Scene, timer: Timer) -> anyhow::Result<Run> {
        let each = if scene.closes_connections() {
            40_000
        } else {
            2_000
        };
        let lead = WARM_UP + 200 * MS + each * self.expiring(scene);
        for lead in [lead, 2 * lead, 4 * lead, 8 * lead] {
            if let Some(run) = self.try_to_measure(scene, timer, lead)? {
                return Ok(run);
            }
        }
        bail!(
            "setting {} limits takes longer than {:?} on this machine",
            self.expiring(scene),
            Duration::from_nanos(8 * lead),
        );
    }

    /// Runs a storm on fresh processes. The limits are set `lead` nanoseconds before the storm.
    /// Returns `None` if that was too short.
    fn try_to_measure(&self, scene: Scene, timer: Timer, lead: u64) -> anyhow::Result<Option<Run>> {
        let count = self.expiring(scene);
        let mut server = Child::start("storm-serve", {
            let mut args = vec!["--timer".into(), timer.argument().into()];
            args.extend(["--limits".into(), count.to_string()]);
            args.extend((!scene.closes_connections()).then(|| "--own".into()));
            args
        })?;
        let addr: String = server.answer()?;
        let clients = |name, connections: u64| {
            Child::start(
                name,
                [
                    "--server".into(),
                    addr.clone(),
                    "--connections".into(),
                    connections.to_string(),
                ],
            )
        };
        let idle = scene.closes_connections().then_some(count);
        let mut idle = idle.map(|idle| clients("idle", idle)).transpose()?;
        let mut active = clients("busy", self.active)?;
        if let Some(idle) = &mut idle {
            idle.ready()?;
        }
        active.ready()?;

        let storm = Storm {
            at: clock::now() + lead,
            spread: scene.spread(),
            count,
            window: scene.window(),
        };
        let load = self.load(&storm);
        server.tell(&storm)?;
        server.ready()?;
        if let Some(idle) = &mut idle {
            idle.tell(&storm)?;
            idle.ready()?;
        }
        if clock::now() > load.start {
            return Ok(None);
        }
        active.tell(&load)?;
        let answers: Answers = active.answer()?;
        let expiries: Expiries = server.answer()?;
        Run::new(&storm, &load, &answers, expiries).map(Some)
    }

    fn load(&self, storm: &Storm) -> Load {
        let (start, end) = (storm.at - WARM_UP, storm.at + storm.window);
        let gap = 1_000 * MS / self.rate;
        Load {
            start,
            gap,
            count: (end - start) / gap,
            patience: end + PATIENCE,
            marked: 0,
        }
    }
}
