//! Tasks that are scheduled, and run as tokio tasks when they are due.
//!
//! [`Timer::schedule`] and its kin are what the timers of other platforms offer: a task is handed
//! over, runs later, and can be cancelled until then. Until it is due a task is an entry of the
//! timer's wheel and nothing else: no tokio task exists for it. When it is due it runs as a tokio
//! task of its own on the timer's runtime, so that one which is slow or panics delays no other.
//!
//! A task starts at its deadline or later, never before: at most one tick and one wake-up of the
//! driver later, and when the runtime gets round to it.
//!
//! ```
//! use tokio_wheel::{Duration, Instant, Timer};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let timer = Timer::builder().max_pending(1_000_000).build()?;
//!
//! let start = Instant::now();
//! let retry = timer.schedule(Duration::from_secs(5), async move { start.elapsed() })?;
//! let beat = timer.schedule_at_fixed_rate(
//!     Duration::ZERO,
//!     Duration::from_secs(1),
//!     move || async move { println!("{:?}", start.elapsed()) },
//! )?;
//!
//! assert!(retry.await? >= Duration::from_secs(5));
//! assert!(beat.cancel());
//! assert!(timer.shutdown().is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! The page about [classic timers](crate::classics) lists the operations of Netty's timer, the
//! JDK's, PowerJob's and Kafka's, what to write instead of each, and what differs.

mod entry;
mod handle;
mod id;
#[cfg(all(test, tokio_wheel_loom))]
mod loom_tests;
#[cfg(all(test, not(tokio_wheel_loom)))]
mod memory;
mod unstarted;
mod work;

pub use handle::ScheduledTask;
pub use id::Id;
pub use unstarted::Unstarted;
pub use work::RunOutput;

use std::{future::Future, time::Duration};

use tokio::time::{Instant, MissedTickBehavior};

use crate::{
    driver::{clock, ending::End, shard::Refused},
    error::{Reason, ScheduleError},
    timer::Timer,
};
use entry::Entry;
use work::{Once, Pace, Periodic, Work};

/// Scheduling of tasks: see the [module `schedule`](crate::schedule).
impl Timer {
    /// Runs `future` as a tokio task when `delay` has elapsed.
    ///
    /// The delay is counted from this call. Without any, the task runs as soon as the driver
    /// gets round to it. Call it from anywhere: the task runs on the timer's runtime.
    ///
    /// # Errors
    ///
    /// If the timer has shut down, or has as many timers pending as
    /// [`Builder::max_pending`](crate::Builder::max_pending) allows. The error carries `future`
    /// back.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let start = Instant::now();
    /// let task = Timer::current().schedule(Duration::from_secs(1), async { "done" })?;
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
        self.schedule_work(now, deadline, Once(future), |Once(future)| future)
    }

    /// Runs `future` as a tokio task when `deadline` is reached: as soon as may be, if it has
    /// been.
    ///
    /// # Errors
    ///
    /// As [`schedule`](Self::schedule).
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let noon = Instant::now() + Duration::from_secs(3_600);
    /// let task = Timer::current().schedule_at(noon, async { Instant::now() })?;
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
        self.schedule_work(Instant::now(), deadline, Once(future), |Once(future)| {
            future
        })
    }

    /// Runs the futures that `make` makes as tokio tasks, one after the other: the first when
    /// `initial` has elapsed, and each next one a `period` after the one before was due.
    ///
    /// Runs do not overlap. If one starts more than 5 ms late, because the one before took longer
    /// than the period or because the program was held up, those that were missed are made up for
    /// at once, as [`MissedTickBehavior::Burst`] says. [`schedule_at_fixed_rate_with`] takes
    /// another behaviour.
    ///
    /// A run returns `()` or a [`ControlFlow`](std::ops::ControlFlow): see [`RunOutput`]. The task
    /// ends when a run says `Break`, when it is cancelled, when `make` or a run panics, or with
    /// its timer.
    ///
    /// [`schedule_at_fixed_rate_with`]: Self::schedule_at_fixed_rate_with
    ///
    /// # Errors
    ///
    /// As [`schedule`](Self::schedule), and if `period` is zero. The error carries `make` back.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use tokio_wheel::{Duration, Instant, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let start = Instant::now();
    /// let mut runs = 0;
    /// let task = Timer::current().schedule_at_fixed_rate(
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
        self.schedule_at_fixed_rate_with(MissedTickBehavior::Burst, initial, period, make)
    }

    /// As [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate), with a behaviour of one's own
    /// for runs that were missed.
    ///
    /// # Errors
    ///
    /// As [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    ///
    /// # Examples
    ///
    /// Runs that take 2.5 periods each, and leave out what they miss:
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Instant, MissedTickBehavior, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const PERIOD: Duration = Duration::from_secs(10);
    /// let start = Instant::now();
    /// let task = Timer::current().schedule_at_fixed_rate_with(
    ///     MissedTickBehavior::Skip,
    ///     Duration::ZERO,
    ///     PERIOD,
    ///     || sleep(PERIOD * 5 / 2),
    /// )?;
    /// sleep(PERIOD * 4).await;
    /// // It started at 0 and, late for 10, at 25: next is 30, late again.
    /// assert_eq!(task.deadline(), start + PERIOD);
    /// # Ok(())
    /// # }
    /// ```
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
        self.schedule_periodic(initial, period, make, Pace::FixedRate(behavior))
    }

    /// Runs the futures that `make` makes as tokio tasks, one after the other: the first when
    /// `initial` has elapsed, and each next one when `delay` has elapsed since the end of the one
    /// before.
    ///
    /// When the task ends is as in [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    ///
    /// # Errors
    ///
    /// As [`schedule`](Self::schedule), and if `delay` is zero. The error carries `make` back.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Instant, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const SECOND: Duration = Duration::from_secs(1);
    /// let start = Instant::now();
    /// let task = Timer::current().schedule_with_fixed_delay(
    ///     Duration::ZERO,
    ///     10 * SECOND,
    ///     || sleep(2 * SECOND),
    /// )?;
    /// sleep(5 * SECOND).await;
    /// assert_eq!(task.deadline(), start + 12 * SECOND);
    /// # Ok(())
    /// # }
    /// ```
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
        self.schedule_periodic(initial, delay, make, Pace::FixedDelay)
    }

    fn schedule_periodic<C>(
        &self,
        initial: Duration,
        period: Duration,
        make: C,
        pace: Pace,
    ) -> Result<ScheduledTask<<Periodic<C> as Work>::Output>, ScheduleError<C>>
    where
        Periodic<C>: Work,
    {
        if period.is_zero() {
            return Err(ScheduleError::new(make, Reason::ZeroPeriod));
        }
        let now = Instant::now();
        let first = clock::saturating_add(now, initial);
        let work = Periodic { make, period, pace };
        self.schedule_work(now, first, work, |work| work.make)
    }

    /// Schedules work, or returns what the caller gave. `now` is the present.
    fn schedule_work<W: Work, F>(
        &self,
        now: Instant,
        deadline: Instant,
        work: W,
        given: impl FnOnce(W) -> F,
    ) -> Result<ScheduledTask<W::Output>, ScheduleError<F>> {
        // The shards are closed one after the other: who knows already must not find one open.
        if self.is_shutdown() {
            return Err(ScheduleError::new(given(work), Reason::Shutdown));
        }
        match Entry::schedule(self.registrar(), now, deadline, work) {
            Ok(entry) => Ok(ScheduledTask::new(entry)),
            Err((work, Refused::Full { max })) => {
                Err(ScheduleError::new(given(work), Reason::Full { max }))
            }
            Err((work, _)) => Err(ScheduleError::new(given(work), Reason::Shutdown)),
        }
    }

    /// Shuts the timer down and returns the scheduled tasks that were waiting, in the order of
    /// their deadlines.
    ///
    /// From then on nothing is scheduled any more, and the driver ends. Tasks that have started
    /// run on, but periodic ones for the last time. Of what was waiting, each task is returned:
    /// run it, keep it for later, or drop it. The [`ScheduledTask`](crate::schedule::ScheduledTask)
    /// of each returns an error that [`is_shutdown`](crate::error::TaskError::is_shutdown), and has
    /// the same [`id`](Unstarted::id). Of a periodic task the next run is returned:
    /// [`is_periodic`](Unstarted::is_periodic) tells. Each task is in exactly one place, whatever
    /// schedules, cancels and shuts down at the same time.
    ///
    /// Blocks the calling thread until all of them are moved and sorted, which takes O(*n* log *n*):
    /// 0.2 to 0.4 s for a million small tasks. To drop them takes another 0.1 to 0.4 s. A worker runs no other task in
    /// the meantime. So if there may be very many, call this method in
    /// [`spawn_blocking`](tokio::task::spawn_blocking) or on a thread of its own, and drop the tasks there.
    ///
    /// Pending sleeps that a method of this timer made, and what is built on them, fare as when the
    /// runtime shuts down: they are woken, and polling them before their deadline panics. So await
    /// them before, or drop them. Those made by the free functions go on: if this was the ambient
    /// timer of their runtime, that starts another, an ordinary one, and they wait on it.
    ///
    /// Calling it again, or after the runtime has shut down, does nothing. Tasks that were waiting
    /// when their runtime shut down were dropped with it.
    ///
    /// # Examples
    ///
    /// What is left is spawned, so that no task waits for another:
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
    /// assert_eq!(left[0].id(), task.id());
    /// let runs: JoinSet<()> = left.into_iter().collect();
    /// runs.join_all().await;
    ///
    /// assert!(timer.shutdown().is_empty());
    /// assert!(task.await.unwrap_err().is_shutdown());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "what is scheduled is dropped unless it is run or kept"]
    #[track_caller]
    pub fn shutdown(&self) -> Vec<Unstarted> {
        self.assert_may_shut_down();
        let mut left = unstarted::collect(|| self.core().close(End::Shutdown));
        self.core().driver().notify.notify_one();
        left.sort_by_key(Unstarted::deadline);
        left
    }
}
