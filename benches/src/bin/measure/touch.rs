//! The table of what a touch of a key costs: the same cases as the criterion bench, in turn.

use tokio_wheel_benches::touch::{CROWDS, cases};

use crate::table::{self, median};

/// How often, and how many.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often each case is measured.
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How many touches a measurement takes.
    #[arg(long, default_value_t = 300_000, value_parser = clap::value_parser!(u64).range(1..))]
    touches: u64,
}

/// Measures and prints medians, also of each round's ratio to tokio_wheel's time on as many threads.
pub(crate) fn run(args: &Args) {
    let columns = ["touch", "keys", "threads", "ns", "times tokio_wheel's"];
    let mut rows = vec![columns.map(str::to_owned).to_vec()];
    for crowd in CROWDS {
        let cases = cases(crowd);
        let mut samples = vec![Vec::new(); cases.len()];
        for _ in 0..args.rounds {
            for (case, samples) in cases.iter().zip(&mut samples) {
                samples.push(case.run(args.touches).as_nanos() as f64 / args.touches as f64);
            }
        }
        for (case, nanos) in cases.iter().zip(&samples) {
            let ours = (cases.iter().zip(&samples))
                .find(|(ours, _)| ours.peer == "tokio_wheel" && ours.threads == case.threads);
            let ratios = ours.map(|(_, ours)| nanos.iter().zip(ours).map(|(a, b)| a / b).collect());
            rows.push(vec![
                case.peer.to_owned(),
                crowd.to_string(),
                case.threads.to_string(),
                format!("{:.0}", median(nanos.clone())),
                ratios.map_or_else(String::new, |ratios| format!("{:.2}", median(ratios))),
            ]);
        }
    }
    table::print(&rows);
}
