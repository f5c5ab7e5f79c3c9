//! `schedule` and `spawn` measure a small task that would run in 30 s and is canceled before. One
//! is a scheduled task, the other a spawned task that sleeps first.

use std::{
    future::{Future, poll_fn},
    hint::black_box,
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tokio::{runtime, task::JoinHandle};
use tokio_wheel::Timer;

use crate::{lab::WORKERS, peer::Peer};

/// How long the tasks would wait.
const DELAY: Duration = Duration::from_secs(30);

/// The captured values of a task: 64 bytes. As a future, it is ready at once.
pub struct Captured([u64; 8]);

impl Captured {
    /// Captures values that depend on `n`.
    pub fn new(n: u64) -> Self {
        Self(black_box([n; 8]))
    }
}

impl Future for Captured {
    type Output = u64;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u64> {
        Poll::Ready(self.0.iter().sum())
    }
}

/// Returns the future of a spawned task. It calls `first` at its first poll, and runs `captured`
/// after the delay.
#[expect(
    clippy::manual_async_fn,
    reason = "the future of an `async fn` stores its arguments twice"
)]
pub fn sleep_and_run<P: Peer>(
    delay: Duration,
    first: impl FnOnce() + Send + 'static,
    mut captured: Captured,
) -> impl Future<Output = u64> + Send + 'static {
    async move {
        first();
        P::sleep(delay).await;
        // Awaiting by value would store the future twice.
        (&mut captured).await
    }
}

/// Schedules a task and cancels it, `iters` times.
pub async fn schedule(timer: Timer, iters: u64) -> Duration {
    let start = Instant::now();
    for i in 0..iters {
        let task = timer.schedule(DELAY, Captured::new(i)).expect("refused");
        assert!(task.cancel());
    }
    start.elapsed()
}

/// Measures what [`schedule`] cannot avoid: a clock read, and an allocation for the future.
pub async fn schedule_bare(iters: u64) -> Duration {
    let start = Instant::now();
    for i in 0..iters {
        black_box(Instant::now());
        drop(black_box(Box::new(Captured::new(i))));
    }
    start.elapsed()
}

/// Spawns a task, which runs until it sleeps, and aborts it, `iters` times.
pub async fn spawn<P: Peer>(iters: u64) -> Duration {
    let polls = polls();
    let before = polls.load(Relaxed);
    let start = Instant::now();
    for i in 0..iters {
        let task = spawn_counted::<P>(polls, i);
        while polls.load(Relaxed) == before + i {
            let_others_run().await;
        }
        abort(task).await;
    }
    start.elapsed()
}

/// Spawns a task and aborts it before it has run, `iters` times.
pub async fn spawn_unpolled<P: Peer>(iters: u64) -> Duration {
    let polls = polls();
    let before = polls.load(Relaxed);
    let start = Instant::now();
    for i in 0..iters {
        abort(spawn_counted::<P>(polls, i)).await;
    }
    let elapsed = start.elapsed();
    // A worker that has nothing to do may steal some tasks.
    let polled = polls.load(Relaxed) - before;
    assert!(
        polled <= 100 + iters / 10,
        "{polled} of {iters} tasks have run"
    );
    elapsed
}

/// Aborts a task, and waits until the scheduler has dropped it.
async fn abort(task: JoinHandle<u64>) {
    task.abort();
    while !task.is_finished() {
        let_others_run().await;
    }
}

/// Spawns a task that counts its first poll.
fn spawn_counted<P: Peer>(polls: &'static AtomicU64, n: u64) -> JoinHandle<u64> {
    let count = move || polls.store(polls.load(Relaxed) + 1, Relaxed);
    tokio::spawn(sleep_and_run::<P>(DELAY, count, Captured::new(n)))
}

/// Returns a counter for the tasks of the calling worker.
fn polls() -> &'static AtomicU64 {
    #[repr(align(128))]
    struct Count(AtomicU64);
    static COUNTS: [Count; WORKERS] = [const { Count(AtomicU64::new(0)) }; WORKERS];
    let worker = runtime::worker_index().expect("not on a worker");
    &COUNTS[worker].0
}

/// Goes to the end of the worker's queue. Tokio's `yield_now` would also make the worker poll for
/// I/O, which takes several times as long.
async fn let_others_run() {
    let mut waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
