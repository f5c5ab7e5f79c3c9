//! Divides the work of a task into turns, so that other tasks can run between them.

use std::{
    future::{Future, poll_fn},
    mem,
    pin::pin,
    task::{Context, Poll},
};

use tokio::task::yield_now;

/// After this many consecutive turns that wake no task, the worker checks its I/O. A turn takes at most about
/// 1 ms.
const QUIET_TURNS: u32 = 16;

/// The turns of one task.
///
/// Between two turns, the task wakes itself. It then runs after the tasks that are ready. Any idle worker can
/// take all of these tasks. [`yield_now`] would instead put the task on a list that only its worker uses. If
/// another task then blocked that worker, the task would wait, although other workers are idle.
///
/// A worker checks its I/O when it has no task to run, and after about sixty polls of tasks. If a turn wakes
/// tasks, the worker polls these tasks, and so reaches sixty polls earlier. If no turn wakes a task, the task
/// calls `yield_now` in every [`QUIET_TURNS`]th turn. The worker then checks its I/O.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// The number of consecutive turns that woke no task.
    quiet: u32,
}

impl Turns {
    /// Records that the turn was useful: it woke a task, or returned a result for which its caller waited.
    pub(crate) fn was_of_use(&mut self) {
        self.quiet = 0;
    }

    /// Ends a turn, and returns ready when the task is polled again after the tasks that are ready.
    pub(crate) async fn give_way(&mut self) {
        let mut has_ended = false;
        poll_fn(|cx| {
            if mem::replace(&mut has_ended, true) {
                return Poll::Ready(());
            }
            self.end(cx);
            Poll::Pending
        })
        .await;
    }

    /// Ends a turn. The task is polled again after the tasks that are ready.
    pub(crate) fn end(&mut self, cx: &mut Context<'_>) {
        self.quiet += 1;
        if self.quiet < QUIET_TURNS {
            return cx.waker().wake_by_ref();
        }
        self.quiet = 0;
        let _pending = pin!(yield_now()).poll(cx);
    }
}
