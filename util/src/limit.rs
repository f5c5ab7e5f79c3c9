//! Limits: their builder methods, their sleeps, and how a poll checks them.
//!
//! # The cooperative budget of a task
//!
//! An operation that ends because its time has elapsed uses a unit of the budget. So a loop over such
//! operations lets other tasks run.
//!
//! The inner poll comes before the check of the time, and may use the whole budget each time, as may another future of the
//! same task. A check that waited for budget each time would never pass: see [`Starved`].

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
    task::coop::{RestoreOnPending, poll_proceed},
    time::Instant,
};
use tokio_wheel::{Duration, Sleep, Timer};

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

/// Wakes a task, and contains the panics of its waker.
struct Quiet(Waker);

impl Wake for Quiet {
    fn wake(self: Arc<Self>) {
        // The last reference drops the waker too. A payload, whose drop may panic, is forgotten.
        mem::forget(catch_unwind(AssertUnwindSafe(|| {
            self.0.wake_by_ref();
            drop(self);
        })));
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

/// How the check of a time treats a task without budget: the first check waits for budget, and the next one does without.
///
/// So a limit elapses although something else in the task always uses up the budget, and a loop over operations that time
/// out at once still lets other tasks run.
#[derive(Debug, Default)]
pub(crate) struct Starved(bool);

impl Starved {
    pub(crate) const fn new() -> Self {
        Self(false)
    }

    /// Takes a unit of the budget. If the last call was pending and there is still no budget, returns `None`.
    pub(crate) fn take_unit(&mut self, cx: &mut Context<'_>) -> Poll<Option<RestoreOnPending>> {
        if mem::take(&mut self.0) && !has_budget_remaining() {
            return Poll::Ready(None);
        }
        let unit = poll_proceed(cx).map(Some);
        self.0 = unit.is_pending();
        unit
    }

    /// Polls the limit of an operation whose poll was pending. Uses a unit of the budget if the time has elapsed.
    #[inline]
    #[track_caller]
    pub(crate) fn poll_limit(&mut self, limit: &mut Sleep, cx: &mut Context<'_>) -> Poll<()> {
        ready!(limit.poll_elapsed(cx));
        ready!(self.take_unit(cx)).inspect(RestoreOnPending::made_progress);
        Poll::Ready(())
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
                    let progress = starved.poll_limit(&mut elapsed, cx);
                    assert_eq!(progress.is_ready(), is_ready);
                }
            }
        })
        .await;
    }
}
