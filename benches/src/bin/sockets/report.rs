//! Measures the timers in rounds, compares them, and prints the results.

use std::iter;

use indicatif::ProgressIterator as _;
use tokio_wheel_benches::{
    machine,
    peer::BUILD_ALTERNATIVE,
    stats::{Estimate, in_round, median, number, print_table},
};

use crate::{timeline::Trips, timer::Timer};

/// The runs of all timers under one load. All runs have the same figures.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) caption: String,
    pub(crate) runs: Vec<(Timer, Vec<Figure>)>,
    /// The round trips of each run, if the scene has a plot.
    pub(crate) trips: Vec<Trips>,
}

/// A figure of a run: its name, how to compare it, and its value.
pub(crate) type Figure = (&'static str, Compare, f64);

/// How to compare a figure of two timers in the same round.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Compare {
    /// By the ratio of the other timer's figure to tokio-wheel's.
    Times,
    /// By how many percent a timer's figure exceeds the other.
    Percent,
    /// By how much a timer's figure exceeds the other.
    Difference,
}

const NOTE: &str = "Medians of the rounds. To their right, differences and ratios within a round: what a timer adds to none, and \
     tokio_wheel\ncompared with the others. x: the other's figure divided by tokio_wheel's. [The interval of 95%]. *: a significant \
     difference.\nFewer than six rounds give no interval, and so no significant difference.";

/// Returns the pairs of timers to compare: each with none, and tokio-wheel with each other.
fn pairs() -> impl Iterator<Item = (Timer, Timer)> {
    let (&wheel, others) = Timer::all().split_last().expect("there are timers");
    let over_none = Timer::all()[1..].iter().map(|&timer| (timer, Timer::None));
    over_none.chain(others[1..].iter().map(move |&other| (wheel, other)))
}

impl Table {
    pub(crate) fn new(caption: String) -> Self {
        Self {
            caption,
            ..Self::default()
        }
    }

    fn rows(&self) -> impl Iterator<Item = Vec<String>> {
        let figures = self.runs[0].1.iter().enumerate();
        figures.map(|(figure, &(name, compare, _))| {
            let values = |timer: Timer| {
                let runs = self.runs.iter().filter(move |run| run.0 == timer);
                runs.map(move |run| run.1[figure].2)
            };
            let medians = (Timer::all().iter()).map(|&timer| number(median(values(timer))));
            let compared = pairs().map(|(one, other)| match compare {
                Compare::Times if other == Timer::None => String::new(),
                _ => compare.text(values(one).zip(values(other))),
            });
            let name = iter::once(format!("  {name}"));
            name.chain(medians).chain(compared).collect()
        })
    }
}

impl Compare {
    /// Compares `(one, other)` of each round, with an interval.
    pub(crate) fn text(self, rounds: impl Iterator<Item = (f64, f64)>) -> String {
        let (unit, equal) = match self {
            Self::Times => ("x", 1.0),
            Self::Percent => ("%", 0.0),
            Self::Difference => ("", 0.0),
        };
        let compared = rounds.map(|(one, other)| match self {
            Self::Times => other / one,
            Self::Percent => (one / other - 1.0) * 100.0,
            Self::Difference => one - other,
        });
        let Some(estimate) = Estimate::of(compared.filter(|value| value.is_finite())) else {
            return String::new();
        };
        let value = |value: f64| match self {
            Self::Times => number(value),
            _ if value < 0.0 => format!("-{}", number(-value)),
            _ => format!("+{}", number(value)),
        };
        let median = value(estimate.median) + unit;
        let Some((low, high)) = estimate.interval else {
            return median;
        };
        let mark = if estimate.excludes(equal) { "*" } else { "" };
        format!("{median} [{} {}]{mark}", value(low), value(high))
    }
}

/// Measures the timers in so many rounds, each in another order.
pub(crate) fn measure(
    rounds: u32,
    mut round: impl FnMut(&[Timer]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    machine::warn();
    println!("Machine: {}.", machine::name());
    let mut rounds = (0..rounds).progress();
    rounds.try_for_each(|number| round(&in_round(Timer::all().into(), number)))
}

pub(crate) fn print<'a>(tables: impl IntoIterator<Item = &'a Table>) {
    let short = |timer: Timer| format!("{timer:?}").to_lowercase();
    let alone = Timer::all().iter().map(|timer| timer.name().to_owned());
    let compared = pairs().map(|(one, other)| format!("{}, {}", short(one), short(other)));
    let head = iter::once(String::new()).chain(alone).chain(compared);
    let mut rows = vec![head.collect()];
    for table in tables {
        rows.push(vec![table.caption.clone()]);
        rows.extend(table.rows());
    }
    print_table(&rows);
    println!("\n{NOTE}");
    if !Timer::all().contains(&Timer::Alternative) {
        println!("{BUILD_ALTERNATIVE}");
    }
}
