//! The scheduled tasks that a shutdown of their timer returns.
//!
//! The thread that shuts a timer down wakes every waker in its shards, the entries of scheduled
//! tasks too. Such an entry did not expire. It knows by `Ending::is_closing`, which holds on that
//! thread and within that call. Any other entry that is woken has expired: the driver has taken it
//! out before. So each task either starts or is returned, and none is lost
//! (`schedule::loom_tests::shutdown_races_fire_and_schedule`, `tests/schedule/accounting.rs`).

use std::{
    cell::RefCell,
    fmt,
    future::Future,
    mem::{ManuallyDrop, replace, take},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::time::Instant;

use super::id::Id;
use crate::ground::sync::thread_local;

thread_local! {
    /// The tasks of the timer that the thread is shutting down. Empty at other times. Without a
    /// destructor, since a timer may be shut down while its thread ends.
    static LEFT: RefCell<ManuallyDrop<Vec<Unstarted>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// Returns the tasks that are kept while `shut_down` runs.
pub(super) fn collect(shut_down: impl FnOnce()) -> Vec<Unstarted> {
    // A waker may shut another timer down.
    let outer = LEFT.with(|left| take(&mut **left.borrow_mut()));
    shut_down();
    LEFT.with(|left| replace(&mut **left.borrow_mut(), outer))
}

/// Keeps a task of the timer that the thread is shutting down.
pub(super) fn keep(task: Unstarted) {
    LEFT.with(|left| left.borrow_mut().push(task));
}

/// A scheduled task that was waiting when its timer was shut down, returned by
/// [`Timer::shutdown`](crate::Timer::shutdown).
///
/// It is a future, which runs the task: await it, spawn it, wait for its
/// [`deadline`](Self::deadline) first, or drop it. Of a periodic task it is the next run, and
/// that is the last: see [`is_periodic`](Self::is_periodic). What the task returns is dropped: its
/// [`ScheduledTask`](super::ScheduledTask) has ended already, with an error that
/// [`is_shutdown`](crate::error::TaskError::is_shutdown).
///
/// # Panics
///
/// The future panics if the task does, and when it is polled after it was ready.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc::channel;
/// use tokio_wheel::{sleep_until, Duration, Instant, Timer};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::builder().build()?;
/// let (send, receive) = channel();
/// let due = Instant::now() + Duration::from_secs(60);
/// timer.schedule_at(due, async move { send.send("done") })?;
///
/// for task in timer.shutdown() {
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
    pub(super) id: Id,
    pub(super) deadline: Instant,
    pub(super) is_periodic: bool,
    pub(super) future: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Unstarted {
    /// The id of the task, which its [`ScheduledTask`](super::ScheduledTask) has as well.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().build()?;
    /// let task = timer.schedule(Duration::from_secs(1), async {})?;
    /// let left = timer.shutdown();
    /// assert_eq!(left[0].id(), task.id());
    /// # Ok(())
    /// # }
    /// ```
    pub fn id(&self) -> Id {
        self.id
    }

    /// Whether the task was to run time and again, and this is the next run.
    ///
    /// # Examples
    ///
    /// As the JDK's `ScheduledExecutorService.shutdown` does, what is delayed is kept, and what is
    /// periodic is not:
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const SECOND: Duration = Duration::from_secs(1);
    /// let timer = Timer::builder().build()?;
    /// let delayed = timer.schedule(SECOND, async {})?;
    /// timer.schedule_at_fixed_rate(SECOND, SECOND, || async {})?;
    ///
    /// let mut left = timer.shutdown();
    /// left.retain(|task| !task.is_periodic());
    /// assert_eq!(left.len(), 1);
    /// assert_eq!(left[0].id(), delayed.id());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_periodic(&self) -> bool {
        self.is_periodic
    }

    /// The instant at which the task would have become due, and may have done so already.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().build()?;
    /// timer.schedule(Duration::from_secs(1), async {})?;
    /// let left = timer.shutdown();
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
        f.debug_struct("Unstarted")
            .field("id", &self.id)
            .field("deadline", &self.deadline)
            .field("is_periodic", &self.is_periodic)
            .finish_non_exhaustive()
    }
}
