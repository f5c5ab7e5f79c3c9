//! How many tasks a poll of the driver may start.
//!
//! The tasks that a poll starts go into the queue of the worker, and if they are many, into the queue that all workers
//! share. Tasks that sockets wake must not wait behind a crowd there. But on a busy runtime the next poll is far, and a
//! small number of tasks in each poll would make the crowd later and later. So a poll starts this many tasks:
//!
//! | the runtime | tasks |
//! |---|---|
//! | is calm: a worker has parked since the backlog began | as many as the shared queue has room for |
//! | is busy, or others keep the shared queue full for [`PATIENCE`] | at first [`FEW`], and all if the backlog is older than [`LATE`] |
//! | has one thread, and so no shared queue | all |
//!
//! The timers of tokio-wheel follow the same rule. Tests: `schedule::crowds`.

use std::time::Instant;

use tokio::runtime::{Handle, RuntimeFlavor, RuntimeMetrics};
use tokio_wheel::Duration;

/// The number of tasks that a poll starts on a busy runtime while they are not late.
const FEW: usize = 64;

/// The number of tasks for which the shared queue has room: as many as a worker's own queue holds.
const ROOM: usize = 256;

/// After this time, a queue that stays full is kept full by others.
const PATIENCE: Duration = Duration::from_millis(20);

/// A backlog of this age is late.
const LATE: Duration = Duration::from_millis(5);

pub(super) struct Room {
    /// `None` if there is no shared queue.
    metrics: Option<RuntimeMetrics>,
    /// How often workers had parked or unparked at the last poll.
    parks: u64,
    /// Whether a worker has parked. Stays true during a backlog, unless others keep the queue full.
    is_calm: bool,
    /// The time since which all polls of the backlog have found the queue full.
    full_since: Option<Instant>,
    /// The time of the first poll that has left tasks.
    backlog_since: Option<Instant>,
}

impl Room {
    pub(super) fn new(runtime: &Handle) -> Self {
        let is_shared = runtime.runtime_flavor() != RuntimeFlavor::CurrentThread;
        Self {
            metrics: is_shared.then(|| runtime.metrics()),
            parks: 0,
            is_calm: false,
            full_since: None,
            backlog_since: None,
        }
    }

    /// Returns the number of tasks that a poll may start now.
    pub(super) fn starts(&mut self) -> usize {
        let Some(metrics) = &self.metrics else {
            return usize::MAX;
        };
        let workers = 0..metrics.num_workers();
        // The count of a worker that stays busy does not change.
        let parks = workers.map(|it| metrics.worker_park_unpark_count(it)).sum();
        let room = ROOM.saturating_sub(metrics.global_queue_depth());
        let now = Instant::now();
        self.is_calm |= parks != self.parks;
        self.parks = parks;
        if room > 0 {
            self.full_since = None;
        } else if now - *self.full_since.get_or_insert(now) >= PATIENCE {
            self.is_calm = false;
        }
        let is_late = self.backlog_since.is_some_and(|since| now - since >= LATE);
        match (self.is_calm, is_late) {
            (true, _) => room,
            (false, true) => usize::MAX,
            (false, false) => FEW,
        }
    }

    /// Records that a poll has left tasks.
    pub(super) fn begin_backlog(&mut self) {
        self.backlog_since.get_or_insert_with(Instant::now);
    }

    /// Records that a poll has left no task.
    pub(super) fn end_backlog(&mut self) {
        (self.is_calm, self.full_since, self.backlog_since) = (false, None, None);
    }
}
