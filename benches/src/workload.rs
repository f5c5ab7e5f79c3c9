//! The workloads. Each function runs `iters` operations of one peer and returns how long they took.

use std::{
    future::{Future, poll_fn, ready},
    hint::black_box,
    pin::{Pin, pin},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use crossbeam_utils::CachePadded;
use futures_lite::future::yield_now;
use futures_util::future::try_join_all;
use tokio::sync::{mpsc, oneshot};
use tokio_wheel::Timer;
use tokio_wheel_util::schedule::Scheduler;

use crate::peer::{Peer, Resets};

/// A server's usual limit. It is so long that nearly every sleep is canceled.
const LIMIT: Duration = Duration::from_secs(30);

const CLIENTS: u64 = 64;

/// Makes a sleep, polls it once with the task's own waker, and drops it.
pub async fn churn<P: Peer>(iters: u64) -> Duration {
    let start = Instant::now();
    for _ in 0..iters {
        let pending = is_pending(P::sleep(LIMIT)).await;
        assert!(pending, "a sleep that is not pending registers nothing");
    }
    start.elapsed()
}

pub async fn io<P: Peer>(iters: u64) -> Duration {
    let start = Instant::now();
    for _ in 0..iters {
        twice(pin!(P::timeout(LIMIT, pending_once()))).await;
    }
    start.elapsed()
}

#[derive(Clone, Copy)]
pub enum Pattern {
    Nested,
    /// The inner limit is longer, so it never ends first.
    Covered,
    Sequence,
    Tasks,
}

/// Runs requests of a pattern.
pub async fn requests<P: Peer>(pattern: Pattern, iters: u64) -> Duration {
    let start = Instant::now();
    for _ in 0..iters {
        match pattern {
            Pattern::Nested => {
                let inner = P::timeout(secs(5), pending_once());
                twice(pin!(P::timeout(secs(30), inner))).await;
            }
            Pattern::Covered => {
                let inner = P::timeout(secs(60), pending_once());
                twice(pin!(P::timeout(secs(30), inner))).await;
            }
            Pattern::Sequence => {
                for limit in [5, 60, 30] {
                    twice(pin!(P::timeout(secs(limit), pending_once()))).await;
                }
            }
            Pattern::Tasks => {
                let request =
                    tokio::spawn(async { twice(pin!(P::timeout(LIMIT, pending_once()))).await });
                request.await.expect("the request panicked");
            }
        }
    }
    start.elapsed()
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Polls a future twice. It polls by hand, because the scheduler costs as much as a timer.
///
/// The caller pins the future. If this function took it by value, a nested timeout would be copied by a call of `memmove`,
/// which an `.await` in a program does not do, and which costs as much as a scope.
async fn twice(mut future: Pin<&mut impl Future>) {
    let polls = poll_fn(|cx| {
        let first = future.as_mut().poll(cx).is_pending();
        Poll::Ready((first, future.as_mut().poll(cx).is_ready()))
    });
    assert_eq!(polls.await, (true, true));
}

pub async fn ready_at_once<P: Peer>(iters: u64) -> Duration {
    let start = Instant::now();
    for i in 0..iters {
        let outcome = P::timeout(LIMIT, ready(black_box(i))).await;
        let _ = black_box(outcome);
    }
    start.elapsed()
}

/// Sets and cancels sleeps of a `Timer`, which reuse no entry.
pub async fn own(iters: u64) -> Duration {
    let timer = Timer::current();
    let start = Instant::now();
    for _ in 0..iters {
        // By reference: the compiler inlines `is_pending` of a sleep into `churn`, because it has one caller.
        let pending = is_pending(&mut timer.sleep(LIMIT)).await;
        assert!(pending);
    }
    start.elapsed()
}

pub async fn reset<P: Resets>(iters: u64) -> Duration {
    let mut sleep = pin!(P::new_sleep(LIMIT));
    assert!(is_pending(sleep.as_mut()).await);
    let start = Instant::now();
    for _ in 0..iters {
        P::reset(sleep.as_mut(), LIMIT);
        let pending = is_pending(sleep.as_mut()).await;
        assert!(pending);
    }
    start.elapsed()
}

type Request = (u64, oneshot::Sender<u64>);

/// Runs requests: 64 clients each ask a server task of their own under a timeout.
pub async fn rpc<P: Peer>(iters: u64) -> Duration {
    let (inboxes, servers): (Vec<_>, Vec<_>) = (0..CLIENTS)
        .map(|_| {
            let (requests, inbox) = mpsc::unbounded_channel();
            (requests, tokio::spawn(serve(inbox)))
        })
        .unzip();
    let per_client = iters.div_ceil(CLIENTS);
    let start = Instant::now();
    let ask = |requests| tokio::spawn(ask::<P>(per_client, requests));
    let clients: Vec<_> = inboxes.into_iter().map(ask).collect();
    try_join_all(clients).await.expect("a client panicked");
    let elapsed = start.elapsed();
    try_join_all(servers).await.expect("a server panicked");
    elapsed.mul_f64(iters as f64 / (per_client * CLIENTS) as f64)
}

async fn ask<P: Peer>(times: u64, requests: mpsc::UnboundedSender<Request>) {
    for question in 0..times {
        let (reply, answer) = oneshot::channel();
        requests.send((question, reply)).expect("no server");
        let answer = P::timeout(LIMIT, answer).await;
        assert!(matches!(answer, Ok(Ok(n)) if n == question + 1));
    }
}

async fn serve(mut inbox: mpsc::UnboundedReceiver<Request>) {
    let mut batch = Vec::with_capacity(CLIENTS as usize);
    while inbox.recv_many(&mut batch, CLIENTS as usize).await > 0 {
        for (question, reply) in batch.drain(..) {
            reply.send(question + 1).expect("the client gave up");
        }
    }
}

/// Polls once with the task's waker, and drops the future if it owns it.
async fn is_pending(future: impl Future) -> bool {
    let mut future = pin!(future);
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

fn pending_once() -> impl Future<Output = ()> + Send {
    let mut polled = false;
    poll_fn(move |_| match std::mem::replace(&mut polled, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
}

/// The captured values of a task: 64 bytes. As a future, it is ready at once.
pub struct Captured([u64; 8]);

impl Captured {
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

/// Calls `first` at the first poll, and runs `captured` after the delay.
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

pub async fn schedule(scheduler: Scheduler, iters: u64) -> Duration {
    let start = Instant::now();
    for i in 0..iters {
        let task = scheduler
            .schedule(LIMIT, Captured::new(i))
            .expect("refused");
        assert!(task.cancel());
    }
    start.elapsed()
}

/// Spawns a task, which runs until it sleeps, aborts it, and waits until the scheduler has dropped
/// it. Tokio's `yield_now` would also make the worker poll for I/O, which takes several times as long.
pub async fn spawn<P: Peer>(iters: u64) -> Duration {
    // Leaked, because the tasks may outlive this function.
    let polls: &'static CachePadded<AtomicU64> = Box::leak(Box::default());
    let count = || polls.store(polls.load(Relaxed) + 1, Relaxed);
    let start = Instant::now();
    for i in 0..iters {
        let task = tokio::spawn(sleep_and_run::<P>(LIMIT, count, Captured::new(i)));
        while polls.load(Relaxed) == i {
            yield_now().await;
        }
        task.abort();
        while !task.is_finished() {
            yield_now().await;
        }
    }
    start.elapsed()
}
