//! What the crate is required to cost, beside what was measured.

use serde::Serialize;
use tokio_wheel_benches::{stats::Estimate, table};

use crate::{
    job::BARE,
    report::{Measured, OURS, Section, Series},
    table::{number, range},
};

/// What one figure is required to be.
struct Requirement {
    workload: &'static str,
    figure: &'static str,
    value: Value,
    must: Option<f64>,
    aim: Option<f64>,
}

/// Names a row of the table: section, workload, variant.
type RowName = (Section, &'static str, &'static str);

/// How a figure is got, and which side of a limit it has to be on.
enum Value {
    /// How many times ours a peer's is: at least.
    Gain(RowName, &'static str),
    /// Ours: at most.
    Ours(RowName),
    /// How many times another figure ours is: at most. The other one is named with its peer.
    Share(RowName, RowName, &'static str),
    /// Ours on a saturated runtime, in milliseconds: at most, beside whatever count of idle timers is worst.
    MostLate(&'static str),
    /// How many times a peer's lateness ours is: at most, beside whatever count of idle timers is worst.
    MostLateShare(&'static str, &'static str),
}

/// A requirement with what was measured. What is not measured is not judged.
#[derive(Serialize)]
pub(crate) struct Verdict {
    workload: &'static str,
    figure: &'static str,
    measured: Option<Estimate>,
    at_least: bool,
    must_reach: Option<f64>,
    reached: Option<Answer>,
    aim: Option<f64>,
    aim_reached: Option<Answer>,
}

impl Verdict {
    pub(crate) fn is_measured(&self) -> bool {
        self.measured.is_some()
    }
}

/// Whether a limit is kept: by the median, and by the whole range around it?
#[derive(Clone, Copy, Serialize)]
struct Answer {
    reached: bool,
    surely: bool,
}

const CHURN_SOLO: RowName = (Section::Operations, "churn", "solo");
const CHURN_X2: RowName = (Section::Operations, "churn", "x2");
const IO_SOLO: RowName = (Section::Operations, "io", "solo");
const IO_X2: RowName = (Section::Operations, "io", "x2");
const RPC: RowName = (Section::Operations, "rpc", "x2");
const READY: RowName = (Section::Operations, "ready", "solo");
const RESET_SOLO: RowName = (Section::Operations, "reset", "solo");
const RESET_X2: RowName = (Section::Operations, "reset", "x2");
const INSERT: RowName = (Section::Queues, "insert, remove", "");
const REPLACE: RowName = (Section::Queues, "replace", "");

/// The lateness of a sleep of 10 ms on a saturated runtime, beside any count of idle timers.
pub(crate) const WORST_X1: &str = "worst sleep, 1, 50 x 100 us, idle";
const P99_X1: &str = "p99 sleep, 1, 50 x 100 us, idle";
const WORST_X2: &str = "worst sleep, 2, 30 x 200 us, idle";
const P99_X2: &str = "p99 sleep, 2, 30 x 200 us, idle";

/// Without a timer, a reset is a clock read.
const CLOCK_READ: RowName = RESET_SOLO;

const REQUIREMENTS: &[Requirement] = &[
    require(
        "churn",
        "tokio / ours",
        Value::Gain(CHURN_SOLO, "tokio"),
        Some(7.0),
        None,
    ),
    require(
        "churn",
        "ours / clock read",
        Value::Share(CHURN_SOLO, CLOCK_READ, BARE),
        None,
        Some(40.0 / 23.0),
    ),
    require(
        "churn x2",
        "ours / ours on one",
        Value::Share(CHURN_X2, CHURN_SOLO, OURS),
        Some(1.15),
        None,
    ),
    require(
        "churn x2",
        "tokio / ours",
        Value::Gain(CHURN_X2, "tokio"),
        Some(8.0),
        None,
    ),
    require(
        "churn x2",
        "pingora / ours",
        Value::Gain(CHURN_X2, "pingora"),
        Some(2.5),
        None,
    ),
    require(
        "churn over 1,000,000",
        "ours / ours over none",
        Value::Share(
            (Section::Pending, "churn x1 over", "1000000"),
            (Section::Pending, "churn x1 over", "0"),
            OURS,
        ),
        Some(1.15),
        Some(1.05),
    ),
    require(
        "churn x2 over 1,000,000",
        "ours / ours over none",
        Value::Share(
            (Section::Pending, "churn x2 over", "1000000"),
            (Section::Pending, "churn x2 over", "0"),
            OURS,
        ),
        Some(1.15),
        Some(1.05),
    ),
    require(
        "io",
        "tokio / ours",
        Value::Gain(IO_SOLO, "tokio"),
        Some(1.0),
        None,
    ),
    require(
        "io x2",
        "tokio / ours",
        Value::Gain(IO_X2, "tokio"),
        Some(5.0),
        Some(8.0),
    ),
    require(
        "io x2",
        "pingora / ours",
        Value::Gain(IO_X2, "pingora"),
        Some(2.5),
        Some(3.0),
    ),
    require(
        "rpc",
        "tokio / ours",
        Value::Gain(RPC, "tokio"),
        Some(2.0),
        None,
    ),
    require(
        "rpc",
        "pingora / ours",
        Value::Gain(RPC, "pingora"),
        Some(1.2),
        None,
    ),
    require(
        "rpc",
        "ours / no timer",
        Value::Share(RPC, RPC, BARE),
        None,
        Some(90.0 / 67.0),
    ),
    require(
        "ready",
        "ours / no timer",
        Value::Share(READY, READY, BARE),
        Some(1.15),
        Some(1.05),
    ),
    require(
        "reset",
        "tokio / ours",
        Value::Gain(RESET_SOLO, "tokio"),
        Some(1.1),
        Some(1.25),
    ),
    require(
        "reset x2",
        "tokio / ours",
        Value::Gain(RESET_X2, "tokio"),
        Some(2.2),
        Some(3.0),
    ),
    require(
        "fire",
        "CPU, tokio / ours",
        Value::Gain((Section::Firing, "fire", "CPU"), "tokio"),
        Some(1.0),
        None,
    ),
    require(
        "fire",
        "median, tokio / ours",
        Value::Gain((Section::Firing, "fire", "lateness, median"), "tokio"),
        Some(1.0),
        Some(2.0),
    ),
    require(
        "fire",
        "99%, tokio / ours",
        Value::Gain((Section::Firing, "fire", "lateness, 99%"), "tokio"),
        Some(1.0),
        Some(2.0),
    ),
    require(
        "storm",
        "joined, tokio / ours",
        Value::Gain((Section::Firing, "storm", "joined"), "tokio"),
        Some(1.0),
        None,
    ),
    require(
        "storm",
        "another task's wait, us",
        Value::Ours((Section::Firing, "storm", "another task's wait")),
        Some(2_000.0),
        Some(1_000.0),
    ),
    require(
        "saturated x1",
        "worst, ours / tokio",
        Value::MostLateShare(WORST_X1, "tokio"),
        Some(2.0),
        Some(1.0),
    ),
    require(
        "saturated x1",
        "worst, ms",
        Value::MostLate(WORST_X1),
        Some(20.0),
        None,
    ),
    require(
        "saturated x1",
        "99%, ours / tokio",
        Value::MostLateShare(P99_X1, "tokio"),
        Some(2.0),
        Some(1.0),
    ),
    require(
        "saturated x1",
        "99%, ms",
        Value::MostLate(P99_X1),
        Some(20.0),
        None,
    ),
    require(
        "saturated x2",
        "worst, ours / tokio",
        Value::MostLateShare(WORST_X2, "tokio"),
        Some(2.0),
        Some(1.0),
    ),
    require(
        "saturated x2",
        "worst, ms",
        Value::MostLate(WORST_X2),
        Some(20.0),
        None,
    ),
    require(
        "saturated x2",
        "99%, ours / tokio",
        Value::MostLateShare(P99_X2, "tokio"),
        Some(2.0),
        Some(1.0),
    ),
    require(
        "saturated x2",
        "99%, ms",
        Value::MostLate(P99_X2),
        Some(20.0),
        None,
    ),
    require(
        "insert, remove",
        "tokio-util / ours",
        Value::Gain(INSERT, "tokio_util"),
        Some(1.3),
        Some(2.0),
    ),
    require(
        "insert, remove",
        "nexus-timer / ours",
        Value::Gain(INSERT, "nexus_timer"),
        Some(1.3),
        Some(2.0),
    ),
    require(
        "replace",
        "tokio-util / ours",
        Value::Gain(REPLACE, "tokio_util"),
        Some(1.3),
        Some(2.0),
    ),
    require(
        "replace",
        "nexus-timer / ours",
        Value::Gain(REPLACE, "nexus_timer"),
        Some(1.3),
        Some(2.0),
    ),
    require(
        "memory",
        "bytes per pending sleep",
        Value::Ours((Section::Memory, "memory", "per pending sleep")),
        Some(80.0),
        Some(64.0),
    ),
];

const fn require(
    workload: &'static str,
    figure: &'static str,
    value: Value,
    must: Option<f64>,
    aim: Option<f64>,
) -> Requirement {
    Requirement {
        workload,
        figure,
        value,
        must,
        aim,
    }
}

/// Judges all of them.
pub(crate) fn verdicts(measured: &Measured) -> Vec<Verdict> {
    (REQUIREMENTS.iter())
        .map(|requirement| {
            let at_least = matches!(requirement.value, Value::Gain(..));
            let estimate = requirement.value.of(measured);
            let judge = |limit: f64| {
                let keeps = |value: f64| (value >= limit) == at_least || value == limit;
                estimate.map(|estimate| {
                    let (low, high) = estimate.spread;
                    let reached = keeps(estimate.median);
                    let surely = keeps(low) == reached && keeps(high) == reached;
                    Answer { reached, surely }
                })
            };
            Verdict {
                workload: requirement.workload,
                figure: requirement.figure,
                measured: estimate,
                at_least,
                must_reach: requirement.must,
                reached: requirement.must.and_then(judge),
                aim: requirement.aim,
                aim_reached: requirement.aim.and_then(judge),
            }
        })
        .collect()
}

impl Value {
    fn of(&self, measured: &Measured) -> Option<Estimate> {
        let find = |(section, workload, variant): RowName, peer: &str| -> Option<&Series> {
            measured.find(section, workload, variant, peer)
        };
        match *self {
            Self::Gain(row, peer) => find(row, peer)?.ratio_to(find(row, OURS)?),
            Self::Ours(row) => find(row, OURS).map(Series::estimate),
            Self::Share(row, other, peer) => find(row, OURS)?.ratio_to(find(other, peer)?),
            Self::MostLate(workload) => highest(late(measured, workload).map(Series::estimate)),
            Self::MostLateShare(workload, peer) => {
                highest(late(measured, workload).filter_map(|ours| {
                    let idle = &ours.row.variant;
                    ours.ratio_to(measured.find(Section::Saturated, workload, idle, peer)?)
                }))
            }
        }
    }
}

/// Our lateness on a saturated runtime, for each count of idle timers.
fn late<'a>(measured: &'a Measured, workload: &'static str) -> impl Iterator<Item = &'a Series> {
    (measured.section(Section::Saturated))
        .filter(move |series| series.row.workload == workload && series.peer == OURS)
}

fn highest(estimates: impl Iterator<Item = Estimate>) -> Option<Estimate> {
    estimates.max_by(|one, other| one.median.total_cmp(&other.median))
}

/// Prints the verdicts as a table.
pub(crate) fn print(verdicts: &[Verdict]) {
    let heading = [
        "required",
        "figure",
        "measured",
        "must reach",
        "",
        "aim",
        "",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for verdict in verdicts {
        let sign = if verdict.at_least { "≥" } else { "≤" };
        let limit = |limit: Option<f64>| {
            limit.map_or_else(String::new, |limit| format!("{sign} {}", number(limit)))
        };
        let answer = |answer: Option<Answer>| {
            answer.map_or("", |answer| match (answer.reached, answer.surely) {
                (true, true) => "yes",
                (true, false) => "yes?",
                (false, true) => "NO",
                (false, false) => "no?",
            })
        };
        let measured = verdict.measured.as_ref();
        rows.push(vec![
            verdict.workload.to_owned(),
            verdict.figure.to_owned(),
            measured.map_or_else(|| "not measured".to_owned(), range),
            limit(verdict.must_reach),
            answer(verdict.reached).to_owned(),
            limit(verdict.aim),
            answer(verdict.aim_reached).to_owned(),
        ]);
    }
    table::print(&rows);
    println!("With a question mark: the range lies on both sides of the limit.");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio_wheel_benches::saturated::{Load, Scene};

    use super::*;
    use crate::{everything::SATURATED, job::saturated_workload, report::Row};

    #[test]
    fn what_is_required_of_a_saturated_runtime_is_measured() {
        let names = ["worst", "p99"].map(|figure| {
            SATURATED.map(|(workers, tasks, length)| {
                let load = Load {
                    workers,
                    tasks,
                    length: Duration::from_micros(length),
                    idle: 0,
                    lasting: Duration::ZERO,
                };
                saturated_workload(figure, Scene::Sleeps, &load)
            })
        });
        assert_eq!(names, [[WORST_X1, WORST_X2], [P99_X1, P99_X2]]);
    }

    #[test]
    fn the_worst_count_of_idle_timers_is_judged() {
        let mut measured = Measured::new(1);
        for (idle, peer, ms) in [
            ("0", OURS, 4.0),
            ("0", "tokio", 1.0),
            ("1000", OURS, 9.0),
            ("1000", "tokio", 3.0),
        ] {
            let row = Row::new(Section::Saturated, WORST_X1, idle, "ms");
            measured.add(0, vec![row.read(peer, ms)].into());
        }
        let of = |value: Value| value.of(&measured).map(|estimate| estimate.median);
        assert_eq!(of(Value::MostLate(WORST_X1)), Some(9.0));
        assert_eq!(of(Value::MostLateShare(WORST_X1, "tokio")), Some(4.0));
        assert_eq!(of(Value::MostLate(WORST_X2)), None);
    }
}
