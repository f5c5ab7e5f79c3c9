//! The error types of this crate.

use std::{
    error::Error,
    fmt, io,
    panic::{RefUnwindSafe, UnwindSafe},
    time::Duration,
};

/// The error of a [`Timeout`](crate::Timeout) whose future did not complete in time.
///
/// The error converts to an [`io::Error`] of the kind [`TimedOut`](io::ErrorKind::TimedOut). tokio's
/// [`Elapsed`](tokio::time::error::Elapsed) converts to this type, so one function can use `?` on the timeouts of both
/// crates.
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

/// The error that a [`Builder`](crate::Builder) returns if it cannot create the timer.
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
        /// The shortest tick that is allowed. High-resolution timers have a longer one than others.
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
    /// The period of the watch is out of range.
    #[non_exhaustive]
    Watch {
        /// The period that the caller set.
        given: Duration,
        /// The shortest period that is allowed.
        min: Duration,
        /// The longest period that is allowed.
        max: Duration,
    },
    /// The calling thread is not in a runtime.
    NoRuntime,
    /// The runtime has shut down, or is shutting down.
    RuntimeShutdown,
    /// The runtime already has a default timer. The first sleep, timeout or interval of a runtime starts one.
    AlreadyInstalled,
    /// The operating system or the runtime refused the alarm of a high-resolution timer.
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
                write!(f, "shards must be between 1 and {max}, got {given}")
            }
            Self::Watch { given, min, max } => {
                write!(
                    f,
                    "the watch's period must be between {min:?} and {max:?}, or `None`, got {given:?}"
                )
            }
            Self::NoRuntime => f.write_str(
                "a timer was built outside of a tokio runtime; build it within a runtime, or after \
                 `Handle::enter`",
            ),
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
        f.write_str(
            "the default timer was requested outside of a tokio runtime; request it within a runtime, or \
             after `Handle::enter`",
        )
    }
}

impl Error for TryCurrentError {}

/// The error that [`Sleep::try_poll_elapsed`](crate::Sleep::try_poll_elapsed) returns if the timer has shut down before
/// the deadline.
///
/// # Examples
///
/// ```
/// use std::task::{Context, Poll, Waker};
/// use tokio_wheel::{Duration, Timer};
///
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
/// let timer = runtime.block_on(async { Timer::current() });
/// drop(runtime);
///
/// let mut sleep = timer.sleep(Duration::from_secs(60));
/// let Poll::Ready(Err(error)) = sleep.try_poll_elapsed(&mut Context::from_waker(Waker::noop())) else {
///     panic!("the timer has not shut down");
/// };
/// assert_eq!(error.to_string(), "the timer has shut down before the deadline");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerShutdown(pub(crate) ());

impl fmt::Display for TimerShutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the timer has shut down before the deadline")
    }
}

impl Error for TimerShutdown {}
