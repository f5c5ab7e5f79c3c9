//! Prints plain text tables, and computes medians for them.

/// Returns the median. For an even number of values, it is the mean of the two middle values.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = [(values.len() - 1) / 2, values.len() / 2];
    middle.map(|i| values[i]).iter().sum::<f64>() / 2.0
}

/// Prints rows of cells. The first column is aligned to the left, all others to the right.
pub fn print(rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = format!("{:<1$}", row[0], widths[0]);
        for (cell, &width) in row.iter().zip(&widths).skip(1) {
            line += &format!("  {cell:>width$}");
        }
        println!("{}", line.trim_end());
    }
}
