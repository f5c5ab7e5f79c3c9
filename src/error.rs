//! The error types of this crate.

use std::{
    any::Any,
    error::Error,
    fmt, io,
    panic::{RefUnwindSafe, UnwindSafe},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::ground::unwind;

/// The error of a [`Timeout`](crate::Timeout) whose future was not ready in time.
///
/// The error converts to an [`io::Error`] of the kind [`TimedOut`](io::ErrorKind::TimedOut). tokio's
/// [`Elapsed`](tokio::time::error::Elapsed) converts to this type. One function can therefore use `?` on the
/// timeouts of both crates.
///
/// # Examples
///
/// ```
/// use std::io;
/// use tokio_wheel::{timeout, Duration};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let elapsed = timeout(Duration::ZERO, std::future::pending::<()>()).await.unwrap_err();
/// assert_eq!(elapsed.to_string(), "deadline has elapsed");
/// assert_eq!(io::Error::from(elapsed).kind(), io::ErrorKind::TimedOut);
/// # }
/// ```
///
/// This function uses the timeouts of both crates:
///
/// ```
/// use tokio_wheel::{error::Elapsed, Duration};
///
/// async fn both(limit: Duration) -> Result<(), Elapsed> {
///     tokio::time::timeout(limit, async {}).await?;
///     tokio_wheel::timeout(limit, async {}).await?;
///     tokio::time::timeout(limit, std::future::pending()).await?
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let elapsed = both(Duration::from_secs(1)).await.unwrap_err();
/// assert_eq!(elapsed.to_string(), "deadline has elapsed");
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elapsed(pub(crate) ());

impl Elapsed {
    /// Creates the error, for a limit of your own or for a test.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::error::Elapsed;
    ///
    /// assert_eq!(Elapsed::new().to_string(), "deadline has elapsed");
    /// ```
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "an error is no value to fall back on"
    )]
    pub const fn new() -> Self {
        Self(())
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

impl Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(_elapsed: Elapsed) -> Self {
        io::ErrorKind::TimedOut.into()
    }
}

impl From<tokio::time::error::Elapsed> for Elapsed {
    fn from(_elapsed: tokio::time::error::Elapsed) -> Self {
        Self(())
    }
}

/// The error of a [`Builder`](crate::Builder) that cannot create its timer.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{Duration, Timer, error::BuildError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let error = Timer::builder().tick(Duration::ZERO).build().unwrap_err();
/// assert!(matches!(error, BuildError::Tick { .. }));
/// assert_eq!(error.to_string(), "tick must be between 1ns and 3600s, got 0ns");
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The tick is out of range.
    #[non_exhaustive]
    Tick {
        /// The tick that the caller set.
        given: Duration,
        /// The shortest tick that is allowed. It is longer for a timer of high resolution than for other
        /// timers.
        min: Duration,
        /// The longest tick that is allowed.
        max: Duration,
    },
    /// The number of shards is zero or too high.
    #[non_exhaustive]
    Shards {
        /// The number of shards that the caller set.
        given: usize,
        /// The highest number of shards that is allowed.
        max: usize,
    },
    /// The limit of pending entries is zero.
    ZeroMaxPending,
    /// The calling thread is not in a runtime.
    NoRuntime,
    /// The runtime has shut down, or is shutting down.
    RuntimeShutdown,
    /// The runtime already has a default timer. The first sleep, timeout or interval of a runtime starts one.
    AlreadyInstalled,
    /// The operating system or the runtime refused the alarm that a timer of high resolution needs.
    ///
    /// The [`source`](Error::source) of the error is an [`io::Error`]. On systems other than Linux, the kind
    /// of the `io::Error` is [`Unsupported`](io::ErrorKind::Unsupported).
    #[cfg(feature = "high-resolution")]
    #[non_exhaustive]
    Alarm {
        /// The error of the operating system or of the runtime.
        source: io::Error,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tick { given, min, max } => {
                write!(f, "tick must be between {min:?} and {max:?}, got {given:?}")
            }
            Self::Shards { given, max } => {
                write!(f, "shards must be 1 to {max}, got {given}")
            }
            Self::ZeroMaxPending => f.write_str("max_pending must be at least 1, got 0"),
            Self::NoRuntime => f.write_str("a timer was built outside of a tokio runtime"),
            Self::RuntimeShutdown => {
                f.write_str("a timer was built on a runtime that has shut down")
            }
            Self::AlreadyInstalled => f.write_str(
                "the runtime already has a default timer: call `install` only once, and before the \
                 first sleep, timeout or interval of the runtime, which starts a default timer",
            ),
            #[cfg(feature = "high-resolution")]
            Self::Alarm { .. } => f.write_str("a timer of high resolution got no alarm"),
        }
    }
}

// The `io::Error` of `Alarm` comes from the operating system and holds no user code.
impl UnwindSafe for BuildError {}
impl RefUnwindSafe for BuildError {}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            #[cfg(feature = "high-resolution")]
            Self::Alarm { source } => Some(source),
            _ => None,
        }
    }
}

/// The error that [`Timer::try_current`](crate::Timer::try_current) returns on a thread outside a runtime.
///
/// # Examples
///
/// ```
/// let error = tokio_wheel::Timer::try_current().unwrap_err();
/// assert!(error.to_string().contains("outside of a tokio runtime"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TryCurrentError(pub(crate) ());

impl fmt::Display for TryCurrentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the default timer was requested outside of a tokio runtime")
    }
}

impl Error for TryCurrentError {}

/// The error of a timer that refuses to schedule a task. The error holds the task.
///
/// [`is_full`](Self::is_full) and [`is_shutdown`](Self::is_shutdown) tell the reason. If the task is `Send`,
/// the error is `Sync`. `?` can therefore convert the error to `Box<dyn Error + Send + Sync>`.
///
/// # Examples
///
/// ```
/// use std::{error::Error, pin::Pin};
/// use tokio_wheel::{schedule::ScheduledTask, Duration, Timer};
///
/// type Job = Pin<Box<dyn Future<Output = u8> + Send>>;
///
/// fn later(timer: &Timer, job: Job) -> Result<ScheduledTask<u8>, Box<dyn Error + Send + Sync>> {
///     Ok(timer.schedule(Duration::from_secs(1), job)?)
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let timer = Timer::builder().build().unwrap();
/// let task = later(&timer, Box::pin(async { 7 })).unwrap();
/// assert_eq!(task.await.unwrap(), 7);
///
/// drop(timer.shutdown());
/// let error = later(&timer, Box::pin(async { 7 })).unwrap_err();
/// assert!(error.to_string().contains("shut down"));
/// # }
/// ```
///
/// [`into_inner`](Self::into_inner) returns the task:
///
/// ```
/// use tokio_wheel::{Duration, Timer};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let timer = Timer::builder().build().unwrap();
/// drop(timer.shutdown());
///
/// let refused = timer.schedule(Duration::from_secs(1), async { 7 }).unwrap_err();
/// assert!(refused.is_shutdown());
/// assert_eq!(refused.into_inner().await, 7);
/// # }
/// ```
pub struct ScheduleError<F> {
    /// Few futures are `Sync`. The mutex makes the error `Sync`. No thread locks the mutex.
    task: Mutex<F>,
    /// The limit, if the timer is full. Otherwise, the timer has shut down.
    limit: Option<usize>,
}

impl<F> ScheduleError<F> {
    pub(crate) fn new(task: F, limit: Option<usize>) -> Self {
        let task = Mutex::new(task);
        Self { task, limit }
    }

    /// Returns whether the timer had reached the limit that
    /// [`Builder::max_pending`](crate::Builder::max_pending) sets.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().max_pending(1).build()?;
    /// timer.schedule(Duration::from_secs(1), async {})?;
    /// let refused = timer.schedule(Duration::from_secs(1), async {}).unwrap_err();
    /// assert!(refused.is_full());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.limit.is_some()
    }

    /// Returns whether the timer has shut down.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().build()?;
    /// drop(timer.shutdown());
    /// let refused = timer.schedule(Duration::from_secs(1), async {}).unwrap_err();
    /// assert!(refused.is_shutdown());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_shutdown(&self) -> bool {
        self.limit.is_none()
    }

    /// Returns the task: the future, or the closure of a periodic task.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().max_pending(1).build()?;
    /// let task = timer.schedule(Duration::from_secs(1), async {})?;
    /// let refused = timer.schedule(Duration::from_secs(2), async { 7 }).unwrap_err();
    /// task.cancel();
    /// let again = timer.schedule(Duration::from_secs(2), refused.into_inner())?;
    /// assert_eq!(again.await?, 7);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn into_inner(self) -> F {
        let task = self.task.into_inner();
        task.unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> fmt::Debug for ScheduleError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleError")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl<F> fmt::Display for ScheduleError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            Some(max) => write!(f, "the limit of pending entries is reached: {max}"),
            None => f.write_str("the timer has shut down"),
        }
    }
}

impl<F> Error for ScheduleError<F> {}

/// The error of a [`ScheduledTask`](crate::schedule::ScheduledTask) whose task ended without an output.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{Duration, Timer};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let task = Timer::current().schedule(Duration::from_secs(1), async {})?;
/// task.cancel();
/// assert!(task.await.unwrap_err().is_cancelled());
///
/// let task = Timer::current().schedule(Duration::from_secs(1), async { panic!("oh") })?;
/// let error = task.await.unwrap_err();
/// assert_eq!(error.to_string(), "the task panicked: oh");
/// assert_eq!(error.into_panic().downcast_ref(), Some(&"oh"));
/// # Ok(())
/// # }
/// ```
pub struct TaskError(pub(crate) Cause);

pub(crate) enum Cause {
    Cancelled,
    Shutdown,
    /// The payload of the panic. The lock makes the error `Sync`.
    Panicked(Mutex<Box<dyn Any + Send>>),
}

impl TaskError {
    pub(crate) fn panicked(payload: Box<dyn Any + Send>) -> Self {
        Self(Cause::Panicked(Mutex::new(payload)))
    }

    /// Returns whether the task was canceled.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let task = Timer::current().schedule(Duration::from_secs(1), async {})?;
    /// task.cancel();
    /// assert!(task.await.unwrap_err().is_cancelled());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self.0, Cause::Cancelled)
    }

    /// Returns whether the timer or its runtime shut down before the task ended.
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
    /// drop(timer.shutdown());
    /// assert!(task.await.unwrap_err().is_shutdown());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_shutdown(&self) -> bool {
        matches!(self.0, Cause::Shutdown)
    }

    /// Returns whether the task panicked.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let task = Timer::current().schedule(Duration::from_secs(1), async { panic!("oh") })?;
    /// assert!(task.await.unwrap_err().is_panic());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_panic(&self) -> bool {
        matches!(self.0, Cause::Panicked(_))
    }

    /// Returns the payload of the task's panic, for [`resume_unwind`](std::panic::resume_unwind).
    ///
    /// # Panics
    ///
    /// Panics if the task was canceled, or if the timer or its runtime shut down before the task ended.
    /// [`is_panic`](Self::is_panic) returns `false` in these cases. [`try_into_panic`](Self::try_into_panic)
    /// returns an error instead.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let task = Timer::current().schedule(Duration::from_secs(1), async { panic!("oh") })?;
    /// let payload = task.await.unwrap_err().into_panic();
    /// assert_eq!(payload.downcast_ref(), Some(&"oh"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn into_panic(self) -> Box<dyn Any + Send> {
        match self.try_into_panic() {
            Ok(payload) => payload,
            Err(error) => panic!("`into_panic` was called on an error without a panic: {error}"),
        }
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
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let task = Timer::current().schedule(Duration::from_secs(1), async { panic!("oh") })?;
    /// match task.await.unwrap_err().try_into_panic() {
    ///     Ok(payload) => assert_eq!(payload.downcast_ref(), Some(&"oh")),
    ///     Err(error) => println!("{error}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send>, Self> {
        match self.0 {
            Cause::Panicked(payload) => {
                Ok(payload.into_inner().unwrap_or_else(PoisonError::into_inner))
            }
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
        let message = match &self.0 {
            Cause::Cancelled => return f.write_str("the task was canceled"),
            Cause::Shutdown => return f.write_str("the timer shut down before the task ended"),
            Cause::Panicked(payload) => {
                let payload = payload.lock().unwrap_or_else(PoisonError::into_inner);
                // The formatter is user code and may display this error again. The thread therefore copies
                // the message, and releases the lock before it calls the formatter.
                unwind::message(&**payload).map(str::to_owned)
            }
        };
        match message {
            Some(message) => write!(f, "the task panicked: {message}"),
            None => f.write_str("the task panicked"),
        }
    }
}

impl Error for TaskError {}
