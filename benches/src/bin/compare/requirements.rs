//! Compares the measured costs with the crate's requirements.

use tokio_wheel_benches::{
    stats::{Estimate, number, print_table, range},
    wakeup,
};

use crate::{
    job::beside,
    report::{BARE, ByRound, Measured, OURS, TOKIO},
};
use Limit::{AtLeast, AtMost};

const LOCKED: &str = "benches/locked.sh target/release/examples/scaling churn tokio_wheel";

/// The lateness of a sleep of 10 ms on a saturated runtime, beside any number of idle timers.
const X1: &str = "sleep, 1, 50 x 100 us, idle";
const X2: &str = "sleep, 2, 30 x 200 us, idle";

const TOKIO_OURS: &str = "tokio / ours";

#[derive(Clone, Copy)]
enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

impl Limit {
    fn keeps(self, value: f64) -> bool {
        match self {
            AtLeast(limit) => value >= limit,
            AtMost(limit) => value <= limit,
        }
    }

    /// Returns whether the median keeps the limit. Adds a question mark if the interval lies on
    /// both sides. A figure with fewer than six samples is not judged.
    fn answer(self, figure: &Estimate) -> &'static str {
        let Some((low, high)) = figure.interval else {
            return "too few";
        };
        let reached = self.keeps(figure.median);
        let surely = self.keeps(low) == reached && self.keeps(high) == reached;
        match (reached, surely) {
            (true, true) => "yes",
            (true, false) => "yes?",
            (false, true) => "NO",
            (false, false) => "no?",
        }
    }

    fn text(self) -> String {
        match self {
            AtLeast(limit) => format!("≥ {}", number(limit)),
            AtMost(limit) => format!("≤ {}", number(limit)),
        }
    }
}

/// A requirement for a workload: a figure, its value, and its limit.
type Requirement = (&'static str, &'static str, Option<Estimate>, Limit);

#[derive(Clone, Copy)]
struct Figures<'a>(&'a Measured);

impl Figures<'_> {
    fn of(self, row: &str, peer: &str) -> Option<ByRound> {
        Some(self.0.find(row, peer)?.by_round())
    }

    fn ours(self, row: &str) -> Option<ByRound> {
        self.of(row, OURS)
    }

    fn gain(self, row: &str, peer: &str) -> Option<Estimate> {
        per(self.of(row, peer), self.ours(row))
    }

    fn added(self, row: &str, peer: &str) -> Option<ByRound> {
        less(self.of(row, peer), self.of(row, BARE))
    }

    fn most_late(self, figure: &str, of: &str) -> Option<Estimate> {
        self.highest(figure, of, |ours, _| ours)
    }

    /// Returns the highest multiple of tokio's lateness. Where tokio's lateness is less than `least`
    /// milliseconds, these count instead.
    fn most_late_share(self, figure: &str, of: &str, least: f64) -> Option<Estimate> {
        self.highest(figure, of, |ours, tokio| ours.per(&tokio.at_least(least)))
    }

    /// Combines this crate's and tokio's figures in each row on a saturated runtime whose name is
    /// `figure` and what begins with `of`. Returns the highest result.
    fn highest(
        self,
        figure: &str,
        of: &str,
        combine: impl Fn(ByRound, ByRound) -> ByRound,
    ) -> Option<Estimate> {
        let name = format!("{figure} {of}");
        let ours = self.0.series.iter();
        let ours = ours.filter(|one| one.peer == OURS && one.row.name.starts_with(&name));
        ours.filter_map(|ours| {
            let tokio = self.of(&ours.row.name, TOKIO)?;
            combine(ours.by_round(), tokio).estimate()
        })
        .max_by(|one, other| one.median.total_cmp(&other.median))
    }
}

fn per(figure: Option<ByRound>, other: Option<ByRound>) -> Option<Estimate> {
    figure?.per(&other?).estimate()
}

fn less(figure: Option<ByRound>, other: Option<ByRound>) -> Option<ByRound> {
    Some(figure?.less(&other?))
}

#[rustfmt::skip] // Formatted as a table.
fn requirements(measured: &Measured) -> Vec<Requirement> {
    let f = Figures(measured);
    let floor = |part: &str| f.of(&format!("floor {part}"), BARE);
    let one = |figure: Option<ByRound>| figure.and_then(|figure| figure.estimate());
    let wakeup = |shards| f.ours(&wakeup::name(shards));
    let over = |threads, pending| f.ours(&beside(threads, false, pending));
    vec![
        ("churn", "in floors", per(f.ours("churn solo"), floor("in all")), AtMost(1.1)),
        ("churn", "x2 / x1", per(f.ours("churn x2"), f.ours("churn x1")), AtMost(1.2)),
        ("churn x2", TOKIO_OURS, f.gain("churn x2", TOKIO), AtLeast(8.0)),
        ("churn x2", "pingora / ours", f.gain("churn x2", "pingora"), AtLeast(2.5)),
        ("churn x1", "over 1,000,000 / over none", per(over(1, 1_000_000), over(1, 0)), AtMost(1.1)),
        ("churn x2", "over 1,000,000 / over none", per(over(2, 1_000_000), over(2, 0)), AtMost(1.1)),
        ("io less bare", "in floors", per(f.added("io solo", OURS), floor("in all")), AtMost(1.2)),
        ("io less bare", "x2 / x1", per(f.added("io x2", OURS), f.added("io x1", OURS)), AtMost(1.2)),
        ("rpc less bare", "ours / tokio", per(f.added("rpc x2", OURS), f.added("rpc x2", TOKIO)), AtMost(1.0 / 3.0)),
        ("ready", "less a clock read, ns", one(less(f.ours("ready solo"), floor("clock read"))), AtMost(2.0)),
        ("reset", "less a clock read, lock pairs", per(less(f.ours("reset solo"), floor("clock read")), floor("lock pair")), AtMost(2.5)),
        ("reset x1", TOKIO_OURS, f.gain("reset x1", TOKIO), AtLeast(1.0)),
        ("reset x2", TOKIO_OURS, f.gain("reset x2", TOKIO), AtLeast(2.0)),
        ("fire", "CPU, tokio / ours", f.gain("fire CPU", TOKIO), AtLeast(1.0)),
        ("fire", "median lateness, tokio / ours", f.gain("fire lateness, median", TOKIO), AtLeast(1.0)),
        ("fire", "99% lateness, tokio / ours", f.gain("fire lateness, 99%", TOKIO), AtLeast(1.0)),
        ("storm", "joined, tokio / ours", f.gain("storm joined", TOKIO), AtLeast(1.0)),
        ("storm", "another task's wait, us", one(f.ours("storm another task's wait")), AtMost(1_100.0)),
        ("saturated x1", "worst, ours / tokio", f.most_late_share("worst", X1, 0.0), AtMost(2.0)),
        ("saturated x1", "worst, ms", f.most_late("worst", X1), AtMost(20.0)),
        ("saturated x1", "99%, ours / tokio", f.most_late_share("p99", X1, 0.0), AtMost(2.0)),
        ("saturated x1", "99%, ms", f.most_late("p99", X1), AtMost(20.0)),
        ("saturated x2", "worst, ours / tokio", f.most_late_share("worst", X2, 0.0), AtMost(2.0)),
        ("saturated x2", "worst, ms", f.most_late("worst", X2), AtMost(20.0)),
        ("saturated x2", "99%, ours / tokio", f.most_late_share("p99", X2, 0.0), AtMost(2.0)),
        ("saturated x2", "99%, ms", f.most_late("p99", X2), AtMost(20.0)),
        ("sustained", "99% at the end, ours / tokio or 13 ms", f.most_late_share("last second's p99", "sustained,", 20.0 / 1.5), AtMost(1.5)),
        ("crowd", "median, ours / tokio", f.most_late_share("p50", "crowd,", 0.0), AtMost(1.5)),
        ("crowd", "worst, ours / tokio", f.most_late_share("worst", "crowd,", 0.0), AtMost(1.5)),
        ("crowd", "probe's worst, ours / tokio or 10 ms", f.most_late_share("probe's worst", "crowd,", 10.0), AtMost(2.0)),
        ("blocked", "worst, ms", f.most_late("worst", "blocked,"), AtMost(25.0)),
        ("blocked", "99%, ms", f.most_late("p99", "blocked,"), AtMost(12.0)),
        ("insert, remove", "tokio-util / ours", f.gain("insert_remove 1M", "tokio_util"), AtLeast(1.3)),
        ("insert, remove", "nexus-timer / ours", f.gain("insert_remove 1M", "nexus_timer"), AtLeast(1.0)),
        ("replace", "tokio-util / ours", f.gain("replace 1M", "tokio_util"), AtLeast(1.3)),
        ("replace", "nexus-timer / ours", f.gain("replace 1M", "nexus_timer"), AtLeast(1.0)),
        ("wake-up, 64", "all hold sleeps, / 1 shard", per(wakeup(64), wakeup(1)), AtMost(2.0)),
        ("wake-up, 1,024", "all hold sleeps, / 1 shard", per(wakeup(1_024), wakeup(1)), AtMost(5.0)),
        ("memory", "bytes per pending sleep", one(f.ours("memory per pending sleep")), AtMost(80.0)),
        ("memory", "bytes per stream, all limits", one(f.ours("stream, all limits, beside its inner stream")), AtMost(200.0)),
    ]
}

pub(crate) fn print(measured: &Measured) {
    let heading = ["required", "figure", "measured", "must reach", "reached"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for (workload, figure, value, limit) in requirements(measured) {
        let measured = value.as_ref().map(|value| range(value, ""));
        let measured = measured.unwrap_or_else(|| "not measured".to_owned());
        let answer = value.map_or("", |value| limit.answer(&value));
        let cells = [workload, figure, &measured, &limit.text(), answer];
        rows.push(cells.map(str::to_owned).to_vec());
    }
    print_table(&rows);
    println!(
        "With a question mark: the interval lies on both sides of the limit. too few: fewer than six samples,\n\
         too few rounds to tell.\n\
         Locked instructions of churn, at most 2, none of them shared:\n  {LOCKED}"
    );
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio_wheel_benches::saturated::Scene;

    use super::*;
    use crate::{
        job::{Job, Task},
        jobs::{REQUIRED, load},
        report::Row,
    };

    #[test]
    fn what_is_required_of_a_saturated_runtime_is_measured() {
        let names = REQUIRED.map(|ready| {
            let load = load(Scene::Sleeps, ready, 0, Duration::ZERO);
            load.name("worst")
        });
        assert_eq!(names, [X1, X2].map(|of| format!("worst {of} 0")));
    }

    #[test]
    fn the_scenes_have_the_required_figures() {
        let mut measured = Measured::new(1);
        for scene in [Scene::Sustained, Scene::Crowd, Scene::Blocked] {
            for peer in [OURS, TOKIO] {
                let load = load(scene, (2, 2, 10), 10, Duration::from_millis(300));
                let job = Job::new(peer, Task::Saturated(load));
                measured.add(0, peer, job.run().expect("the job failed"));
            }
        }
        let required = requirements(&measured).into_iter();
        let mut required =
            required.filter(|(name, ..)| ["sustained", "crowd", "blocked"].contains(name));
        assert!(required.all(|(_, _, value, _)| value.is_some()));
    }

    #[test]
    fn the_worst_count_of_idle_timers_is_judged() {
        let mut measured = Measured::new(1);
        for (idle, ours, tokio) in [("0", 4.0, 1.0), ("1000", 9.0, 3.0)] {
            for (peer, ms) in [(OURS, ours), (TOKIO, tokio)] {
                let row = Row::new(format!("worst {X1} {idle}"), "ms");
                measured.add(0, peer, vec![(row, ms)]);
            }
        }
        let f = Figures(&measured);
        let median = |value: Option<Estimate>| value.map(|value| value.median);
        assert_eq!(median(f.most_late("worst", X1)), Some(9.0));
        assert_eq!(median(f.most_late_share("worst", X1, 0.0)), Some(4.0));
        assert_eq!(median(f.most_late_share("worst", X1, 2.0)), Some(3.0));
    }

    #[test]
    fn a_limit_has_two_sides() {
        let of = |values: &[f64]| Estimate::of(values.iter().copied()).expect("values");
        let (above, around) = (of(&[2.0; 6]), of(&[0.5, 0.6, 0.7, 0.8, 0.9, 1.5]));
        let answers = |figure| [AtLeast(1.0), AtMost(1.0)].map(|limit| limit.answer(figure));
        assert_eq!(answers(&above), ["yes", "NO"]);
        assert_eq!(answers(&around), ["no?", "yes?"]);
        assert_eq!(answers(&of(&[2.0; 5])), ["too few"; 2]);
    }
}
