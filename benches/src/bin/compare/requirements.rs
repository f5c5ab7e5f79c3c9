//! Compares the measured costs with the crate's requirements. Counts of instructions are not here.
//! `benches/locked.sh` counts the locked instructions.

use serde::Serialize;
use tokio_wheel_benches::{floor, stats::Estimate, table};

use crate::{
    job::{FLOOR, floor_row, wakeup_workload},
    report::{BARE, ByRound, Measured, OURS, Row, RowName, Section, Series, TOKIO},
    table::{number, range},
};

/// The command that counts the locked instructions of an operation.
const LOCKED: &str = "benches/locked.sh target/release/examples/scaling churn tokio_wheel";

/// A requirement for one figure.
struct Requirement {
    workload: &'static str,
    figure: &'static str,
    value: Value,
    limit: Limit,
    must: f64,
    aim: Option<f64>,
}

/// The side of a limit on which a figure must be.
#[derive(Clone, Copy, PartialEq)]
enum Limit {
    AtLeast,
    AtMost,
}

use Limit::{AtLeast, AtMost};

/// How to compute a figure.
enum Value {
    /// Computes the term in each round.
    Each(Term),
    /// This crate's lateness on a saturated runtime in milliseconds, in the worst of the rows whose
    /// workload begins so.
    MostLate(&'static str),
    /// This crate's lateness as a multiple of tokio's lateness, in the worst of the rows whose
    /// workload begins so. Where tokio's lateness is less than so many milliseconds, these count
    /// instead.
    MostLateShare(&'static str, f64),
    /// This crate's figure less tokio's figure, in the worst of the rows.
    MostMore(&'static str),
}

/// A value of one round.
enum Term {
    /// A measured figure of a peer.
    Of(RowName, &'static str),
    Less(&'static Term, &'static Term),
    Per(&'static Term, &'static Term),
}

use Term::{Less, Of, Per};
use Value::{Each, MostLate, MostLateShare, MostMore};

/// A requirement with the measured figure. A figure with fewer than six samples is not judged.
#[derive(Serialize)]
pub(crate) struct Verdict {
    workload: &'static str,
    figure: &'static str,
    measured: Option<Estimate>,
    at_least: bool,
    must_reach: f64,
    reached: Option<Answer>,
    aim: Option<f64>,
    aim_reached: Option<Answer>,
}

/// Whether the median keeps the limit, and whether the whole interval keeps it.
#[derive(Clone, Copy, Serialize)]
struct Answer {
    reached: bool,
    surely: bool,
}

const CHURN: RowName = (Section::Operations, "churn", "solo");
const CHURN_X1: RowName = (Section::Operations, "churn", "x1");
const CHURN_X2: RowName = (Section::Operations, "churn", "x2");
const CHURN_X1_OVER_0: RowName = (Section::Pending, "churn x1 over", "0");
const CHURN_X1_OVER_1M: RowName = (Section::Pending, "churn x1 over", "1000000");
const CHURN_X2_OVER_0: RowName = (Section::Pending, "churn x2 over", "0");
const CHURN_X2_OVER_1M: RowName = (Section::Pending, "churn x2 over", "1000000");
const IO: RowName = (Section::Operations, "io", "solo");
const IO_X1: RowName = (Section::Operations, "io", "x1");
const IO_X2: RowName = (Section::Operations, "io", "x2");
const RPC: RowName = (Section::Operations, "rpc", "x2");
const READY: RowName = (Section::Operations, "ready", "solo");
const RESET: RowName = (Section::Operations, "reset", "solo");
const RESET_X1: RowName = (Section::Operations, "reset", "x1");
const RESET_X2: RowName = (Section::Operations, "reset", "x2");
const FIRE_CPU: RowName = (Section::Firing, "fire", "CPU");
const FIRE_P50: RowName = (Section::Firing, "fire", "lateness, median");
const FIRE_P99: RowName = (Section::Firing, "fire", "lateness, 99%");
const STORM_JOINED: RowName = (Section::Firing, "storm", "joined");
const STORM_GAP: RowName = (Section::Firing, "storm", "another task's wait");
const INSERT: RowName = (Section::Queues, "insert, remove", "");
const REPLACE: RowName = (Section::Queues, "replace", "");
const SLEEP_BYTES: RowName = (Section::Memory, "memory", "per pending sleep");
const STREAM_BYTES: RowName = (
    Section::Memory,
    "stream, all limits,",
    "beside its inner stream",
);

/// The lateness of a sleep of 10 ms on a saturated runtime, beside any number of idle timers.
pub(crate) const WORST_X1: &str = "worst sleep, 1, 50 x 100 us, idle";
const P99_X1: &str = "p99 sleep, 1, 50 x 100 us, idle";
const WORST_X2: &str = "worst sleep, 2, 30 x 200 us, idle";
const P99_X2: &str = "p99 sleep, 2, 30 x 200 us, idle";

/// The figures of a sustained rate and of a crowd, on any runtime and beside any load.
const SUSTAINED_P99: &str = "last second's p99 sustained,";
const SUSTAINED_SPREAD: &str = "spread of fires, sustained,";
const CROWD_P50: &str = "p50 crowd,";
const CROWD_WORST: &str = "worst crowd,";
const CROWD_PROBE: &str = "probe's worst crowd,";

const IN_FLOORS: &str = "in floors";
const TOKIO_OURS: &str = "tokio / ours";

const THE_FLOOR: Term = Of(FLOOR, BARE);
const CLOCK: Term = Of(floor_row(floor::CLOCK), BARE);
const LOCK: Term = Of(floor_row(floor::LOCK), BARE);

const fn ours(row: RowName) -> Term {
    Of(row, OURS)
}

/// Computes a wake-up of the driver with several shards, as a multiple of a wake-up with one shard.
macro_rules! wakeup {
    ($held:expr, $shards:expr) => {
        Each(Per(
            &ours((Section::Wakeups, wakeup_workload($held), $shards)),
            &ours((Section::Wakeups, wakeup_workload($held), "1")),
        ))
    };
}

/// Computes what the timer adds to a workload.
macro_rules! added {
    ($row:expr, $peer:expr) => {
        Less(&Of($row, $peer), &Of($row, BARE))
    };
}

/// Computes a peer's figure as a multiple of this crate's figure.
macro_rules! gain {
    ($row:expr, $peer:expr) => {
        Each(Per(&Of($row, $peer), &ours($row)))
    };
}

/// Divides a figure of this crate by another figure of this crate.
macro_rules! share {
    ($row:expr, $other:expr) => {
        Each(Per(&ours($row), &ours($other)))
    };
}

#[rustfmt::skip] // Formatted as a table.
const REQUIREMENTS: &[Requirement] = &[
    require("churn", IN_FLOORS, Each(Per(&ours(CHURN), &THE_FLOOR)), AtMost, 1.5, Some(1.25)),
    require("churn", "x2 / x1", share!(CHURN_X2, CHURN_X1), AtMost, 1.15, None),
    require("churn x2", TOKIO_OURS, gain!(CHURN_X2, "tokio"), AtLeast, 8.0, None),
    require("churn x2", "pingora / ours", gain!(CHURN_X2, "pingora"), AtLeast, 2.0, None),
    require("churn x1", "over 1,000,000 / over none", share!(CHURN_X1_OVER_1M, CHURN_X1_OVER_0), AtMost, 1.1, Some(1.0)),
    require("churn x2", "over 1,000,000 / over none", share!(CHURN_X2_OVER_1M, CHURN_X2_OVER_0), AtMost, 1.1, Some(1.0)),
    require("io less bare", IN_FLOORS, Each(Per(&added!(IO, OURS), &THE_FLOOR)), AtMost, 1.5, Some(1.25)),
    require("io less bare", "x2 / x1", Each(Per(&added!(IO_X2, OURS), &added!(IO_X1, OURS))), AtMost, 1.2, None),
    require("rpc less bare", "ours / tokio", Each(Per(&added!(RPC, OURS), &added!(RPC, "tokio"))), AtMost, 1.0 / 3.0, Some(0.25)),
    require("ready", "less a clock read, ns", Each(Less(&ours(READY), &CLOCK)), AtMost, 2.0, None),
    require("reset", "less a clock read, lock pairs", Each(Per(&Less(&ours(RESET), &CLOCK), &LOCK)), AtMost, 2.5, None),
    require("reset x1", TOKIO_OURS, gain!(RESET_X1, "tokio"), AtLeast, 1.0, None),
    require("reset x2", TOKIO_OURS, gain!(RESET_X2, "tokio"), AtLeast, 2.0, None),
    require("fire", "CPU, tokio / ours", gain!(FIRE_CPU, "tokio"), AtLeast, 1.0, None),
    require("fire", "median lateness, tokio / ours", gain!(FIRE_P50, "tokio"), AtLeast, 1.0, Some(2.0)),
    require("fire", "99% lateness, tokio / ours", gain!(FIRE_P99, "tokio"), AtLeast, 1.0, Some(2.0)),
    require("storm", "joined, tokio / ours", gain!(STORM_JOINED, "tokio"), AtLeast, 1.0, None),
    require("storm", "another task's wait, us", Each(ours(STORM_GAP)), AtMost, 2_000.0, Some(1_000.0)),
    require("saturated x1", "worst, ours / tokio", MostLateShare(WORST_X1, 0.0), AtMost, 2.0, Some(1.0)),
    require("saturated x1", "worst, ms", MostLate(WORST_X1), AtMost, 20.0, None),
    require("saturated x1", "99%, ours / tokio", MostLateShare(P99_X1, 0.0), AtMost, 2.0, Some(1.0)),
    require("saturated x1", "99%, ms", MostLate(P99_X1), AtMost, 20.0, None),
    require("saturated x2", "worst, ours / tokio", MostLateShare(WORST_X2, 0.0), AtMost, 2.0, Some(1.0)),
    require("saturated x2", "worst, ms", MostLate(WORST_X2), AtMost, 20.0, None),
    require("saturated x2", "99%, ours / tokio", MostLateShare(P99_X2, 0.0), AtMost, 2.0, Some(1.0)),
    require("saturated x2", "99%, ms", MostLate(P99_X2), AtMost, 20.0, None),
    require("sustained", "99% at the end, ours / tokio or 13 ms", MostLateShare(SUSTAINED_P99, 20.0 / 1.5), AtMost, 1.5, Some(1.0)),
    require("sustained", "spread of fires, ours - tokio", MostMore(SUSTAINED_SPREAD), AtMost, 2.0, None),
    require("crowd", "median, ours / tokio", MostLateShare(CROWD_P50, 0.0), AtMost, 1.5, Some(1.0)),
    require("crowd", "worst, ours / tokio", MostLateShare(CROWD_WORST, 0.0), AtMost, 1.5, Some(1.0)),
    require("crowd", "probe's worst, ours / tokio or 10 ms", MostLateShare(CROWD_PROBE, 10.0), AtMost, 2.0, Some(1.0)),
    require("insert, remove", "tokio-util / ours", gain!(INSERT, "tokio_util"), AtLeast, 1.3, Some(1.5)),
    require("insert, remove", "nexus-timer / ours", gain!(INSERT, "nexus_timer"), AtLeast, 1.0, Some(1.5)),
    require("replace", "tokio-util / ours", gain!(REPLACE, "tokio_util"), AtLeast, 1.3, Some(1.5)),
    require("replace", "nexus-timer / ours", gain!(REPLACE, "nexus_timer"), AtLeast, 1.0, Some(1.5)),
    require("wake-up, 64", "others empty, / 1 shard", wakeup!(false, "64"), AtMost, 2.0, None),
    require("wake-up, 64", "all hold sleeps, / 1 shard", wakeup!(true, "64"), AtMost, 2.0, None),
    require("wake-up, 1,024", "others empty, / 1 shard", wakeup!(false, "1024"), AtMost, 5.0, None),
    require("wake-up, 1,024", "all hold sleeps, / 1 shard", wakeup!(true, "1024"), AtMost, 5.0, None),
    require("memory", "bytes per pending sleep", Each(ours(SLEEP_BYTES)), AtMost, 74.0, Some(64.0)),
    require("memory", "bytes per stream, all limits", Each(ours(STREAM_BYTES)), AtMost, 176.0, Some(128.0)),
];

const fn require(
    workload: &'static str,
    figure: &'static str,
    value: Value,
    limit: Limit,
    must: f64,
    aim: Option<f64>,
) -> Requirement {
    Requirement {
        workload,
        figure,
        value,
        limit,
        must,
        aim,
    }
}

/// Judges all requirements.
pub(crate) fn verdicts(measured: &Measured) -> Vec<Verdict> {
    (REQUIREMENTS.iter())
        .map(|requirement| {
            let at_least = requirement.limit == AtLeast;
            let estimate = requirement.value.of(measured);
            let judge = |limit: f64| {
                let keeps = |value: f64| (value >= limit) == at_least || value == limit;
                let estimate = estimate?;
                let (low, high) = estimate.interval?;
                let reached = keeps(estimate.median);
                let surely = keeps(low) == reached && keeps(high) == reached;
                Some(Answer { reached, surely })
            };
            Verdict {
                workload: requirement.workload,
                figure: requirement.figure,
                measured: estimate,
                at_least,
                must_reach: requirement.must,
                reached: judge(requirement.must),
                aim: requirement.aim,
                aim_reached: requirement.aim.and_then(judge),
            }
        })
        .collect()
}

impl Value {
    fn of(&self, measured: &Measured) -> Option<Estimate> {
        match self {
            Each(term) => term.of(measured)?.estimate(),
            MostLate(workload) => highest(late(measured, workload).map(Series::estimate)),
            MostLateShare(workload, least) => highest(beside_tokio(measured, workload).filter_map(
                |(ours, tokio)| {
                    ours.by_round()
                        .per(&tokio.by_round().at_least(*least))
                        .estimate()
                },
            )),
            MostMore(workload) => highest(
                beside_tokio(measured, workload)
                    .filter_map(|(ours, tokio)| ours.by_round().less(&tokio.by_round()).estimate()),
            ),
        }
    }
}

impl Term {
    fn of(&self, measured: &Measured) -> Option<ByRound> {
        match *self {
            Of((section, workload, variant), peer) => {
                Some(measured.find(section, workload, variant, peer)?.by_round())
            }
            Less(term, other) => Some(term.of(measured)?.less(&other.of(measured)?)),
            Per(term, other) => Some(term.of(measured)?.per(&other.of(measured)?)),
        }
    }
}

/// Returns this crate's figures on a saturated runtime whose workload begins with `workload`.
fn late<'a>(measured: &'a Measured, workload: &'static str) -> impl Iterator<Item = &'a Series> {
    (measured.section(Section::Saturated))
        .filter(move |series| series.row.workload.starts_with(workload) && series.peer == OURS)
}

/// Returns the same figures, each with tokio's figure.
fn beside_tokio<'a>(
    measured: &'a Measured,
    workload: &'static str,
) -> impl Iterator<Item = (&'a Series, &'a Series)> {
    late(measured, workload).filter_map(|ours| {
        let Row {
            section,
            workload,
            variant,
            ..
        } = &ours.row;
        Some((ours, measured.find(*section, workload, variant, TOKIO)?))
    })
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
        let is_unknown = measured.is_some() && verdict.reached.is_none();
        rows.push(vec![
            verdict.workload.to_owned(),
            verdict.figure.to_owned(),
            measured.map_or_else(|| "not measured".to_owned(), range),
            limit(Some(verdict.must_reach)),
            if is_unknown {
                "too few"
            } else {
                answer(verdict.reached)
            }
            .to_owned(),
            limit(verdict.aim),
            answer(verdict.aim_reached).to_owned(),
        ]);
    }
    table::print(&rows);
    println!(
        "With a question mark: the interval lies on both sides of the limit. too few: fewer than six samples,\n\
         too few rounds to tell."
    );
    println!("Locked instructions of churn, at most 6, none of them shared:\n  {LOCKED}");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio_wheel_benches::{
        peer::PeerKind,
        saturated::{Load, Sample, Scene},
    };

    use super::*;
    use crate::{
        job::{Job, saturated_workload},
        sets::SATURATED,
    };

    #[test]
    fn what_is_required_of_a_saturated_runtime_is_measured() {
        let names = ["worst", "p99"].map(|figure| {
            SATURATED.map(|(workers, tasks, length)| {
                let load = Load {
                    workers,
                    tasks,
                    length: Duration::from_micros(length),
                    channels: false,
                    idle: 0,
                    sleepers: 0,
                    lasting: Duration::ZERO,
                };
                saturated_workload(figure, Scene::Sleeps, &load)
            })
        });
        assert_eq!(names, [[WORST_X1, WORST_X2], [P99_X1, P99_X2]]);
    }

    #[test]
    fn the_scenes_have_the_required_figures() {
        for (scene, names) in [
            (Scene::Sustained, &[SUSTAINED_P99, SUSTAINED_SPREAD][..]),
            (Scene::Crowd, &[CROWD_P50, CROWD_WORST, CROWD_PROBE]),
        ] {
            let load = Load {
                workers: 2,
                tasks: 2,
                length: Duration::from_micros(10),
                channels: false,
                idle: 0,
                sleepers: 10,
                lasting: Duration::from_millis(300),
            };
            let peer = PeerKind::TokioWheel;
            let sample = Sample { scene, peer, load };
            let job = Job::Saturated {
                sample,
                detailed: false,
            };
            let mut measured = Measured::new(1);
            measured.add(0, job.run().expect("the job failed"));
            for name in names {
                assert_eq!(late(&measured, name).count(), 1, "{name}");
            }
        }
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
        assert_eq!(of(MostLate(WORST_X1)), Some(9.0));
        assert_eq!(of(MostLateShare(WORST_X1, 0.0)), Some(4.0));
        assert_eq!(of(MostLateShare(WORST_X1, 2.0)), Some(3.0));
        assert_eq!(of(MostMore(WORST_X1)), Some(6.0));
        assert_eq!(of(MostLate(WORST_X2)), None);
    }

    #[test]
    fn terms_are_those_of_a_round() {
        let mut measured = Measured::new(2);
        // The machine is twice as slow in the second round.
        for (round, slow) in [(0, 1.0), (1, 2.0)] {
            for (peer, ns) in [(OURS, 150.0), ("tokio", 400.0), (BARE, 100.0)] {
                let row = Row::new(RPC.0, RPC.1, RPC.2, "ns");
                measured.add(round, vec![row.read(peer, ns * slow)].into());
            }
        }
        let share = Each(Per(&added!(RPC, OURS), &added!(RPC, "tokio"))).of(&measured);
        assert_eq!(
            share.map(|share| share.spread),
            Some((1.0 / 6.0, 1.0 / 6.0))
        );
    }

    #[test]
    fn a_limit_has_two_sides() {
        let measured = |rounds| {
            let mut measured = Measured::new(rounds);
            for round in 0..rounds {
                for (peer, ns) in [(OURS, 60.0), ("tokio", 480.0), ("pingora", 119.0)] {
                    let row = Row::new(CHURN_X2.0, CHURN_X2.1, CHURN_X2.2, "ns");
                    measured.add(round, vec![row.read(peer, ns)].into());
                }
                let row = Row::new(CHURN_X1.0, CHURN_X1.1, CHURN_X1.2, "ns");
                measured.add(round, vec![row.read(OURS, 50.0)].into());
            }
            measured
        };
        let too_few = verdicts(&measured(5));
        assert!(too_few.iter().all(|verdict| verdict.reached.is_none()));
        let reached: Vec<_> = (verdicts(&measured(6)).iter())
            .filter_map(|verdict| Some((verdict.figure, verdict.reached?.reached)))
            .collect();
        let expected = [
            ("x2 / x1", false),
            (TOKIO_OURS, true),
            ("pingora / ours", false),
        ];
        assert_eq!(reached, expected);
    }
}
