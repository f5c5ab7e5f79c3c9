//! Helpers for several test files.

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each test file uses a part"
)]

pub(crate) mod hostile;
pub(crate) mod log;
pub(crate) mod panics;

use std::{
    error::Error,
    future::{Future, poll_fn},
    panic::resume_unwind,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::coop,
};
use tokio_wheel::{Instant, Sleep, Timer};

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

pub(crate) fn multi_thread(workers: usize) -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .unwrap()
}

pub(crate) fn without_time() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

pub(crate) fn paused() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
}

/// Runs `body` on its own thread, and fails if it has not returned within ten minutes, or the seconds in the
/// environment variable `HANGS_AFTER`. A body that breaks a promise about locks or lost timers may wait forever.
pub(crate) fn does_not_hang<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (ended, end) = mpsc::channel::<()>();
    let name = thread::current().name().unwrap_or("body").to_owned();
    let limit = std::env::var("HANGS_AFTER").map_or(600, |limit| limit.parse().unwrap());
    let limit = secs(limit);
    let body = thread::Builder::new().name(name.clone()).spawn(move || {
        // The thread drops it when the body returns or panics.
        let _ended = ended;
        body()
    });
    let body = body.unwrap();
    if end.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!(
            "the body of the test `{name}` must return within {limit:?}, and has not: it waits for a timer, a lock \
             or a thread that never comes"
        );
    }
    body.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Blocks the thread until `condition` holds. A spinning thread would take the CPU from the threads that it waits for.
pub(crate) fn wait_until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        thread::sleep(Duration::from_micros(200));
    }
}

/// Waits for about `n` half microseconds, and keeps the CPU, to vary the moment when two threads meet.
pub(crate) fn dawdle(n: u64) {
    (0..8 * n).for_each(|_| std::hint::spin_loop());
}

/// Returns how often the only worker of `runtime` has parked, once that number has not changed for half a second. On a
/// busy machine, the worker waits for a CPU before it notices a wake-up.
pub(crate) fn parks_when_settled(runtime: &Runtime) -> u64 {
    let parks = || runtime.metrics().worker_park_count(0);
    let mut last = parks();
    let mut same = 0;
    while same < 10 {
        thread::sleep(ms(50));
        let now = parks();
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
    last
}

/// What happens to the wakers of a task: how often one was woken, and whether all are dropped.
#[derive(Default)]
pub(crate) struct Wakes {
    count: AtomicUsize,
    is_dropped: AtomicBool,
}

impl Wakes {
    pub(crate) fn new() -> (Arc<Self>, Waker) {
        struct Task(Arc<Wakes>);
        impl Wake for Task {
            fn wake(self: Arc<Self>) {
                self.0.count.fetch_add(1, Ordering::Relaxed);
            }
        }
        impl Drop for Task {
            fn drop(&mut self) {
                self.0.is_dropped.store(true, Ordering::Relaxed);
            }
        }
        let wakes = Arc::<Self>::default();
        (wakes.clone(), Arc::new(Task(wakes)).into())
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Relaxed)
    }
}

pub(crate) fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// Polls a future once, with the waker of the current task.
pub(crate) async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx))).await
}

/// Registers a sleep for a new task, and returns it.
pub(crate) fn pending(sleep: Sleep) -> Sleep {
    registered(sleep, &Wakes::new().1)
}

/// Polls a sleep, which must be pending, and returns it.
pub(crate) fn registered(mut sleep: Sleep, waker: &Waker) -> Sleep {
    assert!(poll(&mut sleep, waker).is_pending());
    sleep
}

/// Registers sleeps on a new thread, and therefore in the next shard. Returns the sleeps.
pub(crate) fn elsewhere(timer: &Timer, deadlines: &[Instant], waker: &Waker) -> Vec<Sleep> {
    let runtime = Handle::current();
    let register = || {
        let _entered = runtime.enter();
        let sleeps = deadlines.iter().map(|at| timer.sleep_until(*at));
        sleeps.map(|sleep| registered(sleep, waker)).collect()
    };
    thread::scope(|scope| scope.spawn(register).join().unwrap())
}

/// Blocks the thread until the future is ready, like an executor without timers.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

pub(crate) fn assert_message(error: &dyn Error, parts: &[&str]) {
    let message = error.to_string();
    for part in parts {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
}

/// Blocks workers of the current runtime until its watch has counted a block.
pub(crate) async fn until_a_block_counts() {
    while Timer::current().metrics().blocks() == 0 {
        let blocking = tokio::spawn(async {
            tokio_wheel::sleep(ms(1)).await;
            thread::sleep(ms(50));
        });
        blocking.await.unwrap();
    }
}

/// Random numbers by SplitMix64. Equal seeds give equal numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut n = self.0;
        n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        n ^ (n >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Moves a paused clock at once, so that the driver fires late.
pub(crate) async fn leap(duration: Duration) {
    tokio::time::advance(duration).await;
    settle().await;
}

/// Lets all other tasks of a current-thread runtime run until they have nothing left to do now.
pub(crate) async fn settle() {
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
}

/// Takes steps until another task has run, which must be soon. Returns their number.
pub(crate) async fn until_another_task_runs(mut step: impl AsyncFnMut()) -> usize {
    let (another, mut steps) = (tokio::spawn(async {}), 0);
    while !another.is_finished() {
        step().await;
        steps += 1;
        assert!(steps < 10_000, "the other task does not run");
    }
    steps
}

/// Awaits `future`. The budget is used up before each poll, and the clock advances by 1 ms after it.
pub(crate) async fn beside_a_greedy_sibling<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    for _ in 0..1_000 {
        let polled = poll_fn(|cx| {
            while coop::has_budget_remaining() {
                let _ = pin!(coop::consume_budget()).poll(cx);
            }
            Poll::Ready(future.as_mut().poll(cx))
        });
        if let Poll::Ready(output) = polled.await {
            return output;
        }
        tokio::time::advance(ms(1)).await;
    }
    panic!("the future is not ready after 1,000 polls without budget");
}

/// Polls to the end of a storm's work, beside a task that yields. Returns the number of polls and of its turns.
/// `yield_now` waits until the runtime has checked its I/O, which it does after 16 polls in a row that wake no task.
pub(crate) async fn polls_and_turns<T>(
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T> + Send + 'static,
) -> (usize, usize) {
    let polls = Arc::new(AtomicUsize::new(0));
    let counts = polls.clone();
    let works = tokio::spawn(poll_fn(move |cx| {
        counts.fetch_add(1, Ordering::Relaxed);
        poll(cx).map(drop)
    }));
    let (mut turns, mut before) = (0, usize::MAX);
    while before != polls.load(Ordering::Relaxed) {
        before = polls.load(Ordering::Relaxed);
        tokio::task::yield_now().await;
        turns += 1;
    }
    works.abort();
    (before, turns)
}
