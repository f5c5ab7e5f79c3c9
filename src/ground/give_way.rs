//! How a task that has more work lets other tasks run first.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll},
};

use tokio::task;

/// The number of turns in a row that wake no task, after which the worker looks at I/O. A turn takes about 1
/// ms at most.
const QUIET_TURNS: u32 = 16;

/// The turns of one task.
///
/// Between two turns the task wakes itself. So it runs after the tasks that are ready, and any idle worker
/// can take it and them. [`yield_now`] would put the task on a list that only its worker uses. If another
/// task then blocks that worker, the yielded task waits even beside idle workers.
///
/// A worker looks at its I/O when it has no task to run, and after about sixty polls. Each task that a turn
/// wakes is such a poll. A task that wakes no other task calls `yield_now` in each [`QUIET_TURNS`]th turn.
/// After that, the worker looks at its I/O.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// The number of turns in a row that woke no task.
    quiet: u32,
}

impl Turns {
    /// Records that the turn has woken a task, or has returned something that its caller waited for.
    pub(crate) fn was_of_use(&mut self) {
        self.quiet = 0;
    }

    /// Ends a turn. The task is polled again after the tasks that are ready.
    pub(crate) fn end(&mut self, cx: &mut Context<'_>) {
        self.quiet += 1;
        if self.quiet < QUIET_TURNS {
            return cx.waker().wake_by_ref();
        }
        self.quiet = 0;
        yield_now(cx);
    }
}

/// Makes the worker poll the task again after it has looked at its I/O. The current poll must return pending.
///
/// This is tokio's `yield_now`, for use within a poll.
pub(crate) fn yield_now(cx: &mut Context<'_>) {
    let yielded: Poll<()> = pin!(task::yield_now()).poll(cx);
    debug_assert!(
        yielded.is_pending(),
        "the first poll of `yield_now` must be pending"
    );
}
