//! How far a median can be trusted, whatever the values are distributed like.

use serde::Serialize;

use crate::table::median;

/// A median and what is known of the true one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The median of the values.
    pub median: f64,
    /// Where the true median is with a probability of 95% or more; `None` for fewer than six values,
    /// which can all be on the same side of it too easily.
    pub interval: Option<(f64, f64)>,
    /// The interval; of fewer than six values, the lowest and the highest.
    pub spread: (f64, f64),
}

impl Estimate {
    /// The median of some values, and the interval of the sign test: the `k`th lowest and the `k`th
    /// highest value, with the highest `k` for which fewer than `k` of the values are below, or above,
    /// the true median only in one case of forty each.
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

    /// Whether the interval has no place for `value`.
    pub fn excludes(&self, value: f64) -> bool {
        self.interval
            .is_some_and(|(low, high)| value < low || value > high)
    }
}

/// How probable it is that `n` coins show fewer than `k` heads.
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

    /// The ranks that tables of the sign test give.
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
