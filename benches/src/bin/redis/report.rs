//! Prints the results of the rounds on one screen.

use std::time::Duration;

use serde::Serialize;
use tokio_wheel_benches::{lab::cores, stats::Estimate, table, table::median};

use crate::{
    load::{Turn, describe},
    timers::Timer,
};

/// The pairs of timers to compare.
const PAIRS: [(Timer, Timer); 4] = [
    (Timer::Wheel, Timer::Tokio),
    (Timer::Wheel, Timer::None),
    (Timer::Tokio, Timer::None),
    (Timer::Control, Timer::Tokio),
];

/// The figures of a timer at a depth. Each value combines the two turns of a round.
#[derive(Serialize)]
pub(crate) struct Series {
    pub(crate) timer: Timer,
    pub(crate) depth: u32,
    pub(crate) turns: Vec<Turn>,
}

impl Series {
    pub(crate) fn new(timer: Timer, depth: u32) -> Self {
        Self {
            timer,
            depth,
            turns: Vec::new(),
        }
    }

    fn median(&self, figure: fn(&Turn) -> f64) -> f64 {
        median(self.turns.iter().map(figure).collect())
    }

    /// Returns by how many percent a figure exceeds another timer's figure of the same round.
    fn over(&self, other: &Self, figure: fn(&Turn) -> f64) -> Estimate {
        let rounds = self.turns.iter().zip(&other.turns);
        let percent = rounds.map(|(turn, other)| (figure(turn) / figure(other) - 1.0) * 100.0);
        Estimate::of(percent.collect())
    }
}

/// The figures of a run.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) server: String,
    pub(crate) server_process: u32,
    pub(crate) workers: u8,
    pub(crate) turn: Duration,
    pub(crate) rounds: u32,
    /// The series, depth by depth. Each depth has all timers.
    pub(crate) series: Vec<Series>,
}

fn rate(turn: &Turn) -> f64 {
    turn.requests as f64 / turn.seconds
}

fn client_us(turn: &Turn) -> f64 {
    turn.client_seconds * 1e6 / turn.requests as f64
}

fn server_us(turn: &Turn) -> f64 {
    turn.server_seconds * 1e6 / turn.requests as f64
}

/// Returns how many requests the server found at a time.
fn batch(turn: &Turn) -> f64 {
    turn.all.sent as f64 / turn.all.server_reads.max(1) as f64
}

impl Report {
    /// Returns half the width of the widest interval, in percent.
    pub(crate) fn widest_half(&self) -> f64 {
        let half = |estimate: Estimate| (estimate.spread.1 - estimate.spread.0) / 2.0;
        self.comparisons()
            .flat_map(|(series, other)| [rate, client_us].map(|figure| series.over(other, figure)))
            .map(half)
            .fold(0.0, f64::max)
    }

    fn comparisons(&self) -> impl Iterator<Item = (&Series, &Series)> {
        let find = |timer, depth| {
            let mut series = self.series.iter();
            series.find(move |series| (series.timer, series.depth) == (timer, depth))
        };
        self.depths().into_iter().flat_map(move |depth| {
            PAIRS
                .into_iter()
                .filter_map(move |(one, other)| Some((find(one, depth)?, find(other, depth)?)))
        })
    }

    fn depths(&self) -> Vec<u32> {
        let mut depths: Vec<_> = self.series.iter().map(|series| series.depth).collect();
        depths.dedup();
        depths
    }

    /// Prints the tables.
    pub(crate) fn print(&self) {
        println!(
            "GET after GET on one multiplexed connection of the crate redis, each under a timeout of 30 s.\n\
             redis-server {}, {}, {} cores;\n\
             {} rounds of two turns of {:?} for each row\n",
            self.server,
            describe(self.workers),
            cores().len(),
            self.rounds,
            self.turn,
        );
        self.print_medians();
        println!(
            "\nWhat one timer changes over another in the same round: the median [its interval of 95%]\n"
        );
        self.print_comparisons();
        self.print_verdict();
    }

    fn print_medians(&self) {
        let titles = [
            "in flight, timer",
            "requests/s",
            "p50, us",
            "p99, us",
            "client's CPU",
            "server's CPU",
            "batch",
        ];
        let mut rows = vec![titles.map(str::to_owned).to_vec()];
        for series in &self.series {
            rows.push(vec![
                format!("{:5}  {}", series.depth, series.timer.name()),
                format!("{:.0}", series.median(rate)),
                format!("{:.0}", series.median(|turn| turn.p50_us)),
                format!("{:.0}", series.median(|turn| turn.p99_us)),
                format!("{:.2}", series.median(client_us)),
                format!("{:.2}", series.median(server_us)),
                format!("{:.1}", series.median(batch)),
            ]);
        }
        table::print(&rows);
        println!("CPU in us/request; batch: requests that the server finds at a time");
    }

    fn print_comparisons(&self) {
        let titles = [
            "in flight, timer",
            "requests/s",
            "",
            "client's CPU/request",
            "",
        ];
        let mut rows = vec![titles.map(str::to_owned).to_vec()];
        for (series, other) in self.comparisons() {
            let (rate, cpu) = (series.over(other, rate), series.over(other, client_us));
            let names = (series.timer.name(), other.timer.name());
            rows.push(vec![
                format!("{:5}  {} over {}", series.depth, names.0, names.1),
                cell(rate),
                verdict(rate, ["more", "fewer"]).to_owned(),
                cell(cpu),
                verdict(cpu, ["more", "less"]).to_owned(),
            ]);
        }
        table::print(&rows);
    }

    fn print_verdict(&self) {
        let intervals = self.comparisons().count() * 2;
        if self.rounds < 6 {
            println!("\nFewer than six rounds show nothing.");
        } else {
            println!(
                "\nShown is \"more\", \"fewer\" or \"less\": 0 is outside the interval. \"-\" means: not shown.\n\
                 By chance about {:.1} of these {intervals} intervals miss the truth. The widest is +-{:.1}%.",
                intervals as f64 * 0.05,
                self.widest_half(),
            );
        }
    }
}

fn cell(estimate: Estimate) -> String {
    let median = format!("{:+.1}%", estimate.median);
    match estimate.interval {
        Some((low, high)) => format!("{median} [{low:+.1} {high:+.1}]"),
        None => median,
    }
}

fn verdict(estimate: Estimate, [above, below]: [&'static str; 2]) -> &'static str {
    match estimate.median > 0.0 {
        _ if !estimate.excludes(0.0) => "-",
        true => above,
        false => below,
    }
}
