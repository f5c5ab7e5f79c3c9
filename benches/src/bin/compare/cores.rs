//! Measures how the cost of an operation grows with the number of workers, each on a core of its
//! own, and prints it beside what the model predicts from one worker.

use std::{future::Future, mem::ManuallyDrop, time::Duration};

use clap::ValueEnum as _;
use serde::{Deserialize, Serialize};
use tokio_wheel_benches::{
    cell::{nanos, warm_lab},
    lab,
    model::{Operation, Processor, measure_transfer},
    peer::{Peer, PeerKind, Resets, Tokio, TokioAlt, TokioWheel, alternative},
    stats::{median, number, print_table},
    with_peer, workload,
};

use crate::{
    job::{Figures, Job, Task},
    report::{BARE, Measured, OURS, Row, Section},
};

const LASTING: Duration = Duration::from_millis(50);

/// The timers, and whether a pending sleep can get another deadline.
const PEERS: [(PeerKind, bool); 4] = [
    (PeerKind::TokioWheel, true),
    (PeerKind::Tokio, true),
    (PeerKind::TokioAlt, true),
    (PeerKind::Pingora, false),
];

const TRANSFER: &str = "line from the first core to core";

/// What to measure in a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Sample {
    /// How long a line moves from the first core to each other core.
    Transfers,
    /// An operation on each of so many workers. An earlier timer is pending.
    Operation { resets: bool, workers: usize },
}

/// Returns the jobs of a round.
pub(crate) fn turns() -> Vec<Vec<Job>> {
    let job = |peer: &str, sample| Job {
        peer: peer.to_owned(),
        task: Task::Cores(sample),
    };
    let mut turns = vec![vec![job(BARE, Sample::Transfers)]];
    for resets in [false, true] {
        for workers in counts(lab::cores().len()) {
            let has = |&(peer, can_reset): &(PeerKind, bool)| {
                (can_reset || !resets) && (peer != PeerKind::TokioAlt || alternative().is_some())
            };
            let peers = PEERS.into_iter().filter(has);
            let sample = |(peer, _): (PeerKind, bool)| {
                job(peer.name(), Sample::Operation { resets, workers })
            };
            turns.push(peers.map(sample).collect());
        }
    }
    turns
}

/// Returns 1, 2, 4 and so on, and the number of cores.
fn counts(cores: usize) -> Vec<usize> {
    let powers = (0..).map(|power| 1 << power);
    powers.take_while(|&n| n < cores).chain([cores]).collect()
}

impl Sample {
    pub(crate) fn take(&self, peer: &str) -> anyhow::Result<Figures> {
        let row = |workload, variant: usize, ns| {
            let name = (Section::Operations, workload, &*variant.to_string());
            (Row::new(name, "ns"), ns)
        };
        Ok(match *self {
            Self::Transfers => {
                let cores = 1..lab::cores().len();
                let transfer = |core| row(TRANSFER, core, measure_transfer(0, core));
                cores.map(transfer).collect()
            }
            Self::Operation { resets, workers } => {
                let ns = match (resets, peer) {
                    (false, _) => {
                        let kind = PeerKind::from_str(peer, false).map_err(anyhow::Error::msg)?;
                        with_peer!(kind, P => measure::<P, _>(workers, workload::churn::<P>))
                    }
                    (true, OURS) => reset::<TokioWheel>(workers),
                    (true, TokioAlt::NAME) => reset::<TokioAlt>(workers),
                    (true, _) => reset::<Tokio>(workers),
                };
                vec![row(workload_name(resets), workers, ns)]
            }
        })
    }
}

const fn workload_name(resets: bool) -> &'static str {
    if resets { "reset" } else { "churn" }
}

fn reset<P: Resets>(workers: usize) -> f64 {
    measure::<P, _>(workers, workload::reset::<P>)
}

fn measure<P: Peer, Fut>(workers: usize, work: fn(u64) -> Fut) -> f64
where
    Fut: Future<Output = Duration> + Send + 'static,
{
    // The process ends anyway.
    let lab = ManuallyDrop::new(warm_lab::<P, _>(workers, true, work));
    nanos(LASTING, |iters| {
        lab.time_per_thread(workers, || work(iters))
    })
}

/// Prints the medians, and in parentheses what the model predicts from the first column.
pub(crate) fn print(measured: &Measured) {
    let figure = |workload, variant: usize, peer| {
        let name = (Section::Operations, workload, &*variant.to_string());
        Some(measured.find(name, peer)?.median())
    };
    let transfers = (1..measured.cores).map_while(|core| figure(TRANSFER, core, BARE));
    let transfers: Vec<_> = transfers.collect();
    if !transfers.is_empty() {
        let least = transfers.iter().copied().fold(f64::INFINITY, f64::min);
        let most = transfers.iter().copied().fold(0.0, f64::max);
        println!(
            "A line moves from the first core to another in {} to {} ns, median {}.",
            number(least),
            number(most),
            number(median(transfers.iter().copied()))
        );
    }
    let processor = Processor::measured("this machine", transfers);
    let counts = counts(measured.cores);
    let columns = counts.iter().map(|workers| workers.to_string());
    let mut rows = vec![["workers".to_owned()].into_iter().chain(columns).collect()];
    for resets in [false, true] {
        let workload = workload_name(resets);
        for (peer, _) in PEERS {
            let operation = Operation::find(peer.name(), workload);
            let alone = figure(workload, 1, peer.name());
            let Some((operation, alone)) = operation.zip(alone) else {
                continue;
            };
            let cells = counts.iter().map(|&workers| {
                let model = operation.cost(alone, 0.0, workers, &processor);
                let ns = figure(workload, workers, peer.name()).map_or("-".to_owned(), number);
                format!("{ns} ({})", number(model))
            });
            let name = format!("{workload} {}", peer.name());
            rows.push([name].into_iter().chain(cells).collect());
        }
    }
    println!();
    print_table(&rows);
    println!(
        "\nns of an operation on each of so many workers, while an earlier timer is pending. In parentheses:\n\
         what the model of docs/scaling.md predicts from one worker and from the times of lines above.\n\
         Please send this output, and the file of --json, in an issue of the repository."
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_count_has_all_cores() {
        assert_eq!(counts(1), [1]);
        assert_eq!(counts(8), [1, 2, 4, 8]);
        assert_eq!(counts(24), [1, 2, 4, 8, 16, 24]);
    }
}
