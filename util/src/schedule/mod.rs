//! Tasks that start later, once or periodically.
//!
//! A task is a future that runs after a delay, or a closure that returns a future for each run. Until its deadline, it is just
//! an entry of the scheduler's [`Timer`]. At the deadline, it is spawned as a tokio task. So a slow task does not delay
//! others, and a panic ends only its own task.
//!
//! | method | when the task runs |
//! |---|---|
//! | [`Scheduler::schedule`] | once, after a delay |
//! | [`Scheduler::schedule_at`] | once, at an instant |
//! | [`Scheduler::schedule_at_fixed_rate`] | periodically, with a period between deadlines |
//! | [`Scheduler::schedule_at_fixed_rate_with`] | periodically, at a fixed rate, and you choose what happens after a late run |
//! | [`Scheduler::schedule_with_fixed_delay`] | periodically, with a delay between runs |
//!
//! At shutdown, [`Scheduler::shutdown`] returns the waiting tasks, including the next run of each periodic task. Their
//! [`id`](Unstarted::id) tells which tasks they are. [`Scheduler::wait_idle`] waits for the running ones.
//!
//! Create one [`Scheduler`] per program, and clone it. Scheduling and canceling a task cost about the same with a million
//! waiting tasks.
//!
//! A task never starts before its deadline. It starts when a sleep with this deadline would complete: at most one tick of
//! the timer later, if a worker is free.
//!
//! # Examples
//!
//! ```
//! use tokio_wheel::{Duration, Instant};
//! use tokio_wheel_util::schedule::Scheduler;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let start = Instant::now();
//! let scheduler = Scheduler::new();
//! let retry = scheduler.schedule(Duration::from_secs(5), async move { start.elapsed() })?;
//! let beat = scheduler.schedule_at_fixed_rate(
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
//! The scheduler uses a hierarchical timing wheel, scheme 7 of Varghese and Lauck. Each operation is O(1), except as noted:
//!
//! | there | here |
//! |---|---|
//! | `START_TIMER` (Varghese), Netty's `newTimeout`, the JDK's and PowerJob's `schedule`, Kafka's `add` | [`schedule`](Scheduler::schedule) |
//! | `STOP_TIMER`, Netty's `Timeout.cancel`, the JDK's `TimerTask.cancel` and `Future.cancel(false)` | [`ScheduledTask::cancel`], or a [`CancelHandle`] in a map; the entry is removed before the call returns |
//! | the JDK's `Future.cancel(true)` | none: a run that has started is not interrupted |
//! | `PER_TICK_BOOKKEEPING`, Kafka's `advanceClock` | no call: the timer fires the tasks |
//! | the JDK's `scheduleAtFixedRate`; `Timer.schedule` with a period | [`schedule_at_fixed_rate`](Scheduler::schedule_at_fixed_rate); [`schedule_at_fixed_rate_with`](Scheduler::schedule_at_fixed_rate_with) and [`MissedTickBehavior::Delay`] |
//! | the JDK's `scheduleWithFixedDelay` | [`schedule_with_fixed_delay`](Scheduler::schedule_with_fixed_delay) |
//! | an exception in a periodic task ends the task; in a `java.util.Timer`, all tasks | a panic ends only its own task, and [`TaskError::into_panic`] returns the payload |
//! | `isExpired`, `isDone`, `getDelay` | [`is_started`](ScheduledTask::is_started), [`is_finished`](ScheduledTask::is_finished), [`deadline`](ScheduledTask::deadline) |
//! | Netty's `maxPendingTimeouts` | [`Builder::max_pending`]; the error returns the future |
//! | `pendingTimeouts`, `size` | [`Scheduler::pending`], in O(workers) |
//! | `stop`, `shutdownNow`, `close` | [`Scheduler::shutdown`], which returns the tasks that have not started, in O(*n* log *n*) |
//! | the JDK's `shutdown`, which runs delayed tasks and ends periodic tasks | `shutdown`, and you run what it returns: see [`Unstarted::is_periodic`] |
//! | the JDK's `awaitTermination` | [`Scheduler::wait_idle`] after the shutdown |
//! | PowerJob's `processThreadNum` | the workers run the tasks, and code that blocks belongs in `spawn_blocking` |
//! | Kafka's `tryCompleteElseWatch` | [`timeout`](tokio_wheel::timeout()) around a future that becomes ready when the operation completes |
//! | a ring of buckets for idle connections | `IdleSet` of the module `idle` for many tasks, or the module `delay_queue` for one |
//! | Netty's `IdleStateHandler` | `idle_timeout` of `io::Limits` |
//!
//! No task starts early, while Kafka rounds down and may start one tick early. Dropping a [`ScheduledTask`] detaches the
//! task, which still runs.

mod entry;
mod error;
mod handle;
mod list;
#[cfg(all(test, tokio_wheel_util_loom))]
mod loom_tests;
#[cfg(all(test, not(tokio_wheel_util_loom)))]
mod memory;
mod unstarted;
mod work;

pub use error::{ScheduleError, TaskError};
pub use handle::{CancelHandle, ScheduledTask};
pub use unstarted::Unstarted;
pub use work::RunOutput;

use std::{fmt, future::Future, marker::PhantomData, sync::Arc};

use tokio::runtime::worker_index;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_wheel::{Duration, Timer};

use crate::ground::unwind;
use crate::limit::{notified, saturating_add};
use entry::Entry;
use list::Shard;
use work::{Periodic, Work};

/// Starts tasks at their deadlines. See the [module](self).
///
/// A scheduler belongs to the runtime on which it was built, and its tasks run there. All clones are handles to the same
/// scheduler. When the last handle is dropped, the waiting tasks stay scheduled.
///
/// When the runtime or the timer shuts down, the scheduler shuts down too, and drops the waiting tasks: at their deadlines, if the
/// timer is that of another runtime. A scheduler needs one tokio task, no matter how many tasks wait.
///
/// # Examples
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::schedule::Scheduler;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let scheduler = Scheduler::new();
/// let task = scheduler.schedule(Duration::from_secs(1), async { 7 })?;
/// assert_eq!(scheduler.pending(), 1);
/// assert_eq!(task.await?, 7);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Scheduler {
    /// A shard for each worker, and one for threads that are no workers.
    shards: Arc<[Arc<Shard>]>,
}

/// Configures a [`Scheduler`]. [`Scheduler::builder`] returns a builder.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{Duration, Timer};
/// use tokio_wheel_util::schedule::Scheduler;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::builder().tick(Duration::from_secs(1)).build()?;
/// let scheduler = Scheduler::builder().timer(&timer).max_pending(100_000).build();
/// let task = scheduler.schedule(Duration::from_millis(1), async { 7 })?;
/// assert_eq!(task.await?, 7);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder {
    timer: Option<Timer>,
    max_pending: Option<usize>,
}

impl Builder {
    /// Limits the number of waiting tasks. By default, there is no limit.
    ///
    /// A scheduler that has reached the limit refuses a task, and the [`ScheduleError`] returns the task. A task that runs does
    /// not count. The next run of a periodic task is always accepted, and may exceed the limit.
    ///
    /// The count adds a write to a cache line that all threads share, so set a limit only if you need it.
    ///
    /// # Panics
    ///
    /// Panics if `tasks` is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let scheduler = Scheduler::builder().max_pending(1).build();
    /// assert!(scheduler.schedule(Duration::from_secs(1), async {}).is_ok());
    /// let refused = scheduler.schedule(Duration::from_secs(1), async {}).unwrap_err();
    /// assert_eq!(refused.to_string(), "max_pending is 1, and as many tasks are waiting");
    /// # }
    /// ```
    #[track_caller]
    pub fn max_pending(mut self, tasks: usize) -> Self {
        assert!(tasks > 0, "max_pending must be at least 1, got 0");
        self.max_pending = Some(tasks);
        self
    }

    /// Sets the timer on which the scheduler waits, and with it the tick. By default, this is the default timer of the runtime.
    ///
    /// If this timer shuts down, the scheduler shuts down too. Use a timer of the scheduler's runtime: if the runtime shuts
    /// down before the timer, the waiting tasks are dropped at their deadlines.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant, Timer};
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().tick(Duration::from_secs(1)).build()?;
    /// let scheduler = Scheduler::builder().timer(&timer).build();
    /// let start = Instant::now();
    /// scheduler.schedule(Duration::from_millis(1_500), async {})?.await?;
    /// assert_eq!(start.elapsed(), Duration::from_secs(2)); // Rounded up to a tick.
    /// # Ok(())
    /// # }
    /// ```
    pub fn timer(mut self, timer: &Timer) -> Self {
        self.timer = Some(timer.clone());
        self
    }

    /// Builds the scheduler on the current runtime.
    ///
    /// # Panics
    ///
    /// Panics outside a runtime. Also panics if no timer was set and time is not enabled on the runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let scheduler = Scheduler::builder().build();
    /// assert_eq!(scheduler.pending(), 0);
    /// # }
    /// ```
    #[track_caller]
    pub fn build(self) -> Scheduler {
        let timer = match self.timer {
            Some(timer) => timer,
            None => Timer::current(),
        };
        Scheduler {
            shards: Shard::all(timer, self.max_pending),
        }
    }
}

impl Scheduler {
    /// Builds a scheduler on the current runtime, without a limit and on the runtime's default timer.
    ///
    /// # Panics
    ///
    /// Panics in the cases that [`Builder::build`] lists.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let scheduler = Scheduler::new();
    /// assert!(!scheduler.is_shutdown());
    /// # }
    /// ```
    #[expect(clippy::new_without_default, reason = "a scheduler needs a runtime")]
    #[track_caller]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder, to set a limit or a timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let scheduler = Scheduler::builder().max_pending(100_000).build();
    /// assert_eq!(scheduler.pending(), 0);
    /// # }
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the number of waiting tasks, without those that are running.
    ///
    /// This method locks each list in turn.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let scheduler = Scheduler::new();
    /// let task = scheduler.schedule(Duration::from_secs(1), async {})?;
    /// assert_eq!(scheduler.pending(), 1);
    /// task.cancel();
    /// assert_eq!(scheduler.pending(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn pending(&self) -> usize {
        self.shards.iter().filter_map(|it| it.pending()).sum()
    }

    /// Returns whether the scheduler or its runtime has shut down. The scheduler then refuses all tasks.
    ///
    /// While another thread shuts it down, the scheduler may refuse tasks before this method returns `true`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let scheduler = Scheduler::new();
    /// assert!(scheduler.shutdown().is_empty());
    /// assert!(scheduler.is_shutdown());
    /// # }
    /// ```
    pub fn is_shutdown(&self) -> bool {
        // A shutdown closes this shard last.
        let last = &self.shards[self.shards.len() - 1];
        last.pending().is_none() || !last.common.is_open()
    }

    /// Schedules `future` to run as a tokio task on this scheduler, after `delay`.
    ///
    /// The delay starts with this call. If the delay is zero, the call spawns the task, which then cannot be canceled.
    /// The task runs on the scheduler's runtime. Any thread may call this method.
    ///
    /// # Errors
    ///
    /// Returns an error that holds the future, in these cases:
    ///
    /// * The scheduler has shut down.
    /// * The scheduler has as many waiting tasks as [`Builder::max_pending`] allows.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant};
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let scheduler = Scheduler::new();
    /// let start = Instant::now();
    /// let task = scheduler.schedule(Duration::from_secs(1), async { "done" })?;
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
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.start(|now| saturating_add(now, delay), future, |future| future)
    }

    /// Schedules `future` to run as a tokio task on this scheduler, at `deadline`.
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
    /// use tokio_wheel::{Duration, Instant};
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let scheduler = Scheduler::new();
    /// let noon = Instant::now() + Duration::from_secs(3_600);
    /// let task = scheduler.schedule_at(noon, async { Instant::now() })?;
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
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.start(|_| deadline, future, |future| future)
    }

    /// Schedules a periodic task on this scheduler, at a fixed rate.
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
    /// * The scheduler shuts down.
    ///
    /// # Panics
    ///
    /// Panics if `period` is zero.
    ///
    /// # Errors
    ///
    /// Returns an error that holds the closure, in these cases:
    ///
    /// * The scheduler has shut down.
    /// * The scheduler has as many waiting tasks as [`Builder::max_pending`] allows.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use tokio_wheel::{Duration, Instant};
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let scheduler = Scheduler::new();
    /// let start = Instant::now();
    /// let mut runs = 0;
    /// let task = scheduler.schedule_at_fixed_rate(
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
        F: Future<Output: RunOutput> + Send + 'static,
    {
        let burst = MissedTickBehavior::Burst;
        self.schedule_at_fixed_rate_with(burst, initial, period, make)
    }

    /// Schedules a periodic task on this scheduler, at a fixed rate, with a given behavior after late runs.
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
    /// use tokio_wheel::{sleep, Duration, Instant, MissedTickBehavior};
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const PERIOD: Duration = Duration::from_secs(10);
    /// let scheduler = Scheduler::new();
    /// let start = Instant::now();
    /// let task = scheduler.schedule_at_fixed_rate_with(
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
        F: Future<Output: RunOutput> + Send + 'static,
    {
        assert!(!period.is_zero(), "`period` must be non-zero.");
        let behavior = Some(behavior);
        let work = Periodic {
            make,
            period,
            behavior,
        };
        self.start(|now| saturating_add(now, initial), work, |work| work.make)
    }

    /// Schedules a periodic task on this scheduler, with a fixed delay between its runs.
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
    /// use tokio_wheel::{sleep, Duration, Instant};
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const SECOND: Duration = Duration::from_secs(1);
    /// let scheduler = Scheduler::new();
    /// let start = Instant::now();
    /// let task = scheduler.schedule_with_fixed_delay(
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
        F: Future<Output: RunOutput> + Send + 'static,
    {
        assert!(!delay.is_zero(), "`delay` must be non-zero.");
        let (period, behavior) = (delay, None);
        let work = Periodic {
            make,
            period,
            behavior,
        };
        self.start(|now| saturating_add(now, initial), work, |work| work.make)
    }

    /// Shuts the scheduler down, and returns the waiting tasks in the order of their deadlines.
    ///
    /// The scheduler accepts no more tasks. What happens to a task depends on its state:
    ///
    /// | task | effect of the shutdown |
    /// |---|---|
    /// | a task that runs once, and waits | The task is returned. |
    /// | a periodic task that waits | Its next run is returned: see [`Unstarted::is_periodic`]. |
    /// | a task that is running | The run completes: see [`wait_idle`](Self::wait_idle). A periodic task does not run again. |
    ///
    /// Run a returned task, keep it for later, or drop it. Awaiting its [`ScheduledTask`] returns an error whose
    /// [`is_shutdown`](TaskError::is_shutdown) is true. No task is lost or returned twice, even if other threads schedule, cancel
    /// or shut down at the same time.
    ///
    /// A task whose deadline passes during this call may still run, and is then not returned.
    ///
    /// A second call does nothing and returns an empty vector. A runtime that shuts down drops its waiting tasks, so a later
    /// call also returns an empty vector, unless the scheduler uses another runtime's timer.
    ///
    /// # Blocking
    ///
    /// This method blocks the thread while it collects and sorts the tasks. The cost is O(*n* log *n*): 0.2
    /// to 0.4 s for a million small tasks. Dropping these tasks takes another 0.1 to 0.4 s. If there are many
    /// tasks, call this method in [`spawn_blocking`](tokio::task::spawn_blocking) or on a separate thread.
    /// Drop the tasks there too.
    ///
    /// # Examples
    ///
    /// Each returned task is spawned, so that no task waits for another:
    ///
    /// ```
    /// use tokio::task::JoinSet;
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let scheduler = Scheduler::new();
    /// let task = scheduler.schedule(Duration::from_secs(60), async { println!("saved") })?;
    ///
    /// let left = scheduler.shutdown();
    /// assert_eq!(left.len(), 1);
    /// assert_eq!(left[0].deadline(), task.deadline());
    /// let runs: JoinSet<()> = left.into_iter().collect();
    /// runs.join_all().await;
    ///
    /// assert!(scheduler.shutdown().is_empty());
    /// assert!(task.await.unwrap_err().is_shutdown());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the tasks are dropped unless they are run or kept"]
    pub fn shutdown(&self) -> Vec<Unstarted> {
        // All lists are closed before the first task ends. So a thread that learns of the end can schedule no more.
        let closed: Vec<_> = self.shards.iter().map(|shard| shard.close()).collect();
        let mut left = Vec::new();
        for task in closed.into_iter().flatten() {
            left.extend(task.clone().give_back());
            // A task that has run in the meantime may drop its output here.
            unwind::discard(task);
        }
        left.sort_by_key(Unstarted::deadline);
        left
    }

    /// Waits until no task is running.
    ///
    /// Tasks that wait for their deadlines do not count. After a [`shutdown`](Self::shutdown), this method therefore waits for the
    /// last run, like the JDK's `awaitTermination`. The tasks run on this runtime, so call this method before the runtime ends.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Instant};
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const SECOND: Duration = Duration::from_secs(1);
    /// let start = Instant::now();
    /// let scheduler = Scheduler::new();
    /// scheduler.schedule(SECOND, sleep(10 * SECOND))?;
    /// scheduler.schedule(60 * SECOND, async {})?;
    /// sleep(2 * SECOND).await;
    ///
    /// assert_eq!(scheduler.shutdown().len(), 1);
    /// scheduler.wait_idle().await;
    /// assert!(start.elapsed() >= 10 * SECOND);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait_idle(&self) {
        loop {
            let idle = self.shards[0].common.idle.notified();
            if self.shards.iter().all(|it| it.is_idle()) {
                return;
            }
            notified(idle).await;
        }
    }

    /// Schedules `work`. `first` converts the current time to the first deadline.
    ///
    /// `given` converts the work back to the future or closure of the caller. If the scheduler refuses the work,
    /// the error holds this future or closure.
    fn start<W: Work, F>(
        &self,
        first: impl FnOnce(Instant) -> Instant,
        work: W,
        given: impl FnOnce(W) -> F,
    ) -> Result<ScheduledTask<W::Output>, ScheduleError<F>> {
        let now = Instant::now();
        let last = self.shards.len() - 1;
        let shard = &self.shards[worker_index().unwrap_or(last).min(last)];
        let deadline = first(now);
        let entry = Entry::new(shard, deadline);
        match entry.wait(shard, (now, deadline), work) {
            Ok(()) => Ok(ScheduledTask(entry, PhantomData)),
            Err((work, limit)) => Err(ScheduleError {
                task: given(work).into(),
                limit,
            }),
        }
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = self.pending();
        f.debug_tuple("Scheduler").field(&pending).finish()
    }
}
