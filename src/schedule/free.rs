//! The free functions. They schedule tasks on the default timer.

use std::{future::Future, time::Duration};

use tokio::time::{Instant, MissedTickBehavior};

use super::{
    ScheduledTask,
    start::On,
    work::{Pace, RunOutput},
};
use crate::error::ScheduleError;

/// Schedules `future` to run as a tokio task on the default timer of the current runtime, after `delay`.
///
/// The delay starts with this call. If the delay is zero, the task starts at once.
/// The task runs on the current runtime.
///
/// The call asks tokio which runtime is current. For this, tokio changes a reference count. All threads of
/// the runtime share this count. The methods of [`Timer`](crate::Timer) do not ask. If many threads schedule very
/// often, keep a `Timer` and use its methods.
///
/// # Panics
///
/// Panics outside of a runtime. Panics if time is not enabled on the runtime.
///
/// # Errors
///
/// Returns an error that holds the future, in these cases:
///
/// * The runtime has shut down.
/// * The timer has as many pending entries as
///   [`Builder::max_pending`](crate::Builder::max_pending) allows.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{schedule, Duration, Instant};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let start = Instant::now();
/// let task = schedule(Duration::from_secs(1), async { "done" })?;
/// assert_eq!(task.await?, "done");
/// assert!(start.elapsed() >= Duration::from_secs(1));
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn schedule<F>(delay: Duration, future: F) -> Result<ScheduledTask<F::Output>, ScheduleError<F>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    On::Default.once_after(delay, future)
}

/// Schedules `future` to run as a tokio task on the default timer of the current runtime, at `deadline`.
///
/// If the deadline has passed, the task starts at once. See [`schedule`](crate::schedule()).
///
/// # Panics
///
/// Panics outside of a runtime. Panics if time is not enabled on the runtime.
///
/// # Errors
///
/// Returns the errors of [`schedule`](crate::schedule()).
///
/// # Examples
///
/// ```
/// use tokio_wheel::{schedule_at, Duration, Instant};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let noon = Instant::now() + Duration::from_secs(3_600);
/// let task = schedule_at(noon, async { Instant::now() })?;
/// assert!(task.await? >= noon);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn schedule_at<F>(
    deadline: Instant,
    future: F,
) -> Result<ScheduledTask<F::Output>, ScheduleError<F>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    On::Default.once_at(deadline, future)
}

/// Schedules a periodic task on the default timer, at a fixed rate.
///
/// The deadline of each run is one `period` after the deadline of the previous run.
/// The first run starts after `initial`. For each run, the task calls `make` and awaits the
/// returned future. Runs do not overlap.
///
/// A run is late if it starts more than 5 ms after its deadline. The missed runs then follow at once, as
/// [`MissedTickBehavior::Burst`] says. To choose another behavior, use
/// [`schedule_at_fixed_rate_with`].
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
/// Panics outside of a runtime. Panics if time is not enabled on the runtime.
///
/// # Errors
///
/// Returns an error that holds the closure, in these cases:
///
/// * The runtime has shut down.
/// * The timer has as many pending entries as
///   [`Builder::max_pending`](crate::Builder::max_pending) allows.
///
/// # Examples
///
/// ```
/// use std::ops::ControlFlow;
/// use tokio_wheel::{schedule_at_fixed_rate, Duration, Instant};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let start = Instant::now();
/// let mut runs = 0;
/// let task = schedule_at_fixed_rate(
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
    initial: Duration,
    period: Duration,
    make: C,
) -> Result<ScheduledTask<<F::Output as RunOutput>::Output>, ScheduleError<C>>
where
    C: FnMut() -> F + Send + 'static,
    F: Future + Send + 'static,
    F::Output: RunOutput,
{
    On::Default.periodic(
        initial,
        period,
        make,
        Pace::FixedRate(MissedTickBehavior::Burst),
    )
}

/// Schedules a periodic task on the default timer, at a fixed rate, with a given behavior after late runs.
///
/// This function does what [`schedule_at_fixed_rate`] does, but `behavior`
/// decides what happens after a late run.
///
/// # Panics
///
/// Panics if `period` is zero.
///
/// Panics outside of a runtime. Panics if time is not enabled on the runtime.
///
/// # Errors
///
/// Returns the errors of [`schedule_at_fixed_rate`].
///
/// # Examples
///
/// Each run takes 2.5 periods, and the task skips the runs that it misses:
///
/// ```
/// use tokio_wheel::{schedule_at_fixed_rate_with, sleep, Duration, Instant, MissedTickBehavior};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// const PERIOD: Duration = Duration::from_secs(10);
/// let start = Instant::now();
/// let task = schedule_at_fixed_rate_with(
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
    On::Default.periodic(initial, period, make, Pace::FixedRate(behavior))
}

/// Schedules a periodic task on the default timer, with a fixed delay between its runs.
///
/// Each run starts `delay` after the end of the previous run.
/// The first run starts after `initial`. For each run, the task calls `make` and awaits the
/// returned future. The task ends in the cases that
/// [`schedule_at_fixed_rate`] lists.
///
/// # Panics
///
/// Panics if `delay` is zero.
///
/// Panics outside of a runtime. Panics if time is not enabled on the runtime.
///
/// # Errors
///
/// Returns the errors of [`schedule_at_fixed_rate`].
///
/// # Examples
///
/// ```
/// use tokio_wheel::{schedule_with_fixed_delay, sleep, Duration, Instant};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// const SECOND: Duration = Duration::from_secs(1);
/// let start = Instant::now();
/// let task = schedule_with_fixed_delay(
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
    initial: Duration,
    delay: Duration,
    make: C,
) -> Result<ScheduledTask<<F::Output as RunOutput>::Output>, ScheduleError<C>>
where
    C: FnMut() -> F + Send + 'static,
    F: Future + Send + 'static,
    F::Output: RunOutput,
{
    On::Default.periodic(initial, delay, make, Pace::FixedDelay)
}
