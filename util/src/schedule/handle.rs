//! The handles of a scheduled task.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::{any::Any, fmt, future::Future, marker::PhantomData, pin::Pin};

use tokio::{task::coop, time::Instant};

use super::{error::TaskError, unstarted::Unstarted};

/// What a handle, a list and a shutdown see of a scheduled task, behind a trait that names none of its types.
///
/// Its handles are unwind safe: a panic of user code never leaves an entry half changed, because user code does not run
/// under the lock.
pub(super) trait Task: Send + Sync + UnwindSafe + RefUnwindSafe {
    /// Cancels the task. Returns whether this call canceled it.
    fn cancel(self: Arc<Self>) -> bool;

    /// Takes the task for a shutdown, if it waits. Its handle then sees the end.
    fn give_back(self: Arc<Self>) -> Option<Unstarted>;

    fn status(&self) -> Status;

    /// Stores the result of a task that has ended in `result`, an `Option<Result<T, TaskError>>`, unless an earlier call
    /// did so. Otherwise keeps a clone of `waker`. The end of the task wakes this clone.
    fn poll_result(&self, waker: &Waker, result: &mut dyn Any) -> Poll<()>;

    /// Drops the waker.
    fn detach(&self);
}

/// The state of a task, which its handles can read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Status {
    pub(super) id: u64,
    /// The deadline of the next run, of the current run or of the last run.
    pub(super) deadline: Instant,
    /// Whether the first run has started.
    pub(super) is_started: bool,
    /// Whether the task was canceled. The current run of a periodic task is then its last run.
    pub(super) is_cancelled: bool,
    pub(super) is_finished: bool,
}

/// A handle to a scheduled task.
///
/// [`Scheduler::schedule`](super::Scheduler::schedule) and the related methods return it. Awaiting the handle returns
/// the output of the task. Awaiting returns a [`TaskError`] in these cases:
///
/// * The task was canceled.
/// * The task panicked.
/// * The scheduler or its runtime shut down.
///
/// The task drops its future and its closure before the handle is ready. There is one exception:
/// [`Scheduler::shutdown`](super::Scheduler::shutdown) returns tasks that still hold their future and closure.
///
/// Dropping the handle detaches the task: it still runs.
///
/// # Cancel safety
///
/// Awaiting `&mut task` is cancel safe. If another branch of a `select!` completes first, the output
/// stays available.
///
/// # Panics
///
/// Panics if the handle is polled after it was ready.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{Duration, Instant};
/// use tokio_wheel_util::schedule::Scheduler;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let task = Scheduler::new().schedule(Duration::from_secs(1), async { 7 })?;
/// assert_eq!(task.deadline(), Instant::now() + Duration::from_secs(1));
/// assert!(!task.is_started());
/// assert_eq!(task.await?, 7);
/// # Ok(())
/// # }
/// ```
// Like tokio's `JoinHandle`, this type is not `must_use`: dropping the handle detaches the task.
pub struct ScheduledTask<T>(pub(super) Arc<dyn Task>, pub(super) PhantomData<fn() -> T>);

impl<T> ScheduledTask<T> {
    /// Cancels the task. Returns whether this call canceled it.
    ///
    /// At most one call returns `true`. If the task was waiting, it drops its future or closure before this
    /// call returns, and never runs. A call returns `false` in these cases:
    ///
    /// * The task runs only once, and has started. A task whose deadline has passed when it is scheduled starts at once.
    /// * The task was canceled before, or another thread is canceling it.
    /// * The task has ended, or its scheduler has shut down.
    ///
    /// A periodic task can be canceled until it has ended. The current run still completes, and then the task
    /// drops the output of this run. No further run starts. Until the run completes, the handle is pending
    /// and [`is_finished`](Self::is_finished) returns `false`.
    ///
    /// # Panics
    ///
    /// Panics if dropping the future or closure panics. The task is canceled anyway.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let task = Scheduler::new().schedule(Duration::from_secs(1), async {})?;
    /// assert!(task.cancel());
    /// assert!(!task.cancel());
    /// assert!(task.await.unwrap_err().is_cancelled());
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel(&self) -> bool {
        self.0.clone().cancel()
    }

    /// Returns a handle that can cancel the task, but cannot return its output.
    ///
    /// The type [`CancelHandle`] does not name the output, so one map can hold the handles of tasks with different outputs.
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
    /// let number = Scheduler::new().schedule(Duration::from_secs(1), async { 7 })?;
    /// let text = Scheduler::new().schedule(Duration::from_secs(2), async { "seven" })?;
    ///
    /// let mut handles = HashMap::new();
    /// handles.insert("number", number.cancel_handle());
    /// handles.insert("text", text.cancel_handle());
    ///
    /// assert!(handles["text"].cancel());
    /// assert_eq!(number.await?, 7);
    /// assert!(handles["number"].is_finished());
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle(Arc::downgrade(&self.0))
    }

    /// Returns the id of the task, which is unique within its scheduler.
    ///
    /// [`Unstarted::id`](super::Unstarted::id) returns the same id.
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
    /// let other = scheduler.schedule(Duration::from_secs(1), async {})?;
    /// assert_ne!(task.id(), other.id());
    /// # Ok(())
    /// # }
    /// ```
    pub fn id(&self) -> u64 {
        self.0.status().id
    }

    /// Returns whether the task was canceled.
    ///
    /// If the task was waiting when it was canceled, it has dropped its future or closure before this method
    /// returns `true`. If a periodic task was canceled during a run, this run may still be active: see
    /// [`is_finished`](Self::is_finished).
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let task = Scheduler::new().schedule(Duration::from_secs(1), async {})?;
    /// assert!(!task.is_cancelled());
    /// task.cancel();
    /// assert!(task.is_cancelled());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.0.status().is_cancelled
    }

    /// Returns whether the task has started. A periodic task has started when its first run has started.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration};
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const SECOND: Duration = Duration::from_secs(1);
    /// let task = Scheduler::new().schedule(SECOND, sleep(10 * SECOND))?;
    /// assert!(!task.is_started());
    /// sleep(2 * SECOND).await;
    /// assert!(task.is_started());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_started(&self) -> bool {
        self.0.status().is_started
    }

    /// Returns whether the task has ended.
    ///
    /// After the end, no run is active, and the scheduler starts no further run. Awaiting the handle then returns
    /// at once. [`Scheduler::shutdown`](super::Scheduler::shutdown) also ends the tasks that it returns, but you can
    /// still run them.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration};
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const SECOND: Duration = Duration::from_secs(1);
    /// let task = Scheduler::new().schedule_at_fixed_rate(SECOND, SECOND, || sleep(10 * SECOND))?;
    /// sleep(2 * SECOND).await;
    /// task.cancel();
    /// assert!(task.is_cancelled() && !task.is_finished());
    /// sleep(10 * SECOND).await;
    /// assert!(task.is_finished());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_finished(&self) -> bool {
        self.0.status().is_finished
    }

    /// Returns the deadline of the task.
    ///
    /// A periodic task has a deadline for each run. The returned deadline depends on the state of the task:
    ///
    /// * While the task waits, the method returns the deadline of the next run.
    /// * While the task runs, the method returns the deadline of the current run.
    /// * After the task has ended, the method returns the deadline of the last run.
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
    /// let beat = Scheduler::new().schedule_at_fixed_rate(SECOND, SECOND, || async {})?;
    /// sleep(SECOND * 5 / 2).await;
    /// assert_eq!(beat.deadline(), start + 3 * SECOND);
    /// # Ok(())
    /// # }
    /// ```
    pub fn deadline(&self) -> Instant {
        self.0.status().deadline
    }
}

impl<T: 'static> Future for ScheduledTask<T> {
    type Output = Result<T, TaskError>;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let budget = ready!(coop::poll_proceed(cx));
        let mut result = None;
        ready!(self.0.poll_result(cx.waker(), &mut result));
        budget.made_progress();
        Poll::Ready(result.expect("a `ScheduledTask` was polled after it was ready"))
    }
}

impl<T> Drop for ScheduledTask<T> {
    fn drop(&mut self) {
        // If no other thread can see the task, the drop of the entry drops the waker.
        if Arc::strong_count(&self.0) > 1 {
            self.0.detach();
        }
    }
}

impl<T> fmt::Debug for ScheduledTask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.0.status();
        f.debug_tuple("ScheduledTask").field(&status).finish()
    }
}

/// A handle that can cancel a scheduled task. Its type does not name the output of the task.
///
/// [`ScheduledTask::cancel_handle`] returns this handle. All clones of a handle cancel the same task.
/// Dropping all handles of this type has no effect on the task.
///
/// A `CancelHandle` does not keep the future, closure or output of the task alive, but their memory is freed only with the
/// last handle.
///
/// # Examples
///
/// A server schedules a task for each connection, and keeps the handles in a map by connection number:
///
/// ```
/// use std::collections::HashMap;
/// use tokio_wheel::{sleep, Duration};
/// use tokio_wheel_util::schedule::{CancelHandle, Scheduler};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// const SECOND: Duration = Duration::from_secs(1);
/// let mut closers: HashMap<u64, CancelHandle> = HashMap::new();
/// for connection in [1, 2] {
///     let task = Scheduler::new().schedule(30 * SECOND, async move { println!("{connection} is idle") })?;
///     closers.insert(connection, task.cancel_handle());
/// }
///
/// assert!(closers[&1].cancel());
/// sleep(31 * SECOND).await;
/// assert!(!closers[&2].cancel(), "it has run");
/// closers.retain(|_, closer| !closer.is_finished());
/// assert!(closers.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CancelHandle(Weak<dyn Task>);

impl CancelHandle {
    /// Cancels the task, as [`ScheduledTask::cancel`] does. Returns whether this call canceled it.
    ///
    /// # Panics
    ///
    /// Panics if dropping the future or closure panics. The task is canceled anyway.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration};
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let task = Scheduler::new().schedule(Duration::from_secs(1), async {})?;
    /// let handle = task.cancel_handle();
    /// assert!(handle.cancel());
    /// assert!(!handle.cancel());
    /// assert!(task.is_cancelled());
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel(&self) -> bool {
        self.0.upgrade().is_some_and(|task| task.cancel())
    }

    /// Returns whether the task has ended. See [`ScheduledTask::is_finished`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration};
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let task = Scheduler::new().schedule(Duration::from_secs(1), async {})?;
    /// let handle = task.cancel_handle();
    /// assert!(!handle.is_finished());
    /// sleep(Duration::from_secs(2)).await;
    /// assert!(handle.is_finished());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_finished(&self) -> bool {
        let task = self.0.upgrade();
        task.is_none_or(|task| task.status().is_finished)
    }
}

impl fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.0.upgrade().map(|task| task.status());
        f.debug_tuple("CancelHandle").field(&status).finish()
    }
}
