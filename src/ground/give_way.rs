//! Divides the work of a task into several polls, so that other tasks can run between them.

use std::{
    future::{Future, poll_fn},
    mem,
    pin::pin,
    task::Poll,
};

use tokio::task::yield_now;

/// After this many consecutive polls that wake no task, the worker checks its I/O. A poll takes at most about
/// 1 ms.
const QUIET_POLLS: u32 = 16;

/// Makes one task yield.
///
/// The task wakes itself at the end of a poll. It then runs after the tasks that are ready. Any idle worker can
/// take all of these tasks. [`yield_now`] would instead put the task on a list that only its worker uses. If
/// another task then blocked that worker, the task would wait, although other workers are idle.
///
/// A worker checks its I/O when it has no task to run, and after about sixty polls of tasks. If a poll wakes
/// tasks, the worker polls these tasks, and so reaches sixty polls earlier. If no poll wakes a task, the task
/// calls tokio's `yield_now` in every [`QUIET_POLLS`]th poll. The worker then checks its I/O.
#[derive(Debug, Default)]
pub(crate) struct Yields {
    /// The number of consecutive polls that woke no task.
    quiet: u32,
}

impl Yields {
    /// Records that the poll was useful: it woke a task, or returned a result for which its caller waited.
    pub(crate) fn was_of_use(&mut self) {
        self.quiet = 0;
    }

    /// Returns ready when the task is polled again, after the tasks that are ready.
    pub(crate) async fn give_way(&mut self) {
        let mut has_yielded = false;
        poll_fn(|cx| {
            if mem::replace(&mut has_yielded, true) {
                return Poll::Ready(());
            }
            self.quiet = (self.quiet + 1) % QUIET_POLLS;
            match self.quiet {
                0 => pin!(yield_now()).poll(cx),
                _ => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
            }
        })
        .await;
    }
}
