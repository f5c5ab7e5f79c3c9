//! Lists everything that is measured per operation.

use std::{cell::RefCell, future::Future, time::Duration};

use tokio_wheel::{Timer, error::BuildError};
use tokio_wheel_util::delay_queue::DelayQueue;

use crate::{
    lab::Lab,
    peer::{AsyncIo, Bare, FuturesTimer, Peer, Pingora, Resets, Tokio, TokioAlt, TokioWheel},
    queue::{self, Queue, SortedMap},
    touch::{self, Touchers},
    workload::{self, Pattern, requests},
};

/// The number of operations that a worker runs before its measurement.
const WARM_UP: u64 = 16;

/// The workloads, in the order in which they run. `churn` runs last. It leaves entries in a timer
/// that forgets nothing, and these entries would slow the other workloads down.
pub const WORKLOADS: [&str; 15] = [
    "ready",
    "io",
    "nested",
    "sequence",
    "tasks",
    "reset",
    "rpc",
    "schedule",
    "schedule_limited",
    "spawn",
    "touch",
    "insert_remove",
    "replace",
    "drain",
    "churn",
];

/// The limit of pending entries in workloads with such a limit, which no workload reaches.
const LIMIT: usize = 1_000_000;

/// The ways to run a workload: a name, the number of threads, the number of workers, and whether
/// the lab is armed.
type Variant = (&'static str, usize, usize, bool);

/// * `solo` has one worker, which never parks while it measures. `tokio::time` is unarmed: each
///   registration writes to an eventfd.
/// * In `x1`, a second worker parks on tokio's driver. It soon parks with an alarm set for one of
///   the measured sleeps. From then on `tokio::time` is armed.
/// * In `x2`, both workers measure and neither parks. `tokio::time` is unarmed.
const UNARMED: [Variant; 3] = [
    ("solo", 1, 1, false),
    ("x1", 1, 2, false),
    ("x2", 2, 2, false),
];

/// The same workers beside a pending sleep that expires before the measured sleeps. `tokio::time`
/// is armed: its alarm is set for the pending sleep, and no registration writes to the eventfd. A
/// server is normally in this state.
const ARMED: [Variant; 2] = [("solo armed", 1, 1, true), ("x2 armed", 2, 2, true)];

/// More workers than most machines have cores for.
const MANY: [Variant; 8] = [
    ("x4", 4, 4, false),
    ("x4 armed", 4, 4, true),
    ("x8", 8, 8, false),
    ("x8 armed", 8, 8, true),
    ("x16", 16, 16, false),
    ("x16 armed", 16, 16, true),
    ("x64", 64, 64, false),
    ("x64 armed", 64, 64, true),
];

/// A figure: a workload in one variant, run by one peer.
pub struct Cell {
    /// One of [`WORKLOADS`].
    pub workload: &'static str,
    /// How many threads run the workload, or how many keys or elements there are.
    pub variant: &'static str,
    /// The peer's [`NAME`](Peer::NAME).
    pub peer: &'static str,
    /// The number of operations, if it cannot be chosen.
    iters: Option<u64>,
    run: Box<dyn Fn(u64) -> Duration>,
}

impl Cell {
    /// Runs `iters` operations on each thread, and returns how long they take.
    pub fn run(&self, iters: u64) -> Duration {
        (self.run)(iters)
    }

    /// Returns the nanoseconds per operation and thread, of a sample of about this length.
    pub fn nanos(&self, lasting: Duration) -> f64 {
        match self.iters {
            Some(iters) => self.run(iters).as_nanos() as f64 / iters as f64,
            None => nanos(lasting, &self.run),
        }
    }
}

/// Returns the nanoseconds per operation, of a sample of about this length.
pub fn nanos(lasting: Duration, run: impl Fn(u64) -> Duration) -> f64 {
    // Estimates the number of operations from a tenth of the time.
    let mut iters = 1_000;
    let mut elapsed = run(iters);
    while elapsed * 10 < lasting {
        iters *= 2;
        elapsed = run(iters);
    }
    iters = (iters as f64 * lasting.div_duration_f64(elapsed)).max(1.0) as u64;
    loop {
        let elapsed = run(iters);
        if elapsed >= lasting / 2 {
            return elapsed.as_nanos() as f64 / iters as f64;
        }
        // The machine was delayed during the estimate.
        iters *= 2;
    }
}

/// Returns a runtime on which the workload has already run. As on a server, no worker meets its
/// first timer during the measurement. Each worker already knows its runtime's timer, which it
/// learns from a sleep that waits.
pub fn warm_lab<P: Peer, Fut>(workers: usize, armed: bool, work: impl Fn(u64) -> Fut) -> Lab
where
    Fut: Future<Output = Duration> + Send + 'static,
{
    let lab = Lab::quiet::<P>(workers);
    lab.time_per_thread(workers, || workload::io::<P>(WARM_UP));
    lab.time_per_thread(workers, || work(WARM_UP));
    if armed {
        lab.arm::<P>();
    }
    lab
}

/// Returns all cells, peer by peer.
pub fn cells() -> Vec<Cell> {
    let mut cells = Cells::default();
    cells.peer::<TokioWheel>();
    cells.reset::<TokioWheel>();
    cells.peer::<Tokio>();
    cells.reset::<Tokio>();
    cells.peer::<TokioAlt>();
    cells.reset::<TokioAlt>();
    cells.peer::<Pingora>();
    cells.peer::<FuturesTimer>();
    cells.reset::<FuturesTimer>();
    cells.peer::<AsyncIo>();
    cells.reset::<AsyncIo>();

    cells.schedule("schedule", || Timer::builder().build());
    cells.schedule("schedule_limited", || {
        Timer::builder().max_pending(LIMIT).build()
    });
    cells.threads::<TokioWheel, _>("spawn", workload::spawn::<TokioWheel>, &[&UNARMED]);
    cells.threads::<Tokio, _>("spawn", workload::spawn::<Tokio>, &[&UNARMED]);
    cells.threads::<TokioAlt, _>("spawn", workload::spawn::<TokioAlt>, &[&UNARMED]);

    cells.touch();
    cells.queue::<DelayQueue<u32>>();
    cells.queue::<tokio_util::time::DelayQueue<u32>>();
    cells.queue::<nexus_timer::Wheel<u32>>();
    cells.queue::<SortedMap>();

    // The workloads without a timer are the last in each table.
    cells.threads::<Bare, _>("io", workload::io::<Bare>, &[&UNARMED, &ARMED]);
    cells.requests::<Bare>();
    cells.rpc::<Bare>();
    cells.0
}

#[derive(Default)]
struct Cells(Vec<Cell>);

impl Cells {
    fn peer<P: Peer>(&mut self) {
        self.threads::<P, _>("ready", workload::ready_at_once::<P>, &[&UNARMED, &ARMED]);
        self.threads::<P, _>("io", workload::io::<P>, &[&UNARMED, &ARMED]);
        self.requests::<P>();
        self.rpc::<P>();
        self.threads::<P, _>("churn", workload::churn::<P>, &[&UNARMED, &ARMED, &MANY]);
    }

    fn requests<P: Peer>(&mut self) {
        let nested = |iters| requests::<P>(Pattern::Nested, iters);
        self.threads::<P, _>("nested", nested, &[&UNARMED, &ARMED]);
        let sequence = |iters| requests::<P>(Pattern::Sequence, iters);
        self.threads::<P, _>("sequence", sequence, &[&UNARMED, &ARMED]);
        let tasks = |iters| requests::<P>(Pattern::Tasks, iters);
        self.threads::<P, _>("tasks", tasks, &[&UNARMED, &ARMED]);
    }

    fn reset<P: Resets>(&mut self) {
        self.threads::<P, _>("reset", workload::reset::<P>, &[&UNARMED, &ARMED]);
    }

    fn rpc<P: Peer>(&mut self) {
        for (variant, threads, workers, armed) in [UNARMED.as_slice(), &ARMED].concat() {
            if threads < workers {
                continue;
            }
            self.push("rpc", variant, P::NAME, move |iters| {
                let lab = Lab::quiet::<P>(workers);
                if armed {
                    lab.arm::<P>();
                }
                lab.run(workload::rpc::<P>(iters))
            });
        }
    }

    fn schedule(&mut self, workload: &'static str, build: fn() -> Result<Timer, BuildError>) {
        for (variant, threads, workers, _) in UNARMED {
            self.push(workload, variant, TokioWheel::NAME, move |iters| {
                let lab = Lab::quiet::<TokioWheel>(workers);
                let timer = lab.run(async move { build() }).expect("no timer");
                lab.time_per_thread(workers, || workload::schedule(timer.clone(), WARM_UP));
                lab.time_per_thread(threads, || workload::schedule(timer.clone(), iters))
            });
        }
    }

    fn touch(&mut self) {
        for (variant, keys, threads) in [
            ("100k", 100_000, 1),
            ("1M", 1_000_000, 1),
            ("100k x2", 100_000, 2),
            ("1M x2", 1_000_000, 2),
        ] {
            let set = move || Touchers::new(keys, || vec![touch::set(keys); threads]);
            self.prepared("touch", variant, TokioWheel::NAME, set, Touchers::touch);
            let locked = move || Touchers::new(keys, || vec![touch::locked_map(keys); threads]);
            self.prepared(
                "touch",
                variant,
                "map, tokio_util, lock",
                locked,
                Touchers::touch,
            );
            if threads == 1 {
                let map = move || Touchers::new(keys, || vec![touch::map(keys)]);
                self.prepared("touch", variant, "map, tokio_util", map, Touchers::touch);
            }
        }
    }

    fn queue<Q: Queue + 'static>(&mut self) {
        for (variant, crowd) in [("100k", 100_000), ("1M", 1_000_000)] {
            let crowded = move || queue::Crowded::<Q>::new(crowd);
            self.prepared(
                "insert_remove",
                variant,
                Q::NAME,
                crowded,
                |queue, iters| queue.time(iters, queue::Crowded::insert_remove),
            );
            self.prepared("replace", variant, Q::NAME, crowded, |queue, iters| {
                queue.time(iters, queue::Crowded::replace)
            });
            self.push("drain", variant, Q::NAME, |crowd| {
                queue::drain::<Q>(crowd as usize)
            });
            self.0.last_mut().expect("it was pushed").iters = Some(crowd as u64);
        }
    }

    fn threads<P: Peer, Fut>(
        &mut self,
        workload: &'static str,
        work: fn(u64) -> Fut,
        variants: &[&[Variant]],
    ) where
        Fut: Future<Output = Duration> + Send + 'static,
    {
        for (variant, threads, workers, armed) in variants.concat() {
            self.push(workload, variant, P::NAME, move |iters| {
                let lab = warm_lab::<P, _>(workers, armed, work);
                lab.time_per_thread(threads, || work(iters))
            });
        }
    }

    /// Adds a cell whose first run prepares a state, which takes long. All runs use that state.
    fn prepared<S: 'static>(
        &mut self,
        workload: &'static str,
        variant: &'static str,
        peer: &'static str,
        prepare: impl Fn() -> S + 'static,
        run: impl Fn(&mut S, u64) -> Duration + 'static,
    ) {
        let state = RefCell::new(None);
        self.push(workload, variant, peer, move |iters| {
            run(state.borrow_mut().get_or_insert_with(&prepare), iters)
        });
    }

    fn push(
        &mut self,
        workload: &'static str,
        variant: &'static str,
        peer: &'static str,
        run: impl Fn(u64) -> Duration + 'static,
    ) {
        self.0.push(Cell {
            workload,
            variant,
            peer,
            iters: None,
            run: Box::new(run),
        });
    }
}
