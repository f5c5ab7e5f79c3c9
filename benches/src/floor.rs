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

use crate::{
    Figure,
    cell::{LASTING, nanos},
    lab::Lab,
    peer::Bare,
};

/// The names of the parts. The floor contains the lock pair twice.
pub const PARTS: [&str; 3] = ["clock read", "lock pair", "waker"];

/// The name of the whole floor.
pub const IN_ALL: &str = "in all";

/// Measures the parts in a worker's task, and adds them up.
pub fn measure() -> Vec<Figure> {
    let lab = Lab::quiet::<Bare>(1);
    let parts = [0, 1, 2].map(|part| {
        nanos(LASTING / 4, |iters| {
            lab.run(poll_fn(move |cx| {
                let mutex = Mutex::new(0);
                Poll::Ready(match part {
                    0 => time(iters, || _ = black_box(tokio::time::Instant::now())),
                    1 => time(iters, || *black_box(&mutex).lock().expect("no panic") += 1),
                    _ => time(iters, || drop(black_box(cx.waker().clone()))),
                })
            }))
        })
    });
    let [clock, lock, waker] = parts;
    let all = (IN_ALL, clock + 2.0 * lock + waker);
    let figures = PARTS.into_iter().zip(parts).chain([all]);
    figures.map(|(name, ns)| (name, ns, "ns")).collect()
}

fn time(iters: u64, mut operation: impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..iters {
        operation();
    }
    start.elapsed()
}
