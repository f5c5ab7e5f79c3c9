//! The handle to a scheduled task.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::{task::coop, time::Instant};

use super::{entry::Task, id::Id};
use crate::error::TaskError;

/// A handle to a task scheduled by [`Timer::schedule`](crate::Timer::schedule) and its kin.
///
/// Awaiting it gives what the task returns, or an error if there is nothing: because it was
/// cancelled, because it panicked, or because the timer or the runtime shut down. Unless one of
/// these shut down it is ready when nothing of the task is left: what it held has been dropped.
///
/// Dropping it detaches the task, which runs all the same.
///
/// # Cancel safety
///
/// Awaiting `&mut task` is cancel safe: if it is not ready in time, nothing is lost.
///
/// # Panics
///
/// The future panics when it is polled after it was ready.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{Duration, Instant, Timer};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let task = Timer::current().schedule(Duration::from_secs(1), async { 7 })?;
/// assert_eq!(task.deadline(), Instant::now() + Duration::from_secs(1));
/// assert!(!task.is_expired());
/// assert_eq!(task.await?, 7);
/// # Ok(())
/// # }
/// ```
// Not `must_use`, as tokio's JoinHandle is not: to drop it is to detach.
pub struct ScheduledTask<T> {
    task: Arc<dyn Task<T>>,
    /// Whether the task may hold a waker of this handle's.
    polled: bool,
}

impl<T> ScheduledTask<T> {
    pub(super) fn new(task: Arc<dyn Task<T>>) -> Self {
        let polled = false;
        Self { task, polled }
    }

    /// Cancels the task, if it has not started, and says whether this call did.
    ///
    /// True at most once: not if the task has started, was cancelled before, or has gone with its
    /// timer. If it is true, the task has been dropped, and will not run.
    ///
    /// A periodic task may be cancelled at any time until it has ended. A run that is under way
    /// goes on to its end, but is the last, and what it returns is dropped. Until then
    /// [`is_finished`](Self::is_finished) is false and awaiting the handle is pending.
    ///
    /// # Panics
    ///
    /// If what is dropped panics as it is dropped. It is cancelled all the same.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let task = Timer::current().schedule(Duration::from_secs(1), async {})?;
    /// assert!(task.cancel());
    /// assert!(!task.cancel());
    /// assert!(task.await.unwrap_err().is_cancelled());
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel(&self) -> bool {
        self.task.cancel()
    }

    /// Identifies the task: the [`Unstarted`](super::Unstarted) that
    /// [`Timer::shutdown`](crate::Timer::shutdown) returns of it has the same id.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::current();
    /// let first = timer.schedule(Duration::from_secs(1), async {})?;
    /// let second = timer.schedule(Duration::from_secs(1), async {})?;
    /// assert_ne!(first.id(), second.id());
    /// # Ok(())
    /// # }
    /// ```
    pub fn id(&self) -> Id {
        self.task.status().id
    }

    /// Whether the task was cancelled.
    ///
    /// If it was waiting, what it held has been dropped. A periodic task may still be in its last run:
    /// see [`is_finished`](Self::is_finished).
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let task = Timer::current().schedule(Duration::from_secs(1), async {})?;
    /// assert!(!task.is_cancelled());
    /// task.cancel();
    /// assert!(task.is_cancelled());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.task.status().cancelled
    }

    /// Whether the task has become due and has started, for a periodic task at least once.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const SECOND: Duration = Duration::from_secs(1);
    /// let task = Timer::current().schedule(SECOND, sleep(10 * SECOND))?;
    /// assert!(!task.is_expired());
    /// sleep(2 * SECOND).await;
    /// assert!(task.is_expired());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_expired(&self) -> bool {
        self.task.status().started
    }

    /// Whether the task has come to its end: nothing of it is under way or will start any more, and
    /// awaiting it is ready.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const SECOND: Duration = Duration::from_secs(1);
    /// let task = Timer::current().schedule_at_fixed_rate(
    ///     SECOND,
    ///     SECOND,
    ///     || sleep(10 * SECOND),
    /// )?;
    /// sleep(2 * SECOND).await;
    /// task.cancel();
    /// assert!(task.is_cancelled() && !task.is_finished());
    /// sleep(10 * SECOND).await;
    /// assert!(task.is_finished());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    /// The instant at which the task is due, or was. For a periodic task it is that of the run
    /// which is awaited, under way, or was the last.
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
    /// let beat = Timer::current().schedule_at_fixed_rate(SECOND, SECOND, || async {})?;
    /// sleep(SECOND * 5 / 2).await;
    /// assert_eq!(beat.deadline(), start + 3 * SECOND);
    /// # Ok(())
    /// # }
    /// ```
    pub fn deadline(&self) -> Instant {
        self.task.status().deadline
    }
}

impl<T> Future for ScheduledTask<T> {
    type Output = Result<T, TaskError>;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.polled = true;
        let budget = ready!(coop::poll_proceed(cx));
        let result = ready!(self.task.poll_result(cx.waker()));
        budget.made_progress();
        match result {
            Some(result) => Poll::Ready(result),
            None => panic!("a ScheduledTask was polled after it had given its result"),
        }
    }
}

impl<T> Drop for ScheduledTask<T> {
    fn drop(&mut self) {
        if self.polled {
            self.task.detach();
        }
    }
}

// The handle changes no state of the task while user code runs, so a panic leaves nothing half done. tokio's
// `JoinHandle` has both traits for every `T`.
impl<T> std::panic::UnwindSafe for ScheduledTask<T> {}
impl<T> std::panic::RefUnwindSafe for ScheduledTask<T> {}

impl<T> fmt::Debug for ScheduledTask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.task.status();
        f.debug_struct("ScheduledTask")
            .field("id", &status.id)
            .field("deadline", &status.deadline)
            .field("is_expired", &status.started)
            .field("is_cancelled", &status.cancelled)
            .finish_non_exhaustive()
    }
}
