//! Predicts the cost of an operation on machines that have more cores than ours.
//!
//! The model is a closed network: each worker works, and then queues for the one lock and for the reference count of
//! the runtime's handle ([`Operation::cost`]). A lock, and a counter that all workers share, serve one worker at a time.
//! Exact mean value analysis solves it. `scaling -- model` prints the results, and what workers that do nothing else pay
//! for each operation. `compare -- cores` compares them with measured costs on the machine where it runs.
//!
//! # Constants
//!
//! * The cost on one worker, from `docs/figures/compare.txt` ([`OPERATIONS`]).
//! * How often an operation changes the shared count and takes the lock, which `benches/locked.sh` counts.
//! * 15 ns under the lock (`UNDER_LOCK`) and 2 ns for a locked instruction (`LOCKED`), if no line must come from
//!   another core.
//! * The time of a line from another core, which others have published ([`Processor`]): on EPYC 23 ns within a cache,
//!   100 ns within a socket and 196 ns between sockets, on Xeon 51 and 108 ns. Such times decide how locks scale (David,
//!   Guerraoui and Trigonakis, SOSP 2013, <https://doi.org/10.1145/2517349.2522714>).
//!
//! No constant was fitted to a figure of several cores.
//!
//! # Assumptions
//!
//! * Each worker has a core, and waiting workers spin.
//! * Each worker is equally likely to have used a shared line last. This is unfavorable to a lock that is mostly free, so
//!   the lock may matter only on more cores than predicted.
//! * No task moves between two polls of a sleep.
//! * Under a lock, only the transfers that wait for one another count.
//! * Service times are exponential, as in each exact mean value analysis.
//!
//! Not in the model: a sleep that another worker drops moves about seven lines, 0.2 to 0.7 µs on 64 cores. If each worker
//! has published a new tick since the driver's last wake-up, the driver reads 64 lines, in 3 to 6 µs. An operation on a
//! shard waits while the driver does up to 128 steps there, some 10 µs.
//!
//! # Checks
//!
//! | check | model | measured or published |
//! |---|---|---|
//! | two cores, lines within a cache (23 ns): `churn` of `tokio::time` and its alternative timer, ns | 279, 259 | 446, 245 |
//! | `reset` of both | 96, 190 | 79, 188 |
//! | `churn` and `reset` of this crate, `churn` of `pingora-timeout` | 45, 50, 150 | 45, 51, 148 |
//! | PgDog on 16 to 24 workers ([tokio 7745]) | 25% with `tokio::time`, 14% with the alternative timer, on 16 workers every 5 µs | 10% in `TimerEntry::drop` alone; the alternative timer saves 10 to 20% |
//! | timeouts a second with `tokio::time` at most, on about 60 workers ([tokio 7745]) | 2.1 million | 368,000 requests, on 17% of the CPU |
//! | with the alternative timer | 2.7 million | 1.1 million requests |
//! | with `tokio::time` ([aerospike-client-rust 208]) | 2 to 4 million | about 1 million |
//!
//! * On two cores, the model predicts two thirds of the cost of `churn` with `tokio::time`, and fits the others.
//! * PgDog fits if each worker makes a timeout every 5 µs, which is not published.
//! * A lock that is always in use is two to six times slower than predicted, because its waiting workers sleep. We take
//!   the 368,000 for the default timer, because the issue gives about 1.1 million for the alternative timer, and 1.2
//!   million for tokio 1.44.
//!
//! [tokio 7745]: https://github.com/tokio-rs/tokio/issues/7745
//! [aerospike-client-rust 208]: https://github.com/aerospike/aerospike-client-rust/pull/208

use std::{
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Instant,
};

use crossbeam_utils::CachePadded;

use crate::{
    lab::stay_on_core,
    peer::{Peer, Pingora, Tokio, TokioAlt, TokioWheel},
};

/// An operation of a timer, and how it uses lines that all workers share.
pub struct Operation {
    pub timer: &'static str,
    pub workload: &'static str,
    /// The ns of the operation on one worker, measured on an AMD EPYC (`docs/figures.md`).
    pub alone: f64,
    /// How often the operation changes the reference count of the runtime's handle.
    counts: f64,
    /// For each time that it takes the one lock, the transfers that wait for one another.
    locks: &'static [f64],
}

/// What `benches/locked.sh` counts, with the lines under the lock from the source of tokio 1.54.
/// Registering transfers the lock, the slot, and the entry that is first in the slot, one after the
/// other. Deregistering transfers the lock, and then the slot and the neighbors at the same time.
pub const OPERATIONS: [Operation; 7] = [
    Operation::new(TokioWheel::NAME, "churn", 44.5, 0.0, &[]),
    Operation::new(Tokio::NAME, "churn", 130.0, 4.0, &[3.0, 2.0]),
    Operation::new(TokioAlt::NAME, "churn", 201.0, 4.0, &[]),
    Operation::new(Pingora::NAME, "churn", 150.0, 0.0, &[]),
    Operation::new(TokioWheel::NAME, "reset", 50.0, 0.0, &[]),
    Operation::new(Tokio::NAME, "reset", 65.0, 2.0, &[]),
    Operation::new(TokioAlt::NAME, "reset", 163.0, 2.0, &[]),
];

/// The ns under the lock without a transfer: 90 of the 800 instructions of tokio's `churn`.
const UNDER_LOCK: f64 = 15.0;

/// The ns of a locked instruction without a transfer.
const LOCKED: f64 = 2.0;

impl Operation {
    const fn new(
        timer: &'static str,
        workload: &'static str,
        alone: f64,
        counts: f64,
        locks: &'static [f64],
    ) -> Self {
        Self {
            timer,
            workload,
            alone,
            counts,
            locks,
        }
    }

    pub fn find(timer: &str, workload: &str) -> Option<&'static Self> {
        OPERATIONS
            .iter()
            .find(|one| (one.timer, one.workload) == (timer, workload))
    }

    /// Returns the ns of an operation on each of so many workers, with the time that it waits for
    /// other workers. `alone` is its cost on one worker, and `work` the ns between two operations.
    pub fn cost(&self, alone: f64, work: f64, workers: usize, processor: &Processor) -> f64 {
        let local: f64 = self.demands(0.0).iter().sum();
        let think = work + alone - local;
        cycle(workers, think, self.demands(processor.transfer(workers))) - work
    }

    fn demands(&self, transfer: f64) -> [f64; 2] {
        let locks = self.locks.iter().map(|lines| UNDER_LOCK + lines * transfer);
        [locks.sum(), self.counts * (LOCKED + transfer)]
    }
}

/// Returns the ns of a cycle of each worker, by exact mean value analysis: a worker that comes to a
/// station finds the queue that is there with one worker less.
fn cycle(workers: usize, think: f64, demands: [f64; 2]) -> f64 {
    let mut queues = [0.0; 2];
    let mut cycle = 0.0;
    for n in 1..=workers {
        let times = [0, 1].map(|station: usize| demands[station] * (1.0 + queues[station]));
        cycle = think + times[0] + times[1];
        queues = times.map(|time| n as f64 * time / cycle);
    }
    cycle
}

pub struct Processor {
    pub name: &'static str,
    /// The ns from the first core to each other core, in the order in which workers use the cores.
    transfers: Vec<f64>,
}

impl Processor {
    /// Two AMD EPYC of the fourth generation with 64 cores each, of which eight share an L3 cache.
    /// The times are from <https://github.com/nviennot/core-to-core-latency/issues/132>, which
    /// measured two EPYC 9274F: half the time of a round trip.
    pub fn epyc() -> Self {
        let groups = [(7, 23.0), (56, 100.0), (64, 196.0)];
        Self::new("2 x AMD EPYC, 64 cores each", &groups)
    }

    /// Two Intel Xeon Platinum 8375C with 32 cores each. The times are from
    /// <https://github.com/nviennot/core-to-core-latency>. More workers than 64 are as far away as the second socket.
    pub fn xeon() -> Self {
        Self::new("2 x Intel Xeon, 32 cores each", &[(31, 51.0), (96, 108.0)])
    }

    fn new(name: &'static str, groups: &[(usize, f64)]) -> Self {
        let times = groups.iter().flat_map(|&(cores, time)| vec![time; cores]);
        Self::measured(name, times.collect())
    }

    pub fn measured(name: &'static str, transfers: Vec<f64>) -> Self {
        Self { name, transfers }
    }

    /// Returns the mean ns until a worker has a line that any of so many workers has used last.
    pub fn transfer(&self, workers: usize) -> f64 {
        let others = self.transfers.iter().take(workers - 1);
        others.sum::<f64>() / workers as f64
    }
}

/// Measures the ns in which a line moves from one core to another: half of a round trip.
pub fn measure_transfer(from: usize, to: usize) -> f64 {
    const ROUND_TRIPS: u64 = 5_000;
    let (line, start) = (CachePadded::new(AtomicU64::new(0)), Barrier::new(2));
    // Each thread waits for numbers of its own parity, and answers with the next number.
    let play = |core, parity| {
        stay_on_core(core);
        start.wait();
        let begin = Instant::now();
        for trip in 0..ROUND_TRIPS {
            let (mine, next) = (2 * trip + parity, 2 * trip + parity + 1);
            while line
                .compare_exchange_weak(mine, next, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
            {
                std::hint::spin_loop();
            }
        }
        begin.elapsed()
    };
    let elapsed = thread::scope(|scope| {
        let other = scope.spawn(|| play(to, 1));
        let elapsed = scope.spawn(|| play(from, 0)).join();
        other.join().and(elapsed).expect("no panic")
    });
    elapsed.as_nanos() as f64 / (2 * ROUND_TRIPS) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_worker_pays_the_uncontended_cost() {
        for one in &OPERATIONS {
            for work in [0.0, 5_000.0] {
                let cost = one.cost(one.alone, work, 1, &Processor::epyc());
                assert!((cost - one.alone).abs() < 1e-6, "{}: {cost}", one.timer);
            }
        }
    }

    #[test]
    fn workers_that_share_nothing_do_not_wait() {
        let wheel = Operation::find(TokioWheel::NAME, "churn").expect("listed");
        assert_eq!(wheel.cost(62.0, 0.0, 128, &Processor::epyc()), 62.0);
    }

    /// Two stations with two workers that do nothing else, compared with the solution by hand: each
    /// station has either both workers, one, or none, with the same probability.
    #[test]
    fn a_cycle_is_that_of_the_closed_network() {
        assert_eq!(cycle(2, 0.0, [30.0, 30.0]), 90.0);
    }

    #[test]
    fn a_lock_serves_at_most_one_worker_at_a_time() {
        let processor = Processor::xeon();
        for one in OPERATIONS.iter().filter(|one| one.counts > 0.0) {
            let rate =
                |workers| workers as f64 * 1e9 / one.cost(one.alone, 0.0, workers, &processor);
            let ceiling = |workers| {
                let [lock, count] = one.demands(processor.transfer(workers));
                1e9 / lock.max(count)
            };
            for workers in [1, 2, 8, 16, 24, 64, 128] {
                assert!(rate(workers) <= ceiling(workers));
            }
            assert!(rate(128) > 0.5 * ceiling(128));
        }
    }
}
