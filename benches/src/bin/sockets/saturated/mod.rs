//! `saturated` measures a server that gets more requests than it can answer. The question is
//! whether its timeouts still fire in time.
//!
//! # Processes
//!
//! | process | threads | does |
//! |---|---|---|
//! | server | 2 workers of tokio | [`server`]: a request waits for one of 16 permits, at most 50 ms, and then works for 100 us. If the 50 ms pass, it is answered 503 at once |
//! | clients | 1 | send requests on a fixed schedule, over 256 connections ([`open_loop`](crate::open_loop)) |
//!
//! One request of 20 waits for a backend that never answers, also for at most 50 ms. So timeouts
//! must fire even when there are enough permits.
//!
//! # Schedule
//!
//! ```text
//! once     a server without limits gets more requests than its cores can take: its answers a second are the capacity
//! T        requests at 0.7 times the capacity, for 1.2 s: the control
//! T + 1.7  requests at 1.3 times the capacity, for 1.2 s
//! T + 3.4  requests at 2 times the capacity, for 1.2 s
//! ```
//!
//! Both wheels cascade every 4.096 s: they move the entries of a slot to lower levels. `T` is
//! chosen so that a cascade happens in the last part. If there are idle timers, the cascade moves a
//! sixth of them.
//!
//! # Figures
//!
//! * How late the timeouts fired, by the server's clock, and how many fired early.
//! * The share of the requests with the answer 200 within 100 ms of their scheduled time.
//! * The share of the requests with any answer, until 0.5 s after the last request of the part.
//!
//! The program does not measure the network, because all traffic uses loopback. The clients share
//! the machine's cores with the server. So the capacity is the part of the cores that the clients
//! leave.

mod report;
pub(crate) mod server;

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context as _, bail, ensure};
use tokio_wheel_benches::turns::in_round;

use crate::{
    child::Child,
    clock, files,
    open_loop::{Answers, Load},
    progress,
    saturated::{
        report::{Report, Run},
        server::{Ready, Timeouts, WORK, WORKERS},
    },
    summary::{MS, Series},
    timer::{TIMERS, Timer},
};

/// The rates of the requests, as multiples of the capacity.
const LOADS: [f64; 3] = [0.7, 1.3, 2.0];

/// One request of this many waits for a backend that never answers.
const HANGING: u64 = 20;

/// How long after the last request of a part an answer still counts.
const PATIENCE: u64 = 500 * MS;

/// How long before the cascade the first part begins.
const BEFORE_CASCADE: u64 = 4_800 * MS;

/// The time between the beginnings of two parts. The parent reads the answers of a part in between.
const PART: u64 = 1_900 * MS;

/// What to measure. Takes about five minutes by default.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often each timer is measured. Fewer than six rounds give no intervals.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How many idle timers wait beside the requests.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1_000_000])]
    idle: Vec<u64>,
    /// How many connections carry the requests.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..))]
    connections: u64,
    /// How many seconds each load lasts.
    #[arg(long, value_name = "SECONDS", default_value = "1.2", value_parser = crate::seconds)]
    seconds: Duration,
    /// The capacity in requests per second, instead of the measured capacity.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    capacity: Option<u64>,
    /// Write the figures of all runs into this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The number of a cascade of the wheels, counted from the start of the runtime.
#[derive(Clone, Copy)]
pub(crate) struct Cascade(pub(crate) u64);

impl Cascade {
    /// Returns the time of the cascade. The runtime started at `born`.
    fn at(self, born: u64) -> u64 {
        born + self.0 * 4_096 * MS
    }

    /// Returns when the `i`th of `idle` timers expires. They expire after the measurement,
    /// spread over 20 s.
    pub(crate) fn idle_deadline(self, born: u64, i: u64, idle: u64) -> u64 {
        self.at(born) + 800 * MS + 20_000 * MS / idle * i
    }
}

/// Runs all measurements and prints the result.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let connections = files::afford(args.connections)?;
    ensure!(
        connections == args.connections,
        "--connections is {}, but must be at most {connections}",
        args.connections,
    );
    ensure!(
        (100..=1_200).contains(&args.seconds.as_millis()),
        "--seconds is {}, but must be between 0.1 and 1.2",
        args.seconds.as_secs_f64(),
    );
    let series = || {
        TIMERS.map(|timer| Series {
            timer,
            runs: vec![],
        })
    };
    let mut crowds: Vec<_> = args.idle.iter().map(|&idle| (idle, series())).collect();
    let steps = u64::from(args.rounds) * (args.idle.len() * TIMERS.len()) as u64;
    let progress = progress::bar(steps, "run");
    let capacity = match args.capacity {
        Some(capacity) => capacity,
        None => args.best_capacity()?,
    };
    for round in 0..args.rounds {
        for (idle, series) in &mut crowds {
            for i in in_round((0..TIMERS.len()).collect(), round) {
                let runs = args.measure(series[i].timer, *idle, capacity)?;
                series[i].runs.push(runs);
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();

    let report = Report::new(args.rounds, capacity, crowds);
    report.print();
    if let Some(file) = &args.json {
        fs::write(file, serde_json::to_vec_pretty(&report)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

impl Args {
    /// Returns the highest of three measured capacities, because a brief disturbance of the machine
    /// lowers a capacity.
    fn best_capacity(&self) -> anyhow::Result<u64> {
        let mut best = 0;
        for _ in 0..3 {
            best = best.max(self.measure_capacity()?);
        }
        Ok(best)
    }

    /// Returns how many requests per second the server answers if it gets more than its workers can
    /// take.
    fn measure_capacity(&self) -> anyhow::Result<u64> {
        let (_server, ready, mut clients) = self.start(Timer::None, 0, Cascade(0))?;
        let rate = u64::from(WORKERS) * Duration::from_secs(1).div_duration_f64(WORK) as u64;
        let load = self.load(ready.born.max(clock::now()) + 100 * MS, rate as f64, 0);
        clients.tell(&load)?;
        let answers: Answers = clients.answer()?;
        let end = load.due(load.count);
        // After the first quarter, the queue is long.
        let start = load.due(load.count / 4);
        let answered = (0..).zip(&answers.answers);
        let within = answered.filter_map(|(i, answer)| Some(load.due(i) + answer.as_ref()?.0));
        let within = within.filter(|at| (start..end).contains(at)).count();
        let capacity = within as f64 * 1e9 / (end - start) as f64;
        ensure!(capacity >= 1.0, "the server answered no request");
        Ok(capacity as u64)
    }

    /// Runs all loads. If the machine is too slow to start the idle timers in time, repeats the run
    /// with more time.
    fn measure(&self, timer: Timer, idle: u64, capacity: u64) -> anyhow::Result<Vec<Run>> {
        for cascade in [2, 4, 8, 16].map(Cascade) {
            if let Some(runs) = self.try_to_measure(timer, idle, capacity, cascade)? {
                return Ok(runs);
            }
        }
        bail!("starting {idle} idle timers takes longer than a minute on this machine");
    }

    /// Runs all loads. If the last load lasts a second or more, a cascade happens in it. Returns
    /// `None` if the idle timers did not start in time.
    fn try_to_measure(
        &self,
        timer: Timer,
        idle: u64,
        capacity: u64,
        cascade: Cascade,
    ) -> anyhow::Result<Option<Vec<Run>>> {
        let (mut server, ready, mut clients) = self.start(timer, idle, cascade)?;
        let mut start = if idle == 0 {
            // No cascade happens without idle timers.
            clock::now() + 200 * MS
        } else {
            cascade.at(ready.born) - BEFORE_CASCADE
        };
        if clock::now() > start {
            return Ok(None);
        }
        let mut runs = Vec::new();
        for part in LOADS {
            let load = self.load(start, part * capacity as f64, HANGING);
            clients.tell(&load)?;
            let answers: Answers = clients.answer()?;
            clock::wait_until(load.patience);
            server.tell(&())?;
            let timeouts: Timeouts = server.answer()?;
            runs.push(Run::new(&answers, timeouts));
            start += PART;
        }
        Ok(Some(runs))
    }

    fn start(
        &self,
        timer: Timer,
        idle: u64,
        cascade: Cascade,
    ) -> anyhow::Result<(Child, Ready, Child)> {
        let args = [
            "--timer".into(),
            timer.argument().into(),
            "--idle".into(),
            idle.to_string(),
            "--cascade".into(),
            cascade.0.to_string(),
        ];
        let mut server = Child::start("saturated-serve", args)?;
        let ready: Ready = server.answer()?;
        let args = [
            "--server".into(),
            ready.addr.to_string(),
            "--connections".into(),
            self.connections.to_string(),
        ];
        let mut clients = Child::start("busy", args)?;
        clients.ready()?;
        Ok((server, ready, clients))
    }

    fn load(&self, start: u64, rate: f64, marked: u64) -> Load {
        let gap = ((1e9 / rate) as u64).max(1);
        let lasts = self.seconds.as_nanos() as u64;
        Load {
            start,
            gap,
            count: (lasts / gap).max(1),
            patience: start + lasts + PATIENCE,
            marked,
        }
    }
}
