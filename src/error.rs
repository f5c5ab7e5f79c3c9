//! Errors of this crate.

use std::{error::Error, fmt, io, time::Duration};

/// A [`Timeout`](crate::Timeout) expired before its future was ready.
///
/// Converts to an [`io::Error`] of the kind [`TimedOut`](io::ErrorKind::TimedOut).
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
#[derive(Debug, PartialEq, Eq)]
pub struct Elapsed(());

impl Elapsed {
    pub(crate) fn new() -> Self {
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
    /// The number of shards is zero or over 1,024.
    Shards {
        /// The number that was asked for.
        given: usize,
    },
    /// The runtime has an ambient timer already.
    AlreadyInstalled,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroTick => f.write_str("a tick of 0 was given; allowed is 1 ns to 1 h"),
            Self::TickTooLong { given } => {
                write!(f, "a tick of {given:?} was given; allowed is 1 ns to 1 h")
            }
            Self::Shards { given } => {
                write!(f, "{given} shards were given; allowed is 1 to 1024")
            }
            Self::AlreadyInstalled => f.write_str(
                "this runtime has an ambient timer already; install one before the first timer \
                 is polled, or use `build` for a separate one",
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
pub struct TryCurrentError(());

impl TryCurrentError {
    pub(crate) fn new() -> Self {
        Self(())
    }
}

impl fmt::Display for TryCurrentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the ambient timer was asked for outside of a tokio runtime; ask in a task, in \
             `block_on`, or while the guard of `Handle::enter` lives",
        )
    }
}

impl Error for TryCurrentError {}
