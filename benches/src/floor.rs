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
    vec![
        ("clock read", clock, "ns"),
        ("lock pair", lock, "ns"),
        ("waker", waker, "ns"),
        ("in all", clock + 2.0 * lock + waker, "ns"),
    ]
}

fn time(iters: u64, mut operation: impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..iters {
        operation();
    }
    start.elapsed()
}
