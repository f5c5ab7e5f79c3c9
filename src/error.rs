//! Errors of this crate.

use std::{
    any::Any,
    error::Error,
    fmt, io,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::ground::unwind;

/// A [`Timeout`](crate::Timeout) expired before its future was ready.
///
/// Converts to an [`io::Error`] of the kind [`TimedOut`](io::ErrorKind::TimedOut). tokio's
/// [`Elapsed`](tokio::time::error::Elapsed) converts to this type, for a function whose timeouts are of
/// both kinds.
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
/// With tokio's timeouts:
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
#[derive(Debug, PartialEq, Eq)]
pub struct Elapsed(pub(crate) ());

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

/// A [`Builder`](crate::Builder) was given something it cannot build from.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{Duration, Timer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let error = Timer::builder().tick(Duration::from_secs(7_200)).build().unwrap_err();
/// assert!(error.to_string().contains("7200s"));
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The tick is zero.
    ZeroTick,
    /// The tick is longer than an hour.
    TickTooLong {
        /// The tick that was asked for.
        given: Duration,
    },
    /// The tick is shorter than a timer of high resolution can have.
    TickTooShort {
        /// The tick that was asked for.
        given: Duration,
        /// The shortest that can be had.
        least: Duration,
    },
    /// The number of shards is zero or over 1,024.
    Shards {
        /// The number that was asked for.
        given: usize,
    },
    /// The limit of pending timers is zero.
    ZeroMaxPending,
    /// The minimal timeout of an idle set is longer than its timeout.
    #[cfg(feature = "idle")]
    #[cfg_attr(docsrs, doc(cfg(feature = "idle")))]
    MinTimeout {
        /// The minimal timeout that was asked for.
        given: Duration,
        /// The timeout of the set, which is the longest that can be had.
        most: Duration,
    },
    /// The runtime has an ambient timer already.
    AlreadyInstalled,
    /// There is no `timerfd` to be had for a timer of high resolution.
    #[cfg(feature = "high-resolution")]
    #[cfg_attr(docsrs, doc(cfg(feature = "high-resolution")))]
    TimerFd {
        /// What the operating system says, as [`io::Error::raw_os_error`] has it; `None` if it is the
        /// runtime that refuses, since it is shutting down.
        os_error: Option<i32>,
    },
    /// A timer of high resolution was asked for elsewhere than on Linux.
    #[cfg(feature = "high-resolution")]
    #[cfg_attr(docsrs, doc(cfg(feature = "high-resolution")))]
    HighResolutionUnsupported,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroTick => f.write_str("a tick of 0 was given; allowed is 1 ns to 1 h"),
            Self::TickTooLong { given } => {
                write!(f, "a tick of {given:?} was given; allowed is 1 ns to 1 h")
            }
            Self::TickTooShort { given, least } => {
                write!(
                    f,
                    "a tick of {given:?} was given; allowed with this clock and alarm is \
                     {least:?} to 1 h"
                )
            }
            Self::Shards { given } => {
                write!(f, "{given} shards were given; allowed is 1 to 1024")
            }
            Self::ZeroMaxPending => f.write_str(
                "a limit of 0 pending timers was given, which schedules nothing; allowed is 1 and \
                 more, and no limit is the default",
            ),
            #[cfg(feature = "idle")]
            Self::MinTimeout { given, most } => write!(
                f,
                "a minimal timeout of {given:?} was given; allowed is 0 to the timeout of the set, \
                 {most:?}"
            ),
            Self::AlreadyInstalled => f.write_str(
                "this runtime has an ambient timer already; install one before the first timer \
                 is polled, or use `build` for a separate one",
            ),
            #[cfg(feature = "high-resolution")]
            Self::TimerFd { os_error: None } => f.write_str(
                "there is no timerfd for a timer of high resolution, as the runtime is shutting \
                 down; build it on one that is not",
            ),
            #[cfg(feature = "high-resolution")]
            Self::TimerFd {
                os_error: Some(code),
            } => write!(
                f,
                "there is no timerfd for a timer of high resolution: {}; raise the limit that this \
                 names, or do without `high_resolution`",
                io::Error::from_raw_os_error(*code)
            ),
            #[cfg(feature = "high-resolution")]
            Self::HighResolutionUnsupported => f.write_str(
                "a timer of high resolution was asked for, which exists only on Linux; do \
                 without `high_resolution` elsewhere",
            ),
        }
    }
}

impl Error for BuildError {}

/// There is no current runtime whose timer could be had.
///
/// # Examples
///
/// ```
/// let error = tokio_wheel::Timer::try_current().unwrap_err();
/// assert!(error.to_string().contains("outside of a tokio runtime"));
/// ```
#[derive(Debug)]
pub struct TryCurrentError(pub(crate) ());

impl fmt::Display for TryCurrentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the ambient timer was asked for outside of a tokio runtime; ask in a task, in \
             `block_on`, or while the guard of `Handle::enter` lives",
        )
    }
}

impl Error for TryCurrentError {}

/// The error of a timer that refuses to schedule a task. It holds the task.
///
/// [`is_full`](Self::is_full) and [`is_shutdown`](Self::is_shutdown) return the reason. The error is `Sync` even if
/// the task is not, so `?` converts it to `Box<dyn Error + Send + Sync>`.
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
    /// No thread takes this lock. It makes the error `Sync`, which few futures are.
    task: Mutex<F>,
    reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Full { max: usize },
    Shutdown,
}

impl<F> ScheduleError<F> {
    pub(crate) fn new(task: F, reason: Reason) -> Self {
        let task = Mutex::new(task);
        Self { task, reason }
    }

    /// Returns whether the timer had as many pending entries as
    /// [`Builder::max_pending`](crate::Builder::max_pending) allows.
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
        matches!(self.reason, Reason::Full { .. })
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
        self.reason == Reason::Shutdown
    }

    /// Returns the future of the task, or the closure of a periodic task.
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
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

impl<F> fmt::Display for ScheduleError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            Reason::Full { max } => {
                write!(f, "the timer has {max} pending entries, which is its limit")
            }
            Reason::Shutdown => f.write_str("the timer has shut down"),
        }
    }
}

impl<F> Error for ScheduleError<F> {}

/// The error of a [`ScheduledTask`](crate::schedule::ScheduledTask) that ends without output.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{schedule, Duration};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let task = schedule(Duration::from_secs(1), async {})?;
/// task.cancel();
/// assert!(task.await.unwrap_err().is_cancelled());
///
/// let task = schedule(Duration::from_secs(1), async { panic!("oh") })?;
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
    /// use tokio_wheel::{schedule, Duration};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let task = schedule(Duration::from_secs(1), async {})?;
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
    /// use tokio_wheel::{schedule, Duration};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let task = schedule(Duration::from_secs(1), async { panic!("oh") })?;
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
    /// Panics if the task did not panic. To find out, use [`is_panic`](Self::is_panic) or
    /// [`try_into_panic`](Self::try_into_panic).
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{schedule, Duration};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let task = schedule(Duration::from_secs(1), async { panic!("oh") })?;
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
    /// use tokio_wheel::{schedule, Duration};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let task = schedule(Duration::from_secs(1), async { panic!("oh") })?;
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
                // The formatter is user code and may display this error again, so the lock must not
                // be held. The message is therefore copied.
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
