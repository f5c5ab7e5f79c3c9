//! How a task that has more to do lets others go first.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll},
};

use tokio::task;

/// Turns in a row, each of at most a millisecond or so, after which the worker looks at I/O.
const QUIET_TURNS: u32 = 16;

/// The turns of one task.
///
/// Between two turns the task wakes itself. So it comes after the tasks that are ready, and any
/// idle worker can take it and them. [`yield_now`] would put it on a list that belongs to its worker
/// alone: if one of the tasks before it blocks, it waits even beside idle workers.
///
/// A worker looks at its I/O when it has nothing to do, and after some sixty polls. Each task that
/// the turn has woken is such a poll. A task that wakes nobody gives way by `yield_now` in every
/// [`QUIET_TURNS`]th turn, after which the worker looks.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Turns in a row that woke nobody.
    quiet: u32,
}

impl Turns {
    /// The turn has woken a task, or returned something that its caller waited for.
    pub(crate) fn was_of_use(&mut self) {
        self.quiet = 0;
    }

    /// Ends a turn: the task is polled again after the tasks that are ready.
    pub(crate) fn end(&mut self, cx: &mut Context<'_>) {
        self.quiet += 1;
        if self.quiet < QUIET_TURNS {
            return cx.waker().wake_by_ref();
        }
        self.quiet = 0;
        yield_now(cx);
    }
}

/// Has the task polled again when the worker has looked at its I/O: tokio's `yield_now` within a
/// poll, which must then return pending.
pub(crate) fn yield_now(cx: &mut Context<'_>) {
    let yielded: Poll<()> = pin!(task::yield_now()).poll(cx);
    debug_assert!(yielded.is_pending(), "it is polled for the first time");
}
