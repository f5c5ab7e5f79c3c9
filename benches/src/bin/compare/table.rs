//! The table: workloads in rows, timers in columns.

use tokio_wheel_benches::{stats::Estimate, table};

use crate::report::{COARSE, Measured, OURS, Row, Section, Series};

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
        "CPU time of the process per wake-up that fires one timer, with tokio's alarm and the task that sleeps.",
    ),
];

/// The heading of the figures that are multiples of the floor, and what a reader must know of them.
const FLOORS: (&str, &str) = (
    "in floors",
    "In floors: by the median of the floors of the same round.",
);

/// Prints it, with a line of headings for each section, as not everyone takes part in all.
pub(crate) fn print(measured: &Measured) {
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    let mut has_floors = false;
    for (section, title, note) in SECTIONS {
        let mut peers: Vec<&str> = Vec::new();
        let mut lines: Vec<&Row> = Vec::new();
        for series in measured.section(section) {
            if !peers.contains(&&*series.peer) {
                peers.push(&series.peer);
            }
            if !lines.contains(&&series.row) {
                lines.push(&series.row);
            }
        }
        if lines.is_empty() {
            continue;
        }
        rows.push(vec![title.to_owned(), "unit".to_owned()]);
        let heading = rows.last_mut().expect("it was pushed");
        heading.extend(peers.iter().map(|&peer| peer.to_owned()));
        for row in lines {
            let mut line = vec![label(row), row.unit.clone()];
            line.extend(peers.iter().map(|peer| {
                let mut of_row = measured
                    .section(section)
                    .filter(|series| series.row == *row);
                let series = of_row.find(|series| series.peer == *peer);
                series.map_or_else(String::new, |series| cell(measured, series))
            }));
            rows.push(line);
        }
        rows.push(vec![String::new()]);
        notes.extend((!note.is_empty()).then_some(note));
        if section == Section::Pending || section == Section::Operations {
            let floors = floors(measured, section);
            if !floors.is_empty() {
                rows.extend(floors);
                rows.push(vec![String::new()]);
                has_floors = true;
            }
        }
    }
    notes.extend(has_floors.then_some(FLOORS.1));
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

/// Our rows of a section as multiples of the floor, below a line of headings. Empty without a floor.
fn floors(measured: &Measured, section: Section) -> Vec<Vec<String>> {
    let mut rows: Vec<(&Row, [String; 2])> = Vec::new();
    for series in measured.section(section) {
        let Some(floors) = measured.floors(series) else {
            continue;
        };
        let known = rows.iter().position(|(row, _)| **row == series.row);
        let place = known.unwrap_or_else(|| {
            rows.push((&series.row, Default::default()));
            rows.len() - 1
        });
        let column = usize::from(series.peer == COARSE);
        rows[place].1[column] = range(&floors);
    }
    let has_coarse = rows.iter().any(|(_, [_, coarse])| !coarse.is_empty());
    let columns = if has_coarse { 2 } else { 1 };
    let mut lines = Vec::new();
    if !rows.is_empty() {
        let peers = [OURS, COARSE].map(str::to_owned);
        lines.push(
            [
                [FLOORS.0, ""].map(str::to_owned).to_vec(),
                peers[..columns].to_vec(),
            ]
            .concat(),
        );
    }
    lines.extend(rows.into_iter().map(|(row, cells)| {
        let name = match &*row.workload {
            "io" => format!("io less bare {}", row.variant),
            _ => label(row),
        };
        [vec![name, String::new()], cells[..columns].to_vec()].concat()
    }));
    lines
}

/// What a row is called.
fn label(row: &Row) -> String {
    match row.variant.parse::<u64>() {
        Ok(pending) => format!("{} {}", row.workload, indicatif::HumanCount(pending)),
        Err(_) => format!("{} {}", row.workload, row.variant),
    }
}

/// A median, its spread, and what it is beside ours.
fn cell(measured: &Measured, series: &Series) -> String {
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
    format!("{} {spread:>13} {ratio:>6}", number(estimate.median))
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
