//! Helps futures that poll an inner future and limit its time. These futures use the cooperative budget of
//! their task.
//!
//! An operation that ends because its time has elapsed uses a unit of the budget. So a loop over such
//! operations lets other tasks run.
//!
//! The inner poll comes before the check of the time, and may use the whole budget each time. For example, a
//! loop over a channel that is never empty uses the whole budget. In this case, the check of the time must
//! not wait for budget. Otherwise, the operation would never time out.
//!
//! If another future of the task uses the whole budget before each poll, the check of the time waits for
//! budget, as in tokio.

use std::task::{Context, Poll, ready};

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

#[cfg(all(test, not(tokio_wheel_loom)))]
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

    /// Uses up the budget, and returns the number of units that were left.
    fn use_up(cx: &mut Context<'_>) -> usize {
        let mut units = 0;
        while has_budget_remaining() {
            assert!(pin!(coop::consume_budget()).poll(cx).is_ready());
            units += 1;
        }
        units
    }

    #[tokio::test]
    async fn progress_uses_a_unit() {
        let all = within_a_task(use_up).await;
        let left = within_a_task(|cx| {
            assert!(poll_progress(true, cx).is_ready());
            assert!(poll_progress(false, cx).is_ready());
            use_up(cx)
        });
        assert_eq!(left.await, all - 2);
    }

    #[tokio::test]
    async fn progress_waits_for_budget_only_if_the_inner_poll_did_not_use_it_up() {
        within_a_task(|cx| {
            let had_budget = has_budget_remaining();
            use_up(cx);
            assert!(poll_progress(had_budget, cx).is_ready());

            let had_budget = has_budget_remaining();
            assert!(poll_progress(had_budget, cx).is_pending());
        })
        .await;
    }
}
