//! Holds the measured figures. A row is one figure of every timer that has it.

use std::{collections::BTreeMap, fs, path::Path, thread};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tokio_wheel_benches::{
    late::Late,
    lateness::{Scene, Sleeper},
    peer::{Bare, Timeouts, Tokio, TokioWheel},
    stats::Estimate,
    table::median,
};

use crate::{
    job::{FLOOR, Outcome},
    machine::{self, Busy},
    requirements::{self, Verdict},
};

/// The crate of this workspace, to which the other peers are compared.
pub(crate) const OURS: &str = TokioWheel::NAME;

/// The timer that the crate replaces.
pub(crate) const TOKIO: &str = Tokio::NAME;

/// The name of the operations without any timer.
pub(crate) const BARE: &str = Bare::NAME;

/// The operations that are compared to the floor.
const FLOORED: [&str; 4] = ["churn", "io", "reset", "ready"];

/// Returns whether an operation of a peer is compared to the floor.
pub(crate) fn is_floored(workload: &str, peer: &str) -> bool {
    FLOORED.contains(&workload) && peer == OURS
}

/// The parts of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Section {
    Floor,
    Operations,
    Pending,
    Threads,
    Queues,
    Touches,
    Firing,
    Lateness,
    Saturated,
    Memory,
    Waiting,
    Wakeups,
}

/// The name of a row of the table: section, workload, variant.
pub(crate) type RowName = (Section, &'static str, &'static str);

/// A figure that some timers have.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) section: Section,
    pub(crate) workload: String,
    pub(crate) variant: String,
    pub(crate) unit: String,
}

impl Row {
    pub(crate) fn new(section: Section, workload: &str, variant: &str, unit: &str) -> Self {
        Self {
            section,
            workload: workload.to_owned(),
            variant: variant.to_owned(),
            unit: unit.to_owned(),
        }
    }

    pub(crate) fn read(self, peer: &str, value: f64) -> Reading {
        Reading {
            row: self,
            peer: peer.to_owned(),
            value,
        }
    }
}

/// One figure of one timer, measured once.
#[derive(Serialize, Deserialize)]
pub(crate) struct Reading {
    row: Row,
    peer: String,
    value: f64,
}

/// A figure of one timer, in each round that measured it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Series {
    #[serde(flatten)]
    pub(crate) row: Row,
    pub(crate) peer: String,
    /// Pairs of a round and a value.
    pub(crate) samples: Vec<(u32, f64)>,
}

impl Series {
    pub(crate) fn estimate(&self) -> Estimate {
        Estimate::of(self.samples.iter().map(|&(_, value)| value).collect())
    }

    /// Returns the figure of each round. If a round has measured it several times, that is the
    /// median.
    pub(crate) fn by_round(&self) -> ByRound {
        let mut rounds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for &(round, value) in &self.samples {
            rounds.entry(round).or_default().push(value);
        }
        let median = |(round, values)| (round, median(values));
        ByRound(rounds.into_iter().map(median).collect())
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

    /// Returns the figures, each raised to `least` if it is lower.
    pub(crate) fn at_least(&self, least: f64) -> Self {
        let raised = self
            .0
            .iter()
            .map(|(&round, value)| (round, value.max(least)));
        Self(raised.collect())
    }

    /// Returns the differences.
    pub(crate) fn less(&self, other: &Self) -> Self {
        self.with(other, |value, other| Some(value - other))
    }

    /// Returns the estimate, or `None` if no round has a figure.
    pub(crate) fn estimate(&self) -> Option<Estimate> {
        (!self.0.is_empty()).then(|| Estimate::of(self.0.values().copied().collect()))
    }

    fn with(&self, other: &Self, combine: impl Fn(f64, f64) -> Option<f64>) -> Self {
        let rounds = self.0.iter().filter_map(|(round, &value)| {
            let combined = combine(value, *other.0.get(round)?)?;
            Some((*round, combined))
        });
        Self(rounds.collect())
    }
}

/// How late sleeps woke, over all rounds.
#[derive(Serialize, Deserialize)]
pub(crate) struct Curve {
    pub(crate) scene: Scene,
    pub(crate) sleeper: Sleeper,
    pub(crate) late: Late,
}

/// All figures of a run.
#[derive(Serialize, Deserialize)]
pub(crate) struct Measured {
    /// The machine of the run.
    pub(crate) machine: String,
    pub(crate) cores: usize,
    pub(crate) rounds: u32,
    /// How long the run took. Earlier files have neither this field nor the next one.
    #[serde(default)]
    pub(crate) seconds: Option<f64>,
    /// How busy other programs were during the run.
    #[serde(default)]
    pub(crate) busy: Option<Busy>,
    pub(crate) series: Vec<Series>,
    pub(crate) lateness: Vec<Curve>,
    /// The jobs that failed, and why.
    pub(crate) failed: Vec<String>,
}

impl Measured {
    /// Creates an empty result for this machine.
    pub(crate) fn new(rounds: u32) -> Self {
        Self {
            machine: machine::name(),
            cores: thread::available_parallelism().map_or(1, usize::from),
            rounds,
            seconds: None,
            busy: None,
            series: Vec::new(),
            lateness: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Adds the results of a job.
    pub(crate) fn add(&mut self, round: u32, outcome: Outcome) {
        for reading in outcome.readings {
            self.add_reading(round, reading);
        }
        if let Some(curve) = outcome.late {
            let known = (self.lateness.iter_mut())
                .find(|known| (known.scene, known.sleeper) == (curve.scene, curve.sleeper));
            match known {
                Some(known) => known.late += curve.late,
                None => self.lateness.push(curve),
            }
        }
    }

    fn add_reading(&mut self, round: u32, reading: Reading) {
        let Reading { row, peer, value } = reading;
        let known =
            (self.series.iter_mut()).find(|series| series.row == row && series.peer == peer);
        match known {
            Some(series) => series.samples.push((round, value)),
            None => self.series.push(Series {
                row,
                peer,
                samples: vec![(round, value)],
            }),
        }
    }

    /// Returns the series of a part, in the order of their first measurement.
    pub(crate) fn section(&self, section: Section) -> impl Iterator<Item = &Series> {
        (self.series.iter()).filter(move |series| series.row.section == section)
    }

    pub(crate) fn find(
        &self,
        section: Section,
        workload: &str,
        variant: &str,
        peer: &str,
    ) -> Option<&Series> {
        self.section(section).find(|series| {
            (&*series.row.workload, &*series.row.variant, &*series.peer)
                == (workload, variant, peer)
        })
    }

    /// Returns this crate's series of a row.
    pub(crate) fn ours(&self, row: &Row) -> Option<&Series> {
        (self.series.iter()).find(|series| series.row == *row && series.peer == OURS)
    }

    /// Returns a figure of this crate divided by the floor of the same round. The cost of `io`
    /// without a timer is subtracted first, because the floor does not contain it.
    pub(crate) fn floors(&self, series: &Series) -> Option<Estimate> {
        let Row {
            section,
            workload,
            variant,
            ..
        } = &series.row;
        let is_floored = match section {
            Section::Operations => is_floored(workload, &series.peer),
            Section::Pending => series.peer == OURS,
            _ => false,
        };
        if !is_floored {
            return None;
        }
        let (section_of_floor, name, all) = FLOOR;
        let floor = self.find(section_of_floor, name, all, BARE)?.by_round();
        let mut figures = series.by_round();
        if workload == "io" {
            let bare = self.find(*section, workload, variant, BARE)?;
            figures = figures.less(&bare.by_round());
        }
        figures.per(&floor).estimate()
    }
}

/// The contents of a `--json` file: the measured figures, which `compare plot` reads, and the
/// results computed from them.
#[derive(Serialize)]
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    measured: &'a Measured,
    figures: Vec<Figure<'a>>,
    requirements: Vec<Verdict>,
}

/// A cell of the table.
#[derive(Serialize)]
struct Figure<'a> {
    #[serde(flatten)]
    row: &'a Row,
    peer: &'a str,
    estimate: Estimate,
    /// The cell's figure divided by this crate's figure.
    ratio: Option<Estimate>,
    /// The cell's figure divided by the floor, if the cell shows this crate.
    floors: Option<Estimate>,
}

impl<'a> Document<'a> {
    pub(crate) fn of(measured: &'a Measured) -> Self {
        let figures = measured.series.iter().map(|series| Figure {
            row: &series.row,
            peer: &series.peer,
            estimate: series.estimate(),
            ratio: (measured.ours(&series.row)).and_then(|ours| series.ratio_to(ours)),
            floors: measured.floors(series),
        });
        Self {
            measured,
            figures: figures.collect(),
            requirements: requirements::verdicts(measured),
        }
    }

    pub(crate) fn write(&self, file: &Path) -> anyhow::Result<()> {
        fs::write(file, serde_json::to_vec(self)?)
            .with_context(|| format!("cannot write {}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(samples: &[(u32, f64)]) -> Series {
        Series {
            row: Row::new(Section::Operations, "churn", "solo", "ns"),
            peer: "tokio".to_owned(),
            samples: samples.to_vec(),
        }
    }

    fn add(measured: &mut Measured, (section, workload, variant): RowName, peer: &str, ns: f64) {
        let row = Row::new(section, workload, variant, "ns");
        measured.add(0, vec![row.read(peer, ns)].into());
    }

    #[test]
    fn a_round_that_measures_often_counts_by_its_median() {
        let often = series(&[(0, 1.0), (1, 10.0), (1, 30.0), (1, 90.0)]);
        assert_eq!(often.by_round().0, BTreeMap::from([(0, 1.0), (1, 30.0)]));
    }

    #[test]
    fn floors_are_counted_of_what_is_ours() {
        let mut measured = Measured::new(1);
        let io = (Section::Operations, "io", "x2");
        add(&mut measured, FLOOR, BARE, 40.0);
        add(&mut measured, io, OURS, 62.0);
        add(&mut measured, io, "tokio", 900.0);
        add(&mut measured, io, BARE, 2.0);
        add(
            &mut measured,
            (Section::Operations, "rpc", "x2"),
            OURS,
            600.0,
        );
        let floors = measured.series.iter().map(|series| measured.floors(series));
        let medians: Vec<_> = floors.map(|floors| Some(floors?.median)).collect();
        assert_eq!(medians, [None, Some(1.5), None, None, None]);
    }

    /// A machine that is slow in one round slows both figures.
    #[test]
    fn a_ratio_is_one_of_the_same_round() {
        let ours = series(&[(0, 10.0), (1, 1_000.0), (2, 20.0)]);
        let theirs = series(&[(2, 60.0), (1, 3_000.0), (3, 7.0)]);
        let ratio = theirs.ratio_to(&ours).expect("two rounds in common");
        assert_eq!(ratio.spread, (3.0, 3.0));
    }

    #[test]
    fn nothing_is_a_multiple_of_zero() {
        let nothing = series(&[(0, 0.0)]);
        assert!(series(&[(0, 1.0)]).ratio_to(&nothing).is_none());
    }
}
