//! `scheduled`: what very many tasks that are to run later hold and cost while nothing happens.

use std::{thread, time::Duration};

use tokio::task::JoinHandle;
use tokio_wheel::{Timer, schedule::ScheduledTask};
use tokio_wheel_benches::{
    lab::{WORKERS, far, on_workers, runtime},
    peer::Peer,
    pending::spent_idling,
    process::resident_bytes,
    schedule::{Captured, sleep_and_run},
};

/// What [`scheduled`] and [`spawned`] return.
pub(crate) const COLUMNS: &[&str] = &[
    "bytes per task",
    "of which future",
    "handle",
    "tokio tasks",
    "cpu ms",
    "context switches",
];

/// Tasks that wait in the ambient timer.
pub(crate) fn scheduled(tasks: u64) -> Vec<f64> {
    let start = |delay, captured| {
        let timer = Timer::current();
        timer.schedule(delay, captured).expect("refused")
    };
    beside::<ScheduledTask<u64>>(tasks, size_of::<Captured>(), start)
}

/// Tasks that were spawned and sleep.
pub(crate) fn spawned<P: Peer>(tasks: u64) -> Vec<f64> {
    let future = || sleep_and_run::<P>(Duration::ZERO, || {}, Captured::new(0));
    let size = {
        let runtime = runtime(1);
        // Tokio's sleep must be made within a runtime, even if never polled.
        let _entered = runtime.enter();
        size_of_val(&future())
    };
    let start = |delay, captured| tokio::spawn(sleep_and_run::<P>(delay, || {}, captured));
    beside::<JoinHandle<u64>>(tasks, size, start)
}

/// Starts the tasks, half of them on each worker, and observes the process while they wait.
fn beside<H: Send + 'static>(
    tasks: u64,
    future: usize,
    start: impl Fn(Duration, Captured) -> H + Copy + Send + 'static,
) -> Vec<f64> {
    let runtime = runtime(WORKERS);
    // What is there once in any case is there now.
    on_workers(&runtime, WORKERS, |_| async move {
        start(Duration::from_millis(20), Captured::new(0))
    });
    thread::sleep(Duration::from_millis(100));
    let before = resident_bytes();
    let handles = on_workers(&runtime, WORKERS, |worker| async move {
        let mine = (worker as u64..tasks).step_by(WORKERS);
        mine.map(|i| start(far(i, tasks), Captured::new(i)))
            .collect::<Vec<_>>()
    });
    // Those that were spawned take their time to fall asleep.
    thread::sleep(Duration::from_secs(3));
    let grown = resident_bytes() - before;
    let alive = runtime.metrics().num_alive_tasks();
    let (cpu, switches) = spent_idling();
    drop(handles);
    vec![
        grown as f64 / tasks as f64,
        future as f64,
        size_of::<H>() as f64,
        alive as f64,
        cpu.as_secs_f64() * 1e3,
        switches as f64,
    ]
}
