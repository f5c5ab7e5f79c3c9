//! Lists everything that is measured per operation.

use std::{cell::LazyCell, future::Future, rc::Rc, time::Duration};

use tokio_wheel::{Timer, error::BuildError};

use crate::{
    lab::{Lab, WORKERS},
    peer::{AsyncIo, Bare, FuturesTimer, Peer, Pingora, Resets, Timeouts, Tokio, TokioWheel},
    schedule, workload,
};

/// The number of operations that a worker runs before its measurement.
const WARM_UP: u64 = 16;

/// The workloads, in the order in which they run. `churn` runs last. It leaves entries in a timer
/// that forgets nothing, and these entries would slow the other workloads down.
pub const WORKLOADS: [&str; 10] = [
    "ready",
    "io",
    "reset",
    "rpc",
    "rpc_shared",
    "schedule",
    "schedule_limited",
    "spawn",
    "spawn_unpolled",
    "churn",
];

/// The variants, in the order of the tables. A variant says how many threads run, whether a timer
/// is armed, and how many sleeps are pending.
pub const VARIANTS: [&str; 7] = [
    "solo",
    "solo armed",
    "x1",
    "x2",
    "x2 armed",
    "x1+1M",
    "x2+1M",
];

/// The highest number of pending entries in workloads with such a limit. No workload reaches it.
const LIMIT: usize = 1_000_000;

/// The ways to run a workload of independent threads: a name, the number of threads and the number
/// of workers.
///
/// * `solo` has one worker, which never parks while it measures. `tokio::time` is unarmed: each
///   registration writes to an eventfd.
/// * In `x1`, a second worker parks on tokio's driver. It soon parks with an alarm set for one of
///   the measured sleeps. From then on `tokio::time` is armed.
/// * In `x2`, both workers measure and neither parks. `tokio::time` is unarmed.
const THREADS: [(&str, usize, usize); 3] = [("solo", 1, 1), ("x1", 1, 2), ("x2", 2, 2)];

/// The same workers beside a pending sleep that expires before the measured sleeps. `tokio::time`
/// is armed: its alarm is set for the pending sleep, and no registration writes to the eventfd. A
/// server is normally in this state.
const ARMED: [(&str, usize); 2] = [("solo armed", 1), ("x2 armed", 2)];

/// A figure: a workload in one variant, run by one peer.
pub struct Cell {
    /// One of [`WORKLOADS`].
    pub workload: &'static str,
    /// One of [`VARIANTS`].
    pub variant: &'static str,
    /// The peer's [`NAME`](Timeouts::NAME).
    pub peer: &'static str,
    run: Box<dyn Fn(u64) -> Duration>,
}

impl Cell {
    /// Returns how long `iters` operations take, per thread.
    pub fn run(&self, iters: u64) -> Duration {
        (self.run)(iters)
    }

    /// Returns whether the cell needs a million pending sleeps. These cells must run after all
    /// others, because several peers have global timers.
    pub fn is_crowded(&self) -> bool {
        self.variant.ends_with("+1M")
    }
}

/// Returns how many operations last as long as `target`. It estimates the number from a tenth of
/// that time.
pub fn iters_lasting(target: Duration, run: impl Fn(u64) -> Duration) -> u64 {
    let mut iters = 1_000;
    loop {
        let elapsed = run(iters);
        if elapsed * 10 >= target {
            let scale = target.as_secs_f64() / elapsed.as_secs_f64();
            return (iters as f64 * scale).max(1.0) as u64;
        }
        iters *= 2;
    }
}

/// Returns a runtime on which the workload has already run. As on a server, no worker meets its
/// first timer during the measurement. Each worker already knows its runtime's timer, which it
/// learns from a sleep that waits.
pub fn warm_lab<P: Timeouts, Fut>(workers: usize, work: impl Fn(u64) -> Fut) -> Lab
where
    Fut: Future<Output = Duration> + Send + 'static,
{
    let lab = Lab::quiet::<P>(workers);
    lab.time_per_thread(workers, || workload::io::<P>(WARM_UP));
    lab.time_per_thread(workers, || work(WARM_UP));
    lab
}

/// Returns all cells, peer by peer.
pub fn cells() -> Vec<Cell> {
    let mut cells = Cells::default();

    cells.per_thread::<Bare, _>("ready", workload::ready_bare);
    cells.armed::<Bare, _>("ready", workload::ready_bare);
    cells.per_thread::<Bare, _>("io", workload::io::<Bare>);
    cells.armed::<Bare, _>("io", workload::io::<Bare>);
    cells.per_thread::<Bare, _>("reset", workload::reset_bare);
    cells.armed::<Bare, _>("reset", workload::reset_bare);
    cells.rpc::<Bare>();

    cells.peer::<TokioWheel>();
    cells.reset::<TokioWheel>();
    cells.peer::<Tokio>();
    cells.reset::<Tokio>();
    #[cfg(tokio_unstable)]
    {
        cells.peer::<crate::peer::TokioAlternative>();
        cells.reset::<crate::peer::TokioAlternative>();
    }
    cells.peer::<Pingora>();
    cells.peer::<FuturesTimer>();
    cells.reset::<FuturesTimer>();
    cells.peer::<AsyncIo>();
    cells.reset::<AsyncIo>();

    cells.per_thread::<Bare, _>("schedule", schedule::schedule_bare);
    cells.schedule("schedule", || Timer::builder().build());
    cells.schedule("schedule_limited", || {
        Timer::builder().max_pending(LIMIT).build()
    });
    cells.spawn::<Bare>();
    cells.spawn::<TokioWheel>();
    cells.spawn::<Tokio>();
    cells.0
}

#[derive(Default)]
struct Cells(Vec<Cell>);

impl Cells {
    fn peer<P: Peer>(&mut self) {
        self.per_thread::<P, _>("ready", workload::ready_at_once::<P>);
        self.per_thread::<P, _>("io", workload::io::<P>);
        self.rpc::<P>();
        self.per_thread::<P, _>("churn", workload::churn::<P>);
        self.armed::<P, _>("ready", workload::ready_at_once::<P>);
        self.armed::<P, _>("io", workload::io::<P>);
        self.armed::<P, _>("churn", workload::churn::<P>);

        // Starts when a cell first needs it, because it takes a second and much memory.
        let crowded = Rc::new(LazyCell::new(Lab::crowded::<P>));
        for (threads, variant) in [(1, "x1+1M"), (2, "x2+1M")] {
            let lab = crowded.clone();
            self.push::<P>("churn", variant, move |iters| {
                lab.time_per_thread(threads, || workload::churn::<P>(iters))
            });
        }
    }

    fn reset<P: Peer + Resets>(&mut self) {
        self.per_thread::<P, _>("reset", workload::reset::<P>);
        self.armed::<P, _>("reset", workload::reset::<P>);
    }

    fn rpc<P: Peer>(&mut self) {
        for (variant, workers) in [("solo", 1), ("x2", WORKERS)] {
            self.push::<P>("rpc", variant, move |iters| {
                Lab::quiet::<P>(workers).run(workload::rpc::<P>(iters))
            });
        }
        for (variant, workers) in ARMED {
            self.push::<P>("rpc", variant, move |iters| {
                let lab = Lab::quiet::<P>(workers);
                lab.arm::<P>();
                lab.run(workload::rpc::<P>(iters))
            });
        }
        self.push::<P>("rpc_shared", "x2", |iters| {
            Lab::quiet::<P>(WORKERS).run(workload::rpc_shared::<P>(iters))
        });
    }

    fn schedule(&mut self, workload: &'static str, build: fn() -> Result<Timer, BuildError>) {
        for (variant, threads, workers) in THREADS {
            self.push::<TokioWheel>(workload, variant, move |iters| {
                let lab = Lab::quiet::<TokioWheel>(workers);
                let timer = lab.run(async move { build() }).expect("no timer");
                lab.time_per_thread(workers, || schedule::schedule(timer.clone(), WARM_UP));
                lab.time_per_thread(threads, || schedule::schedule(timer.clone(), iters))
            });
        }
    }

    fn spawn<P: Peer>(&mut self) {
        self.per_thread::<P, _>("spawn", schedule::spawn::<P>);
        self.per_thread::<P, _>("spawn_unpolled", schedule::spawn_unpolled::<P>);
    }

    fn per_thread<P: Timeouts, Fut>(&mut self, workload: &'static str, work: fn(u64) -> Fut)
    where
        Fut: Future<Output = Duration> + Send + 'static,
    {
        for (variant, threads, workers) in THREADS {
            self.push::<P>(workload, variant, move |iters| {
                let lab = warm_lab::<P, _>(workers, work);
                lab.time_per_thread(threads, || work(iters))
            });
        }
    }

    fn armed<P: Peer, Fut>(&mut self, workload: &'static str, work: fn(u64) -> Fut)
    where
        Fut: Future<Output = Duration> + Send + 'static,
    {
        for (variant, workers) in ARMED {
            self.push::<P>(workload, variant, move |iters| {
                let lab = warm_lab::<P, _>(workers, work);
                lab.arm::<P>();
                lab.time_per_thread(workers, || work(iters))
            });
        }
    }

    fn push<P: Timeouts>(
        &mut self,
        workload: &'static str,
        variant: &'static str,
        run: impl Fn(u64) -> Duration + 'static,
    ) {
        self.0.push(Cell {
            workload,
            variant,
            peer: P::NAME,
            run: Box::new(run),
        });
    }
}
