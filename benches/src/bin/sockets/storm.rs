//! `storm` measures a server on which thousands of limits expire together while 500 connections
//! stay active. It shows how the storm delays these 500.
//!
//! | process | threads | does |
//! |---|---|---|
//! | server | 2 workers of tokio | echoes frames. Each connection has one limit, which each message resets. When the limit expires, the server closes the socket |
//! | active clients | 1 | send 10,000 frames a second in all, on a fixed schedule ([`open_loop`](crate::open_loop)) |
//! | idle clients | 1 | keep the other connections open. The process is blocked when the server closes them ([`be_silent`]) |
//!
//! ```text
//! T - lead    the idle clients send a frame each, which sets their limits; or the server starts its timers
//! T - 1.0 s   the active clients begin
//! T - 0.6 s   the calm window begins, and lasts 0.5 s
//! T           the limits expire, at once or within a second; the window begins, 0.5 s or 1.2 s long
//! ```
//!
//! Round trips count from their scheduled time. The window has the same length for all timers, so a
//! long storm does not dilute a short one. The clients share the machine's cores with the server, so
//! a round trip includes a wait for a core.

use std::{
    fs,
    io::{Read as _, Write as _},
    iter,
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::pin,
    sync::{
        Arc,
        atomic::{
            AtomicI64,
            Ordering::{Acquire, Release},
        },
    },
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum;
use indicatif::HumanCount;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    select,
    time::Instant,
};
use tokio_wheel_benches::{
    lab,
    late::{Late, nanos_late},
    peer::Resets,
    plot::{Axis, Chart, Curve, Mark},
    process::cpu_time,
    stats::{median, number},
};

use crate::{
    Role,
    child::{self, Child},
    net::{self, Frame, Frames, LENGTH, MS},
    open_loop::{Answers, Load},
    report::{self, All, Compare, Figure, Series},
    timer::{self, Timer},
};

/// How long before the storm the active clients begin.
const WARM_UP: u64 = 1_000 * MS;

/// The beginning and the end of the calm window, as times before the storm.
const CALM: (u64, u64) = (600 * MS, 100 * MS);

/// How long before the storm the plot begins.
const BEFORE: u64 = CALM.1;

/// How long to wait after the window for answers, and until every limit has expired.
const PATIENCE: u64 = 20_000 * MS;
const EXPIRY_PATIENCE: u64 = 10_000 * MS;

/// How long an active connection may be silent.
const USUAL: Duration = Duration::from_secs(30);

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
enum Scene {
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
    /// Returns how long the storm and its window last.
    fn lasts(self) -> (u64, u64) {
        match self {
            Self::Instant | Self::TimersInstant => (0, 500 * MS),
            Self::Second | Self::TimersSecond => (1_000 * MS, 1_200 * MS),
        }
    }

    fn closes_connections(self) -> bool {
        matches!(self, Self::Instant | Self::Second)
    }

    fn name(self) -> String {
        let value = self.to_possible_value().expect("none is skipped");
        value.get_name().to_owned()
    }

    /// Says what expires.
    fn caption(self, expiring: u64) -> String {
        let what = match self.closes_connections() {
            true => "connections are closed",
            false => "timers without a connection fire",
        };
        let (spread, window) = self.lasts();
        let when = if spread == 0 {
            "at one instant"
        } else {
            "within a second"
        };
        let expiring = HumanCount(expiring);
        format!("{expiring} {what} {when}; window of {} s", ms(window) / 1e3)
    }
}

/// The limits that expire in a storm.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Limits {
    count: u64,
    /// The limits are timers of the server that belong to no connection.
    own: bool,
}

/// A storm, with times in nanoseconds of [`net::now`].
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Storm {
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
    fn deadline(&self, i: u64) -> u64 {
        self.at + (u128::from(self.spread) * u128::from(i) / u128::from(self.count)) as u64
    }
}

/// The observations of the server during a storm.
#[derive(Clone, Serialize, Deserialize)]
struct Expiries {
    /// How late the limits were that have expired.
    late: Late,
    /// When the last limit expired after the beginning of the storm, in milliseconds.
    last_ms: f64,
    /// The server's CPU time within the window, in milliseconds.
    cpu_ms: f64,
}

/// The results of one timer in one storm.
#[derive(Serialize)]
struct Run {
    /// The round trips in the calm window and in the window of the storm.
    calm: Late,
    storm: Late,
    /// The longest time within the window without an answer, in milliseconds.
    silence_ms: f64,
    /// How many limits expired, and how many of them before their deadline.
    expired: u64,
    early: u64,
    expiries: Expiries,
    /// For each millisecond from [`BEFORE`] the storm on, the longest round trip scheduled in it,
    /// in milliseconds.
    timeline: Vec<Option<f64>>,
    window_ms: f64,
}

impl Run {
    /// Returns whether all limits expired within the window. The CPU time covers only the window.
    fn ended(&self) -> bool {
        self.expiries.last_ms <= self.window_ms
    }

    fn late(&self, quantile: f64) -> Option<f64> {
        (self.expired > 0).then(|| self.expiries.late.ms(quantile))
    }
}

const FIGURES: [Figure<Run>; 12] = [
    Figure("calm, round trips p99.9, ms", Compare::Times, |run| {
        Some(run.calm.ms(0.999))
    }),
    Figure("round trips p50, ms", Compare::Times, |run| {
        Some(run.storm.ms(0.5))
    }),
    Figure("round trips p99, ms", Compare::Times, |run| {
        Some(run.storm.ms(0.99))
    }),
    Figure("round trips p99.9, ms", Compare::Times, |run| {
        Some(run.storm.ms(0.999))
    }),
    Figure("round trips max, ms", Compare::Times, |run| {
        Some(run.storm.ms(1.0))
    }),
    Figure("no answer for, ms", Compare::Times, |run| {
        Some(run.silence_ms)
    }),
    Figure("limits late p50, ms", Compare::Times, |run| run.late(0.5)),
    Figure("limits late p99, ms", Compare::Times, |run| run.late(0.99)),
    Figure("limits late max, ms", Compare::Times, |run| run.late(1.0)),
    Figure("all expired after, ms", Compare::Times, |run| {
        (run.expired > 0).then_some(run.expiries.last_ms)
    }),
    Figure("server's CPU, ms", Compare::Times, |run| {
        run.ended().then_some(run.expiries.cpu_ms)
    }),
    Figure("limits that expired early", Compare::Difference, |run| {
        Some(run.early as f64)
    }),
];

/// Runs all measurements and prints the result.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let connections = net::afford(args.connections)?;
    ensure!(
        args.active < connections,
        "--active is {}, but must be less than the number of connections, {connections}",
        args.active,
    );
    let silent = connections - args.active;
    let scenes = match &args.scene[..] {
        [] => Scene::value_variants(),
        asked => asked,
    };
    let expiring = |scene: Scene| {
        if scene.closes_connections() {
            silent
        } else {
            args.timers
        }
    };
    let measured = report::measure(args.rounds, scenes, |scene, timer| {
        args.measure(scene, timer, expiring(scene))
    })?;

    println!(
        "{} active connections make {} round trips a second while limits expire. {} rounds.\n",
        args.active,
        HumanCount(args.rate),
        args.rounds,
    );
    let mut tables = Vec::new();
    for (scene, all) in &measured {
        let caption = scene.caption(expiring(*scene));
        if let Some(folder) = &args.svg {
            draw(*scene, &caption, all, folder)?;
        }
        let mut rows: Vec<_> = FIGURES.iter().map(|figure| figure.row(all)).collect();
        let mut pooled = vec!["  p99.99 of all rounds, ms".to_owned()];
        pooled.extend(all.iter().map(|series| number(pool(series).ms(0.9999))));
        rows.insert(4, pooled);
        tables.push((caption, rows));
    }
    #[derive(Serialize)]
    struct Storms<'a> {
        scene: Scene,
        expiring: u64,
        series: &'a All<Run>,
    }
    let storms = measured.iter().map(|(scene, series)| Storms {
        scene: *scene,
        expiring: expiring(*scene),
        series,
    });
    report::finish(tables, args.json.as_deref(), &storms.collect::<Vec<_>>())?;
    for (scene, all) in &measured {
        for Series { timer, runs } in &all[1..] {
            let missing: u64 = runs.iter().map(|run| expiring(*scene) - run.expired).sum();
            let outlasting = runs.iter().filter(|run| !run.ended()).count();
            let of = format!("{}, {}", scene.name(), timer.name());
            if missing > 0 {
                println!("{of}: {missing} limits had not expired 10 s after the window.");
            }
            if outlasting > 0 {
                println!("{of}: the storm outlasted the window in {outlasting} rounds.");
            }
        }
    }
    Ok(())
}

/// Returns the round trips of all rounds.
fn pool(series: &Series<Run>) -> Late {
    let mut all = Late::default();
    series.runs.iter().for_each(|run| all += run.storm.clone());
    all
}

impl Args {
    /// Runs a storm. If the machine is too slow to set all limits in time, repeats the storm with
    /// more time.
    fn measure(&self, scene: Scene, timer: Timer, count: u64) -> anyhow::Result<Run> {
        let each = if scene.closes_connections() {
            40_000
        } else {
            2_000
        };
        let lead = WARM_UP + 200 * MS + each * count;
        for lead in [lead, 2 * lead, 4 * lead, 8 * lead] {
            if let Some(run) = self.try_to_measure(scene, timer, count, lead)? {
                return Ok(run);
            }
        }
        bail!(
            "setting {count} limits takes longer than {} ms on this machine",
            8 * lead / MS
        );
    }

    /// Runs a storm on fresh processes. The limits are set `lead` nanoseconds before the storm.
    /// Returns `None` if that was too short.
    fn try_to_measure(
        &self,
        scene: Scene,
        timer: Timer,
        count: u64,
        lead: u64,
    ) -> anyhow::Result<Option<Run>> {
        let storms = Limits {
            count,
            own: !scene.closes_connections(),
        };
        let mut server = Child::start(&Role::StormServer { timer, storms })?;
        let addr: SocketAddr = server.answer()?;
        let mut silent = None;
        if scene.closes_connections() {
            silent = Some(Child::start(&Role::Silent {
                server: addr,
                connections: count,
            })?);
        }
        let role = Role::Active {
            server: addr,
            connections: self.active,
        };
        let mut active = Child::start(&role)?;
        if let Some(silent) = &mut silent {
            silent.answer::<()>()?;
        }
        active.answer::<()>()?;

        let (spread, window) = scene.lasts();
        let storm = Storm {
            at: net::now() + lead,
            spread,
            count,
            window,
        };
        let (start, end) = (storm.at - WARM_UP, storm.at + window);
        let gap = 1_000 * MS / self.rate;
        let patience = end + PATIENCE;
        let load = Load {
            start,
            gap,
            count: (end - start) / gap,
            patience,
            marked: 0,
        };
        server.ask::<()>(&storm)?;
        if let Some(silent) = &mut silent {
            silent.ask::<()>(&storm)?;
        }
        if net::now() > load.start {
            return Ok(None);
        }
        let answers: Answers = active.ask(&load)?;
        let expiries: Expiries = server.answer()?;
        Run::new(&storm, &load, &answers, expiries).map(Some)
    }
}

impl Run {
    /// Sums up a storm. Fails if a request got no answer.
    fn new(
        storm: &Storm,
        load: &Load,
        answers: &Answers,
        expiries: Expiries,
    ) -> anyhow::Result<Self> {
        let answered = answers
            .answers
            .iter()
            .map(|answer| Some(answer.as_ref()?.0));
        let round_trips: Option<Vec<_>> = answered.collect();
        let round_trips = round_trips.context("an active connection got no answer within 20 s")?;
        let round_trips: Vec<_> = (0..).map(|i| load.due(i)).zip(round_trips).collect();
        let between = |from, to| -> Late {
            let within = round_trips
                .iter()
                .filter(|&&(due, _)| (from..to).contains(&due));
            within.map(|&(_, time)| time as i64).collect()
        };
        let (from, to) = (storm.at, storm.at + storm.window);
        let ends = round_trips
            .iter()
            .map(|(due, time)| (due + time).clamp(from, to));
        let mut ends: Vec<_> = ends.chain([from, to]).collect();
        ends.sort_unstable();
        let silence = ends.windows(2).map(|pair| pair[1] - pair[0]).max();
        let mut timeline = vec![None; ((BEFORE + storm.window) / MS) as usize];
        for &(due, time) in &round_trips {
            let bucket = due.checked_sub(from - BEFORE).map(|since| since / MS);
            if let Some(greatest) = bucket.and_then(|bucket| timeline.get_mut(bucket as usize)) {
                *greatest = Some(greatest.map_or(ms(time), |other: f64| other.max(ms(time))));
            }
        }
        Ok(Self {
            calm: between(storm.at - CALM.0, storm.at - CALM.1),
            storm: between(from, to),
            silence_ms: silence.map_or(0.0, ms),
            expired: expiries.late.count(),
            early: expiries.late.early(),
            expiries,
            timeline,
            window_ms: ms(storm.window),
        })
    }
}

fn ms(nanos: u64) -> f64 {
    nanos as f64 / MS as f64
}

/// Draws round trips over time, before and during the storm.
fn draw(scene: Scene, caption: &str, all: &All<Run>, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // The longest round trip of each millisecond, as the median of the rounds.
    let points = |series: &Series<Run>| {
        let length = series
            .runs
            .iter()
            .map(|run| run.timeline.len())
            .min()
            .unwrap_or(0);
        let point = |i: usize| {
            let greatest: Vec<_> = series
                .runs
                .iter()
                .filter_map(|run| run.timeline[i])
                .collect();
            (!greatest.is_empty()).then(|| (i as f64 - ms(BEFORE), median(greatest)))
        };
        (0..length).filter_map(point).collect()
    };
    let curves = all.iter().rev().map(|series| Curve {
        name: series.timer.name().to_owned(),
        ours: series.timer == Timer::Wheel,
        faint: false,
        points: points(series),
    });
    let curves: Vec<_> = curves.collect();
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let low = points().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let high = points().map(|point| point.1).fold(0.0, f64::max);
    let end = ms(scene.lasts().1);
    let marks = (-1..=12).map(|hundred| f64::from(hundred) * 100.0);
    let marks = marks.filter(|&mark| mark <= end && (end < 800.0 || mark % 200.0 == 0.0));
    Chart {
        caption,
        note: "A lower curve is better. A gap means that no round trip began then.",
        x: Axis::linear(
            "ms after the storm begins, when a round trip was scheduled",
            (-ms(BEFORE), end),
            marks.map(|ms| (ms, ms.to_string())).collect(),
        ),
        y: Axis::decades("longest round trip of each ms, in ms", (low, high), |ms| {
            ms.to_string()
        }),
        mark: Mark::Line,
        curves: &curves,
    }
    .draw(&folder.join(format!("storm-{}.svg", scene.name())))
}

/// Serves for one storm: echoes frames. The word of a frame is the time until which the connection
/// may be silent, by [`net::now`]. The word 0 allows [`USUAL`].
pub(crate) fn serve<P: Resets>(limits: Limits, expires: bool) -> anyhow::Result<()> {
    let runtime = lab::unbound_runtime(net::WORKERS);
    let records = Records::new(limits.count);
    let address = net::accept(&runtime, {
        let records = records.clone();
        move |socket| connection::<P>(socket, records.clone())
    })?;
    child::answer(&address)?;
    if let Some(storm) = child::told::<Storm>()? {
        if limits.own {
            let records = records.clone();
            let deadline = move |i| storm.deadline(i);
            timer::start::<P>(&runtime, storm.count, deadline, move |i, deadline| {
                records.expired(i, deadline);
            });
        }
        child::answer(&())?;
        child::answer(&records.observe(&storm, expires))?;
        // The parent reads the answer, and then ends this process.
        child::told::<()>()?;
    }
    runtime.shutdown_background();
    Ok(())
}

/// Serves one client, until its limit expires.
async fn connection<P: Resets>(mut socket: TcpStream, records: Records) -> anyhow::Result<()> {
    let mut frames = Frames::new();
    let mut deadline = Instant::now() + USUAL;
    let mut record = None;
    let mut limit = pin!(P::new_sleep(USUAL));
    loop {
        let read = select! {
            biased;
            read = socket.read(frames.room()) => read?,
            _ = &mut limit => {
                if let Some(record) = record {
                    records.expired(record, deadline);
                }
                return Ok(());
            }
        };
        ensure!(read > 0, "the client closed its connection");
        let mut answers = Vec::new();
        for frame @ Frame { number, word } in frames.take(read) {
            (deadline, record) = match word {
                0 => (Instant::now() + USUAL, None),
                until => (net::instant(until), Some(number)),
            };
            answers.extend(frame.to_bytes());
        }
        P::reset(
            limit.as_mut(),
            deadline.saturating_duration_since(Instant::now()),
        );
        socket.write_all(&answers).await?;
    }
}

/// How late each limit of the storm was, in nanoseconds. Negative if the limit was early, and
/// [`PENDING`] if it has not expired.
#[derive(Clone)]
struct Records(Arc<[AtomicI64]>);

const PENDING: i64 = i64::MIN;

impl Records {
    fn new(count: u64) -> Self {
        let pending = iter::repeat_with(|| AtomicI64::new(PENDING));
        Self(pending.take(count as usize).collect())
    }

    fn expired(&self, i: u64, deadline: Instant) {
        let late = nanos_late(deadline.into_std(), std::time::Instant::now());
        self.0[i as usize].store(late, Release);
    }

    /// Observes a storm while it happens.
    fn observe(&self, storm: &Storm, expires: bool) -> Expiries {
        let end = storm.at + storm.window;
        net::wait_until(storm.at);
        let cpu = cpu_time();
        net::wait_until(end);
        let cpu_ms = (cpu_time() - cpu).as_secs_f64() * 1e3;
        let pending = || self.0.iter().any(|late| late.load(Acquire) == PENDING);
        while expires && pending() && net::now() < end + EXPIRY_PATIENCE {
            thread::sleep(Duration::from_millis(10));
        }
        let all = (0..).zip(self.0.iter().map(|late| late.load(Acquire)));
        let expired: Vec<(u64, i64)> = all.filter(|&(_, late)| late != PENDING).collect();
        let end = |&(i, late): &(u64, i64)| storm.deadline(i).saturating_add_signed(late);
        let last = expired.iter().map(end).max().unwrap_or(storm.at);
        Expiries {
            late: expired.into_iter().map(|(_, late)| late).collect(),
            last_ms: ms(last.saturating_sub(storm.at)),
            cpu_ms,
        }
    }
}

/// Opens the connections that expire. Each connection says once how long it may be silent, and is
/// then silent. The process blocks afterwards. It does not notice when the server closes the
/// connections, so it takes no CPU time from the server.
pub(crate) fn be_silent(server: SocketAddr, connections: u64) -> anyhow::Result<()> {
    let mut streams = net::connect_std(server, connections)?;
    child::answer(&())?;
    let Some(storm) = child::told::<Storm>()? else {
        return Ok(());
    };
    for (number, stream) in (0..).zip(&mut streams) {
        stream.set_nonblocking(false)?;
        let word = storm.deadline(number);
        stream.write_all(&Frame { number, word }.to_bytes())?;
    }
    for stream in &mut streams {
        let answer = stream.read_exact(&mut [0; LENGTH]);
        answer.context("the server has not answered an idle connection")?;
    }
    child::answer(&())?;
    // Waits until the parent closes standard input.
    child::told::<()>().map(drop)
}
