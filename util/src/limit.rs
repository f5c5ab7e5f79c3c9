//! Limits: their builder methods, their sleeps, and how a poll checks them.
//!
//! # The cooperative budget of a task
//!
//! An operation that ends because its time has elapsed uses a unit of the budget. So a loop over such
//! operations lets other tasks run.
//!
//! The inner poll comes before the check of the time, and may use the whole budget each time. For example, a
//! loop over a channel that is never empty uses the whole budget. In this case, the check of the time must
//! not wait for budget. Otherwise, the operation would never time out.
//!
//! Another future of the same task may also use the whole budget, each time before the operation is polled. For this case,
//! the streams, the I/O, the bodies and the reaper have a [`Starved`]. The timeouts of tower and HTTP layers have none,
//! as `tokio::time::timeout`.

use std::{
    error::Error,
    future::{Future, poll_fn},
    io, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker, ready},
};

pub(crate) use tokio::task::coop::has_budget_remaining;
use tokio::{
    task::coop::{RestoreOnPending, poll_proceed, unconstrained},
    time::Instant,
};
use tokio_wheel::{Duration, Interval, Sleep, Timer};

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
    timer.map_or_else(|| tokio_wheel::sleep(duration), |it| it.sleep(duration))
}

/// Returns a sleep of `timer`. `None` stands for the default timer of the runtime that polls the sleep.
#[inline]
pub(crate) fn sleep_until(timer: Option<&Timer>, deadline: Instant) -> Sleep {
    let default = || tokio_wheel::sleep_until(deadline);
    timer.map_or_else(default, |timer| timer.sleep_until(deadline))
}

/// Returns `instant + duration`. If the sum is after the latest [`Instant`], returns an instant in 100 years.
#[inline]
pub(crate) fn saturating_add(instant: Instant, duration: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
    let in_a_century = || Instant::now() + CENTURY;
    (instant.checked_add(duration)).unwrap_or_else(in_a_century)
}

/// Returns a duration in nanoseconds. A duration of 584 years or more becomes [`u64::MAX`].
#[inline]
pub(crate) const fn nanos(duration: Duration) -> u64 {
    let seconds = duration.as_secs().saturating_mul(1_000_000_000);
    seconds.saturating_add(duration.subsec_nanos() as u64)
}

/// Locks a mutex under which no code panics.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes a task and catches the panic of its waker.
struct Quiet(Waker);

impl Wake for Quiet {
    fn wake(self: Arc<Self>) {
        let _caught = catch_unwind(AssertUnwindSafe(|| self.0.wake_by_ref()));
    }
}

/// Returns a waker for a wait that others share. If a waker of a `Notify` panicked, tokio would not wake the others.
pub(crate) fn quiet(cx: &Context<'_>) -> Waker {
    Arc::new(Quiet(cx.waker().clone())).into()
}

/// Waits for a `Notify` that others share.
pub(crate) async fn notified(wait: impl Future<Output = ()>) {
    let mut wait = pin!(wait);
    poll_fn(|cx| wait.as_mut().poll(&mut Context::from_waker(&quiet(cx)))).await;
}

/// Returns the error of the type `E` that an error contains.
pub(crate) fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    // `source` skips the error inside an `io::Error`.
    match error.downcast_ref().and_then(io::Error::get_ref) {
        Some(wrapped) => find(wrapped),
        None => find(error.source()?),
    }
}

/// Polls a sleep as the limit of an inner poll that was pending.
///
/// `had_budget` is the result of [`has_budget_remaining`] before the inner poll. If the time has elapsed, and the task
/// has no budget now, there are two cases:
///
/// * The task had budget before the poll, so the poll used it up. This function returns ready and uses no unit.
/// * The task had no budget before the poll either. This function returns pending, and wakes the task.
#[inline]
#[track_caller]
pub(crate) fn poll_limit(limit: &mut Sleep, had_budget: bool, cx: &mut Context<'_>) -> Poll<()> {
    ready!(limit.poll_elapsed(cx));
    if !had_budget || has_budget_remaining() {
        ready!(poll_proceed(cx)).made_progress();
    }
    Poll::Ready(())
}

/// Polls an interval as [`poll_limit`] polls a sleep.
pub(crate) fn poll_tick(
    interval: &mut Interval,
    had_budget: bool,
    cx: &mut Context<'_>,
) -> Poll<Instant> {
    let is_free = had_budget && !has_budget_remaining();
    let unit = if is_free {
        None
    } else {
        Some(ready!(poll_proceed(cx)))
    };
    let tick = ready!(pin!(unconstrained(poll_fn(|cx| interval.poll_tick(cx)))).poll(cx));
    unit.inspect(RestoreOnPending::made_progress);
    Poll::Ready(tick)
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
    /// [`poll_limit`].
    #[inline]
    pub(crate) fn had_budget(&mut self) -> bool {
        mem::take(&mut self.0) || has_budget_remaining()
    }

    /// Records the result of the check of the time, and returns it.
    pub(crate) fn record<R>(&mut self, polled: Poll<R>) -> Poll<R> {
        self.0 = polled.is_pending() && !has_budget_remaining();
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `poll` within a task that has its full budget.
    async fn within_a_task<T>(poll: impl FnOnce(&mut Context<'_>) -> T) -> T {
        let mut poll = Some(poll);
        tokio::task::yield_now().await;
        poll_fn(|cx| Poll::Ready(poll.take().unwrap()(cx))).await
    }

    fn use_up(cx: &mut Context<'_>) {
        while has_budget_remaining() {
            assert!(
                pin!(tokio::task::coop::consume_budget())
                    .poll(cx)
                    .is_ready()
            );
        }
    }

    /// A poll without budget is pending, and the next one is not.
    #[tokio::test]
    async fn every_second_poll_without_budget_proceeds() {
        within_a_task(|cx| {
            use_up(cx);
            let mut starved = Starved::new();
            let long_ago = tokio_wheel::Instant::now() - Duration::from_secs(1);
            let mut elapsed = pin!(tokio_wheel::sleep_until(long_ago));
            for _ in 0..3 {
                for is_ready in [false, true] {
                    let had_budget = starved.had_budget();
                    let progress = starved.record(poll_limit(&mut elapsed, had_budget, cx));
                    assert_eq!(progress.is_ready(), is_ready);
                }
            }
        })
        .await;
    }
}
