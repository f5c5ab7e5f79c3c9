//! Prints the report at the end.

use hdrhistogram::Histogram;
use indicatif::{HumanBytes, HumanCount};
use tokio_wheel::Duration;
use tokio_wheel_benches::stats::print_table;

use crate::{
    faults,
    gap::{self, BOUND},
    ledger,
    memory::{Floors, Reading},
    ops,
    saturated::{self, PROBES},
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
        let (runtimes, shutdowns) = short_lived::so_far();
        let ops = ops::done().map(|(op, done)| (op.to_owned(), done));
        let others = [
            ("storms", storm::so_far()),
            ("runtimes started and shut down", runtimes),
            ("timers shut down", shutdowns),
            ("all", done()),
        ];
        counts(
            "operations",
            ops.chain(others.map(|(name, done)| (name.into(), done))),
        );
        accounts();
        lateness();
        self.memory();
        let gaps = gap::judge();
        println!(
            "\nlongest wait of a task beside a storm, in CPU time of its worker: {} storms, median {:.1?}, \
             worst {:.1?}, allowed median {BOUND:?}",
            HumanCount(gaps.len()),
            Duration::from_nanos(gaps.value_at_quantile(0.5)),
            Duration::from_nanos(gaps.max())
        );
        verdict()
    }

    fn memory(&self) {
        let mut rows = vec![["memory", "heap", "resident"].map(String::from).to_vec()];
        let mut row = |name: &str, reading: Reading| {
            let heap = HumanBytes(reading.heap as u64).to_string();
            rows.push(vec![
                format!("  {name}"),
                heap,
                HumanBytes(reading.resident).to_string(),
            ]);
        };
        if let (Some(start), Some(end)) = (self.floors.start(), self.floors.end()) {
            row("after the first epoch", start);
            row("at most", self.peak);
            row("after the last epoch", end);
        }
        println!();
        print_table(&rows);
        match self.floors.trend() {
            Some((first, last)) => println!(
                "  the heap after an epoch: {} in the first quarter, {} in the last",
                HumanBytes(first as u64),
                HumanBytes(last as u64)
            ),
            None => println!("  too few epochs to tell a trend"),
        }
    }
}

fn counts(title: &str, counts: impl Iterator<Item = (String, u64)>) {
    println!("\n{title}");
    let row = |(name, count)| vec![format!("  {name}"), HumanCount(count).to_string()];
    print_table(&counts.map(row).collect::<Vec<_>>());
}

/// Returns how many operations ran.
pub fn done() -> u64 {
    let (runtimes, shutdowns) = short_lived::so_far();
    ops::done().map(|(_, done)| done).sum::<u64>() + storm::so_far() + runtimes + shutdowns
}

fn accounts() {
    let sums = ledger::sums();
    let all = [
        ("made", sums.made),
        ("fired", sums.fired),
        ("canceled", sums.cancelled),
        ("ended with their timer", sums.ended),
        ("left", sums.pending),
    ];
    counts(
        "timers",
        all.into_iter().map(|(name, number)| (name.into(), number)),
    );
    if sums.made != sums.fired + sums.cancelled + sums.ended + sums.pending {
        faults::found(format!("the accounts do not add up: {sums:?}"));
    }
}

/// Prints how late timers were where nothing disturbed them, and how late sleeps of 10 ms were in
/// saturated epochs, on this crate and on `tokio::time` beside the same load.
fn lateness() {
    let (epochs, probes) = saturated::so_far();
    let classes = ledger::lateness().map(|(class, late)| (class.to_string(), late));
    let probes = PROBES
        .map(|name| format!("probe of {name}"))
        .into_iter()
        .zip(probes);
    let mut rows = vec![
        ["lateness", "timers", "p50", "p99", "worst"]
            .map(String::from)
            .to_vec(),
    ];
    for (name, late) in classes.chain(probes) {
        let mut row = vec![format!("  {name}"), HumanCount(late.len()).to_string()];
        row.extend([0.5, 0.99, 1.0].map(|part| quantile(&late, part)));
        rows.push(row);
    }
    println!();
    print_table(&rows);
    println!("  saturated epochs, in which the probes ran: {epochs}");
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
