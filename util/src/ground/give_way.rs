//! Divides the work of a task into several polls, so that other tasks can run between them.

use std::{future::Future, pin::pin, task::Context};

use tokio::task::yield_now;

/// After this many polls that are of no use, the worker checks its I/O. A poll takes at most about 1 ms.
const QUIET_POLLS: u32 = 16;

/// Makes one task yield.
///
/// The task wakes itself at the end of a poll. It then runs after the tasks that are ready. Any idle worker can
/// take all of these tasks. [`yield_now`] would instead put the task on a list that only its worker uses. If
/// another task then blocked that worker, the task would wait, although other workers are idle.
///
/// A worker checks its I/O when it has no task to run, and after about sixty polls of tasks. In every [`QUIET_POLLS`]th poll
/// without a result, in a row or not, the task calls tokio's `yield_now`. The worker then checks its I/O.
#[derive(Debug, Default)]
pub(crate) struct Yields {
    /// The number of polls that were of no use since the last check.
    quiet: u32,
}

impl Yields {
    /// Wakes the task at the end of a poll, so that it is polled again after the tasks that are ready.
    pub(crate) fn end_poll(&mut self, cx: &mut Context<'_>) {
        self.quiet += 1;
        if self.quiet < QUIET_POLLS {
            return cx.waker().wake_by_ref();
        }
        self.quiet = 0;
        let _pending = pin!(yield_now()).poll(cx);
    }
}
