//! Prints the answer on one screen: what a program gains if it moves from `tokio::time` to this
//! crate.

use tokio_wheel_benches::{floor, stats::Estimate};

use crate::{
    job::{FLOOR, floor_row},
    report::{BARE, Measured, OURS, RowName, Section, Series, TOKIO},
    rounds::{describe, time},
    table::{interval, number},
};

/// The columns: their titles, and the timers whose figures they show.
const COLUMNS: [(&str, &str); 6] = [
    ("wheel", OURS),
    ("armed", TOKIO),
    (UNARMED, TOKIO),
    ("timeout", "pingora"),
    ("timer", "futures_timer"),
    ("io", "async_io"),
];

const UNARMED: &str = "unarmed";

/// A row of the screen.
struct Line {
    label: &'static str,
    row: RowName,
    /// The row without an earlier timer, if the state makes a difference.
    unarmed: Option<&'static str>,
    /// The factor from the unit of the row to the unit of the screen.
    scale: f64,
}

const fn line(label: &'static str, row: RowName, scale: f64) -> Line {
    Line {
        label,
        row,
        unarmed: None,
        scale,
    }
}

/// The rows of an operation on one worker and on two.
macro_rules! operation {
    ($workload:literal) => {
        operation!($workload, Some("solo"), Some("x2"))
    };
    ($workload:literal, $solo:expr, $x2:expr) => {
        &[
            Line {
                unarmed: $solo,
                ..line(
                    "one thread",
                    (Section::Operations, $workload, "solo armed"),
                    1.0,
                )
            },
            Line {
                unarmed: $x2,
                ..line(
                    "each of two threads",
                    (Section::Operations, $workload, "x2 armed"),
                    1.0,
                )
            },
        ]
    };
}

const IDLE: &str = "1,000 in 1 s, idle";

/// A title with the unit, a description of the workload, and its rows.
type Block = (&'static str, &'static str, &'static [Line]);

#[rustfmt::skip] // Formatted as a table.
const BLOCKS: [Block; 10] = [
    ("churn, ns", "a 30 s limit that is set and canceled, as around every read", operation!("churn")),
    ("io, ns", "a 30 s timeout around a future that waits once", operation!("io")),
    ("ready, ns", "a 30 s timeout around a future that is ready at once", operation!("ready", None, None)),
    ("reset, ns", "a pending limit that moves to 30 s from now, as after every message", operation!("reset", None, None)),
    ("rpc, ns", "a request to another task and its answer, under a 30 s timeout", operation!("rpc")),
    ("memory, bytes", "a future and its entry in the timer, of 1,000,000 sleeps that wait", &[
        line("per pending sleep", (Section::Memory, "memory", "per pending sleep"), 1.0),
    ]),
    ("lateness, idle, ms", "50 tasks sleep 1 to 100 ms again and again, and nothing else runs", &[
        line("median", (Section::Lateness, IDLE, "median"), 1e-3),
        line("99th percentile", (Section::Lateness, IDLE, "99%"), 1e-3),
    ]),
    ("lateness, full load, ms", "2,000 tasks sleep 10 ms beside requests (rpc) that keep two workers busy", &[
        line("median", (Section::Saturated, "p50 sleep, 2, rpc, idle", "0"), 1.0),
        line("99th percentile", (Section::Saturated, "p99 sleep, 2, rpc, idle", "0"), 1.0),
    ]),
    ("lateness, saturated, ms", "a task sleeps 10 ms beside 50 tasks that are always ready, on one worker", &[
        line("worst of about 100", (Section::Saturated, "worst sleep, 1, 50 x 100 us, idle", "0"), 1.0),
    ]),
    ("storm, ms", "200,000 sleeps expire at once, beside a task that always wants to run", &[
        line("until all have woken", (Section::Firing, "storm", "drained"), 1.0),
        line("that task's wait", (Section::Firing, "storm", "another task's wait"), 1e-3),
    ]),
];

/// The verdict on the ratio of two timers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    /// `tokio::time` takes more.
    Gain,
    /// `tokio::time` takes less.
    Loss,
    /// The interval contains 1, so neither is shown.
    NotShown,
    /// There are fewer than six samples.
    TooFew,
}

impl Verdict {
    fn of(ratio: &Estimate) -> Self {
        match ratio.interval {
            None => Self::TooFew,
            Some((low, _)) if low > 1.0 => Self::Gain,
            Some((_, high)) if high < 1.0 => Self::Loss,
            Some(_) => Self::NotShown,
        }
    }
}

/// A row with its figures.
struct Measurement<'a> {
    label: &'static str,
    /// A series for each column.
    series: [Option<&'a Series>; COLUMNS.len()],
    /// The series of the workload without a timer.
    bare: Option<&'a Series>,
    /// Armed `tokio::time` as a multiple of this crate.
    ratio: Option<Estimate>,
    scale: f64,
}

impl<'a> Measurement<'a> {
    /// Returns the measurement, or `None` if no timer has the row.
    fn of(measured: &'a Measured, line: &Line) -> Option<Self> {
        let (section, workload, variant) = line.row;
        let find = |variant, peer| measured.find(section, workload, variant, peer);
        let series = COLUMNS.map(|(state, peer)| match state {
            UNARMED => find(line.unarmed?, peer),
            _ => find(variant, peer),
        });
        let [ours, tokio, ..] = series;
        let ratio = ours
            .zip(tokio)
            .and_then(|(ours, tokio)| tokio.ratio_to(ours));
        series.iter().any(Option::is_some).then_some(Self {
            label: line.label,
            series,
            bare: find(variant, BARE),
            ratio,
            scale: line.scale,
        })
    }

    fn print(&self) {
        let ratio = self.ratio.as_ref().map_or_else(String::new, |ratio| {
            match (Verdict::of(ratio), ratio.interval) {
                (Verdict::NotShown, Some(range)) => format!("not shown ({})", interval(range)),
                (_, Some(range)) => format!("{}x ({})", number(ratio.median), interval(range)),
                (_, None) => "too few rounds".to_owned(),
            }
        });
        let figures = self.series.map(|series| {
            let median = |series: &Series| number(series.estimate().median * self.scale);
            series.map_or_else(|| "-".to_owned(), median)
        });
        print_columns(&format!("  {}", self.label), &ratio, &figures);
    }
}

/// Prints the screen.
pub(crate) fn print(measured: &Measured) {
    let blocks = BLOCKS.map(|(title, about, lines)| {
        let lines = lines
            .iter()
            .filter_map(|line| Measurement::of(measured, line));
        (title, about, lines.collect::<Vec<_>>())
    });
    print_machine(measured);
    println!(
        "{}",
        conclusion(blocks.iter().flat_map(|(_, _, lines)| lines))
    );
    println!();
    print_floor(measured);
    let names = [
        "tokio_",
        "    tokio",
        "::time   ",
        "pingora-",
        "futures-",
        "async-",
    ];
    print_columns("", "tokio::time armed is", &names.map(str::to_owned));
    let names = COLUMNS.map(|(name, _)| name.to_owned());
    print_columns("", "n times tokio_wheel", &names);
    for (title, about, lines) in &blocks {
        if lines.is_empty() {
            continue;
        }
        let bare: Vec<_> = lines.iter().filter_map(|line| line.bare).collect();
        let bare: Vec<_> = bare
            .iter()
            .map(|bare| number(bare.estimate().median))
            .collect();
        let bare = if bare.is_empty() {
            String::new()
        } else {
            format!(" (without: {})", bare.join(", "))
        };
        println!("{title}: {about}{bare}");
        lines.iter().for_each(Measurement::print);
    }
    println!(
        "\narmed: an earlier timer is pending, the normal state of a server. unarmed: none is pending, and each\n\
         registration wakes tokio's driver. -: has no such operation, or the state makes no difference.\n\
         Medians; in parentheses the interval of 95%, of ratios within a round. not shown: it contains 1.\n\
         More: --all (every row), --requirements, --svg FOLDER (plots), --json FILE, --help."
    );
}

fn print_columns(label: &str, ratio: &str, figures: &[String; COLUMNS.len()]) {
    let figures: String = figures
        .iter()
        .map(|figure| format!("{figure:>9}"))
        .collect();
    println!("{label:<22}{ratio:>23}{figures}");
}

/// Prints the machine, and whether it was quiet.
pub(crate) fn print_machine(measured: &Measured) {
    println!("Machine: {}, {} cores.", measured.machine, measured.cores);
    let took = measured.seconds.map_or_else(String::new, |seconds| {
        format!(", in {}", time(seconds * 1e3))
    });
    println!(
        "Rounds: {}{took}. In each, the timers take turns, each in a process of its own.",
        measured.rounds,
    );
    match measured.busy {
        Some(busy) if busy.disturbs() => println!(
            "WARNING, a busy machine: {}.\n\
             Figures are too high and intervals too wide. End other programs and run this again.",
            describe(busy),
        ),
        Some(busy) => println!("A quiet machine: {}.", describe(busy)),
        None => {}
    }
    if !measured.failed.is_empty() {
        println!("NOT MEASURED: {} jobs, see the end.", measured.failed.len());
    }
}

/// Says how many rows have each verdict.
fn conclusion<'a>(lines: impl Iterator<Item = &'a Measurement<'a>>) -> String {
    let verdicts: Vec<_> = (lines.filter_map(|line| line.ratio.as_ref()))
        .map(Verdict::of)
        .collect();
    let count = |verdict| verdicts.iter().filter(|&&known| known == verdict).count();
    let (all, too_few) = (verdicts.len(), count(Verdict::TooFew));
    if all == 0 {
        return "Result: no row of this table was measured. --all prints what was.".to_owned();
    }
    if too_few == all {
        return "Result: too few rounds to tell. A verdict needs six rounds.".to_owned();
    }
    let mut text = format!(
        "Result: of {all} rows, tokio_wheel takes less than armed tokio::time in {}, more in {}, not shown in {}.",
        count(Verdict::Gain),
        count(Verdict::Loss),
        count(Verdict::NotShown),
    );
    if too_few > 0 {
        text += &format!("\nToo few rounds to tell in {too_few}: a verdict needs six samples.");
    }
    text
}

/// Prints the floor and its parts.
fn print_floor(measured: &Measured) {
    let part = |(section, workload, variant): RowName| {
        let series = measured.find(section, workload, variant, BARE)?;
        Some(series.estimate().median)
    };
    let parts = [floor::CLOCK, floor::LOCK, floor::WAKER].map(|name| part(floor_row(name)));
    if let ([Some(clock), Some(lock), Some(waker)], Some(all)) = (parts, part(FLOOR)) {
        println!(
            "Floor, ns: clock read {} + two lock pairs {} + waker cloned and dropped {} = {}.\n\
             A timer pays it that reads the exact clock, locks twice, and keeps the task's waker.",
            number(clock),
            number(2.0 * lock),
            number(waker),
            number(all),
        );
    }
}

#[cfg(test)]
mod tests {
    use tokio_wheel_benches::cell::cells;

    use super::*;

    fn estimate(values: &[f64]) -> Estimate {
        Estimate::of(values.to_vec())
    }

    #[test]
    fn a_verdict_needs_six_samples_on_one_side() {
        for (values, verdict) in [
            (&[2.0; 5][..], Verdict::TooFew),
            (&[1.1, 1.2, 1.3, 1.4, 1.5, 1.6], Verdict::Gain),
            (&[0.9, 1.2, 1.3, 1.4, 1.5, 1.6], Verdict::NotShown),
            (&[0.4, 0.5, 0.6, 0.7, 0.8, 0.9], Verdict::Loss),
        ] {
            assert_eq!(Verdict::of(&estimate(values)), verdict, "{values:?}");
        }
    }

    /// The screen would never print a row that no job measures.
    #[test]
    fn every_row_is_measured() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/img/compare.json");
        let json = std::fs::read(file).expect("the figures of the plots are missing");
        let stored: Measured = serde_json::from_slice(&json).expect("not the figures of a run");
        let cells = cells();
        for line in BLOCKS.iter().flat_map(|(.., lines)| *lines) {
            let (section, workload, variant) = line.row;
            let is_measured = if section == Section::Operations {
                [Some(variant), line.unarmed]
                    .into_iter()
                    .flatten()
                    .all(|variant| {
                        let name = (workload, variant, OURS);
                        (cells.iter()).any(|cell| (cell.workload, cell.variant, cell.peer) == name)
                    })
            } else {
                stored.find(section, workload, variant, OURS).is_some()
            };
            assert!(is_measured, "{workload} {variant}");
        }
    }

    #[test]
    fn no_line_is_longer_than_the_screen() {
        for (title, about, lines) in &BLOCKS {
            let length = title.len() + 2 + about.len();
            assert!(length <= 100, "{title}: {length}");
            for line in *lines {
                assert!(line.label.len() <= 20, "{}", line.label);
            }
        }
    }
}
