//! A run's figures, and how they are printed.

use std::{fmt, time::Duration};

use hdrhistogram::Histogram;
use indicatif::HumanCount;

use crate::{run::Plan, server::End, timers::Counts};

/// What came of one run.
pub(crate) struct Report {
    pub(crate) timer: &'static str,
    pub(crate) plan: Plan,
    /// Ended by Ctrl-C before its time.
    pub(crate) interrupted: bool,
    /// From the moment all clients were connected to the end.
    pub(crate) measured: Duration,
    /// CPU time of the process in that time.
    pub(crate) cpu: Option<Duration>,
    /// In microseconds, one for each message.
    pub(crate) round_trips: Histogram<u64>,
    /// Silent clients that saw their connection closed.
    pub(crate) closed_silent: usize,
    /// Clients that lost their connection while they talked.
    pub(crate) dropped: usize,
    /// The server's side of it.
    pub(crate) closed: Closed,
    /// The timers of the whole run, connecting and shutdown included.
    pub(crate) counts: Option<Counts>,
}

/// How connections ended, as the server saw it.
pub(crate) struct Closed {
    /// By how much idle limits fired late, in microseconds.
    late: Histogram<u64>,
    /// Idle limits that fired early. There must be none.
    early: u64,
    stalled: u64,
    failed: u64,
}

impl Default for Closed {
    fn default() -> Self {
        Self {
            late: micros(),
            early: 0,
            stalled: 0,
            failed: 0,
        }
    }
}

impl Closed {
    pub(crate) fn count(&mut self, end: End) {
        match end {
            End::Client => {}
            End::Idle { deadline, fired } => match fired.checked_duration_since(deadline) {
                Some(late) => self.late.saturating_record(late.as_micros() as u64),
                None => self.early += 1,
            },
            End::Stalled => self.stalled += 1,
            End::Failed => self.failed += 1,
        }
    }
}

/// An empty histogram of microseconds, up to a minute, to three digits.
pub(crate) fn micros() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are valid")
}

/// A line of the side-by-side table: what it is, its value in a run, and how that is printed.
type Row = (&'static str, fn(&Report) -> Option<f64>, fn(f64) -> String);

const ROWS: &[Row] = &[
    ("messages/s", Report::rate, count),
    ("round trip p50", |run| run.round_trip(0.50), time),
    ("round trip p99", |run| run.round_trip(0.99), time),
    ("CPU per message", Report::cpu_per_message, time),
    (
        "silent clients closed",
        |run| Some(run.closed_silent as f64),
        count,
    ),
    (
        "  of them early",
        |run| Some(run.closed.early as f64),
        count,
    ),
    ("  late by p50", |run| run.late(0.50), time),
    ("  late by p99", |run| run.late(0.99), time),
    ("  late by max", |run| run.late(1.00), time),
    (
        "timers registered",
        |run| Some(run.counts?.registered as f64),
        count,
    ),
    (
        "timers cancelled",
        |run| Some(run.counts?.cancelled as f64),
        count,
    ),
    ("timers fired", |run| Some(run.counts?.fired as f64), count),
];

impl Report {
    /// Whether the timers kept their promises: none early, and no silent client forgotten.
    pub(crate) fn sound(&self) -> bool {
        let forgotten = !self.interrupted && self.closed_silent + self.dropped < self.plan.silent;
        self.closed.early == 0 && !forgotten
    }

    fn rate(&self) -> Option<f64> {
        Some(self.round_trips.len() as f64 / self.measured.as_secs_f64())
    }

    /// In microseconds.
    fn cpu_per_message(&self) -> Option<f64> {
        let messages = self.round_trips.len();
        (messages > 0).then_some(self.cpu?.as_secs_f64() * 1e6 / messages as f64)
    }

    fn round_trip(&self, quantile: f64) -> Option<f64> {
        at(&self.round_trips, quantile)
    }

    fn late(&self, quantile: f64) -> Option<f64> {
        at(&self.closed.late, quantile)
    }

    /// What should not have happened, if it did.
    fn warn(&self, f: &mut impl fmt::Write) -> fmt::Result {
        let Closed {
            stalled, failed, ..
        } = self.closed;
        if !self.sound() {
            writeln!(
                f,
                "\n  {}: a silent client was closed early or not at all!",
                self.timer
            )?;
        }
        if self.dropped > 0 || stalled > 0 || failed > 0 {
            writeln!(
                f,
                "\n  {}: {} clients lost their connection while they talked; the server gave up on \
                 {stalled} in the middle of a message, and {failed} failed. The machine is \
                 overloaded: try fewer --connections or a longer --idle.",
                self.timer, self.dropped,
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show =
            |value: Option<f64>, as_text: fn(f64) -> String| value.map_or("n/a".into(), as_text);
        let plan = &self.plan;
        writeln!(
            f,
            "{}: {} connections for {:.1} s{}, idle limit {:?}\n",
            self.timer,
            HumanCount(plan.connections as u64),
            self.measured.as_secs_f64(),
            if self.interrupted {
                " (interrupted)"
            } else {
                ""
            },
            plan.limits.idle,
        )?;
        writeln!(f, "  messages/s       {}", show(self.rate(), count))?;
        writeln!(
            f,
            "  round trip       p50 {}, p99 {}",
            show(self.round_trip(0.50), time),
            show(self.round_trip(0.99), time),
        )?;
        writeln!(
            f,
            "  CPU per message  {}, clients and server together",
            show(self.cpu_per_message(), time),
        )?;
        writeln!(
            f,
            "  silent clients   {} of {} closed by the server, {} early",
            HumanCount(self.closed_silent as u64),
            HumanCount(plan.silent as u64),
            self.closed.early,
        )?;
        writeln!(
            f,
            "  closed late by   p50 {}, p99 {}, max {}",
            show(self.late(0.50), time),
            show(self.late(0.99), time),
            show(self.late(1.00), time),
        )?;
        match self.counts {
            Some(counts) => writeln!(
                f,
                "  timers           {} registered, {} cancelled, {} fired, {} left; \
                 {} driver wake-ups",
                HumanCount(counts.registered),
                HumanCount(counts.cancelled),
                HumanCount(counts.fired),
                HumanCount(counts.pending),
                HumanCount(counts.driver_wakeups),
            )?,
            None => writeln!(f, "  timers           n/a")?,
        }
        self.warn(f)
    }
}

/// Both timers' runs as a table: each figure's median over the rounds, lowest and highest beside.
pub(crate) fn side_by_side(wheel: &[Report], tokio: &[Report]) -> String {
    use fmt::Write as _;

    let runs = || wheel.iter().chain(tokio);
    let mut text = String::new();
    if let Some(Report { plan, .. }) = runs().next() {
        let _ = writeln!(
            text,
            "{} connections ({} fall silent), idle limit {:?}, runs of {:?} in turn: median \
             [lowest to highest]\n",
            HumanCount(plan.connections as u64),
            HumanCount(plan.silent as u64),
            plan.limits.idle,
            plan.seconds,
        );
    }
    let heading = |name: &str, runs: &[Report]| match runs.len() {
        1 => format!("{name} (1 run)"),
        runs => format!("{name} ({runs} runs)"),
    };
    let mut table = vec![[
        String::new(),
        heading("tokio_wheel", wheel),
        heading("tokio::time", tokio),
    ]];
    for (label, value, as_text) in ROWS {
        let column = |runs: &[Report]| spread(runs.iter().filter_map(value).collect(), *as_text);
        table.push([(*label).to_owned(), column(wheel), column(tokio)]);
    }
    let width = |column: usize| {
        let cells = table.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    };
    let (first, second) = (width(0), width(1));
    for [label, left, right] in &table {
        let _ = writeln!(text, "  {label:<first$}  {left:<second$}  {right}");
    }
    if let Some(cut) = runs().find(|run| run.interrupted) {
        let _ = writeln!(
            text,
            "\n  Interrupted: the last run ({}) covers {:.1} s.",
            cut.timer,
            cut.measured.as_secs_f64(),
        );
    }
    for run in runs() {
        let _ = run.warn(&mut text);
    }
    text
}

fn spread(mut values: Vec<f64>, as_text: fn(f64) -> String) -> String {
    values.sort_by(f64::total_cmp);
    match *values.as_slice() {
        [] => "n/a".to_owned(),
        [only] => as_text(only),
        [lowest, .., highest] => {
            let middle = values.len() / 2;
            let median = if values.len() % 2 == 1 {
                values[middle]
            } else {
                (values[middle - 1] + values[middle]) / 2.0
            };
            let [median, lowest, highest] = [median, lowest, highest].map(as_text);
            format!("{median} [{lowest} to {highest}]")
        }
    }
}

fn at(histogram: &Histogram<u64>, quantile: f64) -> Option<f64> {
    (!histogram.is_empty()).then(|| histogram.value_at_quantile(quantile) as f64)
}

fn count(value: f64) -> String {
    HumanCount(value.round() as u64).to_string()
}

/// Microseconds, in the unit that suits them.
fn time(micros: f64) -> String {
    match micros {
        ..100.0 => format!("{micros:.1} µs"),
        100.0..1e3 => format!("{micros:.0} µs"),
        1e3..1e6 => format!("{:.2} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}
