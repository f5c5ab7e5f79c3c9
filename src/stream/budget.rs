//! Whether an adapter's timer has to wait for the task's budget.

use std::{
    future::poll_fn,
    pin::pin,
    task::{Context, Poll},
};

use tokio::task::coop;

/// Polls an adapter's timer, after its inner stream was pending.
///
/// `had_budget` is whether the task had any before the inner stream was polled. If it was that
/// stream that used it up, as one that always has more to do does, then the timer must not wait
/// for budget: it would never be ready.
pub(super) fn poll_timer<T>(
    had_budget: bool,
    cx: &mut Context<'_>,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    if had_budget && !coop::has_budget_remaining() {
        pin!(coop::unconstrained(poll_fn(poll))).poll(cx)
    } else {
        poll(cx)
    }
}
