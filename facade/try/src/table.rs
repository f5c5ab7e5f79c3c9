//! The table of figures: medians, ranges, and ratios to tokio.

use crate::patch::Side;

/// The figures of one run, in their order.
pub(crate) type Figures = Vec<(String, f64)>;

/// Returns the line above the figures of so many runs, and what the ratio means.
pub(crate) fn header(runs: usize) -> String {
    let (_, probability) = interval(runs);
    format!(
        "The ratio to tokio is the median of the ratios of each round. It lies in the interval with a probability\n\
        of {:.0}%, and an interval with 1 in it shows no difference.\n\n{:>44}{:>22}{:>11}{:>18}",
        100.0 * probability,
        "median",
        "all runs",
        "ratio",
        "interval"
    )
}

/// Prints the figures that each run of each side has.
pub(crate) fn print(sides: &[Side], runs: &[Vec<Figures>]) {
    for (name, _) in &runs[0][0] {
        let figure = |run: &Figures| Some(run.iter().find(|figure| figure.0 == *name)?.1);
        let figures = |runs: &Vec<Figures>| runs.iter().map(figure).collect();
        let Some(values) = runs.iter().map(figures).collect::<Option<Vec<Vec<f64>>>>() else {
            eprintln!("`{name}` is not in the table, because some runs have not printed it");
            continue;
        };
        for (place, (side, of_side)) in sides.iter().zip(&values).enumerate() {
            let name = if place == 0 { name } else { "" };
            let ratios = of_side.iter().zip(&values[0]);
            let ratios = sorted(ratios.map(|(value, tokio)| value / tokio));
            let of_side = sorted(of_side.iter().copied());
            let median_of_side = digits(median(&of_side));
            print!("{name:<22}{:<12}{median_of_side:>10}", side.name());
            if let [first, .., last] = of_side[..] {
                let range = format!("{} to {}", digits(first), digits(last));
                print!("{range:>22}");
                let (outside, _) = interval(ratios.len());
                let (low, high) = (ratios[outside], ratios[ratios.len() - 1 - outside]);
                // A figure may be 0.
                if place > 0 && (high - low).is_finite() {
                    let interval = format!("{low:.3} to {high:.3}");
                    print!("{:>11.3}{interval:>18}", median(&ratios));
                }
            }
            println!();
        }
    }
}

/// Returns how many of the sorted ratios lie outside of the interval at each end, and the probability that the
/// interval has the true median in it. It is at least 95% if there are 6 ratios or more.
fn interval(ratios: usize) -> (usize, f64) {
    // The probability that exactly `outside` ratios lie below the true median.
    let mut probability = 0.5f64.powi(ratios as i32);
    let mut inside = 1.0 - 2.0 * probability;
    let mut outside = 0;
    loop {
        probability *= (ratios - outside) as f64 / (outside + 1) as f64;
        if inside - 2.0 * probability < 0.95 {
            return (outside, inside);
        }
        inside -= 2.0 * probability;
        outside += 1;
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    f64::midpoint(sorted[middle], sorted[(sorted.len() - 1) / 2])
}

/// Writes a number with four digits, or with more before the point.
fn digits(value: f64) -> String {
    let after = 3.0 - value.abs().max(0.1).log10().floor();
    format!("{value:.*}", after.max(0.0) as usize)
}

#[test]
fn the_interval_has_the_median_in_it_with_the_named_probability() {
    assert_eq!(interval(1), (0, 0.0));
    assert_eq!(interval(5), (0, 0.9375));
    assert_eq!(interval(6), (0, 0.96875));
    assert_eq!(interval(9), (1, 0.9609375));
    let (outside, probability) = interval(1000);
    assert!(
        outside == 468 && (0.95..0.96).contains(&probability),
        "{outside} {probability}"
    );
}
