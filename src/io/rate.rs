//! A minimum rate, and the window in which it is measured: the state table of the module `io`.

use std::time::Duration;

use tokio::time::Instant;

use super::countdown::Now;
use crate::driver::clock::saturating_add;

/// The fewest bytes that must move in a window of waiting.
///
/// What counts as waiting, and what happens when, is said in the documentation of
/// [the module](super#minimum-rate).
///
/// # Examples
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel::io::MinRate;
///
/// const RATE: MinRate = MinRate::new(500, Duration::from_secs(10)).allow_silence();
/// assert_eq!(RATE.bytes(), 500);
/// assert_eq!(RATE.window(), Duration::from_secs(10));
/// assert!(RATE.allows_silence());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MinRate {
    bytes: usize,
    window: Duration,
    silence: bool,
}

impl MinRate {
    /// At least `bytes` in every `window` of waiting.
    ///
    /// A connection on which a peer may be silent for longer than the window, as between the
    /// requests of a keep-alive connection, needs [`allow_silence`](Self::allow_silence).
    ///
    /// # Panics
    ///
    /// If `bytes` or `window` is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel::io::MinRate;
    ///
    /// let rate = MinRate::new(500, Duration::from_secs(10));
    /// assert!(!rate.allows_silence());
    /// ```
    #[must_use]
    #[track_caller]
    pub const fn new(bytes: usize, window: Duration) -> Self {
        assert!(bytes > 0, "a minimum rate of zero bytes limits nothing");
        assert!(!window.is_zero(), "the window of a minimum rate is zero");
        Self {
            bytes,
            window,
            silence: false,
        }
    }

    /// Leaves a wait that brings no byte to the timeouts.
    ///
    /// A window opens with the first bytes that move, and is judged only when more bytes move
    /// after its end, which still count. Bytes in the other direction close it: a request that
    /// was answered was not too slow. So it does nothing for a protocol that answers of itself,
    /// as HTTP/2 answers pings.
    ///
    /// # Examples
    ///
    /// A connection stays open between two small requests:
    ///
    /// ```
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    /// use tokio_wheel::{Duration, sleep};
    /// use tokio_wheel::io::{Limits, MinRate, TimeoutStream};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> std::io::Result<()> {
    /// let (mut client, server) = duplex(64);
    /// let mut server = TimeoutStream::new(server);
    /// let rate = MinRate::new(500, Duration::from_secs(10)).allow_silence();
    /// server.set_limits(Limits::new().min_read_rate(rate));
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

    /// The fewest bytes that must move in a window.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel::io::MinRate;
    ///
    /// assert_eq!(MinRate::new(500, Duration::from_secs(10)).bytes(), 500);
    /// ```
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// How much waiting makes a window.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel::io::MinRate;
    ///
    /// let window = Duration::from_secs(10);
    /// assert_eq!(MinRate::new(500, window).window(), window);
    /// ```
    pub const fn window(&self) -> Duration {
        self.window
    }

    /// Whether a wait that brings no byte is left to the timeouts.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel::io::MinRate;
    ///
    /// let rate = MinRate::new(500, Duration::from_secs(10));
    /// assert!(!rate.allows_silence());
    /// assert!(rate.allow_silence().allows_silence());
    /// ```
    pub const fn allows_silence(&self) -> bool {
        self.silence
    }
}

/// Measures one direction.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) rate: MinRate,
    /// Bytes moved in the window. Where silence is allowed, it is closed until this is not 0.
    moved: usize,
    window: Window,
}

#[derive(Debug)]
enum Window {
    /// No operation waits: what is left of the window.
    Paused(Duration),
    /// An operation waits: when the window is over, and whether the operation fails then.
    Running { over: Instant, fails: bool },
}

impl Meter {
    pub(super) fn new(rate: MinRate) -> Self {
        Self {
            rate,
            moved: 0,
            window: Window::Paused(rate.window),
        }
    }

    /// An operation waits that may move bytes: when it fails.
    #[inline]
    pub(super) fn wait(&mut self, now: &Now) -> Option<Instant> {
        if self.rate.silence && self.moved == 0 {
            return None;
        }
        let (over, fails) = match self.window {
            Window::Paused(left) => {
                // With silence allowed, only a window that was over before this wait began.
                let fails = !self.rate.silence || left.is_zero();
                (saturating_add(**now, left), fails)
            }
            Window::Running { over, fails } => (over, fails),
        };
        self.window = Window::Running { over, fails };
        fails.then_some(over)
    }

    /// No such operation waits any more.
    #[inline]
    pub(super) fn pause(&mut self, now: &Now) {
        if let Window::Running { over, .. } = self.window {
            self.window = Window::Paused(over.saturating_duration_since(**now));
        }
    }

    /// Bytes have moved in this direction.
    #[inline]
    pub(super) fn count(&mut self, bytes: usize) {
        self.moved = self.moved.saturating_add(bytes);
        if self.moved >= self.rate.bytes {
            self.close();
        }
    }

    /// Bytes have moved in the other direction.
    #[inline]
    pub(super) fn other_moved(&mut self) {
        if self.rate.silence {
            self.close();
        }
    }

    /// Closes the window. Unless silence is allowed, this opens the next one.
    pub(super) fn close(&mut self) {
        *self = Self::new(self.rate);
    }
}
