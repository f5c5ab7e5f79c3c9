//! Prints the figures of the runs, in at most 100 columns.

use std::{
    fmt::{self, Write as _},
    time::Duration,
};

use hdrhistogram::Histogram;
use indicatif::HumanCount;

use crate::{
    figures::{Late, RoundTrips},
    os::{self, Used},
    plan::{Plan, STORM},
    timers::Counts,
};

/// Above this share of the processors' time, tasks wait for a processor rather than for a timer.
const SATURATED: f64 = 0.85;

/// The figures of one run.
pub(crate) struct Report {
    /// Whether Ctrl-C ended the run early.
    pub(crate) interrupted: bool,
    /// The length of the calm.
    pub(crate) measured: Duration,
    /// How busy the processors were in the calm.
    pub(crate) used: Used,
    pub(crate) calm: RoundTrips,
    pub(crate) storm: RoundTrips,
    /// The silent and idle clients that saw their connection closed.
    pub(crate) closed: usize,
    /// The clients that lost their connection while they talked.
    pub(crate) dropped: usize,
    /// The idle limits of connections that fell silent in the calm.
    pub(crate) silent: Late,
    /// The idle limits of connections that expired in the storm.
    pub(crate) idle: Late,
    pub(crate) sessions: Late,
    /// The number of timers in the whole run, while connecting too, if the implementation counts
    /// them.
    pub(crate) counts: Option<Counts>,
}

impl Report {
    /// Returns how many timers fired before their deadline. There must be none.
    pub(crate) fn early(&self) -> usize {
        self.silent.early + self.idle.early + self.sessions.early
    }

    /// Returns how many silent clients, idle clients and sessions never expired. There must be none.
    pub(crate) fn forgotten(&self, plan: &Plan) -> usize {
        if self.interrupted {
            return 0;
        }
        let clients = (plan.silent() + plan.idle()).saturating_sub(self.closed + self.dropped);
        let sessions = self.sessions.by.len() as usize + self.sessions.early;
        clients + plan.sessions.saturating_sub(sessions)
    }

    /// Returns whether the timers kept their promises.
    pub(crate) fn sound(&self, plan: &Plan) -> bool {
        self.early() == 0 && self.forgotten(plan) == 0
    }

    fn is_saturated(&self) -> bool {
        let busy = |share: Option<f64>| share.is_some_and(|share| share >= SATURATED);
        busy(self.used.share) || busy(self.used.machine)
    }
}

/// A line of the table.
struct Row {
    label: &'static str,
    value: fn(&Report) -> Option<f64>,
    unit: Unit,
}

#[derive(Clone, Copy)]
enum Unit {
    Count,
    Micros,
    Percent,
}

const fn row(label: &'static str, unit: Unit, value: fn(&Report) -> Option<f64>) -> Row {
    Row { label, value, unit }
}

const CALM: &[Row] = &[
    row("messages/s", Unit::Count, |run| {
        Some(run.calm.micros.len() as f64 / run.measured.as_secs_f64())
    }),
    row("CPU per message", Unit::Micros, |run| {
        let messages = run.calm.micros.len();
        (messages > 0).then_some(run.used.process?.as_secs_f64() * 1e6 / messages as f64)
    }),
    row("CPU, this program", Unit::Percent, |run| run.used.share),
    row("CPU, all programs", Unit::Percent, |run| run.used.machine),
    row("round trip p50", Unit::Micros, |run| {
        at(&run.calm.micros, 0.50)
    }),
    row("round trip p99", Unit::Micros, |run| {
        at(&run.calm.micros, 0.99)
    }),
    row("round trip max", Unit::Micros, |run| {
        at(&run.calm.micros, 1.00)
    }),
    row("no reply for", Unit::Micros, |run| silence(&run.calm)),
    row("silent late p50", Unit::Micros, |run| {
        at(&run.silent.by, 0.50)
    }),
    row("silent late p99", Unit::Micros, |run| {
        at(&run.silent.by, 0.99)
    }),
    row("silent late max", Unit::Micros, |run| {
        at(&run.silent.by, 1.00)
    }),
];

/// The row that shows how the storm affects the users of the server.
const NOTICED: Row = row("round trip p99", Unit::Micros, |run| {
    at(&run.storm.micros, 0.99)
});

const STORMY: &[Row] = &[
    row("round trip p50", Unit::Micros, |run| {
        at(&run.storm.micros, 0.50)
    }),
    NOTICED,
    row("round trip max", Unit::Micros, |run| {
        at(&run.storm.micros, 1.00)
    }),
    row("no reply for", Unit::Micros, |run| silence(&run.storm)),
    row("idle late p50", Unit::Micros, |run| at(&run.idle.by, 0.50)),
    row("idle late max", Unit::Micros, |run| at(&run.idle.by, 1.00)),
    row("sessions late p50", Unit::Micros, |run| {
        at(&run.sessions.by, 0.50)
    }),
    row("sessions late max", Unit::Micros, |run| {
        at(&run.sessions.by, 1.00)
    }),
];

const WHOLE: &[Row] = &[
    row("fired early", Unit::Count, |run| Some(run.early() as f64)),
    row("connections lost", Unit::Count, |run| {
        Some(run.dropped as f64)
    }),
    row("timers registered", Unit::Count, |run| {
        Some(run.counts?.registered as f64)
    }),
    row("timers canceled", Unit::Count, |run| {
        Some(run.counts?.cancelled as f64)
    }),
    row("timers fired", Unit::Count, |run| {
        Some(run.counts?.fired as f64)
    }),
    row("driver wake-ups", Unit::Count, |run| {
        Some(run.counts?.driver_wakeups as f64)
    }),
];

const LEGEND: &str = "
Each figure is the median of its rounds, with [the lowest to the highest].
  messages/s        messages per second that came back, of all clients
  CPU per message   CPU time of this process, clients and server together, for each message
  CPU, ...          share of the time of all CPUs, by this process and by the whole machine
  round trip        from sending a message to having its reply
  no reply for      the longest time in which not one of the clients got a reply
  silent late       from the idle limit of a silent client until the server notices
  idle late         the same for the clients whose connections all expire in the storm
  sessions late     from the instant at which all sessions expire until a session ends
  fired early       timers that fired before their deadline; a timer must never do that
  connections lost  clients that lost their connection although they were talking
  timers ...        what became of the timers of a whole run, connecting included
";

/// The runs of one timer.
pub(crate) struct Runs {
    pub(crate) name: &'static str,
    pub(crate) reports: Vec<Report>,
}

impl Runs {
    /// Returns the values of a row, in order.
    fn values(&self, row: &Row) -> Vec<f64> {
        let mut values: Vec<_> = self.reports.iter().filter_map(row.value).collect();
        values.sort_by(f64::total_cmp);
        values
    }
}

/// Shows the figures of one timer, or of two side by side.
pub(crate) fn text(plan: &Plan, timers: &[Runs]) -> String {
    let mut text = String::new();
    write(&mut text, plan, timers).expect("a string takes whatever is written to it");
    text
}

fn write(text: &mut String, plan: &Plan, timers: &[Runs]) -> fmt::Result {
    let number = |count: usize| HumanCount(count as u64);
    let title = format!(
        "An echo server, {} CPUs. {} connections: {} clients talk, {} fall silent one by one, {} are \
         idle. {} sessions have no socket. Idle limit {} s. A client thinks for {} ms.",
        os::cpus(),
        number(plan.connections),
        number(plan.active),
        number(plan.silent()),
        number(plan.idle()),
        number(plan.sessions),
        plan.limits.idle.as_secs_f64(),
        plan.think.as_millis(),
    );
    wrapped(text, &title)?;
    writeln!(text)?;
    let mut head = vec![String::new()];
    for runs in timers {
        head.push(match runs.reports.len() {
            1 => format!("{} (1 round)", runs.name),
            rounds => format!("{} ({rounds} rounds)", runs.name),
        });
    }
    line(text, &head)?;
    let calm = format!(
        "The calm: {} s, in which silent clients expire one by one",
        plan.calm.as_secs_f64()
    );
    section(text, &calm, CALM, timers)?;
    if plan.storms() {
        let storm = format!(
            "The storm: {} connections and {} sessions expire at once (round trips: first {} ms)",
            number(plan.idle()),
            number(plan.sessions),
            STORM.as_millis(),
        );
        section(text, &storm, STORMY, timers)?;
    }
    section(text, "The whole run", WHOLE, timers)?;
    writeln!(text, "{LEGEND}")?;
    for sentence in verdict(plan, timers) {
        wrapped(text, &sentence)?;
    }
    Ok(())
}

fn section(text: &mut String, title: &str, rows: &[Row], timers: &[Runs]) -> fmt::Result {
    writeln!(text, "\n{title}")?;
    for row in rows {
        let mut cells = vec![format!("  {}", row.label)];
        cells.extend(timers.iter().map(|runs| cell(&runs.values(row), row.unit)));
        if let (Unit::Count | Unit::Micros, [first, second]) = (row.unit, timers) {
            cells.push(compare(first, second, row).describe());
        }
        line(text, &cells)?;
    }
    Ok(())
}

fn line(text: &mut String, cells: &[String]) -> fmt::Result {
    const WIDTHS: [usize; 4] = [20, 29, 29, 22];
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(WIDTHS) {
        write!(line, "{cell:<width$}")?;
    }
    writeln!(text, "{}", line.trim_end())
}

/// Which of two timers has the lower values.
enum Comparison {
    /// There is nothing to compare.
    Nothing,
    /// The medians differ by less than a twentieth.
    Same,
    /// The lowest value of each timer is below the highest value of the other timer.
    Disagree,
    /// All values of `timer` are below all values of the other timer.
    Less { timer: &'static str, times: f64 },
}

fn compare(first: &Runs, second: &Runs, row: &Row) -> Comparison {
    let (a, b) = (first.values(row), second.values(row));
    let (Some(median_a), Some(median_b)) = (median(&a), median(&b)) else {
        return Comparison::Nothing;
    };
    let (low, high) = (median_a.min(median_b), median_a.max(median_b));
    if high <= low * 1.05 {
        return Comparison::Same;
    }
    let (timer, separate) = if median_a < median_b {
        (first.name, a[a.len() - 1] < b[0])
    } else {
        (second.name, b[b.len() - 1] < a[0])
    };
    if separate {
        let times = high / low;
        Comparison::Less { timer, times }
    } else {
        Comparison::Disagree
    }
}

impl Comparison {
    fn describe(&self) -> String {
        match self {
            Comparison::Nothing => String::new(),
            Comparison::Same => "the same".to_owned(),
            Comparison::Disagree => "rounds disagree".to_owned(),
            Comparison::Less { timer, times } if times.is_finite() => {
                format!("{timer} {} less", factor(*times))
            }
            Comparison::Less { timer, .. } => format!("{timer} less"),
        }
    }
}

fn factor(times: f64) -> String {
    if times < 10.0 {
        format!("{times:.1}x")
    } else {
        format!("{times:.0}x")
    }
}

/// Says in sentences what the figures show, and why they may be wrong.
fn verdict(plan: &Plan, timers: &[Runs]) -> Vec<String> {
    let mut say = Vec::new();
    let all = || timers.iter().flat_map(|runs| &runs.reports);
    if all().all(|run| run.early() == 0) {
        let fired: u64 = all()
            .map(|run| run.silent.by.len() + run.idle.by.len() + run.sessions.by.len())
            .sum();
        say.push(format!(
            "None of {} idle limits and sessions fired early.",
            HumanCount(fired)
        ));
    }
    if let (true, [first, second]) = (plan.storms(), timers) {
        let spell = |runs: &Runs| cell(&runs.values(&NOTICED), Unit::Micros);
        let shown = format!(
            "When the idle ones expired, one round trip in a hundred took at least {} on {} and {} on {}",
            spell(first),
            first.name,
            spell(second),
            second.name,
        );
        let rounds = first.reports.len().min(second.reports.len());
        match compare(first, second, &NOTICED) {
            Comparison::Nothing => {}
            Comparison::Less { timer, times } if rounds > 1 => say.push(format!(
                "{shown}. It was shorter on {timer} in all rounds: the medians differ {}.",
                factor(times)
            )),
            Comparison::Less { .. } => say.push(format!(
                "{shown}. One round may be chance: use more --rounds."
            )),
            Comparison::Same | Comparison::Disagree => say.push(format!(
                "{shown}. The rounds disagree on which is shorter: use more --rounds."
            )),
        }
    }
    let saturated = all().filter(|run| run.is_saturated()).count();
    if saturated > 0 {
        let own = all().filter_map(|run| run.used.share).fold(0.0, f64::max);
        say.push(format!(
            "The processors were saturated in {saturated} of {} runs: more than {:.0}% of their time was \
             used in the calm. Round trips and lateness are then mostly queueing for a processor, not \
             the timers. tokio_wheel fires some thousand entries and then lets other tasks run, so a storm \
             lasts longer on it while other tasks are ready. This program used at most {:.0}%. Use fewer --connections or a longer --think, or \
             stop other programs.",
            all().count(),
            SATURATED * 100.0,
            own * 100.0,
        ));
    }
    if all().any(|run| run.used.share.is_none()) {
        say.push(
            "This system does not tell the CPU time. So the report cannot say whether the processors \
             were saturated."
                .to_owned(),
        );
    }
    let dropped: usize = all().map(|run| run.dropped).sum();
    if dropped > 0 {
        say.push(format!(
            "{dropped} clients lost their connection while they talked, because the machine is \
             overloaded: use fewer --connections or a longer --idle."
        ));
    }
    for runs in timers {
        let early: usize = runs.reports.iter().map(Report::early).sum();
        let forgotten: usize = runs.reports.iter().map(|run| run.forgotten(plan)).sum();
        if early + forgotten > 0 {
            say.push(format!(
                "{} broke a promise. Timers that fired early: {early}. Timers that had not fired at the \
                 end of the run: {forgotten}.",
                runs.name
            ));
        }
        if let Some(run) = runs.reports.iter().find(|run| run.interrupted) {
            say.push(format!(
                "Interrupted: the last run of {} covers {:.1} s of the calm.",
                runs.name,
                run.measured.as_secs_f64(),
            ));
        }
    }
    say
}

/// Writes a paragraph in lines of at most 100 columns.
fn wrapped(text: &mut String, paragraph: &str) -> fmt::Result {
    let mut column = 0;
    for word in paragraph.split(' ') {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > 100 {
            writeln!(text)?;
            column = 0;
        }
        if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += width;
    }
    writeln!(text)
}

fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

fn cell(sorted: &[f64], unit: Unit) -> String {
    let Some(median) = median(sorted) else {
        return "n/a".to_owned();
    };
    // All three values use the unit of the median.
    let (scale, name, decimals) = match unit {
        Unit::Count => (1.0, "", 0),
        Unit::Percent => (0.01, "%", 0),
        Unit::Micros if median < 1e3 => (1.0, " µs", usize::from(median < 100.0)),
        Unit::Micros if median < 1e6 => (1e3, " ms", if median < 1e5 { 2 } else { 0 }),
        Unit::Micros => (1e6, " s", 2),
    };
    let show = |value: f64| match unit {
        Unit::Count => HumanCount(value.round() as u64).to_string(),
        _ => format!("{:.decimals$}", value / scale),
    };
    let (lowest, highest) = (show(sorted[0]), show(sorted[sorted.len() - 1]));
    let median = show(median);
    if lowest == highest {
        format!("{median}{name}")
    } else {
        format!("{median}{name} [{lowest} to {highest}]")
    }
}

/// Returns the quantile in microseconds.
fn at(histogram: &Histogram<u64>, quantile: f64) -> Option<f64> {
    (!histogram.is_empty()).then(|| histogram.value_at_quantile(quantile) as f64)
}

fn silence(part: &RoundTrips) -> Option<f64> {
    (!part.micros.is_empty()).then_some(part.silence.as_secs_f64() * 1e6)
}
