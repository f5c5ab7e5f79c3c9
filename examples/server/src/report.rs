//! Prints the figures of the runs.

use comfy_table::{CellAlignment, Table, presets};
use hdrhistogram::Histogram;

use crate::{
    block,
    load::{Plan, STORM},
};

/// The name of a figure, and its value.
type Row = (String, Option<f64>);

/// Returns the rows of a histogram of microseconds.
fn times(name: &str, of: &Histogram<u64>) -> Vec<Row> {
    let row = |(part, quantile)| {
        let ms = of.value_at_quantile(quantile) as f64 / 1e3;
        (format!("{name} {part}, ms"), (!of.is_empty()).then_some(ms))
    };
    [("p50", 0.5), ("p99", 0.99), ("max", 1.0)].map(row).into()
}

/// The figures of one run. Histograms contain microseconds.
pub(crate) struct Run {
    /// The round trips in the calm and in the storm.
    pub(crate) calm: Histogram<u64>,
    pub(crate) storm: Histogram<u64>,
    /// The idle clients that saw their connection closed, and the clients that lost their connection
    /// while they talked.
    pub(crate) closed: usize,
    pub(crate) dropped: usize,
    /// How many timers fired before their deadline. There must be none.
    pub(crate) early: usize,
    /// How late the idle limits and the sessions fired.
    pub(crate) idle: Histogram<u64>,
    pub(crate) sessions: Histogram<u64>,
}

impl Run {
    /// Returns how many idle clients and sessions never expired. There must be none.
    pub(crate) fn forgotten(&self, plan: &Plan) -> usize {
        let clients = plan.idle().saturating_sub(self.closed + self.dropped);
        clients + plan.sessions.saturating_sub(self.sessions.len() as usize)
    }

    /// Returns whether the timers kept their promises.
    pub(crate) fn sound(&self, plan: &Plan) -> bool {
        self.early == 0 && self.forgotten(plan) == 0
    }

    /// Returns the rows of the report: their names, and their values.
    fn rows(&self, plan: &Plan) -> Vec<Row> {
        let mut rows = times("steady load: round trip", &self.calm);
        rows.extend(times("storm: round trip", &self.storm));
        rows.extend(times("storm: lateness of idle timeouts", &self.idle));
        rows.extend(times("storm: lateness of other timers", &self.sessions));
        let messages = self.calm.len() as f64 / plan.calm.as_secs_f64();
        rows.push(("steady load: messages/s".into(), Some(messages)));
        rows.push(("connections lost".into(), Some(self.dropped as f64)));
        rows.push(("timers that fired early".into(), Some(self.early as f64)));
        rows.push((
            "timers that never fired".into(),
            Some(self.forgotten(plan) as f64),
        ));
        rows
    }
}

/// Prints the figures of the storm: of one timer, or of two side by side.
pub(crate) fn print(plan: &Plan, timers: [(&str, &[Run]); 2]) {
    println!(
        "Storm: {} of {} connections send a message every {} ms. After {} ms of steady load, the other\n\
         {} connections reach their idle timeout of {} ms, and {} other timers fire at the same time.\n\
         The storm's round trips are from its first {} ms.\n",
        plan.active(),
        plan.connections,
        plan.think.as_millis(),
        plan.calm.as_millis(),
        plan.idle(),
        plan.limits.idle.as_millis(),
        plan.sessions,
        STORM.as_millis(),
    );
    print_table(timers.map(|(name, runs)| (name, runs.iter().map(|run| run.rows(plan)).collect())));
    println!("Median of the rounds [lowest highest].");
}

/// Prints the figures beside a task that blocks.
pub(crate) fn print_blocked(timers: [(&str, &[block::Run]); 2]) {
    println!(
        "\nBlocked worker: a task blocks for {} ms, five times a second. {} clients send a message\n\
         every {} ms.\n",
        block::BLOCK.as_millis(),
        block::CLIENTS,
        block::THINK.as_millis(),
    );
    print_table(timers.map(|(name, runs)| (name, runs.iter().map(block_rows).collect())));
    for (name, runs) in timers {
        let blocks = runs.iter().filter_map(|run| run.blocks);
        if let Some((count, longest)) = blocks.reduce(|a, b| (a.0 + b.0, a.1.max(b.1))) {
            println!("{name}: a task blocked a worker {count} times, the longest {longest:.1?}.");
        }
    }
}

fn block_rows(run: &block::Run) -> Vec<Row> {
    let mut rows = times("round trip", &run.round_trips);
    let number = run.round_trips.len() as f64;
    rows.push(("round trips".into(), Some(number)));
    rows
}

/// Prints the rows of all runs of one timer, or of two side by side.
fn print_table(timers: [(&str, Vec<Vec<Row>>); 2]) {
    let timers = timers.into_iter().filter(|(_, runs)| !runs.is_empty());
    let (names, columns): (Vec<_>, Vec<_>) = timers.unzip();
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header([""].into_iter().chain(names));
    for (row, (name, _)) in columns[0][0].iter().enumerate() {
        let values = columns
            .iter()
            .map(|runs| cell(runs.iter().filter_map(|run| run[row].1)));
        table.add_row([name.clone()].into_iter().chain(values));
    }
    table.column_iter_mut().skip(1).for_each(|column| {
        column.set_cell_alignment(CellAlignment::Right);
    });
    println!("{table}\n");
}

/// Formats the median, and the lowest and the highest value.
fn cell(values: impl Iterator<Item = f64>) -> String {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    let number = |value: f64| match value {
        _ if value.fract() == 0.0 || value >= 1_000.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    };
    match &values[..] {
        [] => "-".to_owned(),
        [only] => number(*only),
        [low, .., high] => {
            format!(
                "{} [{} {}]",
                number(values[values.len() / 2]),
                number(*low),
                number(*high)
            )
        }
    }
}
