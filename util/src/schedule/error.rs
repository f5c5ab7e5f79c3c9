//! The errors of a scheduler and of its tasks.

use std::sync::Mutex;
use std::{any::Any, error::Error, fmt};

use crate::{ground::unwind, limit::lock};

/// The error that a scheduler returns if it refuses a task. It contains the task.
///
/// [`is_full`](Self::is_full) and [`is_shutdown`](Self::is_shutdown) tell the reason. If the task is `Send`,
/// the error is `Sync`, so `?` can convert it to `Box<dyn Error + Send + Sync>`.
///
/// # Examples
///
/// ```
/// use std::{error::Error, pin::Pin};
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::schedule::{ScheduledTask, Scheduler};
///
/// type Job = Pin<Box<dyn Future<Output = u8> + Send>>;
///
/// fn later(scheduler: &Scheduler, job: Job) -> Result<ScheduledTask<u8>, Box<dyn Error + Send + Sync>> {
///     Ok(scheduler.schedule(Duration::from_secs(1), job)?)
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let scheduler = Scheduler::new();
/// let task = later(&scheduler, Box::pin(async { 7 })).unwrap();
/// assert_eq!(task.await.unwrap(), 7);
///
/// drop(scheduler.shutdown());
/// let error = later(&scheduler, Box::pin(async { 7 })).unwrap_err();
/// assert!(error.to_string().contains("shut down"));
/// # }
/// ```
///
/// [`into_inner`](Self::into_inner) returns the task:
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::schedule::Scheduler;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let scheduler = Scheduler::new();
/// drop(scheduler.shutdown());
///
/// let refused = scheduler.schedule(Duration::from_secs(1), async { 7 }).unwrap_err();
/// assert!(refused.is_shutdown());
/// assert_eq!(refused.into_inner().await, 7);
/// # }
/// ```
pub struct ScheduleError<F> {
    /// Few futures are `Sync`. The mutex makes the error `Sync`. No thread locks the mutex.
    pub(super) task: Mutex<F>,
    /// The limit on waiting tasks, if it is reached. `None` after a shutdown.
    pub(super) limit: Option<usize>,
}

impl<F> ScheduleError<F> {
    /// Returns whether the scheduler had reached the limit that
    /// [`Builder::max_pending`](super::Builder::max_pending) sets.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let scheduler = Scheduler::builder().max_pending(1).build();
    /// scheduler.schedule(Duration::from_secs(1), async {})?;
    /// let refused = scheduler.schedule(Duration::from_secs(1), async {}).unwrap_err();
    /// assert!(refused.is_full());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_full(&self) -> bool {
        self.limit.is_some()
    }

    /// Returns whether the scheduler has shut down.
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
    /// drop(scheduler.shutdown());
    /// let refused = scheduler.schedule(Duration::from_secs(1), async {}).unwrap_err();
    /// assert!(refused.is_shutdown());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_shutdown(&self) -> bool {
        self.limit.is_none()
    }

    /// Returns the task: the future, or the closure of a periodic task.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let scheduler = Scheduler::builder().max_pending(1).build();
    /// let task = scheduler.schedule(Duration::from_secs(1), async {})?;
    /// let refused = scheduler.schedule(Duration::from_secs(2), async { 7 }).unwrap_err();
    /// task.cancel();
    /// let again = scheduler.schedule(Duration::from_secs(2), refused.into_inner())?;
    /// assert_eq!(again.await?, 7);
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_inner(self) -> F {
        self.task.into_inner().expect("no thread locks it")
    }
}

impl<F> fmt::Debug for ScheduleError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScheduleError({self})")
    }
}

impl<F> fmt::Display for ScheduleError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            Some(max) => write!(f, "max_pending is {max}, and as many tasks are waiting"),
            None => f.write_str("the scheduler has shut down"),
        }
    }
}

impl<F> Error for ScheduleError<F> {}

/// The error of a [`ScheduledTask`](super::ScheduledTask) whose task ended without an output.
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
/// task.cancel();
/// assert!(task.await.unwrap_err().is_cancelled());
///
/// let task = Scheduler::new().schedule(Duration::from_secs(1), async { panic!("oh") })?;
/// let error = task.await.unwrap_err();
/// assert_eq!(error.to_string(), "the task panicked: oh");
/// assert_eq!(error.into_panic().downcast_ref(), Some(&"oh"));
/// # Ok(())
/// # }
/// ```
pub struct TaskError(pub(super) Cause);

pub(super) enum Cause {
    Cancelled,
    Shutdown,
    /// The payload of the panic. The lock makes the error `Sync`.
    Panicked(Mutex<Box<dyn Any + Send>>),
}

impl TaskError {
    /// Returns whether the task was canceled.
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
    /// task.cancel();
    /// assert!(task.await.unwrap_err().is_cancelled());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_cancelled(&self) -> bool {
        matches!(self.0, Cause::Cancelled)
    }

    /// Returns whether the scheduler or its runtime shut down before the task ended.
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
    /// drop(scheduler.shutdown());
    /// assert!(task.await.unwrap_err().is_shutdown());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_shutdown(&self) -> bool {
        matches!(self.0, Cause::Shutdown)
    }

    /// Returns whether the task panicked.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let task = Scheduler::new().schedule(Duration::from_secs(1), async { panic!("oh") })?;
    /// assert!(task.await.unwrap_err().is_panic());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_panic(&self) -> bool {
        matches!(self.0, Cause::Panicked(_))
    }

    /// Returns the payload of the task's panic, for [`resume_unwind`](std::panic::resume_unwind).
    ///
    /// # Panics
    ///
    /// Panics if the task was canceled, or if the scheduler or its runtime shut down before the task ended.
    /// [`is_panic`](Self::is_panic) returns `false` in these cases. [`try_into_panic`](Self::try_into_panic)
    /// returns an error instead.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let task = Scheduler::new().schedule(Duration::from_secs(1), async { panic!("oh") })?;
    /// let payload = task.await.unwrap_err().into_panic();
    /// assert_eq!(payload.downcast_ref(), Some(&"oh"));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn into_panic(self) -> Box<dyn Any + Send> {
        self.try_into_panic().expect("the task did not panic")
    }

    /// Returns the payload of the task's panic, for [`resume_unwind`](std::panic::resume_unwind).
    ///
    /// # Errors
    ///
    /// Returns the error itself if the task did not panic.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::schedule::Scheduler;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let task = Scheduler::new().schedule(Duration::from_secs(1), async { panic!("oh") })?;
    /// match task.await.unwrap_err().try_into_panic() {
    ///     Ok(payload) => assert_eq!(payload.downcast_ref(), Some(&"oh")),
    ///     Err(error) => println!("{error}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send>, Self> {
        match self.0 {
            Cause::Panicked(payload) => Ok(payload.into_inner().expect("no panic under the lock")),
            cause => Err(Self(cause)),
        }
    }
}

impl fmt::Debug for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskError({self})")
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The formatter is user code and may display this error again, so it is called without the lock.
        let message = match &self.0 {
            Cause::Cancelled => "the task was canceled".to_owned(),
            Cause::Shutdown => "the scheduler shut down before the task ended".to_owned(),
            Cause::Panicked(payload) => match unwind::message(&**lock(payload)) {
                Some(message) => format!("the task panicked: {message}"),
                None => "the task panicked".to_owned(),
            },
        };
        f.write_str(&message)
    }
}

impl Error for TaskError {}
