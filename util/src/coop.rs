//! The cooperative budget of a task, for an operation that polls something and limits its time.
//!
//! An operation that ends because its time has elapsed uses a unit of the budget. So a loop over such
//! operations lets other tasks run.
//!
//! The inner poll comes before the check of the time, and may use the whole budget each time. For example, a
//! loop over a channel that is never empty uses the whole budget. In this case, the check of the time must
//! not wait for budget. Otherwise, the operation would never time out.
//!
//! Another future of the same task may also use the whole budget, each time before the operation is polled. For
//! this case, an operation with a limit has a [`Starved`].

use std::{
    future::Future,
    mem,
    pin::pin,
    task::{Context, Poll, ready},
};

use tokio::task::coop;
pub(crate) use tokio::task::coop::has_budget_remaining;

/// Uses a unit of the budget, after an inner poll that was pending.
///
/// `had_budget` is the result of [`has_budget_remaining`] before that poll. If the task has no budget now,
/// there are two cases:
///
/// * The task had budget before the poll, so the poll used it up. This function returns ready and uses no
///   unit.
/// * The task had no budget before the poll either. This function returns pending, and wakes the task.
#[inline]
pub(crate) fn poll_progress(had_budget: bool, cx: &mut Context<'_>) -> Poll<()> {
    if !had_budget || has_budget_remaining() {
        ready!(coop::poll_proceed(cx)).made_progress();
    }
    Poll::Ready(())
}

/// Makes the worker poll the task again after the worker has checked its I/O. The current poll must return
/// pending.
///
/// This is tokio's `yield_now`, for use within a poll.
#[cfg(feature = "stream")]
pub(crate) fn yield_now(cx: &mut Context<'_>) {
    let yielded: Poll<()> = pin!(tokio::task::yield_now()).poll(cx);
    debug_assert!(
        yielded.is_pending(),
        "the first poll of `yield_now` must be pending"
    );
}

/// Remembers whether the last poll of an operation was pending and without budget.
///
/// Such a poll does not time out. The next poll may do so without budget, because the task has let other tasks run
/// between the two polls. A loop over operations that time out at once still lets other tasks run.
#[derive(Debug)]
pub(crate) struct Starved(bool);

impl Starved {
    pub(crate) const fn new() -> Self {
        Self(false)
    }

    /// Returns whether the poll that begins now may act as if it had budget. This is the argument `had_budget` of
    /// [`poll_progress`].
    #[inline]
    pub(crate) fn had_budget(&mut self) -> bool {
        mem::take(&mut self.0) || has_budget_remaining()
    }

    /// Records the result of the check of the time, and returns it.
    #[inline]
    pub(crate) fn record<R>(&mut self, polled: Poll<R>) -> Poll<R> {
        self.0 = polled.is_pending() && !has_budget_remaining();
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{Future, poll_fn},
        pin::pin,
    };

    use super::*;

    /// Calls `poll` within a task that has its full budget.
    async fn within_a_task<T>(poll: impl FnOnce(&mut Context<'_>) -> T) -> T {
        let mut poll = Some(poll);
        tokio::task::yield_now().await;
        poll_fn(|cx| Poll::Ready(poll.take().unwrap()(cx))).await
    }

    fn use_up(cx: &mut Context<'_>) {
        while has_budget_remaining() {
            assert!(pin!(coop::consume_budget()).poll(cx).is_ready());
        }
    }

    /// A poll without budget is pending, and the next one is not.
    #[tokio::test]
    async fn every_second_poll_without_budget_proceeds() {
        within_a_task(|cx| {
            use_up(cx);
            let mut starved = Starved::new();
            for _ in 0..3 {
                for is_ready in [false, true] {
                    let had_budget = starved.had_budget();
                    let progress = starved.record(poll_progress(had_budget, cx));
                    assert_eq!(progress.is_ready(), is_ready);
                }
            }
        })
        .await;
    }
}
