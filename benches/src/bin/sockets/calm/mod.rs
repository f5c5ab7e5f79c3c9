//! `calm` measures what the limits of a hyper server cost while none of them expires.
//!
//! In each round, every timer has a server and clients of its own, in fresh processes. The clients
//! stay connected and take short turns at being busy. So a change of the machine that lasts longer
//! than a turn affects all timers. The layout of memory differs from round to round.

mod limits;
pub(crate) mod load;
mod report;
mod sample;
pub(crate) mod serve;

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context as _, ensure};
use tokio_wheel_benches::{
    lab::{Lab, WORKERS},
    peer::{Bare, Timeouts, Tokio, TokioWheel},
    process::cpu_time,
    turns::in_round,
    workload::rpc,
};

use crate::{
    calm::{
        limits::Timer,
        load::Plan,
        report::{Report, Series},
        sample::Rpc,
        serve::Config,
    },
    child::Child,
    progress,
};

/// What to compare, and for how long: about four and a half minutes by default.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often each timer is measured. Fewer than six rounds give no intervals.
    #[arg(long, default_value_t = 18, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    plan: Plan,
    #[command(flatten)]
    config: Config,
    /// Also measure tokio-io-timeout.
    #[arg(long)]
    io_timeout: bool,
    /// How many requests of the in-process service a turn makes.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    rpcs: u64,
    /// Write every sample into this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the comparison and prints the result.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let plan = args.plan.afforded()?;
    let silence = args.config.silence();
    ensure!(
        plan.every < silence,
        "the server closes a connection that is silent for {silence:?}: --every must be shorter"
    );
    let mut timers = vec![Timer::None, Timer::Tokio, Timer::Wheel];
    timers.extend(args.io_timeout.then_some(Timer::TokioIoTimeout));
    let mut series: Vec<_> = timers.iter().copied().map(Series::new).collect();
    let progress = progress::bar(args.rounds.into(), "round");
    for number in 0..args.rounds {
        let mut round = Round {
            series: &mut series,
            order: in_round((0..timers.len()).collect(), number),
        };
        round.in_process(plan.turns, args.rpcs);
        round.over_sockets(plan, args.config)?;
        progress.inc(1);
    }
    progress.finish_and_clear();

    let report = Report::new(plan, series);
    report.print();
    if let Some(file) = &args.json {
        fs::write(file, serde_json::to_vec_pretty(&report)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

struct Round<'a> {
    series: &'a mut [Series],
    /// The order of the turns, as indices of the series.
    order: Vec<usize>,
}

impl Round<'_> {
    /// Measures the workload `rpc`, in which no system call hides the timer.
    fn in_process(&mut self, turns: u32, requests: u64) {
        let mut samples = vec![None; self.series.len()];
        for _ in 0..turns {
            for &i in &self.order {
                let Some((elapsed, cpu)) = rpc_of(self.series[i].timer, requests) else {
                    continue;
                };
                let sample = samples[i].get_or_insert(Rpc::default());
                let per_request =
                    |time: Duration| time.as_nanos() as f64 / (u64::from(turns) * requests) as f64;
                sample.nanos += per_request(elapsed);
                sample.cpu_nanos += per_request(cpu);
            }
        }
        for (series, sample) in self.series.iter_mut().zip(samples) {
            series.rpc.extend(sample);
        }
    }

    fn over_sockets(&mut self, plan: Plan, config: Config) -> anyhow::Result<()> {
        let mut pairs = Vec::with_capacity(self.order.len());
        for &i in &self.order {
            let mut args = vec!["--until-eof".into(), "--timer".into()];
            args.push(self.series[i].timer.name().into());
            args.extend(config.to_args());
            let mut server = Child::start("calm-serve", args)?;
            let addr: String = server.answer()?;
            let mut args = vec!["--on-command".into(), "--server".into(), addr];
            args.extend(plan.to_args());
            let mut clients = Child::start("calm-load", args)?;
            clients.ready()?;
            pairs.push((i, server, clients));
        }
        for _ in 0..plan.turns {
            for (_, _, clients) in &mut pairs {
                clients.tell(&())?;
                clients.ready()?;
            }
        }
        for (i, _server, mut clients) in pairs {
            self.series[i].http.push(clients.answer()?);
        }
        Ok(())
    }
}

/// Returns the wall time and the CPU time of the requests. Returns `None` for tokio-io-timeout:
/// without sockets, it equals `tokio::time`.
fn rpc_of(timer: Timer, requests: u64) -> Option<(Duration, Duration)> {
    match timer {
        Timer::Wheel => Some(time_rpc::<TokioWheel>(requests)),
        Timer::Tokio => Some(time_rpc::<Tokio>(requests)),
        Timer::None => Some(time_rpc::<Bare>(requests)),
        Timer::TokioIoTimeout => None,
    }
}

fn time_rpc<P: Timeouts>(requests: u64) -> (Duration, Duration) {
    let lab = Lab::quiet::<P>(WORKERS);
    let cpu = cpu_time();
    let elapsed = lab.run(rpc::<P>(requests));
    (elapsed, cpu_time() - cpu)
}
