//! The table of figures: medians, ranges, and ratios to tokio, and what they say in words.

use crate::patch::Side;

/// The figures of one run, in their order.
pub(crate) type Figures = Vec<(String, f64)>;

/// How many runs have an interval, which then has the true median in it with a probability of at least 95%.
const ENOUGH: usize = 6;

const COLUMNS: &str = "                                      median              all runs      ratio          interval";

/// Returns the line above the figures of so many runs, and what their intervals mean.
pub(crate) fn header(runs: usize) -> String {
    if runs < ENOUGH {
        return COLUMNS.into();
    }
    let probability = 100.0 * interval(runs).1;
    format!(
        "The ratio to tokio is the median of the ratios of each round. It lies in the interval with a probability\n\
        of {probability:.0}%, and an interval with 1 in it shows no difference.\n\n{COLUMNS}"
    )
}

/// Prints the figures that each run of each side has. Returns what the intervals show in words, a line for each side.
pub(crate) fn print(sides: &[Side], runs: &[Vec<Figures>]) -> String {
    let rounds = runs[0].len();
    let against = |side: &Side| format!("{} against tokio.", side.name());
    let mut words: Vec<_> = sides.iter().map(against).collect();
    let mut same = vec![Vec::new(); sides.len()];
    for (name, _) in &runs[0][0] {
        let figure = |run: &Figures| Some(run.iter().find(|figure| figure.0 == *name)?.1);
        let figures = |runs: &Vec<Figures>| runs.iter().map(figure).collect();
        let Some(values) = runs.iter().map(figures).collect::<Option<Vec<Vec<f64>>>>() else {
            eprintln!("`{name}` is not in the table, because some runs have not printed it");
            continue;
        };
        for (place, (side, of_side)) in sides.iter().zip(&values).enumerate() {
            let shown = if place == 0 { name } else { "" };
            let ratios = of_side.iter().zip(&values[0]);
            let ratios = sorted(ratios.map(|(value, tokio)| value / tokio));
            let sorted = sorted(of_side.iter().copied());
            let median_of_side = digits(median(&sorted));
            print!("{shown:<22}{:<12}{median_of_side:>10}", side.name());
            let (outside, _) = interval(rounds);
            let (low, high) = (ratios[outside], ratios[rounds - 1 - outside]);
            let mut difference = difference(low, median(&ratios), high);
            if let [first, .., last] = sorted[..] {
                print!("{:>22}", format!("{} to {}", digits(first), digits(last)));
                // A figure may be 0.
                if !(high - low).is_finite() {
                    difference = (*of_side != values[0]).then(|| "no ratio to 0".into());
                } else if place > 0 {
                    print!("{:>11.3}", median(&ratios));
                    if rounds >= ENOUGH {
                        print!("{:>18}", format!("{low:.3} to {high:.3}"));
                    }
                }
            }
            println!();
            let name = name.strip_suffix(" s").unwrap_or(name);
            match difference {
                Some(difference) => words[place] += &format!(" {name}: {difference}."),
                None => same[place].push(name),
            }
        }
    }
    if rounds < ENOUGH {
        return format!("Too few runs for an interval: {rounds}, and {ENOUGH} are needed.");
    }
    for (words, same) in words
        .iter_mut()
        .zip(same)
        .filter(|(_, same)| !same.is_empty())
    {
        *words += &format!(" {}: no difference.", same.join(", "));
    }
    words[1..].join("\n")
}

/// Returns in words what the ends and the median of an interval show, if 1 lies outside of it.
fn difference(low: f64, median: f64, high: f64) -> Option<String> {
    let (near, far, word) = match () {
        () if high < 1.0 => (high, low, "less"),
        () if low > 1.0 => (low, high, "more"),
        () => return None,
    };
    let [median, near, far] = [median, near, far].map(|ratio| {
        let percent = 100.0 * (ratio - 1.0).abs();
        // At least one digit other than 0.
        let after = -percent.max(0.001).log10().floor();
        format!("{percent:.*}", after.max(0.0) as usize)
    });
    Some(format!("{median}% {word} ({near} to {far}%)"))
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

#[test]
fn an_interval_without_1_is_a_difference_in_words() {
    assert_eq!(difference(0.83, 0.94, 0.98).unwrap(), "6% less (2 to 17%)");
    assert_eq!(
        difference(1.6, 2.25, 3.45).unwrap(),
        "125% more (60 to 245%)"
    );
    assert_eq!(
        difference(1.0004, 1.004, 1.01).unwrap(),
        "0.4% more (0.04 to 1%)"
    );
    let run = |cpu, lost| -> Figures {
        let figures = [
            ("CPU s", cpu),
            ("p99 ms", 2.0),
            ("errors", 0.0),
            ("lost", lost),
        ];
        figures.map(|(name, value)| (name.into(), value)).into()
    };
    let sides = [Side::Tokio, Side::Alternative, Side::Wheel];
    let runs =
        |count| [(1.0, 0.0), (1.0, 0.0), (0.5, 3.0)].map(|(cpu, lost)| vec![run(cpu, lost); count]);
    let expected = "alternative against tokio. CPU, p99 ms, errors, lost: no difference.\n\
        wheel against tokio. CPU: 50% less (50 to 50%). lost: no ratio to 0. p99 ms, errors: no difference.";
    assert_eq!(print(&sides, &runs(6)), expected);
    let expected = "Too few runs for an interval: 5, and 6 are needed.";
    assert_eq!(print(&sides, &runs(5)), expected);
    assert!(!header(5).contains("probability") && header(6).contains("97%"));
}
