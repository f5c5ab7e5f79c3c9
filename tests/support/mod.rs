//! What several test files need: runtimes, durations, a watchdog and wakers that count; logs to
//! compare with other crates', and what panics say.

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each test file uses a part"
)]

pub(crate) mod log;
pub(crate) mod panics;

use std::{
    future::Future,
    panic::resume_unwind,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use tokio::runtime::{Builder, Runtime};

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

#[cfg(feature = "test-util")]
pub(crate) fn paused() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
}

/// Runs `body` on a thread of its own and fails if it has not ended after half a minute: what
/// breaks a promise about locks or lost timers hangs instead of failing.
pub(crate) fn does_not_hang<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (ended, end) = mpsc::channel::<()>();
    let name = thread::current().name().unwrap_or("body").to_owned();
    let body = thread::Builder::new().name(name).spawn(move || {
        // Dropped when the body returns, and when it panics.
        let _ended = ended;
        body()
    });
    let body = body.unwrap();
    if end.recv_timeout(secs(30)) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("hangs");
    }
    body.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// A waker that counts how often it was woken.
#[derive(Default)]
pub(crate) struct Wakes(AtomicUsize);

impl Wakes {
    pub(crate) fn new() -> (Arc<Self>, Waker) {
        let wakes = Arc::new(Self::default());
        (wakes.clone(), Waker::from(wakes))
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Polls by hand, with a waker of the test's choice.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// Lets every other task of a current-thread runtime run until it has nothing left to do at the
/// present time.
pub(crate) async fn settle() {
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
}
