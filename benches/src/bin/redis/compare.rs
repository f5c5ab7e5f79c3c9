//! Runs the rounds, and decides when they end.
//!
//! * Each round starts a fresh process for each timer. Properties of a process, like the addresses
//!   of its memory, differ from round to round. So the intervals include their effect.
//! * At each depth the timers take short turns, in the order of the round and then backwards. A
//!   disturbance that lasts longer than a turn affects all timers alike.
//! * Only one client is busy at a time. All clients share one server.
//! * The rounds end when all intervals are narrow enough, or when the time is over. The position of
//!   an interval does not matter, so the end favors no timer.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use tokio_wheel_benches::turns::in_round;

use crate::{
    child::Client,
    load::Turn,
    report::{Report, Series},
    server::Server,
    timers::Timer,
    unless_signaled,
};

/// The least number of rounds. With fewer rounds, an interval might be narrow by chance.
const ROUNDS: u32 = 20;

/// What to compare, and for how long.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// End after this many minutes, however wide the intervals are.
    #[arg(long, default_value = "9", value_parser = minutes)]
    minutes: Duration,
    /// End when half the width of each interval is below this many percent.
    #[arg(long, default_value_t = 2.0, value_name = "PERCENT")]
    half_width: f64,
    /// End after this many rounds.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// How many requests are in flight: one or more numbers.
    #[arg(long, value_delimiter = ',', default_values_t = [16, 256, 4_096],
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    depth: Vec<u32>,
    /// The number of workers of the client's runtime. 0 means tokio's current_thread runtime.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(..=64))]
    workers: u8,
    /// How many milliseconds of a turn are measured.
    #[arg(long, default_value_t = 150, value_name = "MILLIS",
        value_parser = clap::value_parser!(u16).range(20..=10_000))]
    turn: u16,
    /// Measure tokio::time twice. The difference of the two is the error of the method.
    #[arg(long)]
    control: bool,
    /// Write every sample into this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn minutes(text: &str) -> Result<Duration, String> {
    let allowed = "minutes must be between 0.01 and 600";
    let minutes: f64 = text.parse().map_err(|_| allowed.to_owned())?;
    if (0.01..=600.0).contains(&minutes) {
        Ok(Duration::from_secs_f64(minutes * 60.0))
    } else {
        Err(allowed.to_owned())
    }
}

/// Runs the comparison and prints the result.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let report = unless_signaled(measure(args))?;
    report.print();
    if let Some(file) = &args.json {
        fs::write(file, serde_json::to_vec_pretty(&report)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

async fn measure(args: &Args) -> anyhow::Result<Report> {
    let mut depths = args.depth.clone();
    depths.sort_unstable();
    depths.dedup();
    ensure!(
        depths.len() == args.depth.len(),
        "--depth must not name a number twice, got {:?}",
        args.depth,
    );
    let server = Server::start(args.workers)?;
    let mut timers = Timer::ALL.to_vec();
    timers.extend(args.control.then_some(Timer::Control));
    let (begin, turn) = (Instant::now(), Duration::from_millis(args.turn.into()));
    let mut report = Report {
        server: server.version.clone(),
        server_process: server.pid(),
        workers: args.workers,
        turn,
        rounds: 0,
        series: (args.depth.iter())
            .flat_map(|&depth| timers.iter().map(move |&timer| Series::new(timer, depth)))
            .collect(),
    };
    let progress = progress(args.minutes);
    let mut longest = Duration::ZERO;
    loop {
        let round = Instant::now();
        let order = in_round(timers.clone(), report.rounds);
        for (timer, depth, turn) in take_turns(&order, args, &server).await? {
            let mut series = report.series.iter_mut();
            let series = series.find(|series| (series.timer, series.depth) == (timer, depth));
            series.context("no such series")?.turns.push(turn);
        }
        report.rounds += 1;
        longest = longest.max(round.elapsed());

        let half_width = report.widest_half();
        progress.set_position(begin.elapsed().as_secs().min(args.minutes.as_secs()));
        progress.set_message(format!(
            "{} rounds, widest interval +-{half_width:.1}%",
            report.rounds
        ));
        let is_narrow = report.rounds >= ROUNDS && half_width < args.half_width;
        let is_late = begin.elapsed() + longest > args.minutes;
        if is_narrow || is_late || Some(report.rounds) == args.rounds {
            break;
        }
    }
    progress.finish_and_clear();
    Ok(report)
}

/// Measures each timer at each depth once, in two turns.
async fn take_turns(
    order: &[Timer],
    args: &Args,
    server: &Server,
) -> anyhow::Result<Vec<(Timer, u32, Turn)>> {
    let turn = Duration::from_millis(args.turn.into());
    let mut clients = (order.iter())
        .map(|&timer| Client::start(timer, args.workers, server))
        .collect::<Result<Vec<_>, _>>()?;
    let mut samples = Vec::new();
    for &depth in &args.depth {
        let mut there = Vec::new();
        for client in &mut clients {
            there.push(client.turn(depth, turn).await?);
        }
        for (i, client) in clients.iter_mut().enumerate().rev() {
            let both = there[i].and(client.turn(depth, turn).await?);
            samples.push((order[i], depth, both));
        }
    }
    Ok(samples)
}

fn progress(minutes: Duration) -> ProgressBar {
    let style = ProgressStyle::with_template("{elapsed} of at most {len} s {wide_bar} {msg}")
        .expect("the template is well-formed");
    ProgressBar::new(minutes.as_secs()).with_style(style)
}
