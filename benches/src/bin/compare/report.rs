//! Holds the measured figures, and prints every row of them. A row is one figure of every timer that has it.

use std::{collections::BTreeMap, time::Duration};

use indicatif::HumanDuration;
use serde::{Deserialize, Serialize};
use tokio_wheel_benches::{
    lab::cores,
    machine,
    peer::{BUILD_ALTERNATIVE, Bare, Peer, Tokio, TokioAlt, TokioWheel},
    stats::{Estimate, median, print_table, range},
};

/// The crate of this workspace, the timer that it replaces, and no timer.
pub(crate) const OURS: &str = TokioWheel::NAME;
pub(crate) const TOKIO: &str = Tokio::NAME;
pub(crate) const BARE: &str = Bare::NAME;

pub(crate) type Figures = Vec<(Row, f64)>;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    unit: String,
}

impl Row {
    pub(crate) fn new(name: impl Into<String>, unit: &str) -> Self {
        Self {
            name: name.into(),
            unit: unit.to_owned(),
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Series {
    #[serde(flatten)]
    pub(crate) row: Row,
    pub(crate) peer: String,
    samples: Vec<(u32, f64)>,
}

impl Series {
    pub(crate) fn median(&self) -> f64 {
        self.estimate().median
    }

    pub(crate) fn estimate(&self) -> Estimate {
        let values = self.samples.iter().map(|&(_, value)| value);
        Estimate::of(values).expect("a series has a sample")
    }

    /// Returns the figure of each round, which is the median if it was measured several times.
    pub(crate) fn by_round(&self) -> ByRound {
        let mut rounds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for &(round, value) in &self.samples {
            rounds.entry(round).or_default().push(value);
        }
        let medians = rounds.into_iter();
        ByRound(medians.map(|(round, of)| (round, median(of))).collect())
    }

    pub(crate) fn ratio_to(&self, other: &Self) -> Option<Estimate> {
        self.by_round().per(&other.by_round()).estimate()
    }
}

/// A figure of each round. Only a round's figures are compared, because a slow machine slows both.
pub(crate) struct ByRound(BTreeMap<u32, f64>);

impl ByRound {
    /// Returns the quotients. A round has no quotient if its other figure is not above zero.
    pub(crate) fn per(&self, other: &Self) -> Self {
        self.with(other, |value, other| (other > 0.0).then(|| value / other))
    }

    pub(crate) fn less(&self, other: &Self) -> Self {
        self.with(other, |value, other| Some(value - other))
    }

    pub(crate) fn at_least(mut self, least: f64) -> Self {
        let values = self.0.values_mut();
        values.for_each(|value| *value = value.max(least));
        self
    }

    pub(crate) fn estimate(&self) -> Option<Estimate> {
        Estimate::of(self.0.values().copied())
    }

    fn with(&self, other: &Self, combine: impl Fn(f64, f64) -> Option<f64>) -> Self {
        let mut rounds = BTreeMap::new();
        for (round, &value) in &self.0 {
            let other = other.0.get(round);
            let combined = other.and_then(|&other| combine(value, other));
            rounds.extend(combined.map(|combined| (*round, combined)));
        }
        Self(rounds)
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) machine: String,
    pub(crate) cores: usize,
    pub(crate) rounds: u32,
    pub(crate) seconds: f64,
    pub(crate) series: Vec<Series>,
    pub(crate) failed: Vec<String>,
}

impl Measured {
    pub(crate) fn new(rounds: u32) -> Self {
        Self {
            machine: machine::name(),
            cores: cores().len(),
            rounds,
            seconds: 0.0,
            series: Vec::new(),
            failed: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, round: u32, peer: &str, figures: Figures) {
        for (row, value) in figures {
            let mut known = self.series.iter_mut();
            match known.find(|series| series.row == row && series.peer == peer) {
                Some(series) => series.samples.push((round, value)),
                None => self.series.push(Series {
                    row,
                    peer: peer.to_owned(),
                    samples: vec![(round, value)],
                }),
            }
        }
    }

    pub(crate) fn find(&self, row: &str, peer: &str) -> Option<&Series> {
        let mut series = self.series.iter();
        series.find(|series| series.row.name == row && series.peer == peer)
    }
}

/// Prints every row: each timer's figure, and its multiple of this crate's figure.
pub(crate) fn print(measured: &Measured) {
    print_machine(measured);
    let mut rows: Vec<&Row> = Vec::new();
    for series in &measured.series {
        if !rows.contains(&&series.row) {
            rows.push(&series.row);
        }
    }
    let mut lines = Vec::new();
    for row in rows {
        lines.push(vec![format!("{}, {}", row.name, row.unit)]);
        let ours = measured.find(&row.name, OURS);
        for series in measured.series.iter().filter(|series| series.row == *row) {
            let ours = ours.filter(|_| series.peer != OURS);
            let ratio = ours.and_then(|ours| series.ratio_to(ours));
            lines.push(vec![
                format!("  {}", series.peer),
                range(&series.estimate(), ""),
                ratio.map_or_else(String::new, |ratio| range(&ratio, "x")),
            ]);
        }
    }
    println!();
    print_table(&lines);
    println!(
        "\nMedians. In parentheses, the interval that holds the true median with a probability of 95%; of\n\
         fewer than six samples, the lowest and the highest. x: how many times {OURS}'s, judged within\n\
         each round. The floor: a clock read, two lock pairs, and a clone and drop of a task's waker.\n\
         solo: a thread, on a runtime with one worker. x1: a thread, on a runtime with two. x2: each of two\n\
         threads, on two workers. armed: an earlier timer is pending, as on a server. bare: without a timer.\n\
         fire: 200,000 sleeps over a second. storm: 200,000 at once. Beside a storm and beside \"fire, busy\",\n\
         a task yields in a loop. Names of lateness on a busy runtime say how many workers there are (0: a\n\
         current-thread runtime), how many tasks are always ready, and how long one of their polls takes."
    );
}

pub(crate) fn print_machine(measured: &Measured) {
    println!("Machine: {}.", measured.machine);
    println!(
        "Rounds: {}, in {}. In each, the timers take turns, each in a process of its own.",
        measured.rounds,
        HumanDuration(Duration::from_secs_f64(measured.seconds)),
    );
    if !measured.failed.is_empty() {
        println!("NOT MEASURED: {} jobs, see the end.", measured.failed.len());
    }
    let mut series = measured.series.iter();
    if !series.any(|series| series.peer == TokioAlt::NAME) {
        println!("{BUILD_ALTERNATIVE}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that is slow in one round slows both figures.
    #[test]
    fn a_ratio_is_one_of_the_same_round() {
        let row = Row::new("churn x2", "ns");
        let mut measured = Measured::new(3);
        for (round, ours, tokio) in [(0, 10.0, 30.0), (1, 1_000.0, 3_000.0), (2, 0.0, 7.0)] {
            measured.add(round, OURS, vec![(row.clone(), ours)]);
            measured.add(round, TOKIO, vec![(row.clone(), tokio)]);
        }
        let ratio = measured.series[1].ratio_to(&measured.series[0]);
        assert_eq!(ratio.expect("two rounds").spread, (3.0, 3.0));
    }
}
