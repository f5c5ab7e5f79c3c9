//! Computes figures over the rounds, and compares two timers.

use serde::Serialize;
use tokio_wheel_benches::stats::Estimate;

use crate::timer::Timer;

/// The number of nanoseconds in a millisecond.
pub(crate) const MS: u64 = 1_000_000;

/// Returns the smallest value that at least this part of the sorted values does not exceed.
pub(crate) fn quantile(sorted: &[u64], part: f64) -> u64 {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// Converts nanoseconds to milliseconds.
pub(crate) fn ms(nanos: u64) -> f64 {
    nanos as f64 / MS as f64
}

/// Formats a number of milliseconds, or a ratio, with three digits.
pub(crate) fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// Formats a median, with its interval if there are enough rounds.
pub(crate) fn cell(estimate: Estimate, value: impl Fn(f64) -> String) -> String {
    let median = value(estimate.median);
    match estimate.interval {
        Some((low, high)) => format!("{median} [{} {}]", value(low), value(high)),
        None => median,
    }
}

/// Prints rows of cells. The first column is aligned to the left, all others to the right. A row
/// with one cell is a caption.
pub(crate) fn print_table(rows: &[Vec<String>]) {
    let length = |cell: &String| cell.chars().count();
    let mut widths = Vec::new();
    for row in rows.iter().filter(|row| row.len() > 1) {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = length(cell).max(*width);
        }
    }
    for row in rows {
        let Some((name, cells)) = row.split_first() else {
            continue;
        };
        let mut line = match cells {
            [] => name.clone(),
            _ => format!("{name:<0$}", widths[0]),
        };
        for (cell, &width) in cells.iter().zip(&widths[1..]) {
            line += &format!("  {cell:>width$}");
        }
        println!("{}", line.trim_end());
    }
}

/// The runs of one timer, one per round.
#[derive(Serialize)]
pub(crate) struct Series<Run> {
    pub(crate) timer: Timer,
    pub(crate) runs: Vec<Run>,
}

impl<Run> Series<Run> {
    /// Returns a figure of each run, or `None` if a run has no such figure.
    pub(crate) fn values(&self, figure: impl Fn(&Run) -> Option<f64>) -> Option<Vec<f64>> {
        self.runs.iter().map(figure).collect()
    }

    /// Returns the median of a figure.
    pub(crate) fn estimate(&self, figure: impl Fn(&Run) -> Option<f64>) -> Option<Estimate> {
        let values = self.values(figure).filter(|values| !values.is_empty());
        values.map(Estimate::of)
    }
}

/// Returns the series of a timer.
pub(crate) fn of<Run>(series: &[Series<Run>], timer: Timer) -> &Series<Run> {
    let mut all = series.iter();
    all.find(|series| series.timer == timer)
        .expect("each timer has a series")
}

/// Returns a figure with `tokio::time` divided by the figure with tokio-wheel, round by round.
pub(crate) fn ratio<Run>(
    series: &[Series<Run>],
    figure: impl Fn(&Run) -> Option<f64>,
) -> Option<Estimate> {
    let tokio = of(series, Timer::Tokio).values(&figure)?;
    let wheel = of(series, Timer::Wheel).values(&figure)?;
    let ratios: Vec<_> = tokio
        .into_iter()
        .zip(wheel)
        .map(|(tokio, wheel)| tokio / wheel)
        .filter(|ratio| ratio.is_finite())
        .collect();
    (!ratios.is_empty()).then(|| Estimate::of(ratios))
}

#[cfg(test)]
mod tests {
    use super::{digits, quantile};

    #[test]
    fn quantiles_are_values() {
        let values: Vec<_> = (1..=1_000).collect();
        let parts = [0.0, 0.5, 0.99, 0.999, 0.9999, 1.0];
        let quantiles = parts.map(|part| quantile(&values, part));
        assert_eq!(quantiles, [1, 500, 990, 999, 1_000, 1_000]);
        assert_eq!(quantile(&[7], 0.5), 7);
    }

    #[test]
    fn three_digits() {
        let values = [0.0, 1.234, 9.99, 9.996, 99.94, 99.96, 1_234.5];
        let written = ["0.00", "1.23", "9.99", "10.0", "99.9", "100", "1234"];
        assert_eq!(values.map(digits), written);
    }
}
