//! Minimum rates, and the windows that measure them. A table in the documentation of `io` lists the states of
//! a window.

use std::time::Duration;

use super::{
    moment::{Moment, Span},
    now::Now,
};

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
    bytes: usize,
    window: Duration,
    silence: bool,
}

impl MinRate {
    /// Creates a rate of at least `bytes` in every `window` of waiting time.
    ///
    /// If a peer may be silent between two requests for longer than the window, call
    /// [`allow_silence`](Self::allow_silence).
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
        Self {
            bytes,
            window,
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
        self.bytes
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
        self.window
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

/// Measures the rate of one direction.
// Two meters take 72 bytes. With an alignment of 8 bytes, they would take 80.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed(4))]
pub(super) struct Meter {
    bytes: usize,
    window: Span,
    /// The number of bytes that have moved in the window. If silence is allowed, 0 means that the window is
    /// closed.
    moved: usize,
    /// The moment at which the window ends. While the meter is paused, the time from [`START`](Moment::START)
    /// to `over` is the time that is left in the window.
    over: Moment,
    state: State,
    silence: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No read or write waits, or the window is closed.
    Paused,
    /// An operation waits, and does not fail when the window ends.
    Running,
    /// An operation waits, and fails when the window ends.
    Failing,
}

impl Meter {
    pub(super) fn new(rate: MinRate) -> Self {
        let window = Span::of(rate.window);
        Self {
            bytes: rate.bytes,
            window,
            moved: 0,
            over: Moment::START.after(window),
            state: State::Paused,
            silence: rate.silence,
        }
    }

    pub(super) fn rate(&self) -> MinRate {
        MinRate {
            bytes: self.bytes,
            window: self.window.duration(),
            silence: self.silence,
        }
    }

    /// Continues the window, because a read or write waits.
    #[inline]
    pub(super) fn run(&mut self, now: &Now) {
        if self.state != State::Paused || self.silence && self.moved == 0 {
            return;
        }
        let left = self.over.since(Moment::START);
        self.over = now.get().after(left);
        // If silence is allowed, the operation fails only if the window ended before this wait.
        self.state = if !self.silence || left == Span::ZERO {
            State::Failing
        } else {
            State::Running
        };
    }

    /// Returns the moment at which the waiting operation fails. Returns `NEVER` if it does not fail.
    #[inline]
    pub(super) fn due(&self) -> Moment {
        if self.state == State::Failing {
            self.over
        } else {
            Moment::NEVER
        }
    }

    /// Pauses the window, because no read or write waits.
    #[inline]
    pub(super) fn pause(&mut self, now: &Now) {
        if self.state != State::Paused {
            self.over = Moment::START.after(self.over.since(now.get()));
            self.state = State::Paused;
        }
    }

    /// Counts bytes that have moved in this direction.
    #[inline]
    pub(super) fn count(&mut self, bytes: usize) {
        self.moved = self.moved.saturating_add(bytes);
        if self.moved >= self.bytes {
            self.close();
        }
    }

    /// Records that bytes have moved in the other direction. This call closes the window if silence is
    /// allowed.
    #[inline]
    pub(super) fn other_moved(&mut self) {
        if self.silence {
            self.close();
        }
    }

    /// Closes the window. If silence is not allowed, the next window opens at once.
    pub(super) fn close(&mut self) {
        *self = Self::new(self.rate());
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use super::*;

    /// The documentation of `io` and `docs/migration.md` state this size. `tests/io/bookkeeping.rs` tests
    /// the size of a stream without rates.
    #[test]
    fn the_meters_of_a_stream_take_as_much_memory_as_documented() {
        assert_eq!(size_of::<[Option<Meter>; 2]>(), 72);
    }
}
