//! Prints the results of the saturated server.

use indicatif::HumanCount;
use serde::Serialize;
use tokio_wheel_benches::stats::Estimate;

use crate::{
    open_loop::Answers,
    saturated::{
        LOADS,
        server::{OK, Timeouts},
    },
    summary::{Series, cell, digits, ms, of, print_table, ratio},
    timer::Timer,
};

/// An answer is in time if it comes this many nanoseconds after the scheduled time of its request,
/// or earlier.
const IN_TIME: u64 = 100_000_000;

/// The results of one timer at one load.
#[derive(Serialize)]
pub(crate) struct Run {
    requests: usize,
    /// The percentage of the requests with the answer 200 in time.
    in_time: f64,
    /// The percentage of the requests with an answer.
    answered: f64,
    timeouts: Timeouts,
}

impl Run {
    pub(crate) fn new(answers: &Answers, timeouts: Timeouts) -> Self {
        let requests = answers.answers.len();
        let answered = || answers.answers.iter().flatten();
        let in_time = answered().filter(|&&(time, status)| status == OK && time <= IN_TIME);
        let percent = |count: usize| 100.0 * count as f64 / requests as f64;
        Self {
            requests,
            in_time: percent(in_time.count()),
            answered: percent(answered().count()),
            timeouts,
        }
    }
}

/// The figures of a run.
#[derive(Serialize)]
pub(crate) struct Report {
    rounds: u32,
    /// The capacity in requests per second.
    capacity: u64,
    cells: Vec<Cell>,
}

/// The results of one load beside a number of idle timers.
#[derive(Serialize)]
struct Cell {
    idle: u64,
    load: f64,
    series: Vec<Series<Run>>,
    comparisons: Vec<Comparison>,
}

/// A comparison of `tokio::time` with tokio-wheel in the same round.
#[derive(Serialize)]
struct Comparison {
    figure: &'static str,
    /// A ratio of times, or a difference of shares.
    estimate: Option<Estimate>,
    /// Whether the interval excludes equality.
    shown: bool,
}

type Figure = fn(&Run) -> Option<f64>;

/// A column of the table.
struct Column {
    name: &'static str,
    figure: Figure,
    is_share: bool,
}

const COLUMNS: [Column; 4] = [
    Column {
        name: "late p50",
        figure: |run| Some(ms(run.timeouts.late.as_ref()?.p50)),
        is_share: false,
    },
    Column {
        name: "late p99",
        figure: |run| Some(ms(run.timeouts.late.as_ref()?.p99)),
        is_share: false,
    },
    Column {
        name: "late max",
        figure: |run| Some(ms(run.timeouts.late.as_ref()?.max)),
        is_share: false,
    },
    Column {
        name: "200 in 100 ms, %",
        figure: |run| Some(run.in_time),
        is_share: true,
    },
];

impl Column {
    fn compare(&self, series: &[Series<Run>]) -> Comparison {
        let (estimate, equal) = if self.is_share {
            (difference(series, self.figure), 0.0)
        } else {
            (ratio(series, self.figure), 1.0)
        };
        Comparison {
            figure: self.name,
            estimate,
            shown: estimate.is_some_and(|estimate| estimate.excludes(equal)),
        }
    }

    fn write(&self, comparison: &Comparison) -> String {
        let Some(estimate) = comparison.estimate else {
            return String::new();
        };
        let text = if self.is_share {
            cell(estimate, |value| format!("{value:+.1}"))
        } else {
            cell(estimate, digits)
        };
        if comparison.shown {
            format!("{text}*")
        } else {
            text
        }
    }
}

/// Returns a figure with `tokio::time` minus the figure with tokio-wheel of the same round.
fn difference(series: &[Series<Run>], figure: Figure) -> Option<Estimate> {
    let tokio = of(series, Timer::Tokio).values(figure)?;
    let wheel = of(series, Timer::Wheel).values(figure)?;
    let differences = tokio
        .into_iter()
        .zip(wheel)
        .map(|(tokio, wheel)| tokio - wheel);
    let differences: Vec<_> = differences.collect();
    (!differences.is_empty()).then(|| Estimate::of(differences))
}

impl Report {
    /// Creates a report from series. Each run of a series has a member for each load.
    pub(crate) fn new(
        rounds: u32,
        capacity: u64,
        crowds: Vec<(u64, [Series<Vec<Run>>; 3])>,
    ) -> Self {
        let mut cells = Vec::new();
        for (idle, crowd) in crowds {
            let mut by_load: Vec<Vec<_>> = LOADS.map(|_| Vec::new()).into();
            for Series { timer, runs } in crowd {
                let mut parts: Vec<Vec<_>> = LOADS.map(|_| Vec::new()).into();
                for run in runs {
                    for (part, run) in parts.iter_mut().zip(run) {
                        part.push(run);
                    }
                }
                for (series, runs) in by_load.iter_mut().zip(parts) {
                    series.push(Series { timer, runs });
                }
            }
            cells.extend(LOADS.into_iter().zip(by_load).map(|(load, series)| Cell {
                idle,
                load,
                comparisons: COLUMNS.map(|column| column.compare(&series)).into(),
                series,
            }));
        }
        Self {
            rounds,
            capacity,
            cells,
        }
    }

    /// Prints the table.
    pub(crate) fn print(&self) {
        println!(
            "A request waits for a permit for at most 50 ms, works for 100 us, and is answered 200; or 503 \
             if\nthe 50 ms pass. One of 20 waits for a backend that never answers. Late, in ms: how late the \
             timeouts\nof these fire. The server can take {} requests a second. Medians of {} rounds. Once in \
             4.1 s a sixth\nof the idle timers cascades: here while the last load lasts.\n",
            HumanCount(self.capacity),
            self.rounds,
        );
        let mut rows = vec![vec![String::new()]];
        rows[0].extend(COLUMNS.map(|column| column.name.to_owned()));
        for cell in &self.cells {
            let idle = HumanCount(cell.idle);
            rows.push(vec![format!(
                "{} times the capacity, beside {idle} idle timers",
                cell.load
            )]);
            rows.extend(cell.series.iter().map(row));
            let mut row = vec!["  tokio to wheel".to_owned()];
            let comparisons = COLUMNS.iter().zip(&cell.comparisons);
            row.extend(comparisons.map(|(column, comparison)| column.write(comparison)));
            rows.push(row);
        }
        print_table(&rows);
        let runs = self.cells.iter().flat_map(|cell| &cell.series);
        let early = runs
            .flat_map(|series| &series.runs)
            .map(|run| run.timeouts.early);
        println!("\nTimeouts that fired early: {}.", early.sum::<u64>());
        println!(
            "tokio to wheel: tokio::time's lateness divided by tokio_wheel's, and its share less \
             tokio_wheel's,\nof the same round, [with the interval of 95%].",
        );
        let mut comparisons = self.cells.iter().flat_map(|cell| &cell.comparisons);
        if self.rounds < 6 {
            println!("Fewer than six rounds give no interval: no difference is shown.");
        } else if comparisons.any(|comparison| comparison.shown) {
            println!("* The interval excludes that they are equal. No other difference is shown.");
        } else {
            println!("Every interval includes that they are equal: no difference is shown.");
        }
    }
}

fn row(series: &Series<Run>) -> Vec<String> {
    let mut row = vec![format!("  {}", series.timer.name())];
    row.extend(COLUMNS.iter().map(|column| {
        let estimate = series.estimate(column.figure);
        estimate.map_or_else(String::new, |estimate| {
            if column.is_share {
                format!("{:.1}", estimate.median)
            } else {
                digits(estimate.median)
            }
        })
    }));
    row
}
