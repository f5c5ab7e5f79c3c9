//! `Limits`: all limits of a stream in one value.

use std::time::Duration;

use super::MinRate;

/// The limits of a [`TimeoutStream`](super::TimeoutStream).
///
/// [`TimeoutStream::set_limits`](super::TimeoutStream::set_limits) sets all limits at once. `None` means no
/// limit. [The module](super) describes each limit.
///
/// # Examples
///
/// A stream starts with all limits of the server. Later, the server removes one limit:
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::io::{Limits, MinRate, TimeoutStream};
///
/// const LIMITS: Limits = Limits::new()
///     .write_timeout(Duration::from_secs(10))
///     .idle_timeout(Duration::from_secs(60))
///     .min_read_rate(MinRate::new(500, Duration::from_secs(10)));
///
/// let mut stream = TimeoutStream::with_limits(tokio::io::empty(), LIMITS);
///
/// let mut limits = stream.limits();
/// limits.min_read_rate = None;
/// stream.set_limits(limits);
/// assert_eq!(stream.limits().min_read_rate, None);
/// assert_eq!(stream.limits().idle_timeout, LIMITS.idle_timeout);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Limits {
    /// The longest time that a read may wait.
    pub read_timeout: Option<Duration>,
    /// The longest time that a write, a flush or a shutdown may wait.
    pub write_timeout: Option<Duration>,
    /// The longest time that an operation may wait while no byte moves in either direction.
    pub idle_timeout: Option<Duration>,
    /// The minimum rate of the reads.
    pub min_read_rate: Option<MinRate>,
    /// The minimum rate of the writes.
    pub min_write_rate: Option<MinRate>,
}

impl Limits {
    /// Creates a value in which no limit is set.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::io::Limits;
    ///
    /// assert_eq!(Limits::new(), Limits::default());
    /// assert_eq!(Limits::new().read_timeout, None);
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Self {
            read_timeout: None,
            write_timeout: None,
            idle_timeout: None,
            min_read_rate: None,
            min_write_rate: None,
        }
    }

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
    #[must_use]
    pub const fn read_timeout(mut self, timeout: Duration) -> Self {
        self.read_timeout = Some(timeout);
        self
    }

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
    #[must_use]
    pub const fn write_timeout(mut self, timeout: Duration) -> Self {
        self.write_timeout = Some(timeout);
        self
    }

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
    #[must_use]
    pub const fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = Some(timeout);
        self
    }

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
    #[must_use]
    pub const fn min_read_rate(mut self, rate: MinRate) -> Self {
        self.min_read_rate = Some(rate);
        self
    }

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
    #[must_use]
    pub const fn min_write_rate(mut self, rate: MinRate) -> Self {
        self.min_write_rate = Some(rate);
        self
    }
}
