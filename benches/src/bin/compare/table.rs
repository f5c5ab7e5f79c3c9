//! Prints every row of figures, with all timers that have it.

use indicatif::HumanCount;
use tokio_wheel_benches::{stats::Estimate, table};

use crate::report::{Measured, OURS, Row, Section, Series};

/// The sections, their titles, and notes on how to read their rows.
const SECTIONS: [(Section, &str, &str); 12] = [
    (
        Section::Floor,
        "the floor",
        "In all: a clock read, two lock pairs, and a clone and drop of a task's waker.",
    ),
    (
        Section::Operations,
        "operations",
        "solo: a thread, on a runtime with one worker. x1: a thread, on a runtime with two. x2: each of two\n\
         threads, on two workers. armed: an earlier timer is pending, as on a server.\n\
         bare: the workload without a timer.",
    ),
    (
        Section::Pending,
        "beside pending sleeps",
        "armed: an earlier timer is pending. Otherwise all pending sleeps expire later.",
    ),
    (
        Section::Threads,
        "on worker threads",
        "More threads than there are cores take turns.",
    ),
    (Section::Queues, "queues of 1,000,000 elements", ""),
    (Section::Touches, "touches", ""),
    (
        Section::Firing,
        "sleeps fire",
        "fire: 200,000 sleeps over a second. storm: 200,000 at once. Beside a storm and beside \"fire, busy\",\n\
         a task yields in a loop. If a sleep was polled too late, the machine was too slow for the others.",
    ),
    (Section::Lateness, "lateness", ""),
    (
        Section::Saturated,
        "lateness, saturated",
        "The name says how many workers there are (0: a current-thread runtime), how many tasks are always\n\
         ready, and how long one of their polls takes. The count of idle timers follows, or how many sleeps\n\
         fire each second, or how many have one deadline. A sleep that is pending at the end counts with the\n\
         lateness that it has reached. load: the share of the workers' time of these tasks.",
    ),
    (
        Section::Memory,
        "memory",
        "A stream has five limits: two timeouts, an idle limit and two rates.",
    ),
    (
        Section::Waiting,
        "while nothing happens",
        "By default 1,000,000 sleeps or tasks are pending. CPU and context switches: of ten seconds.",
    ),
    (
        Section::Wakeups,
        "a wake-up of the driver",
        "A wake-up fires one timer: CPU time of the process, with tokio's alarm and the task that sleeps.",
    ),
];

/// Prints every row of figures. Each timer has a line with its interval, and its multiple of this
/// crate's figure.
pub(crate) fn print(measured: &Measured) {
    for (section, title, note) in SECTIONS {
        let mut rows: Vec<&Row> = Vec::new();
        for series in measured.section(section) {
            if !rows.contains(&&series.row) {
                rows.push(&series.row);
            }
        }
        if rows.is_empty() {
            continue;
        }
        println!("\n== {title}");
        if !note.is_empty() {
            println!("{note}");
        }
        for row in rows {
            println!("{}, {}", label(row), row.unit);
            let series = measured
                .section(section)
                .filter(|series| series.row == *row);
            let lines: Vec<_> = series.map(|series| line(measured, series)).collect();
            table::print(&lines);
        }
    }
    println!(
        "\nMedians. In parentheses, the interval that holds the true median with a probability of 95%; of\n\
         fewer than six samples, the lowest and the highest. x: how many times {OURS}'s, judged within\n\
         each round. A floor is a clock read, two lock pairs, and a clone and drop of a task's waker. What io\n\
         costs without a timer is taken off before its floors are counted."
    );
}

/// Returns the cells of one timer in one row.
fn line(measured: &Measured, series: &Series) -> Vec<String> {
    let of_interval = |estimate: Estimate, unit: &str| {
        let median = number(estimate.median);
        format!("{median}{unit} ({})", interval(estimate.spread))
    };
    let ratio = (measured.ours(&series.row))
        .filter(|_| series.peer != OURS)
        .and_then(|ours| series.ratio_to(ours));
    vec![
        format!("  {:<20}", series.peer),
        format!("{:>26}", range(&series.estimate())),
        ratio.map_or_else(String::new, |ratio| of_interval(ratio, "x")),
        (measured.floors(series)).map_or_else(String::new, |floors| of_interval(floors, " floors")),
    ]
}

/// Returns the name of a row.
fn label(row: &Row) -> String {
    match row.variant.parse() {
        Ok(pending) => format!("{} {}", row.workload, HumanCount(pending)),
        Err(_) => format!("{} {}", row.workload, row.variant)
            .trim_end()
            .to_owned(),
    }
}

/// Formats a value with about three digits.
pub(crate) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    if value >= 1_000.0 {
        return HumanCount(value.round() as u64).to_string();
    }
    format!("{value:.decimals$}")
}

/// Formats an estimate with its range.
pub(crate) fn range(estimate: &Estimate) -> String {
    format!(
        "{} ({})",
        number(estimate.median),
        interval(estimate.spread)
    )
}

/// Formats an interval.
pub(crate) fn interval((low, high): (f64, f64)) -> String {
    format!("{}-{}", number(low), number(high))
}
