//! Measures the floor: the least that any timer needs to register and drop a sleep.
//!
//! The floor is one clock read, two uncontended lock pairs, and one clone and drop of a task's
//! waker. Processors differ in each part by a factor of two to four. So an operation is judged by
//! its multiple of the floor, measured in the same run.

use std::{
    future::poll_fn,
    hint::black_box,
    sync::Mutex,
    task::Poll,
    time::{Duration, Instant},
};

use crate::{lab::Lab, peer::Bare};

/// The name of the clock read, a part of the floor.
pub const CLOCK: &str = "clock read";
/// The name of the lock pair. The floor contains this part twice.
pub const LOCK: &str = "lock pair";
/// The name of a waker's clone and drop, a part of the floor.
pub const WAKER: &str = "waker";
/// Measures the parts of the floor in a worker's tasks.
pub struct Floor(Lab);

impl Default for Floor {
    fn default() -> Self {
        Self(Lab::quiet::<Bare>(1))
    }
}

impl Floor {
    /// Returns how long `iters` reads of tokio's clock take.
    pub fn clock_reads(&self, iters: u64) -> Duration {
        self.time(iters, || {
            black_box(tokio::time::Instant::now());
        })
    }

    /// Returns how long it takes to lock and unlock a mutex `iters` times. No other thread uses the
    /// mutex.
    pub fn lock_pairs(&self, iters: u64) -> Duration {
        let mutex = Mutex::new(0);
        self.time(iters, move || {
            *black_box(&mutex).lock().expect("nothing panics") += 1;
        })
    }

    /// Returns how long it takes to clone and drop a task's waker `iters` times.
    pub fn waker_clones(&self, iters: u64) -> Duration {
        self.0.run(poll_fn(move |cx| {
            let waker = cx.waker();
            Poll::Ready(time(iters, || drop(black_box(waker.clone()))))
        }))
    }

    fn time(&self, iters: u64, operation: impl FnMut() + Send + 'static) -> Duration {
        self.0.run(async move { time(iters, operation) })
    }
}

fn time(iters: u64, mut operation: impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..iters {
        operation();
    }
    start.elapsed()
}
