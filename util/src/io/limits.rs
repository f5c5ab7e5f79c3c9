//! What a user sets and gets: [`Limits`] of a stream, a [`MinRate`], and the error that names the exceeded limit.

use std::{error::Error, fmt, io, time::Duration};

use crate::limit::{nanos, setters};

/// The limits of a [`TimeoutStream`](super::TimeoutStream).
///
/// [`TimeoutStream::set_limits`](super::TimeoutStream::set_limits) sets all limits at once. To remove a limit, set
/// limits without it. The [module](super) describes each limit.
///
/// # Examples
///
/// A stream starts with the limits of a handshake. Later, the server sets other limits:
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::io::{Limits, MinRate, TimeoutStream};
///
/// const LIMITS: Limits = Limits::new()
///     .write_timeout(Duration::from_secs(10))
///     .idle_timeout(Duration::from_secs(60));
/// const HANDSHAKE: Limits = LIMITS.min_read_rate(MinRate::new(500, Duration::from_secs(10)));
///
/// let mut stream = TimeoutStream::with_limits(tokio::io::empty(), HANDSHAKE);
///
/// stream.set_limits(LIMITS);
/// assert_eq!(stream.limits(), LIMITS);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use = "limits do nothing until a stream gets them"]
pub struct Limits {
    // `None` means no limit.
    pub(super) read_timeout: Option<Duration>,
    pub(super) write_timeout: Option<Duration>,
    pub(super) idle_timeout: Option<Duration>,
    pub(super) min_read_rate: Option<MinRate>,
    pub(super) min_write_rate: Option<MinRate>,
}

impl Limits {
    /// Creates `Limits` without any limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::io::Limits;
    ///
    /// assert_eq!(Limits::new(), Limits::default());
    /// assert_ne!(Limits::new(), Limits::new().read_timeout(Duration::MAX));
    /// ```
    pub const fn new() -> Self {
        Self {
            read_timeout: None,
            write_timeout: None,
            idle_timeout: None,
            min_read_rate: None,
            min_write_rate: None,
        }
    }

    setters! {
        /// Sets the longest time that a read may wait.
        ///
        /// # Examples
        ///
        /// ```
        /// use tokio::io::{AsyncReadExt, duplex};
        /// use tokio_wheel::Duration;
        /// use tokio_wheel_util::io::{Limits, TimeoutStream};
        ///
        /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
        /// # async fn main() {
        /// let (_client, server) = duplex(64);
        /// let limits = Limits::new().read_timeout(Duration::from_secs(5));
        /// let mut server = TimeoutStream::with_limits(server, limits);
        /// let error = server.read_u8().await.unwrap_err();
        /// assert_eq!(error.to_string(), "no read completed within 5s");
        /// # }
        /// ```
        read_timeout: Duration;

        /// Sets the longest time that a write, a flush or a shutdown may wait.
        ///
        /// # Examples
        ///
        /// ```
        /// use tokio::io::{AsyncWriteExt, duplex};
        /// use tokio_wheel::Duration;
        /// use tokio_wheel_util::io::{Limits, TimeoutStream};
        ///
        /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
        /// # async fn main() {
        /// let (_client, server) = duplex(1);
        /// let limits = Limits::new().write_timeout(Duration::from_secs(5));
        /// let mut server = TimeoutStream::with_limits(server, limits);
        /// let error = server.write_all(b"ab").await.unwrap_err();
        /// assert_eq!(error.to_string(), "no write completed within 5s");
        /// # }
        /// ```
        write_timeout: Duration;

        /// Sets the longest time that an operation may wait while no byte moves in either direction.
        ///
        /// # Examples
        ///
        /// A client that only receives is not idle:
        ///
        /// ```
        /// use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};
        /// use tokio_wheel_util::io::{Limits, TimeoutStream};
        /// use tokio_wheel::{Duration, Instant, sleep};
        ///
        /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
        /// # async fn main() {
        /// let (_client, server) = duplex(64);
        /// let limits = Limits::new().idle_timeout(Duration::from_secs(60));
        /// let mut server = TimeoutStream::with_limits(server, limits);
        /// let (mut requests, mut news) = split(server);
        ///
        /// let start = Instant::now();
        /// tokio::spawn(async move {
        ///     for _ in 0..10 {
        ///         sleep(Duration::from_secs(50)).await;
        ///         news.write_all(b"news").await.unwrap();
        ///     }
        /// });
        /// let error = requests.read_u8().await.unwrap_err();
        /// assert_eq!(error.to_string(), "idle for 60s");
        /// assert_eq!(start.elapsed(), Duration::from_secs(10 * 50 + 60));
        /// # }
        /// ```
        idle_timeout: Duration;

        /// Sets the minimum rate of the reads. [The module](super#minimum-rate) describes how a stream measures
        /// the rate.
        ///
        /// # Examples
        ///
        /// ```
        /// use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
        /// use tokio_wheel::Duration;
        /// use tokio_wheel_util::io::{Limits, MinRate, TimeoutStream};
        ///
        /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
        /// # async fn main() {
        /// let (mut client, server) = duplex(64);
        /// let limits = Limits::new().min_read_rate(MinRate::new(500, Duration::from_secs(10)));
        /// let mut server = TimeoutStream::with_limits(server, limits);
        /// client.write_all(b"GET /").await.unwrap();
        ///
        /// let mut request = Vec::new();
        /// let error = server.read_to_end(&mut request).await.unwrap_err();
        /// assert_eq!(error.to_string(), "fewer than 500 bytes read in 10s");
        /// assert_eq!(request, b"GET /");
        /// # }
        /// ```
        min_read_rate: MinRate;

        /// Sets the minimum rate of the writes. [The module](super#minimum-rate) describes how a stream measures
        /// the rate.
        ///
        /// # Examples
        ///
        /// ```
        /// use tokio::io::{AsyncWriteExt, duplex};
        /// use tokio_wheel::Duration;
        /// use tokio_wheel_util::io::{Limits, MinRate, TimeoutStream};
        ///
        /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
        /// # async fn main() {
        /// let (_client, server) = duplex(64);
        /// let limits = Limits::new().min_write_rate(MinRate::new(500, Duration::from_secs(10)));
        /// let mut server = TimeoutStream::with_limits(server, limits);
        ///
        /// let error = server.write_all(&[0; 65]).await.unwrap_err();
        /// assert_eq!(error.to_string(), "fewer than 500 bytes written in 10s");
        /// # }
        /// ```
        min_write_rate: MinRate;
    }
}

/// A minimum rate: how many bytes must move in each window of waiting time.
///
/// [The module](super#minimum-rate) describes when a window opens, pauses and closes.
///
/// # Examples
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::io::MinRate;
///
/// const RATE: MinRate = MinRate::new(500, Duration::from_secs(10)).allow_silence();
/// assert_eq!(RATE.bytes(), 500);
/// assert_eq!(RATE.window(), Duration::from_secs(10));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a minimum rate does nothing until a stream gets it"]
pub struct MinRate {
    pub(super) window_nanos: u64,
    pub(super) bytes: u32,
    pub(super) silence: bool,
}

impl MinRate {
    /// Creates a rate of at least `bytes` in every `window` of waiting time.
    ///
    /// If a peer may be silent between two requests for longer than the window, call
    /// [`allow_silence`](Self::allow_silence).
    ///
    /// Values above [`u32::MAX`] bytes or 584 years are lowered to these.
    ///
    /// # Panics
    ///
    /// Panics if `bytes` or `window` is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::io::MinRate;
    ///
    /// let rate = MinRate::new(500, Duration::from_secs(10));
    /// assert_ne!(rate, rate.allow_silence());
    /// ```
    #[track_caller]
    pub const fn new(bytes: usize, window: Duration) -> Self {
        assert!(
            bytes > 0,
            "bytes of a minimum rate must be at least 1, got 0"
        );
        assert!(
            !window.is_zero(),
            "window of a minimum rate must be longer than 0 ns, got 0 ns"
        );
        let most = u32::MAX as usize;
        Self {
            window_nanos: nanos(window),
            bytes: if bytes < most { bytes as u32 } else { u32::MAX },
            silence: false,
        }
    }

    /// Allows the peer to send nothing.
    ///
    /// With this setting, a window opens when the first bytes move. An operation fails only if more bytes
    /// move after the end of the window and the total is still too small. Bytes in the other direction close
    /// the window, because a response means that the request is complete.
    ///
    /// The rate therefore has no effect on protocols that respond automatically. For example, HTTP/2 answers
    /// pings.
    ///
    /// # Examples
    ///
    /// The connection stays open between small requests:
    ///
    /// ```
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    /// use tokio_wheel::{Duration, sleep};
    /// use tokio_wheel_util::io::{Limits, MinRate, TimeoutStream};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> std::io::Result<()> {
    /// let (mut client, server) = duplex(64);
    /// let rate = MinRate::new(500, Duration::from_secs(10)).allow_silence();
    /// let limits = Limits::new().min_read_rate(rate);
    /// let mut server = TimeoutStream::with_limits(server, limits);
    ///
    /// tokio::spawn(async move {
    ///     loop {
    ///         client.write_all(b"ping").await.unwrap();
    ///         sleep(Duration::from_secs(60)).await;
    ///     }
    /// });
    ///
    /// for _ in 0..3 {
    ///     let mut request = [0; 4];
    ///     server.read_exact(&mut request).await?;
    ///     server.write_all(&request).await?;
    ///     assert_eq!(&request, b"ping");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub const fn allow_silence(mut self) -> Self {
        self.silence = true;
        self
    }

    /// Returns the number of bytes that must move in a window.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::io::MinRate;
    ///
    /// assert_eq!(MinRate::new(500, Duration::from_secs(10)).bytes(), 500);
    /// ```
    pub const fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Returns the length of a window.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::io::MinRate;
    ///
    /// let window = Duration::from_secs(10);
    /// assert_eq!(MinRate::new(500, window).window(), window);
    /// ```
    pub const fn window(&self) -> Duration {
        Duration::from_nanos(self.window_nanos)
    }
}

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
