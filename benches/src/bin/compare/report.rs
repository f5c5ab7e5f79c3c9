//! Holds the measured figures, and prints every row of them. A row is one figure of every timer
//! that has it.

use std::{collections::BTreeMap, time::Duration};

use clap::ValueEnum;
use indicatif::{HumanCount, HumanDuration};
use serde::{Deserialize, Serialize};
use tokio_wheel_benches::{
    floor, machine,
    peer::{BUILD_ALTERNATIVE, Bare, Peer, Tokio, TokioAlt, TokioWheel},
    stats::{Estimate, median, print_table, range},
};

/// The crate of this workspace, the timer that it replaces, and no timer.
pub(crate) const OURS: &str = TokioWheel::NAME;
pub(crate) const TOKIO: &str = Tokio::NAME;
pub(crate) const BARE: &str = Bare::NAME;

/// Returns whether an operation of a peer is compared to the floor.
pub(crate) fn is_floored(workload: &str, peer: &str) -> bool {
    ["churn", "io", "reset", "ready"].contains(&workload) && peer == OURS
}

/// The parts of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Section {
    Floor,
    Operations,
    Pending,
    Firing,
    Lateness,
    Saturated,
    Memory,
    Waiting,
    Wakeups,
}

impl Section {
    /// Returns the title of the section, and a note on how to read its rows.
    fn title(self) -> &'static str {
        match self {
            Self::Floor => {
                "the floor\n\
                 In all: a clock read, two lock pairs, and a clone and drop of a task's waker."
            }
            Self::Operations => {
                "operations\n\
                 solo: a thread, on a runtime with one worker. x1: a thread, on a runtime with two. x2: each of two\n\
                 threads, on two workers. More threads than there are cores take turns. armed: an earlier timer is\n\
                 pending, as on a server. bare: the workload without a timer. 100k, 1M: so many keys or elements."
            }
            Self::Pending => {
                "beside pending sleeps\n\
                 armed: an earlier timer is pending. Otherwise all pending sleeps expire later."
            }
            Self::Firing => {
                "sleeps fire\n\
                 fire: 200,000 sleeps over a second. storm: 200,000 at once. Beside a storm and beside \"fire, busy\",\n\
                 a task yields in a loop. If a sleep was polled too late, the machine was too slow for the scene."
            }
            Self::Lateness => "lateness",
            Self::Saturated => {
                "lateness, saturated\n\
                 The name says how many workers there are (0: a current-thread runtime), how many tasks are always\n\
                 ready, and how long one of their polls takes. The count of idle timers follows, or how many sleeps\n\
                 fire each second, or how many have one deadline. A sleep that is pending at the end counts with the\n\
                 lateness that it has reached."
            }
            Self::Memory => {
                "memory\n\
                 A stream has five limits: two timeouts, an idle limit and two rates."
            }
            Self::Waiting => "tasks that wait, by default 1,000,000",
            Self::Wakeups => {
                "a wake-up of the driver\n\
                 A wake-up fires one timer: CPU time of the process, with tokio's alarm and the task that sleeps."
            }
        }
    }
}

/// The name of a row of the table: section, workload, variant.
pub(crate) type RowName<'a> = (Section, &'a str, &'a str);

/// The row of the floor, and the rows of its parts.
pub(crate) const FLOOR: RowName<'_> = floor_row(floor::IN_ALL);

pub(crate) const fn floor_row(part: &str) -> RowName<'_> {
    (Section::Floor, "floor", part)
}

/// The time in which a line moves from the first core to another. The variant names that core.
pub(crate) const TRANSFER: &str = "line from the first core to core";

/// The rows of a job, with their figures.
pub(crate) type Figures = Vec<(Row, f64)>;

/// A figure that some timers have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) section: Section,
    pub(crate) workload: String,
    pub(crate) variant: String,
    pub(crate) unit: String,
}

impl Row {
    pub(crate) fn new((section, workload, variant): RowName<'_>, unit: &str) -> Self {
        Self {
            section,
            workload: workload.to_owned(),
            variant: variant.to_owned(),
            unit: unit.to_owned(),
        }
    }

    pub(crate) fn name(&self) -> RowName<'_> {
        (self.section, &self.workload, &self.variant)
    }

    fn label(&self) -> String {
        let variant = self
            .variant
            .parse()
            .map(|pending| HumanCount(pending).to_string());
        let variant = variant.unwrap_or_else(|_| self.variant.clone());
        format!("{} {variant}", self.workload)
    }
}

/// A figure of one timer, in each round that measured it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Series {
    #[serde(flatten)]
    pub(crate) row: Row,
    pub(crate) peer: String,
    /// Pairs of a round and a value.
    samples: Vec<(u32, f64)>,
}

impl Series {
    /// Returns the median of all samples.
    pub(crate) fn median(&self) -> f64 {
        self.estimate().median
    }

    pub(crate) fn estimate(&self) -> Estimate {
        let values = self.samples.iter().map(|&(_, value)| value);
        Estimate::of(values).expect("a series has a sample")
    }

    /// Returns the figure of each round. If a round has measured it several times, that is the
    /// median.
    pub(crate) fn by_round(&self) -> ByRound {
        let mut rounds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for &(round, value) in &self.samples {
            rounds.entry(round).or_default().push(value);
        }
        ByRound(
            rounds
                .into_iter()
                .map(|(round, values)| (round, median(values)))
                .collect(),
        )
    }

    /// Returns this figure divided by the other figure, round by round.
    pub(crate) fn ratio_to(&self, other: &Self) -> Option<Estimate> {
        self.by_round().per(&other.by_round()).estimate()
    }
}

/// A figure of each round. Figures are compared only within a round, because a slow machine slows
/// both figures of a round.
pub(crate) struct ByRound(BTreeMap<u32, f64>);

impl ByRound {
    /// Returns the quotients. A round has no quotient if its other figure is not above zero.
    pub(crate) fn per(&self, other: &Self) -> Self {
        self.with(other, |value, other| (other > 0.0).then(|| value / other))
    }

    /// Returns the differences.
    pub(crate) fn less(&self, other: &Self) -> Self {
        self.with(other, |value, other| Some(value - other))
    }

    /// Returns the figures, each raised to `least` if it is lower.
    pub(crate) fn at_least(mut self, least: f64) -> Self {
        self.0
            .values_mut()
            .for_each(|value| *value = value.max(least));
        self
    }

    /// Returns the estimate, or `None` if no round has a figure.
    pub(crate) fn estimate(&self) -> Option<Estimate> {
        Estimate::of(self.0.values().copied())
    }

    fn with(&self, other: &Self, combine: impl Fn(f64, f64) -> Option<f64>) -> Self {
        let rounds = self.0.iter();
        let rounds = rounds
            .filter_map(|(round, &value)| Some((*round, combine(value, *other.0.get(round)?)?)));
        Self(rounds.collect())
    }
}

/// All figures of a run.
#[derive(Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) machine: String,
    pub(crate) cores: usize,
    pub(crate) rounds: u32,
    /// How many seconds the run took.
    pub(crate) seconds: f64,
    /// The share of the cores' time that other programs took during the run.
    pub(crate) busy: f64,
    pub(crate) series: Vec<Series>,
    /// The jobs that failed, and why.
    pub(crate) failed: Vec<String>,
}

impl Measured {
    /// Creates an empty result for this machine.
    pub(crate) fn new(rounds: u32) -> Self {
        Self {
            machine: machine::name(),
            cores: machine::cores(),
            rounds,
            seconds: 0.0,
            busy: 0.0,
            series: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Adds the figures of a peer.
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

    /// Returns the series of a part, in the order of their first measurement.
    pub(crate) fn section(&self, section: Section) -> impl Iterator<Item = &Series> {
        self.series
            .iter()
            .filter(move |series| series.row.section == section)
    }

    pub(crate) fn find(&self, row: RowName<'_>, peer: &str) -> Option<&Series> {
        self.series
            .iter()
            .find(|series| series.row.name() == row && series.peer == peer)
    }

    /// Returns a figure of this crate divided by the floor of the same round. The cost of `io`
    /// without a timer is subtracted first, because the floor does not contain it.
    fn floors(&self, series: &Series) -> Option<Estimate> {
        let row = series.row.name();
        let (section, workload, _) = row;
        let is_floored = match section {
            Section::Operations => is_floored(workload, &series.peer),
            Section::Pending => series.peer == OURS,
            _ => false,
        };
        let floor = self.find(FLOOR, BARE).filter(|_| is_floored)?.by_round();
        let mut figures = series.by_round();
        if workload == "io" {
            figures = figures.less(&self.find(row, BARE)?.by_round());
        }
        figures.per(&floor).estimate()
    }
}

/// Prints every row of figures. Each timer has a line with its interval, and its multiple of this
/// crate's figure.
pub(crate) fn print(measured: &Measured) {
    print_machine(measured);
    for &section in Section::value_variants() {
        let mut rows: Vec<&Row> = Vec::new();
        for series in measured.section(section) {
            if !rows.contains(&&series.row) {
                rows.push(&series.row);
            }
        }
        if rows.is_empty() {
            continue;
        }
        println!("\n== {}", section.title());
        let mut lines = Vec::new();
        for row in rows {
            lines.push(vec![format!("{}, {}", row.label(), row.unit)]);
            let series = measured
                .section(section)
                .filter(|series| series.row == *row);
            lines.extend(series.map(|series| line(measured, series)));
        }
        print_table(&lines);
    }
    println!(
        "\nMedians. In parentheses, the interval that holds the true median with a probability of 95%; of\n\
         fewer than six samples, the lowest and the highest. x: how many times {OURS}'s, judged within\n\
         each round. A floor is a clock read, two lock pairs, and a clone and drop of a task's waker. What io\n\
         costs without a timer is taken off before its floors are counted."
    );
}

/// Prints the machine, and whether it was quiet.
pub(crate) fn print_machine(measured: &Measured) {
    println!("Machine: {}, {} cores.", measured.machine, measured.cores);
    println!(
        "Rounds: {}, in {}. In each, the timers take turns, each in a process of its own.",
        measured.rounds,
        HumanDuration(Duration::from_secs_f64(measured.seconds)),
    );
    println!("{}", machine::describe(measured.busy));
    if !measured.failed.is_empty() {
        println!("NOT MEASURED: {} jobs, see the end.", measured.failed.len());
    }
    let mut series = measured.series.iter();
    if !series.any(|series| series.peer == TokioAlt::NAME) {
        println!("{BUILD_ALTERNATIVE}");
    }
}

/// Returns the cells of one timer in one row.
fn line(measured: &Measured, series: &Series) -> Vec<String> {
    let shown = |estimate: Option<Estimate>, unit: &str| {
        estimate.map_or_else(String::new, |estimate| range(&estimate, unit))
    };
    let ours = measured
        .find(series.row.name(), OURS)
        .filter(|_| series.peer != OURS);
    vec![
        format!("  {}", series.peer),
        range(&series.estimate(), ""),
        shown(ours.and_then(|ours| series.ratio_to(ours)), "x"),
        shown(measured.floors(series), " floors"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(samples: &[(RowName<'_>, &str, &[f64])]) -> Measured {
        let mut measured = Measured::new(1);
        for &(row, peer, values) in samples {
            for (round, &value) in (0..).zip(values) {
                measured.add(round, peer, vec![(Row::new(row, "ns"), value)]);
            }
        }
        measured
    }

    #[test]
    fn floors_are_counted_of_what_is_ours() {
        let io = (Section::Operations, "io", "x2");
        let measured = measured(&[
            (FLOOR, BARE, &[40.0]),
            (io, OURS, &[62.0]),
            (io, TOKIO, &[900.0]),
            (io, BARE, &[2.0]),
            ((Section::Operations, "rpc", "x2"), OURS, &[600.0]),
        ]);
        let floors = measured
            .series
            .iter()
            .map(|series| Some(measured.floors(series)?.median));
        assert_eq!(
            floors.collect::<Vec<_>>(),
            [None, Some(1.5), None, None, None]
        );
    }

    /// A machine that is slow in one round slows both figures.
    #[test]
    fn a_ratio_is_one_of_the_same_round() {
        let row = (Section::Operations, "churn", "x2");
        let measured = measured(&[
            (row, OURS, &[10.0, 1_000.0, 0.0]),
            (row, TOKIO, &[30.0, 3_000.0, 7.0]),
        ]);
        let ratio = measured.series[1]
            .ratio_to(&measured.series[0])
            .expect("two rounds");
        assert_eq!(ratio.spread, (3.0, 3.0));
    }
}
