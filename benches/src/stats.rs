//! Computes how far a median can be trusted, for any distribution of the values.

use serde::Serialize;

use crate::table::median;

/// A median, and an interval for the true median.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The median of the values.
    pub median: f64,
    /// The interval that contains the true median with a probability of at least 95%. `None` for
    /// fewer than six values, because all of them can easily be on one side of the true median.
    pub interval: Option<(f64, f64)>,
    /// The interval. For fewer than six values, the lowest and the highest value.
    pub spread: (f64, f64),
}

impl Estimate {
    /// Computes the median of the values and the interval of the sign test. The interval reaches
    /// from the `k`th lowest to the `k`th highest value. `k` is the highest number for which fewer
    /// than `k` values are below the true median in at most one of forty cases.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let n = values.len();
        let k = (0..=n / 2)
            .take_while(|&k| fewer_heads(n, k) <= 0.025)
            .last()
            .unwrap_or(0);
        let interval = (k > 0).then(|| (values[k - 1], values[n - k]));
        Self {
            interval,
            spread: interval.unwrap_or((values[0], values[n - 1])),
            median: median(values),
        }
    }

    /// Returns whether `value` is outside the interval.
    pub fn excludes(&self, value: f64) -> bool {
        self.interval
            .is_some_and(|(low, high)| value < low || value > high)
    }
}

/// Returns the probability that `n` coins show fewer than `k` heads.
fn fewer_heads(n: usize, k: usize) -> f64 {
    let mut exactly = 0.5_f64.powi(n as i32);
    let mut fewer = 0.0;
    for heads in 0..k {
        fewer += exactly;
        exactly *= (n - heads) as f64 / (heads + 1) as f64;
    }
    fewer
}

#[cfg(test)]
mod tests {
    use super::Estimate;

    /// Checks the ranks against published tables of the sign test.
    #[test]
    fn the_interval_is_that_of_the_sign_test() {
        for (n, k) in [(6, 1), (8, 1), (9, 2), (15, 4), (20, 6), (21, 6), (24, 7)] {
            let estimate = Estimate::of((1..=n).rev().map(f64::from).collect());
            let ranks = (f64::from(k), f64::from(n + 1 - k));
            assert_eq!(estimate.interval, Some(ranks), "of {n} values");
            assert_eq!(estimate.median, f64::from(n + 1) / 2.0);
        }
    }

    #[test]
    fn five_values_give_no_interval() {
        let estimate = Estimate::of(vec![1.0; 5]);
        assert_eq!(estimate.interval, None);
        assert_eq!(estimate.spread, (1.0, 1.0));
        assert!(!estimate.excludes(2.0));
    }

    #[test]
    fn an_interval_excludes_what_is_outside() {
        let estimate = Estimate::of((1..=6).map(f64::from).collect());
        let excluded: Vec<_> = [0.9, 1.0, 6.0, 6.1].map(|v| estimate.excludes(v)).into();
        assert_eq!(excluded, [true, false, false, true]);
    }
}
