//! Lists everything that is measured per operation.

use std::{cell::RefCell, collections::BTreeSet, future::Future, time::Duration};

use tokio_wheel_util::{delay_queue::DelayQueue, schedule::Scheduler};

use crate::{
    lab::{self, Lab},
    peer::{
        AsyncIo, Bare, FuturesTimer, Peer, Pingora, Resets, Tokio, TokioAlt, TokioWheel, Within,
    },
    queue::{self, Queue, SortedMap},
    touch::{self, Touchers},
    workload::{self, Pattern, requests},
};

/// How long a sample of an operation should last.
pub const LASTING: Duration = Duration::from_millis(50);

const WARM_UP: u64 = 16;

/// The limit of pending entries in workloads with such a limit, which no workload reaches.
const LIMIT: usize = 1_000_000;

/// A way to run a workload: a name, the number of threads, the number of workers, and whether the lab is armed.
type Variant = (String, usize, usize, bool);

/// Returns the ways to run a workload without a pending sleep. In `solo` and `x2`, all workers
/// measure and none parks, so `tokio::time` is unarmed: each registration writes to an eventfd. In
/// `x1`, a second worker soon parks with an alarm set for one of the measured sleeps.
fn unarmed() -> Vec<Variant> {
    let x1 = ("x1".to_owned(), 1, 2, false);
    vec![variant(1, false), x1, variant(2, false)]
}

fn variant(workers: usize, armed: bool) -> Variant {
    (name(workers, armed), workers, workers, armed)
}

/// Adds the same workers, and more, beside a pending sleep that expires before the measured sleeps.
/// `tokio::time` is armed: its alarm is set for that sleep. A server is normally in this state.
fn and_armed(more: impl IntoIterator<Item = usize>) -> Vec<Variant> {
    let armed = BTreeSet::from_iter(more.into_iter().chain([1, 2]));
    let armed = armed.into_iter().map(|workers| variant(workers, true));
    unarmed().into_iter().chain(armed).collect()
}

/// Names a variant in which so many workers measure.
pub fn name(workers: usize, armed: bool) -> String {
    let armed = if armed { " armed" } else { "" };
    match workers {
        1 => format!("solo{armed}"),
        _ => format!("x{workers}{armed}"),
    }
}

/// Returns 1, 2, 4 and so on, and the number of cores.
pub fn worker_counts(cores: usize) -> BTreeSet<usize> {
    let powers = (0..).map(|power| 1 << power);
    powers.take_while(|&n| n < cores).chain([cores]).collect()
}

/// A figure: a workload in one variant, run by one peer.
pub struct Cell {
    pub workload: &'static str,
    /// How many threads run the workload, or how many keys or elements there are.
    pub variant: String,
    /// The peer's [`NAME`](Peer::NAME).
    pub peer: &'static str,
    /// The number of operations, if it cannot be chosen.
    iters: Option<u64>,
    run: Box<dyn Fn(u64) -> Duration>,
}

impl Cell {
    /// Returns the cell of this name, or panics.
    pub fn find(workload: &str, variant: &str, peer: &str) -> Self {
        let name = (workload, variant, peer);
        let mut cells = cells().into_iter();
        let cell = cells.find(|cell| (cell.workload, &*cell.variant, cell.peer) == name);
        cell.unwrap_or_else(|| panic!("there is no operation {name:?}"))
    }

    pub fn run(&self, iters: u64) -> Duration {
        (self.run)(iters)
    }

    pub fn nanos(&self) -> f64 {
        match self.iters {
            Some(iters) => self.run(iters).as_nanos() as f64 / iters as f64,
            None => nanos(LASTING, &self.run),
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

/// Returns a runtime on which the workload has already run. As on a server, each worker already
/// knows its runtime's timer, which it learns from a sleep that waits.
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

pub fn cells() -> Vec<Cell> {
    let mut cells = Cells::default();
    cells.peer::<TokioWheel>();
    cells.reset::<TokioWheel>();
    cells.few::<TokioWheel, _>("own", workload::own);
    cells.few::<Within, _>("io", workload::io::<Within>);
    cells.requests::<Within>();
    cells.few::<Within, _>("covered", |iters| {
        requests::<Within>(Pattern::Covered, iters)
    });
    cells.peer::<Tokio>();
    cells.reset::<Tokio>();
    cells.peer::<TokioAlt>();
    cells.reset::<TokioAlt>();
    cells.peer::<Pingora>();
    cells.peer::<FuturesTimer>();
    cells.reset::<FuturesTimer>();
    cells.peer::<AsyncIo>();
    cells.reset::<AsyncIo>();

    cells.schedule("schedule", Scheduler::new);
    cells.schedule("schedule_limited", || {
        Scheduler::builder().max_pending(LIMIT).build()
    });
    cells.threads::<TokioWheel, _>("spawn", workload::spawn::<TokioWheel>, unarmed());
    cells.threads::<Tokio, _>("spawn", workload::spawn::<Tokio>, unarmed());
    cells.threads::<TokioAlt, _>("spawn", workload::spawn::<TokioAlt>, unarmed());

    cells.touch();
    cells.queue::<DelayQueue<u32>>();
    cells.queue::<tokio_util::time::DelayQueue<u32>>();
    cells.queue::<nexus_timer::Wheel<u32>>();
    cells.queue::<SortedMap>();

    // The workloads without a timer are the last in each table.
    cells.few::<Bare, _>("io", workload::io::<Bare>);
    cells.requests::<Bare>();
    cells.rpc::<Bare>();
    cells.all
}

#[derive(Default)]
struct Cells {
    all: Vec<Cell>,
}

impl Cells {
    fn peer<P: Peer>(&mut self) {
        self.few::<P, _>("ready", workload::ready_at_once::<P>);
        self.few::<P, _>("io", workload::io::<P>);
        self.requests::<P>();
        self.rpc::<P>();
        // The plot of the cost by threads ends at 8.
        let armed = and_armed(worker_counts(lab::cores().len()).into_iter().chain([4, 8]));
        let variants = [armed, vec![variant(4, false), variant(8, false)]].concat();
        self.threads::<P, _>("churn", workload::churn::<P>, variants);
    }

    fn requests<P: Peer>(&mut self) {
        self.few::<P, _>("nested", |iters| requests::<P>(Pattern::Nested, iters));
        self.few::<P, _>("sequence", |iters| requests::<P>(Pattern::Sequence, iters));
        self.few::<P, _>("tasks", |iters| requests::<P>(Pattern::Tasks, iters));
    }

    fn reset<P: Resets>(&mut self) {
        let variants = and_armed(worker_counts(lab::cores().len()));
        self.threads::<P, _>("reset", workload::reset::<P>, variants);
    }

    fn rpc<P: Peer>(&mut self) {
        let variants = and_armed([]).into_iter();
        for (variant, _, workers, armed) in variants.filter(|variant| variant.1 == variant.2) {
            self.push("rpc", variant, P::NAME, move |iters| {
                let lab = Lab::quiet::<P>(workers);
                if armed {
                    lab.arm::<P>();
                }
                lab.run(workload::rpc::<P>(iters))
            });
        }
    }

    fn schedule(&mut self, workload: &'static str, build: fn() -> Scheduler) {
        for (variant, threads, workers, _) in unarmed() {
            self.push(workload, variant, TokioWheel::NAME, move |iters| {
                let lab = Lab::quiet::<TokioWheel>(workers);
                let scheduler = lab.run(async move { build() });
                lab.time_per_thread(workers, || workload::schedule(scheduler.clone(), WARM_UP));
                lab.time_per_thread(threads, || workload::schedule(scheduler.clone(), iters))
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
            let name = |peer| ("touch", variant, peer);
            let set = move || Touchers::new(keys, || vec![touch::set(keys); threads]);
            self.prepared(name(TokioWheel::NAME), set, Touchers::touch);
            let locked = move || Touchers::new(keys, || vec![touch::locked_map(keys); threads]);
            self.prepared(name("map, tokio_util, lock"), locked, Touchers::touch);
            if threads == 1 {
                let map = move || Touchers::new(keys, || vec![touch::map(keys)]);
                self.prepared(name("map, tokio_util"), map, Touchers::touch);
            }
        }
    }

    fn queue<Q: Queue + 'static>(&mut self) {
        for (variant, crowd) in [("100k", 100_000), ("1M", 1_000_000)] {
            let crowded = move || queue::Crowded::<Q>::new(crowd);
            let name = |workload| (workload, variant, Q::NAME);
            self.prepared(name("insert_remove"), crowded, |queue, iters| {
                queue.time(iters, queue::Crowded::insert_remove)
            });
            self.prepared(name("replace"), crowded, |queue, iters| {
                queue.time(iters, queue::Crowded::replace)
            });
            self.push("drain", variant, Q::NAME, |crowd| {
                queue::drain::<Q>(crowd as usize)
            });
            self.all.last_mut().expect("it was pushed").iters = Some(crowd as u64);
        }
    }

    fn few<P: Peer, Fut>(&mut self, workload: &'static str, work: fn(u64) -> Fut)
    where
        Fut: Future<Output = Duration> + Send + 'static,
    {
        self.threads::<P, _>(workload, work, and_armed([]));
    }

    fn threads<P: Peer, Fut>(
        &mut self,
        workload: &'static str,
        work: fn(u64) -> Fut,
        variants: Vec<Variant>,
    ) where
        Fut: Future<Output = Duration> + Send + 'static,
    {
        for (variant, threads, workers, armed) in variants {
            self.push(workload, variant, P::NAME, move |iters| {
                let lab = warm_lab::<P, _>(workers, armed, work);
                lab.time_per_thread(threads, || work(iters))
            });
        }
    }

    /// Adds a cell whose first run prepares a state for all runs, which takes long.
    fn prepared<S: 'static>(
        &mut self,
        (workload, variant, peer): (&'static str, &str, &'static str),
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
        variant: impl Into<String>,
        peer: &'static str,
        run: impl Fn(u64) -> Duration + 'static,
    ) {
        self.all.push(Cell {
            workload,
            variant: variant.into(),
            peer,
            iters: None,
            run: Box::new(run),
        });
    }
}
