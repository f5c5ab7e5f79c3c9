//! Measures the memory of very many tasks that will run later, and their cost while nothing
//! happens.

use std::{thread, time::Duration};

use tokio::task::JoinHandle;
use tokio_wheel::{Timer, schedule::ScheduledTask};

use crate::{
    lab::{WORKERS, far, on_workers, runtime},
    peer::Peer,
    pending::{Idling, idling},
    process::resident_bytes,
    schedule::{Captured, sleep_and_run},
};

/// The memory and the cost of the waiting tasks.
pub struct Waiting {
    /// The growth of resident memory in bytes, per task.
    pub bytes_per_task: f64,
    /// The size of the future, which these bytes include.
    pub future: usize,
    /// The size of a task's handle.
    pub handle: usize,
    /// How many tasks the runtime has.
    pub tokio_tasks: usize,
    /// What the process has used.
    pub spent: Idling,
}

/// Schedules tasks with the default timer of a runtime.
pub fn scheduled(tasks: u64) -> Waiting {
    let start = |delay, captured| {
        let timer = Timer::current();
        timer.schedule(delay, captured).expect("refused")
    };
    beside::<ScheduledTask<u64>>(tasks, size_of::<Captured>(), start)
}

/// Spawns tasks that sleep first.
pub fn spawned<P: Peer>(tasks: u64) -> Waiting {
    let future = || sleep_and_run::<P>(Duration::ZERO, || {}, Captured::new(0));
    let size = {
        let runtime = runtime(1);
        // Tokio's sleep must be made within a runtime, even if it is never polled.
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
) -> Waiting {
    let runtime = runtime(WORKERS);
    // Allocates what exists only once, before the first reading.
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
    // The spawned tasks need time to fall asleep.
    thread::sleep(Duration::from_secs(3));
    let grown = resident_bytes() - before;
    let alive = runtime.metrics().num_alive_tasks();
    let spent = idling();
    drop(handles);
    Waiting {
        bytes_per_task: grown as f64 / tasks as f64,
        future,
        handle: size_of::<H>(),
        tokio_tasks: alive,
        spent,
    }
}
