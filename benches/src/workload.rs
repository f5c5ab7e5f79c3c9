//! The workloads. Each function runs `iters` operations of one peer and returns how long they took.

use std::{
    future::{Future, poll_fn, ready},
    hint::black_box,
    pin::pin,
    task::Poll,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use tokio::sync::{mpsc, oneshot};

use crate::peer::{Peer, Resets, Timeouts};

/// A server's usual limit. It is so long that nearly every sleep is canceled.
const LIMIT: Duration = Duration::from_secs(30);

/// How many clients the service of [`rpc`] has.
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

/// Awaits a timeout around a future that is pending once. The workload polls by hand, because the
/// scheduler costs as much as a timer and may move the task to another worker.
pub async fn io<P: Timeouts>(iters: u64) -> Duration {
    let start = Instant::now();
    for _ in 0..iters {
        let mut timeout = pin!(P::timeout(LIMIT, pending_once()));
        let polls = poll_fn(|cx| {
            let first = timeout.as_mut().poll(cx).is_pending();
            Poll::Ready((first, timeout.as_mut().poll(cx).is_ready()))
        });
        assert_eq!(polls.await, (true, true));
    }
    start.elapsed()
}

/// Awaits a timeout around a future that is ready at once.
pub async fn ready_at_once<P: Timeouts>(iters: u64) -> Duration {
    let start = Instant::now();
    for i in 0..iters {
        let outcome = P::timeout(LIMIT, ready(black_box(i))).await;
        let _ = black_box(outcome);
    }
    start.elapsed()
}

/// Measures what [`ready_at_once`] cannot avoid: a clock read and the future itself.
pub async fn ready_bare(iters: u64) -> Duration {
    let start = Instant::now();
    for i in 0..iters {
        black_box(Instant::now());
        black_box(ready(black_box(i)).await);
    }
    start.elapsed()
}

/// Postpones a long-lived sleep and polls it again, as a connection does after each message.
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

/// Measures what [`reset`] cannot avoid: a clock read.
pub async fn reset_bare(iters: u64) -> Duration {
    let start = Instant::now();
    for _ in 0..iters {
        black_box(Instant::now());
    }
    start.elapsed()
}

/// Runs whole requests. Each of 64 clients asks a server task of its own and awaits the answer
/// under a timeout.
pub async fn rpc<P: Timeouts>(iters: u64) -> Duration {
    requests::<P>(iters, CLIENTS).await
}

/// Runs the requests of [`rpc`] with one server task for all clients. Most of the time passes on
/// the way to the clients.
pub async fn rpc_shared<P: Timeouts>(iters: u64) -> Duration {
    requests::<P>(iters, 1).await
}

type Request = (u64, oneshot::Sender<u64>);

async fn requests<P: Timeouts>(iters: u64, servers: u64) -> Duration {
    let (inboxes, servers): (Vec<_>, Vec<_>) = (0..servers)
        .map(|_| {
            let (requests, inbox) = mpsc::unbounded_channel();
            (requests, tokio::spawn(serve(inbox)))
        })
        .unzip();
    let per_client = iters.div_ceil(CLIENTS);
    let start = Instant::now();
    let clients: Vec<_> = (inboxes.iter().cycle().take(CLIENTS as usize))
        .map(|requests| tokio::spawn(ask::<P>(per_client, requests.clone())))
        .collect();
    for client in join_all(clients).await {
        client.expect("a client panicked");
    }
    let elapsed = start.elapsed();
    drop(inboxes);
    for server in join_all(servers).await {
        server.expect("a server panicked");
    }
    elapsed.mul_f64(iters as f64 / (per_client * CLIENTS) as f64)
}

async fn ask<P: Timeouts>(times: u64, requests: mpsc::UnboundedSender<Request>) {
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

/// Polls once with the task's waker, and returns whether the future is pending. Drops the future if
/// it owns it.
async fn is_pending(future: impl Future) -> bool {
    let mut future = pin!(future);
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

/// Returns a future that is pending at the first poll and ready at the second.
fn pending_once() -> impl Future<Output = ()> + Send {
    let mut polled = false;
    poll_fn(move |_| {
        if std::mem::replace(&mut polled, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
}
