//! Prints the report at the end.

use std::fmt::{self, Display};

use hdrhistogram::Histogram;
use tokio_wheel::Duration;

use crate::{
    faults, ledger,
    memory::{Floors, Reading},
    neighbor, ops,
    saturated::{self, Probe},
    short_lived, storm,
};

/// Facts that only `main` knows.
pub struct Run {
    pub seed: u64,
    pub took: Duration,
    pub epochs: u64,
    pub peak: Reading,
    pub floors: Floors,
}

impl Run {
    /// Prints the report, and returns whether all invariants held.
    pub fn report(&self) -> bool {
        let Self {
            seed, took, epochs, ..
        } = self;
        println!("\nsoak: {took:.1?}, {epochs} epochs, seed {seed}");
        operations();
        accounts();
        lateness();
        probes();
        gaps();
        self.memory();
        verdict()
    }

    fn memory(&self) {
        heading("memory");
        let mut table = Table::new(["", "heap", "resident"]);
        let mut row = |name: &str, reading: Reading| {
            table.row([
                name.into(),
                size(reading.heap as u64),
                size(reading.resident),
            ]);
        };
        if let (Some(start), Some(end)) = (self.floors.start(), self.floors.end()) {
            row("after the first epoch", start);
            row("at most", self.peak);
            row("after the last epoch", end);
        }
        table.print();
        match self.floors.trend() {
            Some((first, last)) => println!(
                "  the heap after an epoch: {} in the first quarter, {} in the last",
                size(first as u64),
                size(last as u64)
            ),
            None => println!("  too few epochs to tell a trend"),
        }
    }
}

fn heading(title: &str) {
    println!("\n{title}");
}

fn operations() {
    heading("operations");
    let mut table = Table::new(["", ""]);
    let (runtimes, shutdowns) = short_lived::so_far();
    for (op, done) in ops::done() {
        table.row([op.to_string(), count(done)]);
    }
    table.row(["storms".into(), count(storm::so_far())]);
    table.row(["runtimes started and shut down".into(), count(runtimes)]);
    table.row(["timers shut down".into(), count(shutdowns)]);
    table.row(["all".into(), count(done())]);
    table.print();
}

/// Returns how many operations ran.
pub fn done() -> u64 {
    let (runtimes, shutdowns) = short_lived::so_far();
    ops::done().map(|(_, done)| done).sum::<u64>() + storm::so_far() + runtimes + shutdowns
}

fn accounts() {
    heading("timers");
    let sums = ledger::sums();
    let mut table = Table::new(["", ""]);
    for (name, number) in [
        ("made", sums.made),
        ("fired", sums.fired),
        ("canceled", sums.cancelled),
        ("ended with their timer", sums.ended),
        ("left", sums.pending),
    ] {
        table.row([name.into(), count(number)]);
    }
    table.print();
    if sums.made != sums.fired + sums.cancelled + sums.ended + sums.pending {
        faults::found(format!("the accounts do not add up: {sums:?}"));
    }
}

fn lateness() {
    heading("lateness");
    let mut table = Table::new([
        "",
        "timers",
        "p50",
        "p99",
        "worst",
        "beside tasks that block",
        "p99",
        "worst",
        "saturated",
        "p99",
        "worst",
    ]);
    for late in ledger::lateness() {
        let (undisturbed, disturbed) = (&late.undisturbed, &late.disturbed);
        let saturated = &late.saturated;
        table.row([
            late.class.to_string(),
            count(undisturbed.len()),
            quantile(undisturbed, 0.5),
            quantile(undisturbed, 0.99),
            quantile(undisturbed, 1.0),
            count(disturbed.len()),
            quantile(disturbed, 0.99),
            quantile(disturbed, 1.0),
            count(saturated.len()),
            quantile(saturated, 0.99),
            quantile(saturated, 1.0),
        ]);
    }
    table.print();
}

/// Prints how late sleeps of 10 ms were in saturated epochs, on this crate and on `tokio::time`
/// beside the same load.
fn probes() {
    heading("probes of 10 ms in saturated epochs");
    let epochs = saturated::so_far();
    if epochs == 0 {
        println!("  no epoch was saturated");
        return;
    }
    let mut table = Table::new(["", "sleeps", "p50", "p99", "worst"]);
    for probe in Probe::ALL {
        let late = probe.late();
        table.row([
            probe.name().into(),
            count(late.len()),
            quantile(&late, 0.5),
            quantile(&late, 0.99),
            quantile(&late, 1.0),
        ]);
    }
    table.print();
    println!("  saturated epochs: {epochs}");
}

/// Prints how long the task beside a storm has waited.
fn gaps() {
    heading("the longest wait of a task beside a storm, in CPU time");
    let gaps = neighbor::look();
    let mut table = Table::new(["storms", "median", "worst"]);
    table.row([
        count(gaps.len()),
        quantile(&gaps, 0.5),
        quantile(&gaps, 1.0),
    ]);
    table.print();
}

fn quantile(histogram: &Histogram<u64>, quantile: f64) -> String {
    let late = Duration::from_nanos(histogram.value_at_quantile(quantile));
    format!("{late:.1?}")
}

fn verdict() -> bool {
    let (count, some) = faults::all();
    if count == 0 {
        println!("\nall invariants held");
        return true;
    }
    println!("\n{count} invariants BROKEN, the first:");
    some.iter().for_each(|fault| println!("  {fault}"));
    false
}

/// Rows whose columns are aligned.
struct Table<const COLUMNS: usize> {
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    fn new(head: [&str; COLUMNS]) -> Self {
        Self {
            rows: vec![head.map(String::from)],
        }
    }

    fn row(&mut self, row: [String; COLUMNS]) {
        self.rows.push(row);
    }

    fn print(&self) {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let is_empty = |row: &&[String; COLUMNS]| row.iter().all(String::is_empty);
        for row in self.rows.iter().filter(|row| !is_empty(row)) {
            for (column, cell) in row.iter().enumerate() {
                match column {
                    0 => print!("  {cell:<width$}", width = width(column)),
                    _ => print!("  {cell:>width$}", width = width(column)),
                }
            }
            println!();
        }
    }
}

/// Formats a long number with commas.
struct Grouped(u64);

impl Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (n, digit) in digits.chars().enumerate() {
            if n > 0 && (digits.len() - n).is_multiple_of(3) {
                write!(f, ",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

fn count(count: u64) -> String {
    Grouped(count).to_string()
}

fn size(bytes: u64) -> String {
    format!("{:.2} MiB", bytes as f64 / f64::from(1 << 20))
}
