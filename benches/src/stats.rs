//! Computes medians and how far they can be trusted, and prints tables.

use comfy_table::{CellAlignment, Table, presets};
use indicatif::HumanCount;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    pub median: f64,
    /// The interval that contains the true median with a probability of at least 95%. `None` for
    /// fewer than six values, of which all can easily be on one side.
    pub interval: Option<(f64, f64)>,
    /// The interval. For fewer than six values, the lowest and the highest value.
    pub spread: (f64, f64),
}

impl Estimate {
    /// Computes the median and the interval of the sign test, from the `k`th lowest to the `k`th highest value. `k`
    /// is the highest number for which fewer than `k` values are below the true median in at most one of forty cases.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let n = values.len();
        let k = (0..=n / 2)
            .take_while(|&k| fewer_heads(n, k) <= 0.025)
            .last();
        let k = k.unwrap_or(0);
        let interval = (k > 0).then(|| (values[k - 1], values[n - k]));
        Some(Self {
            interval,
            spread: interval.unwrap_or((*values.first()?, *values.last()?)),
            median: (values[(n - 1) / 2] + values[n / 2]) / 2.0,
        })
    }

    pub fn excludes(&self, value: f64) -> bool {
        self.interval
            .is_some_and(|(low, high)| value < low || value > high)
    }
}

fn fewer_heads(n: usize, k: usize) -> f64 {
    let mut exactly = 0.5_f64.powi(n as i32);
    let mut fewer = 0.0;
    for heads in 0..k {
        fewer += exactly;
        exactly *= (n - heads) as f64 / (heads + 1) as f64;
    }
    fewer
}

pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    Estimate::of(values).expect("there are values").median
}

/// Returns the members of a turn in the order of a round, after `before` rounds with such a turn.
/// Over the rounds, each member follows each other member equally often.
pub fn in_round<T>(mut turn: Vec<T>, before: u32) -> Vec<T> {
    let first = (before / 2) as usize % turn.len().max(1);
    turn.rotate_left(first);
    if before % 2 == 1 {
        turn.reverse();
    }
    turn
}

/// Formats a value with about three digits.
pub fn number(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 1_000.0 => return HumanCount(value.round() as u64).to_string(),
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

pub fn range(estimate: &Estimate, unit: &str) -> String {
    let (low, high) = estimate.spread;
    let [median, low, high] = [estimate.median, low, high].map(number);
    format!("{median}{unit} ({low}-{high})")
}

/// Prints rows of cells, in which a row with one cell is a caption.
pub fn print_table(rows: &[Vec<String>]) {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.add_rows(rows.iter().filter(|row| row.len() > 1));
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
        column.set_padding((0, 2));
    }
    if let Some(column) = table.column_mut(0) {
        column.set_cell_alignment(CellAlignment::Left);
    }
    let mut lines = table.lines();
    for row in rows {
        match &row[..] {
            [caption] => println!("{caption}"),
            _ => println!("{}", lines.next().unwrap_or_default().trim_end()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the ranks against published tables of the sign test.
    #[test]
    fn the_interval_is_that_of_the_sign_test() {
        for (n, k) in [(6, 1), (8, 1), (9, 2), (15, 4), (20, 6), (21, 6), (24, 7)] {
            let estimate = Estimate::of((1..=n).rev().map(f64::from)).unwrap();
            let ranks = (f64::from(k), f64::from(n + 1 - k));
            assert_eq!(estimate.interval, Some(ranks), "of {n} values");
            assert_eq!(estimate.median, f64::from(n + 1) / 2.0);
            assert!(estimate.excludes(0.9) && !estimate.excludes(ranks.0));
        }
        assert_eq!(Estimate::of([1.0; 5]).unwrap().interval, None);
        assert_eq!(Estimate::of([]), None);
    }

    #[test]
    fn every_member_comes_first_and_last() {
        let rounds: Vec<_> = (0..6).map(|round| in_round(vec![1, 2, 3], round)).collect();
        assert_eq!(rounds[0], [1, 2, 3]);
        for member in [1, 2, 3] {
            assert_eq!(rounds.iter().filter(|round| round[0] == member).count(), 2);
            assert_eq!(rounds.iter().filter(|round| round[2] == member).count(), 2);
        }
    }

    #[test]
    fn numbers_have_three_digits() {
        let values = [0.0, 1.234, 9.99, 9.996, 99.94, 99.96, 1_234.5];
        let written = ["0", "1.23", "9.99", "10.0", "99.9", "100", "1,235"];
        assert_eq!(values.map(number), written);
    }
}
