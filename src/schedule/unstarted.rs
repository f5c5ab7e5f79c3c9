//! The scheduled tasks that a shutdown of their timer returns.
//!
//! The thread that shuts a timer down wakes all wakers in the timer's shards. Each entry of a scheduled
//! task is such a waker. When an entry is woken, it calls `Ending::is_closing`:
//!
//! * If `is_closing` returns true, this thread is closing the timer, and the entry has not expired. A shutdown
//!   of the timer returns the task. The end of the runtime drops the task.
//! * If `is_closing` returns false, the driver has woken the entry after its deadline. The task starts.
//!
//! So when a timer is shut down, each of its waiting tasks either starts or is returned
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

use crate::ground::sync::thread_local;

thread_local! {
    /// The tasks of the timer that this thread is shutting down. The list is empty at other times.
    ///
    /// The value has no destructor, because a thread may shut a timer down while the thread ends.
    static LEFT: RefCell<ManuallyDrop<Vec<Unstarted>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// Calls `shut_down`, and returns the tasks that [`keep`] collects during the call.
pub(super) fn collect(shut_down: impl FnOnce()) -> Vec<Unstarted> {
    // During the call a waker may shut another timer down, and so call this function again.
    let outer = LEFT.with(|left| take(&mut **left.borrow_mut()));
    shut_down();
    LEFT.with(|left| replace(&mut **left.borrow_mut(), outer))
}

/// Collects a task of the timer that this thread is shutting down.
pub(super) fn keep(task: Unstarted) {
    LEFT.with(|left| left.borrow_mut().push(task));
}

/// A scheduled task that [`Timer::shutdown`](crate::Timer::shutdown) has returned.
///
/// The task was waiting for its deadline at the shutdown. An `Unstarted` is a future that runs the task.
/// It does not wait for the [`deadline`](Self::deadline). Await it, spawn it or drop it. A periodic task runs
/// once more and then ends: see [`is_periodic`](Self::is_periodic).
///
/// The output of the task is dropped. Awaiting its [`ScheduledTask`](super::ScheduledTask) returns an error
/// whose [`is_shutdown`](crate::error::TaskError::is_shutdown) is true.
///
/// Tasks have no id. If a program must recognize a task, it stores its own key in the future of the task.
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
    pub(super) deadline: Instant,
    pub(super) is_periodic: bool,
    pub(super) future: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Unstarted {
    /// Returns whether the task is periodic. If it is, this future runs only the next run.
    ///
    /// # Examples
    ///
    /// Like the JDK's `ScheduledExecutorService.shutdown`, this code keeps delayed tasks and drops periodic
    /// tasks:
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const SECOND: Duration = Duration::from_secs(1);
    /// let timer = Timer::builder().build()?;
    /// let delayed = timer.schedule(2 * SECOND, async {})?;
    /// timer.schedule_at_fixed_rate(SECOND, SECOND, || async {})?;
    ///
    /// let mut left = timer.shutdown();
    /// left.retain(|task| !task.is_periodic());
    /// assert_eq!(left.len(), 1);
    /// assert_eq!(left[0].deadline(), delayed.deadline());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_periodic(&self) -> bool {
        self.is_periodic
    }

    /// Returns the deadline of the task, which may have passed.
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
    #[must_use]
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
            .field("deadline", &self.deadline)
            .field("is_periodic", &self.is_periodic)
            .finish_non_exhaustive()
    }
}
