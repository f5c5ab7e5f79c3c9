//! Tasks that start later, once or periodically.
//!
//! A task is a future that runs after a delay, or a closure that returns the future of each run. Before its
//! deadline, the task is one entry of the timer's wheel, and no tokio task exists. At the deadline, the entry
//! becomes a tokio task on the timer's runtime. So a slow task delays no other task. A panic ends only its own
//! task.
//!
//! | method | when the task runs |
//! |---|---|
//! | [`Timer::schedule`] | once, after a delay |
//! | [`Timer::schedule_at`] | once, at an instant |
//! | [`Timer::schedule_at_fixed_rate`] | periodically, with a period between deadlines |
//! | [`Timer::schedule_at_fixed_rate_with`] | periodically, at a fixed rate, and you choose what happens after a late run |
//! | [`Timer::schedule_with_fixed_delay`] | periodically, with a delay between runs |
//!
//! [`Timer::current`] returns the default timer of the current runtime. If you schedule often, keep the handle.
//!
//! A task never starts before its deadline. The driver spawns the task soon after the deadline. The delay is
//! at most one tick plus the time that the driver needs to wake up. Then the task waits until a worker is free.
//!
//! # Examples
//!
//! ```
//! use tokio_wheel::{Duration, Instant, Timer};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let start = Instant::now();
//! let retry = Timer::current().schedule(Duration::from_secs(5), async move { start.elapsed() })?;
//! let beat = Timer::current().schedule_at_fixed_rate(
//!     Duration::ZERO,
//!     Duration::from_secs(1),
//!     move || async move { println!("{:?}", start.elapsed()) },
//! )?;
//!
//! assert!(retry.await? >= Duration::from_secs(5));
//! assert!(beat.cancel());
//! # Ok(())
//! # }
//! ```
//!
//! # Coming from another timer
//!
//! The page [which timer] lists the operations of Netty's timer, the JDK's timers and others. For each
//! operation it shows the method of this crate.
//!
//! [which timer]: https://github.com/tokio-wheel/tokio-wheel/blob/main/docs/which-timer.md#coming-from-another-timer

mod entry;
mod handle;
#[cfg(all(test, tokio_wheel_loom))]
mod loom_tests;
#[cfg(all(test, not(tokio_wheel_loom)))]
mod memory;
mod unstarted;
mod work;

pub use handle::{CancelHandle, ScheduledTask};
pub use unstarted::Unstarted;
pub use work::RunOutput;

use std::{future::Future, time::Duration};

use tokio::time::{Instant, MissedTickBehavior};

use crate::{
    driver::{clock, ending::End, shard::Refused},
    error::ScheduleError,
    timer::Timer,
};
use entry::Entry;
use work::{Once, Pace, Periodic, Work};

/// Scheduling of tasks on this timer. See the [module `schedule`](mod@crate::schedule).
impl Timer {
    /// Schedules `future` to run as a tokio task on this timer, after `delay`.
    ///
    /// The delay starts with this call. If the delay is zero, the task starts at once.
    /// The task runs on the timer's runtime. Any thread may call this method.
    ///
    /// # Errors
    ///
    /// Returns an error that holds the future, in these cases:
    ///
    /// * The timer has shut down.
    /// * The timer has as many pending entries as
    ///   [`Builder::max_pending`](crate::Builder::max_pending) allows.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().build()?;
    /// let start = Instant::now();
    /// let task = timer.schedule(Duration::from_secs(1), async { "done" })?;
    /// assert_eq!(task.await?, "done");
    /// assert!(start.elapsed() >= Duration::from_secs(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn schedule<F>(
        &self,
        delay: Duration,
        future: F,
    ) -> Result<ScheduledTask<F::Output>, ScheduleError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let now = Instant::now();
        let deadline = clock::saturating_add(now, delay);
        self.start(now, deadline, Once(future), |once| once.0)
    }

    /// Schedules `future` to run as a tokio task on this timer, at `deadline`.
    ///
    /// If the deadline has passed, the task starts at once. See [`schedule`](Self::schedule).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`schedule`](Self::schedule).
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().build()?;
    /// let noon = Instant::now() + Duration::from_secs(3_600);
    /// let task = timer.schedule_at(noon, async { Instant::now() })?;
    /// assert!(task.await? >= noon);
    /// # Ok(())
    /// # }
    /// ```
    pub fn schedule_at<F>(
        &self,
        deadline: Instant,
        future: F,
    ) -> Result<ScheduledTask<F::Output>, ScheduleError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.start(Instant::now(), deadline, Once(future), |once| once.0)
    }

    /// Schedules a periodic task on this timer, at a fixed rate.
    ///
    /// The deadline of each run is one `period` after the deadline of the previous run.
    /// The first run starts after `initial`. For each run, the task calls `make` and awaits the
    /// returned future. Runs do not overlap.
    ///
    /// A run is late if it starts more than 5 ms after its deadline. The missed runs then follow at once, as
    /// [`MissedTickBehavior::Burst`] says. To choose another behavior, use
    /// [`schedule_at_fixed_rate_with`](Self::schedule_at_fixed_rate_with).
    ///
    /// A run returns `()` or a [`ControlFlow`](std::ops::ControlFlow): see
    /// [`RunOutput`]. The task ends in these cases:
    ///
    /// * A run returns [`ControlFlow::Break`](std::ops::ControlFlow::Break).
    /// * The task is canceled.
    /// * `make` or a run panics.
    /// * The timer shuts down.
    ///
    /// # Panics
    ///
    /// Panics if `period` is zero.
    ///
    /// # Errors
    ///
    /// Returns an error that holds the closure, in these cases:
    ///
    /// * The timer has shut down.
    /// * The timer has as many pending entries as
    ///   [`Builder::max_pending`](crate::Builder::max_pending) allows.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use tokio_wheel::{Duration, Instant, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().build()?;
    /// let start = Instant::now();
    /// let mut runs = 0;
    /// let task = timer.schedule_at_fixed_rate(
    ///     Duration::from_secs(1),
    ///     Duration::from_secs(10),
    ///     move || {
    ///         runs += 1;
    ///         async move {
    ///             if runs < 3 {
    ///                 ControlFlow::Continue(())
    ///             } else {
    ///                 ControlFlow::Break(runs)
    ///             }
    ///         }
    ///     },
    /// )?;
    /// assert_eq!(task.await?, 3);
    /// assert_eq!(start.elapsed().as_secs(), 21);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn schedule_at_fixed_rate<C, F>(
        &self,
        initial: Duration,
        period: Duration,
        make: C,
    ) -> Result<ScheduledTask<<F::Output as RunOutput>::Output>, ScheduleError<C>>
    where
        C: FnMut() -> F + Send + 'static,
        F: Future + Send + 'static,
        F::Output: RunOutput,
    {
        let burst = MissedTickBehavior::Burst;
        self.schedule_at_fixed_rate_with(burst, initial, period, make)
    }

    /// Schedules a periodic task on this timer, at a fixed rate, with a given behavior after late runs.
    ///
    /// This method does what [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate) does, but `behavior`
    /// decides what happens after a late run.
    ///
    /// # Panics
    ///
    /// Panics if `period` is zero.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    ///
    /// # Examples
    ///
    /// Each run takes 2.5 periods, and the task skips the runs that it misses:
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Instant, MissedTickBehavior, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const PERIOD: Duration = Duration::from_secs(10);
    /// let timer = Timer::builder().build()?;
    /// let start = Instant::now();
    /// let task = timer.schedule_at_fixed_rate_with(
    ///     MissedTickBehavior::Skip,
    ///     Duration::ZERO,
    ///     PERIOD,
    ///     || sleep(PERIOD * 5 / 2),
    /// )?;
    /// sleep(PERIOD * 4).await;
    /// // The first run took from 0 to 25 s. The second run started at 25 s, with the deadline 10 s.
    /// assert_eq!(task.deadline(), start + PERIOD);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn schedule_at_fixed_rate_with<C, F>(
        &self,
        behavior: MissedTickBehavior,
        initial: Duration,
        period: Duration,
        make: C,
    ) -> Result<ScheduledTask<<F::Output as RunOutput>::Output>, ScheduleError<C>>
    where
        C: FnMut() -> F + Send + 'static,
        F: Future + Send + 'static,
        F::Output: RunOutput,
    {
        assert!(!period.is_zero(), "`period` must be non-zero.");
        let pace = Pace::FixedRate(behavior);
        let work = Periodic { make, period, pace };
        let now = Instant::now();
        let first = clock::saturating_add(now, initial);
        self.start(now, first, work, |work| work.make)
    }

    /// Schedules a periodic task on this timer, with a fixed delay between its runs.
    ///
    /// Each run starts `delay` after the end of the previous run.
    /// The first run starts after `initial`. For each run, the task calls `make` and awaits the
    /// returned future. The task ends in the cases that
    /// [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate) lists.
    ///
    /// # Panics
    ///
    /// Panics if `delay` is zero.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Instant, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const SECOND: Duration = Duration::from_secs(1);
    /// let timer = Timer::builder().build()?;
    /// let start = Instant::now();
    /// let task = timer.schedule_with_fixed_delay(
    ///     Duration::ZERO,
    ///     10 * SECOND,
    ///     || sleep(2 * SECOND),
    /// )?;
    /// sleep(5 * SECOND).await;
    /// assert_eq!(task.deadline(), start + 12 * SECOND);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn schedule_with_fixed_delay<C, F>(
        &self,
        initial: Duration,
        delay: Duration,
        make: C,
    ) -> Result<ScheduledTask<<F::Output as RunOutput>::Output>, ScheduleError<C>>
    where
        C: FnMut() -> F + Send + 'static,
        F: Future + Send + 'static,
        F::Output: RunOutput,
    {
        assert!(!delay.is_zero(), "`delay` must be non-zero.");
        let pace = Pace::FixedDelay;
        let work = Periodic {
            make,
            period: delay,
            pace,
        };
        let now = Instant::now();
        let first = clock::saturating_add(now, initial);
        self.start(now, first, work, |work| work.make)
    }

    /// Shuts the timer down, and returns the scheduled tasks that are waiting.
    ///
    /// The tasks are returned in the order of their deadlines. The timer accepts no more tasks, and its
    /// driver ends. The effect depends on the state of a task:
    ///
    /// | task | effect of the shutdown |
    /// |---|---|
    /// | a task that runs once, and waits | The task is returned. |
    /// | a periodic task that waits | Its next run is returned: see [`Unstarted::is_periodic`]. |
    /// | a task that is running | The run completes. A periodic task does not run again. |
    ///
    /// Run a returned task, keep it for later, or drop it. If you await the [`ScheduledTask`] of a returned
    /// task, you get an error whose [`is_shutdown`](crate::error::TaskError::is_shutdown) is true. No task is
    /// lost or returned twice, even if other threads schedule, cancel or shut down at the same time.
    ///
    /// The shutdown also affects pending sleeps, timeouts and intervals:
    ///
    /// * The timer wakes the futures that its own methods made. Polling such a future before its deadline
    ///   panics. Await or drop these futures before the shutdown.
    /// * Futures of the free functions move to the next default timer, which starts by itself.
    ///
    /// A second call does nothing and returns an empty vector. A runtime that shuts down drops its waiting
    /// tasks, so a later call also returns an empty vector.
    ///
    /// # Blocking
    ///
    /// This method blocks the thread while it collects and sorts the tasks. The cost is O(*n* log *n*): 0.2
    /// to 0.4 s for a million small tasks. Dropping these tasks takes another 0.1 to 0.4 s. If there are many
    /// tasks, call this method in [`spawn_blocking`](tokio::task::spawn_blocking) or on a separate thread.
    /// Drop the tasks there too.
    ///
    /// # Panics
    ///
    /// Panics on a handle from [`Timer::current`] or [`Timer::try_current`]. Only a handle from
    /// [`Builder::build`](crate::Builder::build) or [`Builder::install`](crate::Builder::install) may shut a timer down.
    ///
    /// # Examples
    ///
    /// Each returned task is spawned, so that no task waits for another:
    ///
    /// ```
    /// use tokio::task::JoinSet;
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().build()?;
    /// let task = timer.schedule(Duration::from_secs(60), async { println!("saved") })?;
    ///
    /// let left = timer.shutdown();
    /// assert_eq!(left.len(), 1);
    /// assert_eq!(left[0].deadline(), task.deadline());
    /// let runs: JoinSet<()> = left.into_iter().collect();
    /// runs.join_all().await;
    ///
    /// assert!(timer.shutdown().is_empty());
    /// assert!(task.await.unwrap_err().is_shutdown());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the tasks are dropped unless they are run or kept"]
    #[track_caller]
    pub fn shutdown(&self) -> Vec<Unstarted> {
        assert!(
            self.may_shut_down,
            "`shutdown` was called on a handle of `Timer::current`; only a handle that a \
             `Builder` returned can shut a timer down"
        );
        let mut left = unstarted::collect(|| self.shared().close(End::Shutdown));
        self.shared().notify.notify_one();
        left.sort_by_key(Unstarted::deadline);
        left
    }

    /// Schedules `work` for `deadline`. `now` is the current time.
    ///
    /// `given` converts the work back to the future or closure of the caller. If the timer refuses the work,
    /// the error holds this future or closure.
    fn start<W: Work, F>(
        &self,
        now: Instant,
        deadline: Instant,
        work: W,
        given: impl FnOnce(W) -> F,
    ) -> Result<ScheduledTask<W::Output>, ScheduleError<F>> {
        // A shutdown closes one shard after the other. A caller that knows of the shutdown must not schedule
        // on a shard that is still open. So this code first checks whether the timer has ended.
        let scheduled = if self.is_shutdown() {
            Err((work, Refused::Closed))
        } else {
            Entry::schedule(self.registrar().clone(), now, deadline, work)
        };
        match scheduled {
            Ok(entry) => Ok(ScheduledTask::new(entry)),
            Err((work, refused)) => {
                let limit = match refused {
                    Refused::Full { max } => Some(max),
                    Refused::Closed | Refused::Due => None,
                };
                Err(ScheduleError::new(given(work), limit))
            }
        }
    }
}
