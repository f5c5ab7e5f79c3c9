//! `Sleep`: a future that becomes ready at its deadline.

use std::{
    fmt,
    future::Future,
    panic::{RefUnwindSafe, UnwindSafe},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bounded_wheel::Key;
use futures_core::FusedFuture;
use tokio::{task::coop, time::Instant};

use crate::{
    driver::{clock, entry::Site, registrar::Registrar},
    error::TimerShutdown,
    timer::Timer,
};

/// The time that a sleep waits if its duration ends after the latest [`Instant`].
///
/// A paused clock can move to the end of such a sleep, as it does for `tokio::time::sleep(Duration::MAX)`, which ends
/// after 30 years. With each tick, a timer counts more years.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The key of a sleep that has returned ready.
pub(super) const FINISHED: Option<Key> = Some(Key::ABSENT);

/// The key of a sleep that was reset and has no entry.
pub(super) const WAS_RESET: Option<Key> = Some(Key::VACANT);

/// Waits until `duration` has elapsed.
///
/// The duration starts with this call. If the duration ends after the latest [`Instant`], the future waits
/// for 100 years.
///
/// The future does nothing before its first poll. You may create it on one thread and poll it on another, even in another
/// runtime.
///
/// As in tokio, a sleep of zero lets other tasks run first: if the deadline passed less than a millisecond before the first
/// poll, the future waits for the timer. It is ready at once if the clock is or was paused, if the poll is outside the timer's
/// runtime, or if the tick is longer than a millisecond.
///
/// # Cancel safety
///
/// This function is cancel safe. Dropping the future deregisters it.
///
/// # Panics
///
/// The future panics if it is polled:
///
/// * outside a runtime;
/// * in a runtime that has time disabled;
/// * before its deadline, while the runtime in which the future is registered shuts down.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{sleep, Duration, Instant};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let start = Instant::now();
/// sleep(Duration::from_millis(100)).await;
/// assert!(start.elapsed() >= Duration::from_millis(100));
/// # }
/// ```
#[inline]
#[cfg_attr(feature = "call-sites", track_caller)]
pub fn sleep(duration: Duration) -> Sleep {
    Sleep::new(None, deadline_after(duration))
}

/// Returns the deadline of a sleep that starts now. It is 100 years away if `duration` ends after the latest
/// [`Instant`]. In this case [`clock::after`] returns a much later deadline.
#[inline]
fn deadline_after(duration: Duration) -> Instant {
    let now = Instant::now();
    let deadline = now.checked_add(duration);
    deadline.unwrap_or_else(|| clock::saturating_add(now, CENTURY))
}

/// Waits until `deadline`.
///
/// Apart from the deadline, this function does what [`sleep`] does.
///
/// # Cancel safety
///
/// This function is cancel safe. Dropping the future deregisters it.
///
/// # Panics
///
/// The future panics in the cases that [`sleep`] lists.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{sleep_until, Duration, Instant};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let deadline = Instant::now() + Duration::from_millis(100);
/// sleep_until(deadline).await;
/// assert!(Instant::now() >= deadline);
/// # }
/// ```
#[inline]
#[cfg_attr(feature = "call-sites", track_caller)]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::new(None, deadline)
}

/// The future returned by [`sleep`] and [`sleep_until`].
///
/// The future is [`Unpin`]. You can poll it by hand or in `select!` without pinning:
///
/// ```
/// use tokio_wheel::{sleep, Duration};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let mut limit = sleep(Duration::from_secs(1));
/// let mut turns = 0;
/// loop {
///     tokio::select! {
///         () = &mut limit => break,
///         () = sleep(Duration::from_millis(300)) => turns += 1,
///     }
/// }
/// assert_eq!(turns, 3);
/// # }
/// ```
///
/// The future is a [`FusedFuture`], so it also works in the `select!` of the `futures` crate. After a poll
/// has returned ready, the future is [terminated](FusedFuture::is_terminated) until the next reset.
///
/// # Cancel safety
///
/// Dropping the future deregisters it.
///
/// # Panics
///
/// The future panics in the cases that [`sleep`] lists. A future that a [`Timer`] created may be polled
/// outside a runtime. If the timer has shut down, a poll before the deadline panics.
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Sleep {
    pub(super) deadline: Instant,
    /// The registrar that made the entry. A future for the default timer has no registrar before its first poll.
    pub(super) registrar: Option<Arc<Registrar>>,
    /// Shows the [state](super::registration).
    pub(super) key: Option<Key>,
    pub(super) site: Site,
}

impl Sleep {
    /// Creates a future for the timer of `registrar`.
    ///
    /// If `registrar` is `None`, the future uses the default timer of the runtime that polls it.
    #[inline]
    #[cfg_attr(feature = "call-sites", track_caller)]
    pub(crate) fn new(registrar: Option<Arc<Registrar>>, deadline: Instant) -> Self {
        Self {
            deadline,
            registrar,
            key: None,
            site: Site::of_caller(),
        }
    }

    /// Returns the instant at which the future becomes ready.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep_until, Instant};
    ///
    /// let deadline = Instant::now();
    /// assert_eq!(sleep_until(deadline).deadline(), deadline);
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns whether the sleep has elapsed.
    ///
    /// This method returns `true` after one of these events, and the next poll is then ready:
    ///
    /// * A poll has returned ready.
    /// * The timer has fired a pending future.
    /// * A [reset](Self::reset) has fired a pending future, because the new deadline had passed.
    ///
    /// Before the first poll or reset, this method returns `false`, even if the deadline has passed. After a reset of a
    /// future that was not pending, and before the next poll, this method returns whether the deadline has passed.
    ///
    /// The timer may fire a pending future slightly after the deadline. To check whether the deadline has passed,
    /// compare [`deadline`](Self::deadline) with [`Instant::now`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let mut sleep = sleep(Duration::from_millis(10));
    /// assert!(!sleep.is_elapsed());
    /// (&mut sleep).await;
    /// assert!(sleep.is_elapsed());
    /// # }
    /// ```
    #[must_use]
    #[inline]
    pub fn is_elapsed(&self) -> bool {
        match (self.key, &self.registrar) {
            (None, _) => false,
            (WAS_RESET, _) => Instant::now() >= self.deadline,
            (FINISHED, _) | (_, None) => true,
            (Some(_), Some(registrar)) if !registrar.may_have_fired(self.deadline) => false,
            (Some(key), Some(registrar)) => match registrar.shard.look_up(key) {
                Poll::Ready(Err(TimerShutdown(()))) => Instant::now() >= self.deadline,
                polled => polled.is_ready(),
            },
        }
    }

    /// Sets a new deadline.
    ///
    /// A pending future wakes its task at the new deadline. A reset to a later deadline is cheap, because it only
    /// stores the deadline.
    ///
    /// **If the future has returned ready or was never polled, poll it again after the reset.** It is not registered, so
    /// until then it wakes no task. A poll function that resets a future that was ready must poll it once more before it
    /// returns pending. By contrast, tokio's `reset` registers the future again, for the task that polled it last.
    ///
    /// If the future is pending and the new deadline has passed, this call fires the future. The call wakes
    /// the task, and the next poll is ready.
    ///
    /// There is one exception: this call does not fire the future if the old deadline has passed as well, the new one is not
    /// earlier, and the driver is late. The future then fires when the driver has caught up with the clock.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::Pin;
    /// use tokio_wheel::{sleep, Duration, Instant};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let start = Instant::now();
    /// let mut idle = sleep(Duration::from_secs(30));
    /// Pin::new(&mut idle).reset(start + Duration::from_secs(60));
    /// idle.await;
    /// assert!(start.elapsed() >= Duration::from_secs(60));
    /// # }
    /// ```
    #[inline]
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.get_mut().reset_deadline(deadline);
    }

    /// Sets the deadline to `duration` after now.
    ///
    /// [`sleep`] describes the case that the duration ends after the latest [`Instant`]. Apart from the
    /// deadline, this method does what [`reset`](Self::reset) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::Pin;
    /// use tokio_wheel::{sleep, Duration, Instant};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let start = Instant::now();
    /// let mut idle = sleep(Duration::from_secs(30));
    /// sleep(Duration::from_secs(10)).await;
    /// Pin::new(&mut idle).reset_after(Duration::from_secs(30));
    /// idle.await;
    /// assert!(start.elapsed() >= Duration::from_secs(40));
    /// # }
    /// ```
    #[inline]
    pub fn reset_after(self: Pin<&mut Self>, duration: Duration) {
        self.get_mut().reset_deadline(deadline_after(duration));
    }

    /// Polls whether the deadline has passed.
    ///
    /// This method polls the future without using the task's cooperative budget. Adapters that limit the time of an inner
    /// future need this: if the inner future has just used up the budget, an ordinary poll of the sleep would be pending,
    /// and the limit would never elapse.
    ///
    /// # Panics
    ///
    /// Panics in the cases that [`sleep`] lists.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use tokio_wheel::{sleep, Duration, Instant};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let start = Instant::now();
    /// let mut limit = sleep(Duration::from_millis(10));
    /// poll_fn(|cx| limit.poll_elapsed(cx)).await;
    /// assert!(start.elapsed() >= Duration::from_millis(10));
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn poll_elapsed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.poll_reached(cx));
        self.finish();
        Poll::Ready(())
    }

    /// Polls whether the deadline has passed, and returns an error if the timer has shut down.
    ///
    /// [`poll_elapsed`](Self::poll_elapsed) would panic then. Use this method for sleeps that are polled outside their
    /// runtime, which may shut down at any moment. After an error, a poll with the default timer may succeed on another runtime.
    ///
    /// # Errors
    ///
    /// Returns an error before the deadline if the timer has shut down. A future of the default timer that is polled in
    /// another runtime registers there instead.
    ///
    /// # Panics
    ///
    /// The first poll of a future of the default timer panics outside a runtime, and in a runtime that has time disabled.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::task::{Context, Poll, Waker};
    /// use tokio_wheel::{error::TimerShutdown, Duration, Timer};
    ///
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    /// let timer = runtime.block_on(async { Timer::current() });
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let mut sleep = timer.sleep(Duration::from_secs(60));
    /// assert!(sleep.try_poll_elapsed(&mut cx).is_pending());
    ///
    /// drop(runtime);
    /// assert!(matches!(sleep.try_poll_elapsed(&mut cx), Poll::Ready(Err(TimerShutdown { .. }))));
    /// ```
    #[inline]
    #[track_caller]
    pub fn try_poll_elapsed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TimerShutdown>> {
        ready!(self.try_poll_reached(cx))?;
        self.finish();
        Poll::Ready(Ok(()))
    }

    /// Polls this sleep as the limit of an inner future that is pending.
    ///
    /// If the deadline has passed, uses a unit of the cooperative budget, so that a loop over such operations lets other tasks
    /// run. `had_budget` is the result of [`coop::has_budget_remaining`] before the poll of the inner future, which may use up
    /// the whole budget each time, like a loop over a channel that is never empty. The limit must not wait for budget
    /// then, because it would never elapse. If the task had no budget before that poll either, the limit waits, as in
    /// tokio.
    #[inline]
    #[track_caller]
    pub(crate) fn poll_limit(&mut self, had_budget: bool, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.poll_reached(cx));
        if !had_budget || coop::has_budget_remaining() {
            ready!(coop::poll_proceed(cx)).made_progress();
        }
        self.finish();
        Poll::Ready(())
    }
}

impl Timer {
    /// Waits until `duration` has elapsed, on this timer.
    ///
    /// Works like [`sleep`](crate::sleep()), but uses this timer instead of the default timer.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. Dropping the future deregisters it.
    ///
    /// # Panics
    ///
    /// If the timer has shut down, a poll before the deadline panics.
    ///
    /// # Examples
    ///
    /// Any executor can poll a future that a timer created:
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant, Timer};
    ///
    /// let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    /// let timer = runtime.block_on(async { Timer::current() });
    ///
    /// let start = Instant::now();
    /// tokio_test::block_on(timer.sleep(Duration::from_millis(5)));
    /// assert!(start.elapsed() >= Duration::from_millis(5));
    /// ```
    #[cfg_attr(feature = "call-sites", track_caller)]
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(deadline_after(duration))
    }

    /// Waits until `deadline`, on this timer.
    ///
    /// Works like [`sleep_until`], but uses this timer instead of the default timer.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. Dropping the future deregisters it.
    ///
    /// # Panics
    ///
    /// If the timer has shut down, a poll before the deadline panics.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let deadline = Instant::now() + Duration::from_millis(5);
    /// Timer::current().sleep_until(deadline).await;
    /// assert!(Instant::now() >= deadline);
    /// # }
    /// ```
    #[cfg_attr(feature = "call-sites", track_caller)]
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep::new(Some(self.registrar().clone()), deadline)
    }
}

// A panic of a waker's clone or drop interrupts no change: they run before or after it. `Sleep` has the
// two traits even if one of its fields does not have them.
impl UnwindSafe for Sleep {}
impl RefUnwindSafe for Sleep {}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline())
            .finish_non_exhaustive()
    }
}

impl Future for Sleep {
    type Output = ();

    #[inline]
    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.poll_reached(cx));
        // Without budget, the poll is pending, and a pending future must not be terminated
        // (`a_sleep_without_budget_is_not_terminated`).
        ready!(coop::poll_proceed(cx)).made_progress();
        self.finish();
        Poll::Ready(())
    }
}

impl FusedFuture for Sleep {
    #[inline]
    fn is_terminated(&self) -> bool {
        self.key == FINISHED
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use std::{future::poll_fn, pin::pin};

    use super::*;

    /// Calls `poll` within a task that has its full budget, with a sleep whose deadline has passed.
    async fn within_a_task<T>(poll: impl FnOnce(Sleep, &mut Context<'_>) -> T) -> T {
        let mut poll = Some(poll);
        let mut elapsed = Some(sleep_until(Instant::now() - Duration::from_secs(1)));
        tokio::task::yield_now().await;
        poll_fn(|cx| Poll::Ready(poll.take().unwrap()(elapsed.take().unwrap(), cx))).await
    }

    /// Uses up the budget, and returns the number of units that were left.
    fn use_up(cx: &mut Context<'_>) -> usize {
        let mut units = 0;
        while coop::has_budget_remaining() {
            assert!(pin!(coop::consume_budget()).poll(cx).is_ready());
            units += 1;
        }
        units
    }

    #[tokio::test]
    async fn a_limit_that_has_elapsed_uses_a_unit_of_the_budget() {
        let all = within_a_task(|_, cx| use_up(cx)).await;
        let left = within_a_task(|mut elapsed, cx| {
            assert!(elapsed.poll_limit(true, cx).is_ready());
            assert!(elapsed.poll_limit(false, cx).is_ready());
            use_up(cx)
        });
        assert_eq!(left.await, all - 2);
    }

    #[tokio::test]
    async fn a_limit_waits_for_budget_only_if_the_inner_poll_did_not_use_it_up() {
        within_a_task(|mut elapsed, cx| {
            let had_budget = coop::has_budget_remaining();
            use_up(cx);
            assert!(elapsed.poll_limit(had_budget, cx).is_ready());

            let had_budget = coop::has_budget_remaining();
            assert!(elapsed.poll_limit(had_budget, cx).is_pending());
        })
        .await;
    }
}
