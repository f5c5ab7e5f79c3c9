//! `MinRate`: a minimum rate.

use std::time::Duration;

/// The number of bytes that must move in each window of waiting time.
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
/// assert!(RATE.allows_silence());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// A stream counts at most [`u32::MAX`] bytes and 584 years. Larger values become these.
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
    /// assert!(!rate.allows_silence());
    /// ```
    #[must_use]
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
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
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
    #[must_use]
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
    #[must_use]
    pub const fn window(&self) -> Duration {
        Duration::from_nanos(self.window_nanos)
    }

    /// Returns whether the peer may send nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::io::MinRate;
    ///
    /// let rate = MinRate::new(500, Duration::from_secs(10));
    /// assert!(!rate.allows_silence());
    /// assert!(rate.allow_silence().allows_silence());
    /// ```
    #[must_use]
    pub const fn allows_silence(&self) -> bool {
        self.silence
    }
}

/// Returns a duration in nanoseconds. A duration of 584 years or more becomes [`u64::MAX`].
pub(super) const fn nanos(duration: Duration) -> u64 {
    let nanos = duration.as_nanos();
    if nanos < u64::MAX as u128 {
        nanos as u64
    } else {
        u64::MAX
    }
}
