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
    /// The minimal timeout of an idle set was longer than its timeout.
    #[cfg(feature = "idle")]
    #[cfg_attr(docsrs, doc(cfg(feature = "idle")))]
    MinTimeout {
        /// The given minimal timeout.
        given: Duration,
        /// The timeout of the set, which is the longest minimal timeout.
        max: Duration,
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
            Self::MinTimeout { given, max } => write!(
                f,
                "min_timeout must be between 0 and the timeout of {max:?}, got {given:?}"
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

/// A task was not scheduled. Carries the task back: nothing is lost.
///
/// It is `Sync` whether the task is or not, as `?` needs where errors are shared.
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
/// To have the task back:
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
    /// In a lock, which nobody ever takes, because few futures are `Sync`.
    task: Mutex<F>,
    reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Full { max: usize },
    Shutdown,
    ZeroPeriod,
}

impl<F> ScheduleError<F> {
    pub(crate) fn new(task: F, reason: Reason) -> Self {
        let task = Mutex::new(task);
        Self { task, reason }
    }

    /// Whether the timer had as many pending timers as
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
    pub fn is_full(&self) -> bool {
        matches!(self.reason, Reason::Full { .. })
    }

    /// Whether the timer was shut down.
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
    pub fn is_shutdown(&self) -> bool {
        self.reason == Reason::Shutdown
    }

    /// Whether a period or delay of zero was given, with which a task would never rest.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let never_rests = Timer::current().schedule_with_fixed_delay(
    ///     Duration::from_secs(1),
    ///     Duration::ZERO,
    ///     || async {},
    /// );
    /// assert!(never_rests.unwrap_err().is_zero_period());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_zero_period(&self) -> bool {
        self.reason == Reason::ZeroPeriod
    }

    /// The future, or for a periodic task the closure, that was to be scheduled.
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
            Reason::Full { max } => write!(
                f,
                "the timer has {max} timers pending, its limit: schedule again when some have \
                 fired or were cancelled, or raise `Builder::max_pending`"
            ),
            Reason::Shutdown => f.write_str(
                "the timer has shut down: schedule on one whose runtime lives and that was not \
                 shut down",
            ),
            Reason::ZeroPeriod => f.write_str(
                "a period or delay of 0 was given, with which the task would never rest: give \
                 1 ns or more",
            ),
        }
    }
}

impl<F> Error for ScheduleError<F> {}

/// Why a [`ScheduledTask`](crate::schedule::ScheduledTask) returned nothing.
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
/// assert_eq!(error.into_panic().unwrap().downcast_ref(), Some(&"oh"));
/// # Ok(())
/// # }
/// ```
pub struct TaskError(pub(crate) Cause);

pub(crate) enum Cause {
    Cancelled,
    Shutdown,
    /// With the payload, in a lock because it is not `Sync`, which errors should be.
    Panicked(Mutex<Box<dyn Any + Send>>),
}

impl TaskError {
    pub(crate) fn panicked(payload: Box<dyn Any + Send>) -> Self {
        Self(Cause::Panicked(Mutex::new(payload)))
    }

    /// Whether the task was cancelled.
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
    pub fn is_cancelled(&self) -> bool {
        matches!(self.0, Cause::Cancelled)
    }

    /// Whether the timer or the runtime shut down before the task had ended.
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
    pub fn is_shutdown(&self) -> bool {
        matches!(self.0, Cause::Shutdown)
    }

    /// Whether the task panicked.
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
    pub fn is_panic(&self) -> bool {
        matches!(self.0, Cause::Panicked(_))
    }

    /// What the task panicked with, for [`resume_unwind`](std::panic::resume_unwind).
    ///
    /// # Errors
    ///
    /// If it did not panic.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let task = Timer::current().schedule(Duration::from_secs(1), async { panic!("oh") })?;
    /// let payload = task.await.unwrap_err().into_panic().unwrap();
    /// assert_eq!(payload.downcast_ref(), Some(&"oh"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_panic(self) -> Result<Box<dyn Any + Send>, Self> {
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
            Cause::Cancelled => return f.write_str("the task was cancelled"),
            Cause::Shutdown => return f.write_str("the timer shut down before the task had ended"),
            Cause::Panicked(payload) => {
                let payload = payload.lock().unwrap_or_else(PoisonError::into_inner);
                // A copy: what is written to is foreign, and may come back for the lock.
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
