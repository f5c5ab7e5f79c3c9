//! Prints the results of the storms.

use anyhow::Context as _;
use indicatif::HumanCount;
use serde::Serialize;
use tokio_wheel_benches::{lab::cores, stats::Estimate, table};

use crate::{
    open_loop::{Answers, Load},
    storm::{Args, CALM, Scene, Storm, WARM_UP, server::Expiries},
    summary::{MS, Series, cell, digits, ms, of, print_table, quantile, ratio},
    timer::Timer,
};

/// How long before the storm the timeline begins.
const BEFORE: u64 = CALM.1;

/// The results of one timer in one storm.
#[derive(Serialize)]
pub(crate) struct Run {
    /// The round trips in the calm window.
    calm: RoundTrips,
    /// The round trips in the window of the storm.
    storm: RoundTrips,
    /// The longest time within the window without an answer, in milliseconds.
    silence_ms: f64,
    expiries: Expiries,
    /// How many cores the server keeps busy in the calm, plus the average of the active clients.
    cores_in_calm: f64,
    /// For each millisecond of [`Timeline`], the longest round trip scheduled in it, in
    /// milliseconds.
    pub(crate) timeline: Vec<Option<f64>>,
    /// All round trips of the window, in nanoseconds, sorted.
    #[serde(skip)]
    window: Vec<u64>,
    /// The length of the window in nanoseconds.
    #[serde(skip)]
    window_nanos: u64,
}

/// Round trips, in milliseconds.
#[derive(Serialize)]
struct RoundTrips {
    count: usize,
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl RoundTrips {
    fn of(sorted: &[u64]) -> Self {
        let part = |part| ms(quantile(sorted, part));
        Self {
            count: sorted.len(),
            p50: part(0.5),
            p99: part(0.99),
            p999: part(0.999),
            max: part(1.0),
        }
    }
}

impl Run {
    /// Returns whether all limits expired within the window. The CPU time covers only the window.
    fn ended(&self) -> bool {
        let last = self.expiries.late.as_ref().map_or(0, |late| late.last);
        last <= self.window_nanos
    }

    /// Sums up a storm. Fails if a request got no answer.
    pub(crate) fn new(
        storm: &Storm,
        load: &Load,
        answers: &Answers,
        expiries: Expiries,
    ) -> anyhow::Result<Self> {
        let answered = answers
            .answers
            .iter()
            .map(|answer| Some(answer.as_ref()?.0));
        let answered: Option<Vec<_>> = answered.collect();
        let round_trips = answered.context("an active connection got no answer within 20 s")?;
        let round_trips: Vec<_> = (0..).map(|i| load.due(i)).zip(round_trips).collect();
        let between = |(from, to): (u64, u64)| {
            let within = round_trips
                .iter()
                .filter(move |&&(due, _)| (from..to).contains(&due));
            let mut sorted: Vec<_> = within.map(|&(_, time)| time).collect();
            sorted.sort_unstable();
            sorted
        };
        let (from, to) = (storm.at, storm.at + storm.window);
        let (calm, window) = (between(storm.calm()), between((from, to)));
        let mut ends: Vec<_> = round_trips
            .iter()
            .map(|(due, time)| (due + time).clamp(from, to))
            .collect();
        ends.extend([from, to]);
        ends.sort_unstable();
        let silence = ends.windows(2).map(|pair| pair[1] - pair[0]).max();
        let mut timeline = vec![None; ((BEFORE + storm.window) / MS) as usize];
        for &(due, time) in &round_trips {
            let bucket = due.checked_sub(from - BEFORE).map(|since| since / MS);
            if let Some(greatest) = bucket.and_then(|bucket| timeline.get_mut(bucket as usize)) {
                *greatest = Some(greatest.map_or(ms(time), |other: f64| other.max(ms(time))));
            }
        }
        let server = expiries.cpu_calm as f64 / (CALM.0 - CALM.1) as f64;
        let clients = answers.cpu as f64 / (WARM_UP + storm.window) as f64;
        Ok(Self {
            calm: RoundTrips::of(&calm),
            storm: RoundTrips::of(&window),
            silence_ms: silence.map_or(0.0, ms),
            expiries,
            cores_in_calm: server + clients,
            timeline,
            window,
            window_nanos: storm.window,
        })
    }
}

/// The figures of a run.
#[derive(Serialize)]
pub(crate) struct Report {
    rounds: u32,
    connections: u64,
    active: u64,
    rate: u64,
    /// How many milliseconds before the storm the timelines begin.
    pub(crate) timeline_before_ms: f64,
    pub(crate) scenes: Vec<Storms>,
}

/// The results of the storms of a scene.
#[derive(Serialize)]
pub(crate) struct Storms {
    pub(crate) scene: Scene,
    expiring: u64,
    pub(crate) series: [Series<Run>; 3],
    /// The 99.9th percentile with `tokio::time`, divided by the percentile with tokio-wheel.
    p999_ratio: Option<Estimate>,
}

type Figure = fn(&Run) -> Option<f64>;

/// A column of the table.
struct Column {
    name: &'static str,
    figure: Figure,
    /// Whether to print the ratio with its interval.
    judged: bool,
}

const fn column(name: &'static str, figure: Figure) -> Column {
    Column {
        name,
        figure,
        judged: false,
    }
}

const P999: Figure = |run| Some(run.storm.p999);

const ROUND_TRIPS: [Column; 6] = [
    column("calm p99.9", |run| Some(run.calm.p999)),
    column("p50", |run| Some(run.storm.p50)),
    column("p99", |run| Some(run.storm.p99)),
    Column {
        name: "p99.9",
        figure: P999,
        judged: true,
    },
    column("max", |run| Some(run.storm.max)),
    column("no answer for", |run| Some(run.silence_ms)),
];

const EXPIRIES: [Column; 5] = [
    column("late p50", |run| Some(ms(run.expiries.late.as_ref()?.p50))),
    column("late p99", |run| Some(ms(run.expiries.late.as_ref()?.p99))),
    column("late max", |run| Some(ms(run.expiries.late.as_ref()?.max))),
    column("all after", |run| {
        Some(ms(run.expiries.late.as_ref()?.last))
    }),
    column("server's CPU", |run| {
        run.ended().then(|| ms(run.expiries.cpu_storm))
    }),
];

impl Report {
    pub(crate) fn new(args: &Args, scenes: Vec<(Scene, [Series<Run>; 3])>) -> Self {
        let scenes = scenes.into_iter().map(|(scene, series)| Storms {
            scene,
            expiring: args.expiring(scene),
            p999_ratio: ratio(&series, P999),
            series,
        });
        Self {
            rounds: args.rounds,
            connections: args.connections,
            active: args.active,
            rate: args.rate,
            timeline_before_ms: ms(BEFORE),
            scenes: scenes.collect(),
        }
    }

    /// Prints the tables.
    pub(crate) fn print(&self) {
        println!(
            "{} active connections make {} round trips a second while limits expire. Medians of {}\n\
             rounds, in milliseconds. p99.99 is of all rounds together. The ratio is of the same round, \
             [with its\ninterval of 95%].\n",
            self.active,
            HumanCount(self.rate),
            self.rounds,
        );
        let mut rows = vec![head(&ROUND_TRIPS, "round trips")];
        rows[0].insert(5, "p99.99".into());
        for scene in &self.scenes {
            rows.push(vec![scene.caption()]);
            for series in &scene.series {
                let mut row = cells(series, &ROUND_TRIPS);
                row.insert(5, digits(pooled(series, 0.9999)));
                rows.push(row);
            }
            let mut row = ratios(&scene.series, &ROUND_TRIPS);
            row.insert(5, String::new());
            rows.push(row);
        }
        print_table(&rows);

        println!();
        let mut rows = vec![head(&EXPIRIES, "limits that expire")];
        rows[0].push("early".into());
        for scene in &self.scenes {
            rows.push(vec![scene.caption()]);
            for series in &scene.series {
                let mut row = cells(series, &EXPIRIES);
                let early = series.runs.iter().map(|run| run.expiries.early);
                row.push(early.sum::<u64>().to_string());
                rows.push(row);
            }
        }
        print_table(&rows);
        println!(
            "\nThe server kept in the calm, and the active clients on average, {:.2} cores busy, of {}.",
            self.cores_in_calm(),
            cores().len(),
        );
        for scene in &self.scenes {
            scene.print_what_is_missing();
            scene.print_what_outlasts();
        }
        if self.rounds < 6 {
            println!("Fewer than six rounds give no interval: the ratios say nothing.");
        }
    }

    fn cores_in_calm(&self) -> f64 {
        let series = self.scenes.iter().flat_map(|scene| &scene.series);
        let runs = series.flat_map(|series| &series.runs);
        table::median(runs.map(|run| run.cores_in_calm).collect())
    }
}

impl Storms {
    /// Returns a caption that says what expires.
    pub(crate) fn caption(&self) -> String {
        let what = if self.scene.closes_connections() {
            "connections are closed"
        } else {
            "timers without a connection fire"
        };
        let when = if self.scene.spread() == 0 {
            "at one instant"
        } else {
            "within a second"
        };
        let window = ms(self.scene.window()) / 1e3;
        format!(
            "{} {what} {when}; window of {window} s",
            HumanCount(self.expiring)
        )
    }

    /// Prints the storms that last longer than the window. For these storms, the CPU time covers
    /// only a part of the storm.
    fn print_what_outlasts(&self) {
        for timer in [Timer::Tokio, Timer::Wheel] {
            let runs = &of(&self.series, timer).runs;
            let outlasting = runs.iter().filter(|run| !run.ended()).count();
            if outlasting > 0 {
                println!(
                    "{}, {}: the storm outlasted the window in {outlasting} of {} rounds.",
                    self.scene.name(),
                    timer.name(),
                    runs.len(),
                );
            }
        }
    }

    fn print_what_is_missing(&self) {
        for timer in [Timer::Tokio, Timer::Wheel] {
            let runs = of(&self.series, timer).runs.iter();
            let missing: u64 = runs.map(|run| self.expiring - run.expiries.expired).sum();
            if missing > 0 {
                println!(
                    "{}, {}: {} limits had not expired 10 s after the window.",
                    self.scene.name(),
                    timer.name(),
                    HumanCount(missing),
                );
            }
        }
    }
}

fn head(columns: &[Column], name: &str) -> Vec<String> {
    let names = columns.iter().map(|column| column.name.to_owned());
    [name.to_owned()].into_iter().chain(names).collect()
}

fn cells(series: &Series<Run>, columns: &[Column]) -> Vec<String> {
    let cells = columns.iter().map(|column| {
        let estimate = series.estimate(column.figure);
        estimate.map_or_else(String::new, |estimate| digits(estimate.median))
    });
    let name = format!("  {}", series.timer.name());
    [name].into_iter().chain(cells).collect()
}

fn ratios(series: &[Series<Run>], columns: &[Column]) -> Vec<String> {
    let cells = columns
        .iter()
        .map(|column| match ratio(series, column.figure) {
            Some(ratio) if column.judged => cell(ratio, digits),
            _ => String::new(),
        });
    ["  tokio / wheel".to_owned()]
        .into_iter()
        .chain(cells)
        .collect()
}

/// Returns a quantile of the round trips of all rounds, in milliseconds.
fn pooled(series: &Series<Run>, part: f64) -> f64 {
    let mut all: Vec<_> = (series.runs.iter())
        .flat_map(|run| run.window.iter().copied())
        .collect();
    all.sort_unstable();
    ms(quantile(&all, part))
}
