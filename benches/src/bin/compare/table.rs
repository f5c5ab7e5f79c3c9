//! The table: workloads in rows, timers in columns.

use tokio_wheel_benches::{stats::Estimate, table};

use crate::report::{Measured, OURS, Row, Section, Series};

const SECTIONS: [(Section, &str); 7] = [
    (Section::Operations, "operations"),
    (Section::Pending, "beside pending sleeps"),
    (Section::Threads, "on worker threads"),
    (Section::Queues, "queues of 1,000,000"),
    (Section::Firing, "200,000 sleeps fire"),
    (Section::Saturated, "lateness, saturated"),
    (Section::Memory, "memory"),
];

/// Prints it, with a line of headings for each section, as not everyone takes part in all.
pub(crate) fn print(measured: &Measured) {
    let mut rows = Vec::new();
    for (section, title) in SECTIONS {
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
    }
    table::print(&rows);
    println!(
        "Medians (and where the true ones are with a probability of 95%; of fewer than six samples, the \
         lowest and the highest), and how many times {OURS}'s, as judged within each round. solo, x1, x2: \
         a thread on one worker, on one of two, each of two on two. armed: a sleep is pending that is due \
         before. More threads than there are cores take turns. saturated: so many workers, and tasks that are \
         always ready with the length of a poll. Machine: {}, {} cores.",
        measured.machine, measured.cores,
    );
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
    let spread = if estimate.median > 0.0 && series.samples.len() > 1 {
        let (low, high) = estimate.spread;
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
