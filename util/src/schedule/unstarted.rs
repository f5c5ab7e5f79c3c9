//! The scheduled tasks that a shutdown of their scheduler returns.

use std::task::{Context, Poll};
use std::{fmt, future::Future, pin::Pin};

use tokio::time::Instant;

/// A scheduled task that [`Scheduler::shutdown`](super::Scheduler::shutdown) has returned.
///
/// The task was waiting for its deadline at the shutdown. An `Unstarted` is a future that runs the task.
/// It does not wait for the [`deadline`](Self::deadline). Await it, spawn it or drop it. A periodic task runs
/// once more and then ends: see [`is_periodic`](Self::is_periodic).
///
/// The output of the task is dropped. Awaiting its [`ScheduledTask`](super::ScheduledTask) returns an error
/// whose [`is_shutdown`](super::TaskError::is_shutdown) is true.
///
/// The [`id`](Self::id) tells which task it is, for example to save what did not run.
///
/// # Cancel safety
///
/// Awaiting `&mut unstarted` is cancel safe if the future of the task is cancel safe.
///
/// # Panics
///
/// Panics if the task panics. Also panics if the future is polled after it was ready.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc::channel;
/// use tokio_wheel::{sleep_until, Duration, Instant};
/// use tokio_wheel_util::schedule::Scheduler;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let scheduler = Scheduler::new();
/// let (send, receive) = channel();
/// let due = Instant::now() + Duration::from_secs(60);
/// scheduler.schedule_at(due, async move { send.send("done") })?;
///
/// for task in scheduler.shutdown() {
///     assert_eq!(task.deadline(), due);
///     tokio::spawn(async move {
///         sleep_until(task.deadline()).await;
///         task.await;
///     });
/// }
/// sleep_until(due + Duration::from_millis(1)).await;
/// assert_eq!(receive.recv(), Ok("done"));
/// # Ok(())
/// # }
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Unstarted {
    pub(super) id: u64,
    pub(super) deadline: Instant,
    pub(super) is_periodic: bool,
    pub(super) future: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Unstarted {
    /// Returns the id of the task: the [`ScheduledTask::id`](super::ScheduledTask::id) of its handle.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let scheduler = Scheduler::new();
    /// let mut jobs = HashMap::new();
    /// for job in ["bill", "remind"] {
    ///     let task = scheduler.schedule(Duration::from_secs(60), async move { println!("{job}") })?;
    ///     jobs.insert(task.id(), job);
    /// }
    /// let left = scheduler.shutdown();
    /// let mut saved: Vec<_> = left.iter().map(|task| jobs[&task.id()]).collect();
    /// saved.sort();
    /// assert_eq!(saved, ["bill", "remind"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns whether the task is periodic. If it is, this future runs only the next run.
    ///
    /// # Examples
    ///
    /// Like the JDK's `ScheduledExecutorService.shutdown`, this code keeps delayed tasks and drops periodic
    /// tasks:
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const SECOND: Duration = Duration::from_secs(1);
    /// let scheduler = Scheduler::new();
    /// let delayed = scheduler.schedule(2 * SECOND, async {})?;
    /// scheduler.schedule_at_fixed_rate(SECOND, SECOND, || async {})?;
    ///
    /// let mut left = scheduler.shutdown();
    /// left.retain(|task| !task.is_periodic());
    /// assert_eq!(left.len(), 1);
    /// assert_eq!(left[0].deadline(), delayed.deadline());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_periodic(&self) -> bool {
        self.is_periodic
    }

    /// Returns the deadline of the task, which may have passed.
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
    /// scheduler.schedule(Duration::from_secs(1), async {})?;
    /// let left = scheduler.shutdown();
    /// assert_eq!(left[0].deadline(), Instant::now() + Duration::from_secs(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn deadline(&self) -> Instant {
        self.deadline
    }
}

impl Future for Unstarted {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.future.as_mut().poll(cx)
    }
}

impl fmt::Debug for Unstarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = (self.id(), self.deadline(), self.is_periodic);
        f.debug_tuple("Unstarted").field(&fields).finish()
    }
}
