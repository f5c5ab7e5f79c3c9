//! Provides the runtimes for workloads. A runtime has two workers, and can have very many pending sleeps.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Waker},
    thread,
    time::{Duration, Instant},
};

use futures_util::future::try_join_all;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tokio::runtime::{Builder, Runtime};

use crate::peer::{Bare, Peer, TokioAlt};

/// The number of workers. Two suffice to show what threads share.
pub const WORKERS: usize = 2;

const SOON: Duration = Duration::from_secs(10);

type PendingSleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The runtime of a peer. On a runtime of several peers, the alarm of one timer would spare another
/// timer the wake-up of a parked worker, which is most of the cost of a registration in tokio.
pub struct Lab {
    // Dropped first, while its timer still exists.
    crowd: Vec<PendingSleep>,
    runtime: Runtime,
}

impl Lab {
    pub fn quiet<P: Peer>(workers: usize) -> Self {
        Self {
            crowd: Vec::new(),
            runtime: runtime_for::<P>(workers),
        }
    }

    /// Adds pending sleeps until there are `crowd` of them. Both workers register sleeps.
    pub fn crowd<P: Peer>(&mut self, crowd: u64) {
        let before = self.crowd.len() as u64;
        let more = on_workers(&self.runtime, WORKERS, |worker| async move {
            let mine = (before + worker as u64..crowd).step_by(WORKERS);
            let pending = mine.map(|i| {
                let mut sleep: PendingSleep = Box::pin(P::sleep(far(i, crowd)));
                assert!(is_pending(sleep.as_mut()));
                sleep
            });
            pending.collect::<Vec<_>>()
        });
        self.crowd.extend(more.into_iter().flatten());
    }

    /// Registers a sleep that expires before the measured sleeps, as on a busy server, so that a timer need not set
    /// an alarm for these. Returns when all workers have parked, because a worker sets the alarm when it parks.
    pub fn arm<P: Peer>(&self) {
        spawn_polled(&self.runtime, 1, |_| P::sleep(SOON));
        let metrics = self.runtime.metrics();
        let is_parked = |worker| metrics.worker_park_unpark_count(worker) % 2 == 1;
        let patience = Instant::now() + Duration::from_secs(10);
        while !(0..metrics.num_workers()).all(is_parked) {
            assert!(Instant::now() < patience, "the workers did not park");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns the mean time of `threads` tasks, each on a worker of its own. Each task measures its own time. If
    /// there are more tasks than cores, the result is scaled down to the time that a core needs per task.
    pub fn time_per_thread<Fut>(&self, threads: usize, work: impl Fn() -> Fut) -> Duration
    where
        Fut: Future<Output = Duration> + Send + 'static,
    {
        let times = on_workers(&self.runtime, threads, |_| work());
        let share = cores().len().min(threads) as f64 / threads as f64;
        (times.iter().sum::<Duration>() / threads as u32).mul_f64(share)
    }

    pub fn run<Fut>(&self, task: Fut) -> Fut::Output
    where
        Fut: Future<Output: Send> + Send + 'static,
    {
        let task = self.runtime.spawn(task);
        self.runtime.block_on(task).expect("the task panicked")
    }
}

/// Creates a multi-thread runtime like a server's, with each worker on a core of its own. Otherwise the kernel may
/// place a woken worker behind the worker that woke it, for 4 ms. With 0 workers, creates a current-thread runtime.
pub fn runtime(workers: usize) -> Runtime {
    runtime_for::<Bare>(workers)
}

pub fn runtime_for<P: Peer>(workers: usize) -> Runtime {
    let started = AtomicUsize::new(0);
    let mut builder = match workers {
        0 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder
        .worker_threads(workers.max(1))
        .on_thread_start(move || stay_on_core(started.fetch_add(1, Ordering::Relaxed)));
    let runtime = build::<P>(&mut builder);
    let entered = runtime.enter();
    P::install();
    drop(entered);
    runtime
}

/// Creates a runtime whose workers the kernel places, as on a server with other processes.
pub fn unbound_runtime_for<P: Peer>(workers: usize) -> Runtime {
    build::<P>(Builder::new_multi_thread().worker_threads(workers))
}

/// Builds a runtime, with tokio's alternative timer if that is the peer. A current-thread runtime ignores it.
fn build<P: Peer>(builder: &mut Builder) -> Runtime {
    if P::NAME == TokioAlt::NAME {
        #[cfg(tokio_unstable)]
        builder.enable_alt_timer();
        #[cfg(not(tokio_unstable))]
        panic!("tokio's alternative timer needs a build with `tokio_unstable`");
    }
    let runtime = builder.enable_all().build();
    runtime.expect("cannot start a runtime")
}

pub fn stay_on_core(n: usize) {
    let cores = cores();
    pin(cores[n % cores.len()]);
}

/// Pins this thread, and the threads that it will start, to a core.
pub fn pin(core: usize) {
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(None, &only).expect("cannot pin a thread to a core");
}

pub fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(None).expect("cannot read the thread's cores");
    let cores = 0..CpuSet::MAX_CPU;
    cores.filter(|&core| allowed.is_set(core)).collect()
}

/// Runs `threads` tasks side by side, each on a worker of its own, and collects what they return.
/// Tasks that never yield would otherwise run one after the other on one worker.
pub fn on_workers<Fut>(
    runtime: &Runtime,
    threads: usize,
    task: impl Fn(usize) -> Fut,
) -> Vec<Fut::Output>
where
    Fut: Future<Output: Send> + Send + 'static,
{
    let gate = Arc::new(Gate::default());
    let tasks = (0..threads).map(|worker| {
        let (gate, task) = (gate.clone(), task(worker));
        runtime.spawn(async move {
            gate.pass(threads).await;
            task.await
        })
    });
    let results = runtime.block_on(try_join_all(tasks));
    results.expect("a task panicked")
}

/// Spawns tasks on a runtime whose workers run, and waits until each task has been polled once.
pub fn spawn_polled<Fut>(runtime: &Runtime, tasks: u64, task: impl Fn(u64) -> Fut + Send + 'static)
where
    Fut: Future<Output = ()> + Send + 'static,
{
    let polled = Arc::new(AtomicU64::new(0));
    let counter = polled.clone();
    runtime.spawn(async move {
        for i in 0..tasks {
            let (counter, task) = (counter.clone(), task(i));
            tokio::spawn(async move {
                counter.fetch_add(1, Ordering::Relaxed);
                task.await;
            });
        }
    });
    while polled.load(Ordering::Relaxed) < tasks {
        thread::sleep(Duration::from_millis(1));
    }
}

/// A gate that opens when so many tasks wait before it, each of which blocks a worker of its own. At
/// a plain barrier, the missing task could be in the queue of a blocked worker.
#[derive(Default)]
struct Gate {
    waiting: AtomicUsize,
    open: AtomicBool,
}

impl Gate {
    async fn pass(&self, threads: usize) {
        while !self.open.load(Ordering::SeqCst) {
            if self.waiting.fetch_add(1, Ordering::SeqCst) + 1 == threads {
                self.open.store(true, Ordering::SeqCst);
            }
            let patience = Instant::now() + Duration::from_millis(1);
            while !self.open.load(Ordering::SeqCst) && Instant::now() < patience {
                std::hint::spin_loop();
            }
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            if !self.open.load(Ordering::SeqCst) {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Returns the `i`th of `n` durations from two minutes to an hour, in a scattered order. None is less
/// than the 30 s of the workloads, which would spare only `tokio::time` a wake-up per registration.
pub fn far(i: u64, n: u64) -> Duration {
    let scattered = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % n;
    Duration::from_secs(120) + Duration::from_secs(3_480).mul_f64(scattered as f64 / n as f64)
}

/// Polls a future once with a waker that does nothing, and returns whether it is pending.
pub fn is_pending(future: Pin<&mut (impl Future + ?Sized)>) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    future.poll(&mut cx).is_pending()
}
