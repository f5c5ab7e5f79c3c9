//! Prints the results of the rounds.

use indicatif::HumanCount;
use serde::Serialize;
use tokio_wheel_benches::{lab::cores, stats::Estimate, table};

use crate::{
    calm::{
        limits::Timer,
        load::Plan,
        sample::{Rpc, Sample},
    },
    summary::{cell, print_table},
};

/// The samples of one timer, one per round.
#[derive(Serialize)]
pub(crate) struct Series {
    pub(crate) timer: Timer,
    pub(crate) http: Vec<Sample>,
    /// The samples of the in-process service. Empty if the timer does not differ from another timer
    /// there.
    pub(crate) rpc: Vec<Rpc>,
}

impl Series {
    pub(crate) fn new(timer: Timer) -> Self {
        Self {
            timer,
            http: Vec::new(),
            rpc: Vec::new(),
        }
    }

    fn http(&self, figure: fn(&Sample) -> f64) -> Vec<f64> {
        self.http.iter().map(figure).collect()
    }

    fn rpc(&self, figure: fn(&Rpc) -> f64) -> Vec<f64> {
        self.rpc.iter().map(figure).collect()
    }
}

/// The measured samples, and the results computed from them.
#[derive(Serialize)]
pub(crate) struct Report {
    plan: Plan,
    series: Vec<Series>,
    medians: Vec<Median>,
    comparisons: Vec<Comparison>,
}

/// A figure of one timer.
#[derive(Serialize)]
struct Median {
    figure: &'static str,
    timer: Timer,
    estimate: Estimate,
}

/// A figure of one timer compared with another timer's figure of the same round.
#[derive(Serialize)]
struct Comparison {
    figure: &'static str,
    timer: Timer,
    over: Timer,
    /// The change in percent, or in the unit of the figure.
    change: Estimate,
    /// The verdict, or `None` if there are too few rounds.
    verdict: Option<Verdict>,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Better,
    Worse,
    WithinTheNoise,
}

/// A row of the tables.
struct Figure {
    name: &'static str,
    values: fn(&Series) -> Vec<f64>,
    decimals: usize,
    change: Change,
    more_is_better: bool,
}

/// How to compare two values.
enum Change {
    /// By how many percent the first value exceeds the second.
    Percent,
    /// By how much the first value exceeds the second, in the unit of the figure.
    Difference,
}

const FIGURES: &[Figure] = &[
    Figure {
        name: "requests/s",
        values: |series| series.http(|sample| sample.requests_per_second),
        decimals: 0,
        change: Change::Percent,
        more_is_better: true,
    },
    Figure {
        name: "p50, us",
        values: |series| series.http(|sample| sample.p50_us),
        decimals: 0,
        change: Change::Percent,
        more_is_better: false,
    },
    Figure {
        name: "p99, us",
        values: |series| series.http(|sample| sample.p99_us),
        decimals: 0,
        change: Change::Percent,
        more_is_better: false,
    },
    Figure {
        name: "p99.9, us",
        values: |series| series.http(|sample| sample.p999_us),
        decimals: 0,
        change: Change::Percent,
        more_is_better: false,
    },
    Figure {
        name: "server, us of CPU/req.",
        values: |series| series.http(|sample| sample.server_us),
        decimals: 2,
        change: Change::Difference,
        more_is_better: false,
    },
    Figure {
        name: "clients, us of CPU/req.",
        values: |series| series.http(|sample| sample.clients_us),
        decimals: 2,
        change: Change::Difference,
        more_is_better: false,
    },
    Figure {
        name: "server's bytes/conn.",
        values: |series| series.http(|sample| sample.bytes_per_connection),
        decimals: 0,
        change: Change::Difference,
        more_is_better: false,
    },
    Figure {
        name: "in process, ns/request",
        values: |series| series.rpc(|rpc| rpc.nanos),
        decimals: 0,
        change: Change::Difference,
        more_is_better: false,
    },
    Figure {
        name: "its CPU, ns/request",
        values: |series| series.rpc(|rpc| rpc.cpu_nanos),
        decimals: 0,
        change: Change::Difference,
        more_is_better: false,
    },
];

impl Figure {
    fn of(&self, series: &Series) -> Option<Median> {
        let values = (self.values)(series);
        (!values.is_empty()).then(|| Median {
            figure: self.name,
            timer: series.timer,
            estimate: Estimate::of(values),
        })
    }

    /// Compares round by round, so that a property of a round affects both sides.
    fn compare(&self, series: &Series, over: &Series) -> Option<Comparison> {
        let change = |(one, other): (f64, f64)| match self.change {
            Change::Percent => (one / other - 1.0) * 100.0,
            Change::Difference => one - other,
        };
        let rounds = (self.values)(series)
            .into_iter()
            .zip((self.values)(over))
            .map(change);
        let changes: Vec<_> = rounds.collect();
        if changes.is_empty() {
            return None;
        }
        let change = Estimate::of(changes);
        let verdict = change.interval.map(|_| match change.median > 0.0 {
            _ if !change.excludes(0.0) => Verdict::WithinTheNoise,
            more if more == self.more_is_better => Verdict::Better,
            _ => Verdict::Worse,
        });
        Some(Comparison {
            figure: self.name,
            timer: series.timer,
            over: over.timer,
            change,
            verdict,
        })
    }
}

impl Report {
    /// Creates a report from series of the same rounds: without limits, with tokio-wheel, and with
    /// other timers.
    pub(crate) fn new(plan: Plan, series: Vec<Series>) -> Self {
        let medians = FIGURES
            .iter()
            .flat_map(|figure| series.iter().filter_map(|series| figure.of(series)))
            .collect();
        let comparisons = FIGURES
            .iter()
            .flat_map(|figure| {
                pairs(&series).filter_map(|(series, over)| figure.compare(series, over))
            })
            .collect();
        Self {
            plan,
            series,
            medians,
            comparisons,
        }
    }

    /// Prints the tables.
    pub(crate) fn print(&self) {
        let Plan {
            connections,
            busy,
            addresses,
            every,
            turns,
            seconds,
            ..
        } = self.plan;
        let rounds = self.series.first().map_or(0, |series| series.http.len());
        println!(
            "{} connections from {addresses} addresses, {busy} of them busy, each other one with a \
             request\nevery {every:?}; {rounds} rounds of {turns} turns of {seconds:?}; medians [and \
             their intervals of 95%]\n",
            HumanCount(connections),
        );
        self.print_medians();
        println!(
            "\nServer and clients kept {:.2} cores busy, of {}.",
            self.cores_in_use(),
            cores().len(),
        );
        println!(
            "\nWhat one timer changes over another in the same round. * marks an interval that excludes \
             0; without\nit no difference is shown.\n"
        );
        self.print_comparisons();
        if rounds < 6 {
            println!("\nFewer than six rounds give no interval: no difference is shown.");
        }
    }

    fn cores_in_use(&self) -> f64 {
        let samples = self.series.iter().flat_map(|series| &series.http);
        let busy = |sample: &Sample| {
            sample.requests_per_second * (sample.server_us + sample.clients_us) / 1e6
        };
        table::median(samples.map(busy).collect())
    }

    fn print_medians(&self) {
        let mut rows = vec![vec![String::new()]];
        rows[0].extend(self.series.iter().map(|series| series.timer.name().into()));
        for figure in FIGURES {
            let median = |timer| {
                let mut medians = self.medians.iter();
                medians.find(|median| (median.figure, median.timer) == (figure.name, timer))
            };
            let mut row = vec![figure.name.to_owned()];
            row.extend(self.series.iter().map(|series| {
                median(series.timer).map_or_else(String::new, |median| {
                    let value = |value: f64| format!("{value:.*}", figure.decimals);
                    cell(median.estimate, value)
                })
            }));
            rows.push(row);
        }
        print_table(&rows);
    }

    fn print_comparisons(&self) {
        let mut rows = vec![vec![String::new()]];
        rows[0].extend(
            pairs(&self.series).map(|(series, over)| {
                format!("{} over {}", series.timer.name(), over.timer.name())
            }),
        );
        for figure in FIGURES {
            let comparison = |timer, over| {
                let mut comparisons = self.comparisons.iter();
                comparisons.find(|of| (of.figure, of.timer, of.over) == (figure.name, timer, over))
            };
            let mut row = vec![figure.name.to_owned()];
            row.extend(pairs(&self.series).map(|(series, over)| {
                comparison(series.timer, over.timer).map_or_else(String::new, |comparison| {
                    let value = |value: f64| match figure.change {
                        Change::Percent => format!("{value:+.1}%"),
                        Change::Difference => format!("{value:+.*}", figure.decimals),
                    };
                    let mark = if comparison.change.excludes(0.0) {
                        "*"
                    } else {
                        " "
                    };
                    cell(comparison.change, value) + mark
                })
            }));
            rows.push(row);
        }
        print_table(&rows);
    }
}

/// Returns the pairs of series to compare. Each series with limits is compared with the series
/// without limits, and tokio-wheel with the other timers.
fn pairs(series: &[Series]) -> impl Iterator<Item = (&Series, &Series)> {
    let of = |timer| series.iter().filter(move |series| series.timer == timer);
    let limits = || series.iter().filter(|series| series.timer != Timer::None);
    let over_none =
        of(Timer::None).flat_map(move |none| limits().map(move |limits| (limits, none)));
    let others = move || limits().filter(|series| series.timer != Timer::Wheel);
    let over_others =
        of(Timer::Wheel).flat_map(move |wheel| others().map(move |other| (wheel, other)));
    over_none.chain(over_others)
}
