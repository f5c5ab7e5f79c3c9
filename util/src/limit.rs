//! Limits: their builder methods, and sleeps of the default timer or of an explicit timer.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::{Context, Poll, ready},
};

use tokio::{
    task::coop::{RestoreOnPending, poll_proceed, unconstrained},
    time::Instant,
};
use tokio_wheel::{Duration, Interval, Sleep, Timer};

use crate::coop;

/// Defines builder methods that set the limit of the same name.
macro_rules! setters {
    ($($(#[$attribute:meta])* $name:ident: $Limit:ty;)*) => {$(
        $(#[$attribute])*
        pub const fn $name(mut self, limit: $Limit) -> Self {
            self.$name = Some(limit);
            self
        }
    )*};
}
pub(crate) use setters;

/// Returns a sleep of `timer`. `None` stands for the default timer of the runtime that polls the sleep.
#[inline]
pub(crate) fn sleep(timer: Option<&Timer>, duration: Duration) -> Sleep {
    match timer {
        Some(timer) => timer.sleep(duration),
        None => tokio_wheel::sleep(duration),
    }
}

/// Returns a sleep of `timer`. `None` stands for the default timer of the runtime that polls the sleep.
#[inline]
pub(crate) fn sleep_until(timer: Option<&Timer>, deadline: Instant) -> Sleep {
    match timer {
        Some(timer) => timer.sleep_until(deadline),
        None => tokio_wheel::sleep_until(deadline),
    }
}

/// Returns `instant + duration`. If the sum is after the latest [`Instant`], returns an instant in 100 years.
#[inline]
pub(crate) fn saturating_add(instant: Instant, duration: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
    instant
        .checked_add(duration)
        .unwrap_or_else(|| Instant::now() + CENTURY)
}

/// Polls a sleep as the limit of an inner poll that was pending.
///
/// `had_budget` is the result of [`coop::has_budget_remaining`] before the inner poll.
#[inline]
#[track_caller]
pub(crate) fn poll_limit(limit: &mut Sleep, had_budget: bool, cx: &mut Context<'_>) -> Poll<()> {
    ready!(limit.poll_elapsed(cx));
    coop::poll_progress(had_budget, cx)
}

/// Polls an interval as [`poll_limit`] polls a sleep.
pub(crate) fn poll_tick(
    interval: &mut Interval,
    had_budget: bool,
    cx: &mut Context<'_>,
) -> Poll<Instant> {
    let is_free = had_budget && !coop::has_budget_remaining();
    let unit = if is_free {
        None
    } else {
        Some(ready!(poll_proceed(cx)))
    };
    let tick = ready!(pin!(unconstrained(poll_fn(|cx| interval.poll_tick(cx)))).poll(cx));
    unit.inspect(RestoreOnPending::made_progress);
    Poll::Ready(tick)
}
