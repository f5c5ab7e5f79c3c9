//! A future that is ready when a deadline is reached.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::Instant;

use super::registration::Registration;
use crate::{
    driver::{clock, registrar::Registrar},
    ground::coop,
    timer::{Timer, ambient},
};

/// Waits until `duration` has elapsed.
///
/// The deadline is counted from this call. A duration beyond what [`Instant`] can express waits
/// for at least half of what it can. The future does nothing until it is first polled, which may be on
/// another thread or runtime than the one it was created on.
///
/// # Cancel safety
///
/// Dropping the future cancels the timer. Nothing is lost but the wait.
///
/// # Panics
///
/// The future panics when it is polled outside of a runtime, on a runtime without time enabled,
/// or before its deadline while the runtime that it was registered on shuts down.
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
// Out of line, the sleep would be stored in parts and loaded as a whole. The processor cannot forward such stores:
// `timeout` around a ready future took 6 ns more (`compare ops --workload ready`).
#[inline(always)]
pub fn sleep(duration: Duration) -> Sleep {
    Sleep::new(None, ambient::after(duration))
}

/// Waits until `deadline` is reached.
///
/// Otherwise as [`sleep`].
///
/// # Cancel safety
///
/// Dropping the future cancels the timer. Nothing is lost but the wait.
///
/// # Panics
///
/// As the future of [`sleep`].
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
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::new(None, deadline)
}

/// Future of [`sleep`] and [`sleep_until`].
///
/// It is [`Unpin`], so it needs no pinning to be polled by hand or in `select!`:
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
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Sleep {
    registration: Registration<Instant>,
}

impl Sleep {
    /// Creates a future for the timer of `registrar`; without one, for the default timer of the
    /// runtime that polls it.
    #[inline]
    pub(crate) fn new(registrar: Option<Arc<Registrar>>, deadline: Instant) -> Self {
        let registration = Registration::new(registrar, deadline);
        Self { registration }
    }

    /// Creates a future for `timer`, or for the default timer.
    ///
    /// The free functions do without it: through it, a timeout of a ready future takes 10
    /// instructions more.
    #[inline]
    pub(crate) fn at(timer: Option<&Timer>, deadline: Instant) -> Self {
        Self::new(timer.map(Timer::registrar), deadline)
    }

    /// Creates a future as [`at`](Self::at) does, for the end of `duration` from now.
    #[inline]
    pub(crate) fn after(timer: Option<&Timer>, duration: Duration) -> Self {
        let deadline = match timer {
            Some(timer) => timer.clock().after(duration),
            None => ambient::after(duration),
        };
        Self::at(timer, deadline)
    }

    /// The instant at which the future is ready.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep_until, Instant};
    ///
    /// let deadline = Instant::now();
    /// assert_eq!(sleep_until(deadline).deadline(), deadline);
    /// ```
    pub fn deadline(&self) -> Instant {
        self.registration.deadline()
    }

    /// Whether the timer has fired, so that the next poll is ready.
    ///
    /// A future that was not polled since it was made has not fired, whatever its deadline. The same
    /// holds after a reset, unless the future was pending.
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
    pub fn is_elapsed(&self) -> bool {
        self.registration.is_elapsed()
    }

    /// Moves the deadline.
    ///
    /// A later deadline costs no more than storing it. A future that was polled pending wakes
    /// the same task as before at the new deadline; one that was ready waits again.
    ///
    /// If a pending future is reset to now or the past, it fires at once: this call wakes its task,
    /// and the next poll is ready. There is one exception: the old deadline has passed as well, the
    /// new deadline is not before it, and the driver is late. The future then fires as soon as the
    /// driver has caught up.
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

    /// Moves the deadline to `duration` after now.
    ///
    /// The deadline counts from this call. A duration beyond what [`Instant`] can express waits for at
    /// least half of what it can. Otherwise this method does what [`reset`](Self::reset) does: a later
    /// deadline costs no more than storing it, and a future that was ready waits again.
    ///
    /// Prefer this method to `reset` where the timer may be [coarse](crate::Builder::coarse): it
    /// then reads the coarse clock for a long duration. An instant given to `reset` comes from the exact
    /// clock.
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
        self.get_mut().reset_duration(duration);
    }

    /// [`reset_after`](Self::reset_after) without the `Pin`.
    #[inline]
    pub(crate) fn reset_duration(&mut self, duration: Duration) {
        let now = self.registration.present_for(duration);
        self.reset_deadline(clock::saturating_add(now, duration));
    }

    /// [`reset`](Self::reset), which takes a `Pin` only to be called as tokio's.
    #[inline]
    pub(crate) fn reset_deadline(&mut self, deadline: Instant) {
        self.registration.reset(deadline);
    }

    /// Polls without regard to the task's budget: whether the deadline is reached.
    #[inline]
    #[track_caller]
    pub(crate) fn poll_elapsed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.registration.poll(cx)
    }

    /// Polls as the limit of an inner poll that was pending; `had_budget` is what
    /// [`coop::has_budget_remaining`] returned before that.
    #[inline]
    #[track_caller]
    pub(crate) fn poll_as_limit(&mut self, had_budget: bool, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.poll_elapsed(cx));
        // Only being ready is progress that the task's budget has to bound.
        coop::poll_progress(had_budget, cx)
    }
}

impl Timer {
    /// Waits until `duration` has elapsed: [`sleep`](crate::sleep()) on this timer.
    ///
    /// # Examples
    ///
    /// A future of a timer can be polled on any executor:
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
    pub fn sleep(&self, duration: Duration) -> Sleep {
        Sleep::after(Some(self), duration)
    }

    /// Waits until `deadline` is reached: [`sleep_until`](crate::sleep_until) on this timer.
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
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep::at(Some(self), deadline)
    }
}

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
        self.poll_as_limit(false, cx)
    }
}

#[cfg(all(test, feature = "coarse", target_os = "linux", not(tokio_wheel_loom)))]
pub(crate) mod tests {
    use super::*;
    use crate::driver::clock::assert_coarse_by_distance;

    /// Asserts that deadlines on a coarse timer count from the coarse clock for long durations alone. `make`
    /// returns the deadline of a given duration from now.
    pub(crate) fn assert_coarse_on_a_timer(mut make: impl FnMut(&Timer, Duration) -> Instant) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .unwrap();
        let timer = runtime.block_on(async { Timer::builder().coarse().build().unwrap() });
        assert_coarse_by_distance(|duration| make(&timer, duration));
    }

    #[test]
    fn a_reset_to_a_duration_counts_by_distance() {
        assert_coarse_on_a_timer(|timer, duration| {
            let mut sleep = timer.sleep(Duration::ZERO);
            Pin::new(&mut sleep).reset_after(duration);
            sleep.deadline()
        });
    }

    #[test]
    fn the_present_of_a_sleep_is_that_of_its_timer() {
        assert_coarse_on_a_timer(|timer, duration| {
            let sleep = timer.sleep(Duration::ZERO);
            sleep.registration.present_for(duration) + duration
        });
        // This one belongs to no timer yet.
        let duration = Duration::from_secs(60);
        let sleep = sleep(duration);
        assert!(sleep.registration.present_for(duration) <= Instant::now());
    }
}
