//! The table: workloads in rows, timers in columns.

use tokio_wheel_benches::{stats::Estimate, table};

use crate::report::{Measured, OURS, Row, Section, Series};

/// The sections, their titles, and what a reader must know of their rows.
const SECTIONS: [(Section, &str, &str); 12] = [
    (
        Section::Floor,
        "the floor",
        "floor, in all: a clock read, two lock pairs, and a clone and drop of a task's waker.",
    ),
    (
        Section::Operations,
        "operations",
        "solo, x1, x2: a thread on one worker, on one of two, each of two on two. armed: a sleep is pending that \
         is due before.",
    ),
    (Section::Pending, "beside pending sleeps", ""),
    (
        Section::Threads,
        "on worker threads",
        "More threads than there are cores take turns.",
    ),
    (Section::Queues, "queues of 1,000,000", ""),
    (Section::Touches, "touches", ""),
    (
        Section::Firing,
        "sleeps fire",
        "fire: 200,000 sleeps over a second. storm: 200,000 at once. Beside a storm and beside \"fire, busy\" a task \
         yields in a loop. If a sleep was polled too late, the machine was too slow for the other figures.",
    ),
    (Section::Lateness, "lateness", ""),
    (
        Section::Saturated,
        "lateness, saturated",
        "saturated: so many workers, and tasks that are always ready with the length of a poll. load: the part of \
         the workers' time that these tasks got.",
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

/// What a reader must know of the multiples of the floor.
const FLOORS: &str = "In floors: each round by the median of its floors.";

/// Prints it, with a line of headings for each section, as not everyone takes part in all.
pub(crate) fn print(measured: &Measured) {
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for (section, title, note) in SECTIONS {
        let costs = measured.section(section);
        let costs = block(title, costs.map(|series| Cell::cost(measured, series)));
        let floors = measured.section(section);
        let floors = block(
            "in floors",
            floors.filter_map(|series| Cell::floors(measured, series)),
        );
        for (block, note) in [(costs, note), (floors, FLOORS)] {
            if block.is_empty() {
                continue;
            }
            rows.extend(block);
            rows.push(vec![String::new()]);
            if !note.is_empty() && !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    table::print(&rows);
    println!(
        "Medians (and where the true ones are with a probability of 95%; of fewer than six samples, the \
         lowest and the highest), and how many times {OURS}'s, as judged within each round. Machine: {}, {} cores.",
        measured.machine, measured.cores,
    );
    for note in notes {
        println!("{note}");
    }
}

/// A place in the table.
struct Cell<'a> {
    row: String,
    unit: &'a str,
    peer: &'a str,
    text: String,
}

impl<'a> Cell<'a> {
    /// A median, its spread, and how many times ours it is.
    fn cost(measured: &Measured, series: &'a Series) -> Self {
        let estimate = series.estimate();
        let (low, high) = estimate.spread;
        let spread = if high > 0.0 && series.samples.len() > 1 {
            format!("({}-{})", number(low), number(high))
        } else {
            String::new()
        };
        let ratio = (measured.ours(&series.row))
            .filter(|_| series.peer != OURS)
            .and_then(|ours| series.ratio_to(ours))
            .map_or_else(String::new, |ratio| format!("{:.2}x", ratio.median));
        Self {
            row: label(&series.row),
            unit: &series.row.unit,
            peer: &series.peer,
            text: format!("{} {spread:>13} {ratio:>6}", number(estimate.median)),
        }
    }

    /// A multiple of the floor, if it is ours and there is one.
    fn floors(measured: &Measured, series: &'a Series) -> Option<Self> {
        let floors = measured.floors(series)?;
        let row = &series.row;
        Some(Self {
            row: match &*row.workload {
                "io" => format!("io less bare {}", row.variant),
                _ => label(row),
            },
            unit: "floors",
            peer: &series.peer,
            text: range(&floors),
        })
    }
}

/// A line of headings, and a line for each row with a column for each peer. Empty if there is no cell.
fn block<'a>(title: &str, cells: impl Iterator<Item = Cell<'a>>) -> Vec<Vec<String>> {
    let mut lines: Vec<Vec<String>> = Vec::new();
    for cell in cells {
        if lines.is_empty() {
            lines.push(vec![title.to_owned(), "unit".to_owned()]);
        }
        let known = lines[0][2..].iter().position(|peer| peer == cell.peer);
        let column = 2 + known.unwrap_or_else(|| {
            lines[0].push(cell.peer.to_owned());
            lines[0].len() - 3
        });
        let known = lines[1..].iter().position(|line| line[0] == cell.row);
        let line = 1 + known.unwrap_or_else(|| {
            lines.push(vec![cell.row, cell.unit.to_owned()]);
            lines.len() - 2
        });
        let line = &mut lines[line];
        line.resize(line.len().max(column + 1), String::new());
        line[column] = cell.text;
    }
    lines
}

/// What a row is called.
fn label(row: &Row) -> String {
    match row.variant.parse::<u64>() {
        Ok(pending) => format!("{} {}", row.workload, indicatif::HumanCount(pending)),
        Err(_) => format!("{} {}", row.workload, row.variant),
    }
}

/// About three digits.
pub(crate) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    if value >= 1_000.0 {
        return indicatif::HumanCount(value.round() as u64).to_string();
    }
    format!("{value:.decimals$}")
}

/// An estimate with its range, in words.
pub(crate) fn range(estimate: &Estimate) -> String {
    let (low, high) = estimate.spread;
    format!(
        "{} ({} to {})",
        number(estimate.median),
        number(low),
        number(high)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell<'a>(row: &str, peer: &'a str, text: &str) -> Cell<'a> {
        Cell {
            row: row.to_owned(),
            unit: "ns",
            peer,
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_peer_that_lacks_a_row_leaves_its_place_empty() {
        let cells = [
            cell("io", "ours", "1"),
            cell("io", "tokio", "2"),
            cell("churn", "tokio", "3"),
        ];
        let expected = [
            vec!["cost", "unit", "ours", "tokio"],
            vec!["io", "ns", "1", "2"],
            vec!["churn", "ns", "", "3"],
        ];
        assert_eq!(block("cost", cells.into_iter()), expected);
        assert!(block("cost", [].into_iter()).is_empty());
    }
}
