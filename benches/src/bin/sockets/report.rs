//! Measures the timers in rounds, compares them, and prints the results.

use std::{fs, path::Path};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tokio_wheel_benches::stats::{Estimate, in_round, number, print_table};

use crate::timer::Timer;

/// The runs of one timer, one per round.
#[derive(Serialize)]
pub(crate) struct Series<Run> {
    pub(crate) timer: Timer,
    pub(crate) runs: Vec<Run>,
}

/// The runs of all timers, in the order of [`Timer::ALL`].
pub(crate) type All<Run> = [Series<Run>; 3];

/// Returns series without a run.
pub(crate) fn none<Run>() -> All<Run> {
    Timer::ALL.map(|timer| Series {
        timer,
        runs: Vec::new(),
    })
}

/// Measures each timer in each of the scenes, round by round.
pub(crate) fn measure<Scene: Copy, Run>(
    rounds: u32,
    scenes: &[Scene],
    mut measure: impl FnMut(Scene, Timer) -> anyhow::Result<Run>,
) -> anyhow::Result<Vec<(Scene, All<Run>)>> {
    let mut all: Vec<_> = scenes.iter().map(|&scene| (scene, none())).collect();
    let bar = progress(u64::from(rounds) * scenes.len() as u64 * 3);
    for round in 0..rounds {
        for (scene, series) in &mut all {
            for i in in_round(vec![0, 1, 2], round) {
                series[i].runs.push(measure(*scene, series[i].timer)?);
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    Ok(all)
}

/// Returns a bar with `steps` steps. It shows nothing if standard error is no terminal.
pub(crate) fn progress(steps: u64) -> ProgressBar {
    let template = "{pos} of {len} {wide_bar} {elapsed} of {duration}";
    let style = ProgressStyle::with_template(template).expect("the template is well-formed");
    ProgressBar::new(steps).with_style(style)
}

/// How to compare a figure of two timers in the same round.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Compare {
    /// By the ratio of `tokio::time`'s figure to tokio-wheel's.
    Times,
    /// By how many percent tokio-wheel's figure exceeds the other.
    Percent,
    /// By how much tokio-wheel's figure exceeds the other.
    Difference,
}

/// A figure of a run: its name, and its value.
pub(crate) struct Figure<Run>(
    pub(crate) &'static str,
    pub(crate) Compare,
    pub(crate) fn(&Run) -> Option<f64>,
);

/// The heads of the columns.
pub(crate) fn head() -> Vec<String> {
    let columns = [
        "no limits",
        "tokio",
        "wheel",
        "tokio, none",
        "wheel, none",
        "wheel, tokio",
    ];
    [""].into_iter().chain(columns).map(str::to_owned).collect()
}

/// The note on the columns.
pub(crate) const NOTE: &str = "Medians of the rounds. Behind them, of the same round: how much a timer adds to none, and wheel to \
     tokio.\nx: tokio::time's figure divided by tokio_wheel's. [The interval of 95%]. * excludes that they are \
     equal.\nFewer than six rounds give no interval: no difference is shown then.";

impl<Run> Figure<Run> {
    /// Returns the row of the table: the median of each timer, and comparisons.
    pub(crate) fn row(&self, all: &All<Run>) -> Vec<String> {
        let [none, tokio, wheel] = all;
        let mut row = vec![format!("  {}", self.0)];
        row.extend([none, tokio, wheel].map(|series| {
            let values = series.runs.iter().filter_map(self.2);
            Estimate::of(values).map_or_else(String::new, |estimate| number(estimate.median))
        }));
        row.extend(
            [(tokio, none), (wheel, none), (wheel, tokio)].map(|(one, other)| {
                let over_none = other.timer == Timer::None;
                match self.1 {
                    Compare::Times if over_none => String::new(),
                    _ => self
                        .compare(one, other)
                        .map_or_else(String::new, |c| self.text(&c)),
                }
            }),
        );
        row
    }

    /// Compares two timers round by round.
    pub(crate) fn compare(&self, one: &Series<Run>, other: &Series<Run>) -> Option<Estimate> {
        let rounds = one.runs.iter().zip(&other.runs);
        let compared = rounds.filter_map(|(one, other)| {
            let (one, other) = ((self.2)(one)?, (self.2)(other)?);
            Some(match self.1 {
                Compare::Times => other / one,
                Compare::Percent => (one / other - 1.0) * 100.0,
                Compare::Difference => one - other,
            })
        });
        Estimate::of(compared.filter(|value| value.is_finite()))
    }

    fn text(&self, estimate: &Estimate) -> String {
        let value = |value: f64| match self.1 {
            Compare::Times => number(value),
            _ if value < 0.0 => format!("-{}", number(-value)),
            _ => format!("+{}", number(value)),
        };
        let (unit, equal) = match self.1 {
            Compare::Times => ("x", 1.0),
            Compare::Percent => ("%", 0.0),
            Compare::Difference => ("", 0.0),
        };
        let mark = if estimate.excludes(equal) { "*" } else { "" };
        let median = value(estimate.median);
        match estimate.interval {
            Some((low, high)) => format!("{median}{unit} [{} {}]{mark}", value(low), value(high)),
            None => format!("{median}{unit}"),
        }
    }
}

/// Prints the rows of each caption, and writes the figures of all runs into a file if there is one.
pub(crate) fn finish(
    tables: Vec<(String, Vec<Vec<String>>)>,
    json: Option<&Path>,
    figures: &impl Serialize,
) -> anyhow::Result<()> {
    let mut rows = vec![head()];
    for (caption, table) in tables {
        rows.push(vec![caption]);
        rows.extend(table);
    }
    print_table(&rows);
    println!("\n{NOTE}");
    if let Some(file) = json {
        fs::write(file, serde_json::to_vec(figures)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
