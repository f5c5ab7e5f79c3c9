//! `LimitExceeded`: the error that names the exceeded limit.

use std::{error::Error, fmt, io, time::Duration};

use super::MinRate;

/// The limit that an operation has exceeded, and the value of that limit.
///
/// The failed operation returns an [`io::Error`] of the kind [`TimedOut`](io::ErrorKind::TimedOut). That
/// `io::Error` contains a `LimitExceeded`.
///
/// # Examples
///
/// ```
/// use std::io;
/// use tokio::io::{AsyncReadExt, duplex};
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::io::{LimitExceeded, Limits, TimeoutStream};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let (_client, server) = duplex(64);
/// let limits = Limits::new().read_timeout(Duration::from_secs(5));
/// let mut server = TimeoutStream::with_limits(server, limits);
///
/// let error = server.read_u8().await.unwrap_err();
/// assert_eq!(error.kind(), io::ErrorKind::TimedOut);
/// assert_eq!(error.to_string(), "no read completed within 5s");
///
/// let limit = error.downcast::<LimitExceeded>().unwrap();
/// assert_eq!(limit, LimitExceeded::ReadTimeout(Duration::from_secs(5)));
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitExceeded {
    /// A read has exceeded the read timeout.
    ReadTimeout(Duration),
    /// A write, flush or shutdown has exceeded the write timeout.
    WriteTimeout(Duration),
    /// An operation has exceeded the idle timeout.
    IdleTimeout(Duration),
    /// Reads have moved fewer bytes in a window than the minimum rate requires.
    MinReadRate(MinRate),
    /// Writes have moved fewer bytes in a window than the minimum rate requires.
    MinWriteRate(MinRate),
}

impl fmt::Display for LimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadTimeout(limit) => write!(f, "no read completed within {limit:?}"),
            Self::WriteTimeout(limit) => write!(f, "no write completed within {limit:?}"),
            Self::IdleTimeout(limit) => write!(f, "idle for {limit:?}"),
            Self::MinReadRate(rate) => too_few_bytes(f, "read", rate),
            Self::MinWriteRate(rate) => too_few_bytes(f, "written", rate),
        }
    }
}

fn too_few_bytes(f: &mut fmt::Formatter<'_>, moved: &str, rate: &MinRate) -> fmt::Result {
    let (bytes, window) = (rate.bytes(), rate.window());
    write!(f, "fewer than {bytes} bytes {moved} in {window:?}")
}

impl Error for LimitExceeded {}

impl From<LimitExceeded> for io::Error {
    fn from(exceeded: LimitExceeded) -> Self {
        Self::new(io::ErrorKind::TimedOut, exceeded)
    }
}
