//! Lists everything that is measured per operation.

use std::{cell::OnceCell, future::Future, rc::Rc, time::Duration};

use tokio::io::{AsyncRead, DuplexStream};
use tokio_wheel::{DelayQueue, Timer, error::BuildError};
use tokio_wheel_util::io::{Limits, MinRate, TimeoutStream};

use crate::{
    lab::{Lab, WORKERS},
    peer::{AsyncIo, Bare, FuturesTimer, Peer, Pingora, Resets, Tokio, TokioWheel},
    queue::{self, Queue, SortedMap},
    touch, workload,
};

/// The number of operations that a worker runs before its measurement.
const WARM_UP: u64 = 16;

/// The workloads, in the order in which they run. `churn` runs last. It leaves entries in a timer
/// that forgets nothing, and these entries would slow the other workloads down.
pub const WORKLOADS: [&str; 16] = [
    "ready",
    "io",
    "reset",
    "rpc",
    "rpc_shared",
    "schedule",
    "schedule_limited",
    "spawn",
    "spawn_unpolled",
    "read",
    "read_limits",
    "touch",
    "insert_remove",
    "replace",
    "drain",
    "churn",
];

/// The variants, in the order of the tables.
pub const VARIANTS: [&str; 17] = [
    "solo",
    "solo armed",
    "x1",
    "x2",
    "x2 armed",
    "x4",
    "x4 armed",
    "x8",
    "x8 armed",
    "x16",
    "x16 armed",
    "x64",
    "x64 armed",
    "100k",
    "1M",
    "100k x2",
    "1M x2",
];

/// The limit of pending entries in workloads with such a limit, and of bytes in an hour. No
/// workload reaches the first. No read reaches the second, so the stream always keeps its window.
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

/// More workers than most machines have cores for.
const MANY: [(&str, &str, usize); 4] = [
    ("x4", "x4 armed", 4),
    ("x8", "x8 armed", 8),
    ("x16", "x16 armed", 16),
    ("x64", "x64 armed", 64),
];

/// A figure: a workload in one variant, run by one peer.
pub struct Cell {
    /// One of [`WORKLOADS`].
    pub workload: &'static str,
    /// One of [`VARIANTS`].
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
    cells.threads::<Bare, _>("ready", workload::ready_bare);
    cells.threads::<Bare, _>("io", workload::io::<Bare>);
    cells.threads::<Bare, _>("reset", workload::reset_bare);
    cells.rpc::<Bare>();

    cells.peer::<TokioWheel>();
    cells.reset::<TokioWheel>();
    cells.peer::<Tokio>();
    cells.reset::<Tokio>();
    cells.peer::<Pingora>();
    cells.peer::<FuturesTimer>();
    cells.reset::<FuturesTimer>();
    cells.peer::<AsyncIo>();
    cells.reset::<AsyncIo>();

    cells.unarmed::<Bare, _>("schedule", workload::schedule_bare);
    cells.schedule("schedule", || Timer::builder().build());
    cells.schedule("schedule_limited", || {
        Timer::builder().max_pending(LIMIT).build()
    });
    cells.spawn::<Bare>();
    cells.spawn::<TokioWheel>();
    cells.spawn::<Tokio>();

    cells.read();
    cells.touch();
    cells.queue::<DelayQueue<u32>>();
    cells.queue::<tokio_util::time::DelayQueue<u32>>();
    cells.queue::<nexus_timer::Wheel<u32>>();
    cells.queue::<SortedMap>();
    cells.0
}

#[derive(Default)]
struct Cells(Vec<Cell>);

impl Cells {
    fn peer<P: Peer>(&mut self) {
        self.threads::<P, _>("ready", workload::ready_at_once::<P>);
        self.threads::<P, _>("io", workload::io::<P>);
        self.rpc::<P>();
        self.threads::<P, _>("churn", workload::churn::<P>);
        for (unarmed, armed, workers) in MANY {
            for variant in [unarmed, armed] {
                self.push("churn", variant, P::NAME, move |iters| {
                    let lab = warm_lab::<P, _>(workers, variant == armed, workload::churn::<P>);
                    lab.time_per_thread(workers, || workload::churn::<P>(iters))
                });
            }
        }
    }

    fn reset<P: Resets>(&mut self) {
        self.threads::<P, _>("reset", workload::reset::<P>);
    }

    fn rpc<P: Peer>(&mut self) {
        for (variant, workers, armed) in [
            ("solo", 1, false),
            ("x2", 2, false),
            ("solo armed", 1, true),
            ("x2 armed", 2, true),
        ] {
            self.push("rpc", variant, P::NAME, move |iters| {
                let lab = Lab::quiet::<P>(workers);
                if armed {
                    lab.arm::<P>();
                }
                lab.run(workload::rpc::<P>(iters))
            });
        }
        self.push("rpc_shared", "x2", P::NAME, |iters| {
            Lab::quiet::<P>(WORKERS).run(workload::rpc_shared::<P>(iters))
        });
    }

    fn schedule(&mut self, workload: &'static str, build: fn() -> Result<Timer, BuildError>) {
        for (variant, threads, workers) in THREADS {
            self.push(workload, variant, TokioWheel::NAME, move |iters| {
                let lab = Lab::quiet::<TokioWheel>(workers);
                let timer = lab.run(async move { build() }).expect("no timer");
                lab.time_per_thread(workers, || workload::schedule(timer.clone(), WARM_UP));
                lab.time_per_thread(threads, || workload::schedule(timer.clone(), iters))
            });
        }
    }

    fn spawn<P: Peer>(&mut self) {
        self.unarmed::<P, _>("spawn", workload::spawn::<P>);
        self.unarmed::<P, _>("spawn_unpolled", workload::spawn_unpolled::<P>);
    }

    /// A read of a stream without limits, with a read timeout, and with more limits.
    fn read(&mut self) {
        const LIMIT: Duration = Duration::from_secs(30);
        const RATE: MinRate = MinRate::new(1 << 40, Duration::from_secs(3_600));
        let limits = Limits::new().read_timeout(LIMIT);
        let all = limits.idle_timeout(LIMIT).min_read_rate(RATE);
        self.read_of("read", Bare::NAME, |stream| stream);
        for (workload, limits) in [("read", limits), ("read_limits", all)] {
            let limit = move |stream| TimeoutStream::with_limits(stream, limits);
            self.read_of(workload, TokioWheel::NAME, limit);
        }
        self.read_of("read", "tokio_io_timeout", |stream| {
            let mut stream = tokio_io_timeout::TimeoutStream::new(stream);
            stream.set_read_timeout(Some(LIMIT));
            stream
        });
    }

    fn read_of<S: AsyncRead + Send + 'static>(
        &mut self,
        workload: &'static str,
        peer: &'static str,
        limit: impl Fn(DuplexStream) -> S + Copy + Send + 'static,
    ) {
        for (variant, threads) in [("solo", 1), ("x2", 2)] {
            self.push(workload, variant, peer, move |iters| {
                let lab = Lab::quiet::<TokioWheel>(threads);
                lab.time_per_thread(threads, || workload::read(iters, limit))
            });
        }
    }

    fn touch(&mut self) {
        for (variant, keys, threads) in [
            ("100k", 100_000, 1),
            ("1M", LIMIT as u64, 1),
            ("100k x2", 100_000, 2),
            ("1M x2", LIMIT as u64, 2),
        ] {
            for (peer, case) in touch::cases(threads) {
                let run = OnceCell::new();
                self.push("touch", variant, peer, move |iters| {
                    run.get_or_init(|| case(keys))(iters)
                });
            }
        }
    }

    fn queue<Q: Queue + 'static>(&mut self) {
        for (variant, crowd) in [("100k", 100_000), ("1M", LIMIT)] {
            let crowded = Rc::new(queue::Pending::<Q>::new(crowd));
            let other = crowded.clone();
            self.push("insert_remove", variant, Q::NAME, move |iters| {
                crowded.time(iters, queue::Crowded::insert_remove)
            });
            self.push("replace", variant, Q::NAME, move |iters| {
                other.time(iters, queue::Crowded::replace)
            });
            self.push("drain", variant, Q::NAME, |crowd| {
                queue::drain::<Q>(crowd as usize)
            });
            self.0.last_mut().expect("it was pushed").iters = Some(crowd as u64);
        }
    }

    fn threads<P: Peer, Fut>(&mut self, workload: &'static str, work: fn(u64) -> Fut)
    where
        Fut: Future<Output = Duration> + Send + 'static,
    {
        self.unarmed::<P, _>(workload, work);
        for (variant, workers) in ARMED {
            self.push(workload, variant, P::NAME, move |iters| {
                let lab = warm_lab::<P, _>(workers, true, work);
                lab.time_per_thread(workers, || work(iters))
            });
        }
    }

    fn unarmed<P: Peer, Fut>(&mut self, workload: &'static str, work: fn(u64) -> Fut)
    where
        Fut: Future<Output = Duration> + Send + 'static,
    {
        for (variant, threads, workers) in THREADS {
            self.push(workload, variant, P::NAME, move |iters| {
                let lab = warm_lab::<P, _>(workers, false, work);
                lab.time_per_thread(threads, || work(iters))
            });
        }
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
