//! The table of what each operation costs: the same cells as the criterion benches, only quicker.

use std::time::Duration;

use tokio_wheel_benches::{
    cell::{Cell, WORKLOADS, cells},
    peer::PeerKind,
};

use crate::table::{self, median};

/// What to run, and for how long.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often each cell is measured.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long one measurement of one cell should last.
    #[arg(long, default_value_t = 100)]
    millis: u64,
    /// Only these peers, and not the bare workloads.
    #[arg(long)]
    peer: Vec<PeerKind>,
    /// Only these workloads.
    #[arg(long, value_parser = WORKLOADS)]
    workload: Vec<String>,
    /// Only these variants: solo, x1, x2, x1+1M, x2+1M.
    #[arg(long)]
    variant: Vec<String>,
}

impl Args {
    fn selects(&self, cell: &Cell) -> bool {
        (self.peer.is_empty() || self.peer.iter().any(|peer| peer.name() == cell.peer))
            && (self.workload.is_empty() || self.workload.iter().any(|w| w == cell.workload))
            && (self.variant.is_empty() || self.variant.iter().any(|v| v == cell.variant))
    }
}

/// Measures and prints. The crowded cells form a second pass: see [`Cell::is_crowded`].
pub(crate) fn run(args: &Args) {
    let selected = cells().into_iter().filter(|cell| args.selects(cell));
    let (crowded, quiet): (Vec<_>, Vec<_>) = selected.partition(Cell::is_crowded);
    let mut figures = Vec::new();
    for mut pass in [quiet, crowded] {
        // Those to be compared run next to each other.
        pass.sort_by_key(|cell| (rank(cell), cell.variant));
        figures.extend(measure(args, pass));
    }
    print(&figures);
}

/// A cell's place in the table, and its median in nanoseconds per operation.
struct Figure {
    workload: &'static str,
    variant: &'static str,
    peer: &'static str,
    nanos: f64,
}

fn measure(args: &Args, cells: Vec<Cell>) -> Vec<Figure> {
    let target = Duration::from_millis(args.millis);
    let iters: Vec<_> = cells
        .iter()
        .map(|cell| cell.iters_lasting(target))
        .collect();
    let mut samples = vec![Vec::new(); cells.len()];
    for _ in 0..args.rounds {
        for ((cell, &iters), samples) in cells.iter().zip(&iters).zip(&mut samples) {
            samples.push(cell.run(iters).as_nanos() as f64 / iters as f64);
        }
    }
    let figures = cells.iter().zip(samples);
    figures
        .map(|(cell, samples)| Figure {
            workload: cell.workload,
            variant: cell.variant,
            peer: cell.peer,
            nanos: median(samples),
        })
        .collect()
}

fn rank(cell: &Cell) -> Option<usize> {
    WORKLOADS.iter().position(|&name| name == cell.workload)
}

fn print(figures: &[Figure]) {
    let mut peers: Vec<&str> = Vec::new();
    let mut lines: Vec<(&str, &str)> = Vec::new();
    for figure in figures {
        if !peers.contains(&figure.peer) {
            peers.push(figure.peer);
        }
        if !lines.contains(&(figure.workload, figure.variant)) {
            lines.push((figure.workload, figure.variant));
        }
    }
    let mut rows = vec![vec!["ns".to_owned()]];
    rows[0].extend(peers.iter().map(|peer| format!("{peer}       ")));
    for line in lines {
        let nanos = |peer: &str| {
            let mut figures = figures.iter();
            figures
                .find(|figure| {
                    (figure.workload, figure.variant, figure.peer) == (line.0, line.1, peer)
                })
                .map(|figure| figure.nanos)
        };
        let ours = nanos("tokio_wheel");
        let mut row = vec![format!("{} {}", line.0, line.1)];
        row.extend(peers.iter().map(|peer| match (nanos(peer), ours) {
            (Some(nanos), Some(ours)) => format!("{nanos:.1} {:5.2}x", nanos / ours),
            (Some(nanos), None) => format!("{nanos:.1}"),
            (None, _) => "-      ".to_owned(),
        }));
        rows.push(row);
    }
    table::print(&rows);
}
