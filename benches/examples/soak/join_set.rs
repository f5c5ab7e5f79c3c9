//! Holds the threads and tasks of an epoch, which must all end when they are told to stop.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use tokio::task::JoinHandle as Task;
use tokio_wheel::{Duration, Instant};

use crate::faults;

/// How long threads and tasks may take to end. This is much longer than the longest operation, and
/// longer than the watchdog waits.
const LIMIT: Duration = Duration::from_secs(20);

/// Tells threads and tasks to stop.
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    pub fn raise(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Threads and tasks. Each has a name, which the report shows if it hangs.
#[derive(Default)]
pub struct JoinSet {
    threads: Vec<(String, thread::JoinHandle<()>)>,
    tasks: Vec<(String, Task<()>)>,
}

impl JoinSet {
    /// Starts a thread.
    pub fn thread(&mut self, name: impl Into<String>, work: impl FnOnce() + Send + 'static) {
        self.threads.push((name.into(), thread::spawn(work)));
    }

    /// Adds a task.
    pub fn task(&mut self, name: impl Into<String>, task: Task<()>) {
        self.tasks.push((name.into(), task));
    }

    /// Waits until all have ended, and returns whether they have.
    #[must_use]
    pub fn join(self) -> bool {
        let until = Instant::now() + LIMIT;
        let (mut threads, mut tasks) = (self.threads, self.tasks);
        while Instant::now() < until && !(threads.is_empty() && tasks.is_empty()) {
            thread::sleep(Duration::from_millis(1));
            // Threads that panicked were already noted.
            threads.retain(|(_, thread)| !thread.is_finished());
            tasks.retain(|(_, task)| !task.is_finished());
        }
        let threads = threads.iter().map(|(name, _)| name);
        let hanging: Vec<_> = threads.chain(tasks.iter().map(|(name, _)| name)).collect();
        if !hanging.is_empty() {
            faults::found(format!("still running after {LIMIT:?}: {hanging:?}"));
        }
        hanging.is_empty()
    }
}
