//! Prints the answer on one screen: what a program gains if it moves from `tokio::time` to this
//! crate.

use std::time::Duration;

use indicatif::HumanDuration;
use tokio_wheel_benches::{
    floor::PARTS,
    machine::describe,
    peer::{BUILD_ALTERNATIVE, Peer as _, TokioAlt},
    stats::{interval, number, print_table},
};

use crate::{
    job::{FLOOR, floor_row},
    report::{BARE, Measured, OURS, RowName, Section, Series, TOKIO},
};

/// The columns: their titles, and the timers whose figures they show.
const COLUMNS: [(&str, &str); 7] = [
    ("wheel", OURS),
    ("armed", TOKIO),
    (UNARMED, TOKIO),
    ("alt", TokioAlt::NAME),
    ("pingora", "pingora"),
    ("futures", "futures_timer"),
    ("async-io", "async_io"),
];

const UNARMED: &str = "unarmed";

/// A row: its label, its name, and the factor from its unit to the unit of the screen.
type Line = (&'static str, RowName<'static>, f64);

/// Returns the rows of an operation on one worker and on two.
const fn operation(workload: &'static str) -> [Line; 2] {
    const OPERATIONS: Section = Section::Operations;
    [
        ("one thread", (OPERATIONS, workload, "solo armed"), 1.0),
        (
            "each of two threads",
            (OPERATIONS, workload, "x2 armed"),
            1.0,
        ),
    ]
}

const IDLE: &str = "1,000 in 1 s, idle";

/// A title with the unit, a description of the workload, and its rows.
type Block = (&'static str, &'static str, &'static [Line]);

#[rustfmt::skip] // Formatted as a table.
const BLOCKS: [Block; 10] = [
    ("churn, ns", "a 30 s limit that is set and canceled, as around every read", &operation("churn")),
    ("io, ns", "a 30 s timeout around a future that waits once", &operation("io")),
    ("ready, ns", "a 30 s timeout around a future that is ready at once", &operation("ready")),
    ("reset, ns", "a pending limit that moves to 30 s from now, as after every message", &operation("reset")),
    ("rpc, ns", "a request to another task and its answer, under a 30 s timeout", &operation("rpc")),
    ("memory, bytes", "a future and its entry in the timer, of 1,000,000 sleeps that wait", &[
        ("per pending sleep", (Section::Memory, "memory", "per pending sleep"), 1.0),
    ]),
    ("lateness, idle, ms", "50 tasks sleep 1 to 100 ms again and again, and nothing else runs", &[
        ("median", (Section::Lateness, IDLE, "median"), 1e-3),
        ("99th percentile", (Section::Lateness, IDLE, "99%"), 1e-3),
    ]),
    ("lateness, full load, ms", "2,000 tasks sleep 10 ms beside requests (rpc) that keep two workers busy", &[
        ("median", (Section::Saturated, "p50 sleep, 2, rpc, idle", "0"), 1.0),
        ("99th percentile", (Section::Saturated, "p99 sleep, 2, rpc, idle", "0"), 1.0),
    ]),
    ("lateness, saturated, ms", "a task sleeps 10 ms beside 50 tasks that are always ready, on one worker", &[
        ("worst of about 100", (Section::Saturated, "worst sleep, 1, 50 x 100 us, idle", "0"), 1.0),
    ]),
    ("storm, ms", "200,000 sleeps expire at once, beside a task that always wants to run", &[
        ("until all are joined", (Section::Firing, "storm", "joined"), 1.0),
        ("that task's wait", (Section::Firing, "storm", "another task's wait"), 1e-3),
    ]),
];

/// Prints the screen.
pub(crate) fn print(measured: &Measured) {
    print_machine(measured);
    let is_measured = |peer| measured.series.iter().any(|series| series.peer == peer);
    let columns: Vec<_> = (COLUMNS.into_iter())
        .filter(|&(_, peer)| is_measured(peer))
        .collect();
    let titles = columns.iter().map(|&(title, _)| title);
    let heading = ["", "armed tokio / wheel"].into_iter().chain(titles);
    let mut rows = vec![heading.map(str::to_owned).collect()];
    for (title, about, lines) in BLOCKS {
        let (caption, mut without) = (rows.len(), Vec::new());
        for &(label, row, scale) in lines {
            let (section, workload, variant) = row;
            let figures = columns.iter().map(|&column| match column {
                (UNARMED, peer) => {
                    let unarmed = variant.strip_suffix(" armed")?;
                    measured.find((section, workload, unarmed), peer)
                }
                (_, peer) => measured.find(row, peer),
            });
            if figures.clone().all(|series| series.is_none()) {
                continue;
            }
            let ours = measured.find(row, OURS).zip(measured.find(row, TOKIO));
            let ratio = ours.and_then(|(ours, tokio)| tokio.ratio_to(ours));
            let ratio = ratio.map(|ratio| {
                let range = interval(ratio.spread);
                match ratio.interval {
                    None => "too few rounds".to_owned(),
                    Some(_) if ratio.excludes(1.0) => {
                        format!("{}x ({range})", number(ratio.median))
                    }
                    Some(_) => format!("not shown ({range})"),
                }
            });
            let median = |series: &Series| number(series.median() * scale);
            let mut cells = vec![format!("  {label}"), ratio.unwrap_or_default()];
            cells.extend(figures.map(|series| series.map_or_else(|| "-".to_owned(), median)));
            rows.push(cells);
            without.extend(measured.find(row, BARE).map(|bare| number(bare.median())));
        }
        if rows.len() > caption {
            let mut title = format!("{title}: {about}");
            if !without.is_empty() {
                title += &format!(" (without: {})", without.join(", "));
            }
            rows.insert(caption, vec![title]);
        }
    }
    println!();
    print_floor(measured);
    print_table(&rows);
    println!(
        "\narmed, unarmed: tokio::time. armed: an earlier timer is pending, the normal state of a server.\n\
         unarmed: none is pending, and each registration wakes tokio's driver. alt: tokio's alternative timer.\n\
         Medians; in parentheses the interval of 95%, of ratios within a round. not shown: it contains 1.\n\
         More: --all (every row), --requirements, --svg FOLDER (plots), --json FILE, --help."
    );
    if !is_measured(TokioAlt::NAME) {
        println!("{BUILD_ALTERNATIVE}");
    }
}

/// Prints the machine, and whether it was quiet.
pub(crate) fn print_machine(measured: &Measured) {
    println!("Machine: {}, {} cores.", measured.machine, measured.cores);
    println!(
        "Rounds: {}, in {}. In each, the timers take turns, each in a process of its own.",
        measured.rounds,
        HumanDuration(Duration::from_secs_f64(measured.seconds)),
    );
    if let Some(busy) = measured.busy {
        println!("{}", describe(busy));
    }
    if !measured.failed.is_empty() {
        println!("NOT MEASURED: {} jobs, see the end.", measured.failed.len());
    }
}

/// Prints the floor and its parts.
fn print_floor(measured: &Measured) {
    let part = |name| Some(measured.find(name, BARE)?.median());
    let parts = PARTS.map(|name| part(floor_row(name)));
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

    /// The screen would never print an operation that no job measures.
    #[test]
    fn every_operation_is_measured() {
        let cells = cells();
        for &(_, (section, workload, variant), _) in BLOCKS.iter().flat_map(|block| block.2) {
            let name = (workload, variant, OURS);
            let mut cells = cells.iter();
            let is_cell = cells.any(|cell| (cell.workload, cell.variant, cell.peer) == name);
            assert_eq!(is_cell, section == Section::Operations, "{name:?}");
        }
    }
}
