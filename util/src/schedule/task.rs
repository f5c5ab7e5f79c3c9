//! What a handle, a list and a shutdown see of a scheduled task.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::{
    any::Any,
    task::{Poll, Waker},
};

use tokio::time::Instant;

use super::unstarted::Unstarted;

/// A scheduled task behind a trait that names none of its types.
///
/// Its handles are unwind safe: a panic of user code never leaves an entry half changed, because user code does not run
/// under the lock.
pub(super) trait Task: Send + Sync + UnwindSafe + RefUnwindSafe {
    /// Cancels the task. Returns whether this call canceled it.
    fn cancel(&self) -> bool;

    /// Takes the task for a shutdown, if it waits. Its handle then sees the end.
    fn give_back(&self) -> Option<Unstarted>;

    fn status(&self) -> Status;

    /// Stores the result of a task that has ended in `result`, an `Option<Result<T, TaskError>>`, unless an earlier call
    /// did so. Otherwise keeps a clone of `waker`. The end of the task wakes this clone.
    fn poll_result(&self, waker: &Waker, result: &mut dyn Any) -> Poll<()>;

    /// Drops the waker.
    fn detach(&self);
}

/// The state of a task, which its handles can read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Status {
    pub(super) id: u64,
    /// The deadline of the next run, of the current run or of the last run.
    pub(super) deadline: Instant,
    /// Whether the first run has started.
    pub(super) is_started: bool,
    /// Whether a run is active, so that a periodic task without work can be canceled.
    pub(super) is_running: bool,
    /// Whether the task was canceled. The current run of a periodic task is then its last run.
    pub(super) is_cancelled: bool,
    pub(super) is_finished: bool,
}

impl Status {
    pub(super) fn new(id: u64, deadline: Instant) -> Self {
        Self {
            id,
            deadline,
            is_started: false,
            is_running: false,
            is_cancelled: false,
            is_finished: false,
        }
    }
}
