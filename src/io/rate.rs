//! A minimum rate, and the window in which it is measured: the state table of the module `io`.

use std::time::Duration;

use super::{
    moment::{Moment, Span},
    now::Now,
};

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
// Two of them take 72 bytes; aligned to 8, they would take 80.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed(4))]
pub(super) struct Meter {
    bytes: usize,
    window: Span,
    /// Bytes moved in the window. Where silence is allowed, it is closed until this is not 0.
    moved: usize,
    /// When the window is over. While it is paused: when it would be over if it were resumed at the
    /// [start](Moment::START).
    over: Moment,
    state: State,
    silence: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No operation waits.
    Paused,
    /// An operation waits, and does not fail when the window is over.
    Running,
    /// An operation waits, and fails when the window is over.
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

    /// An operation waits that may move bytes.
    #[inline]
    pub(super) fn run(&mut self, now: &Now<'_>) {
        if self.state != State::Paused || self.silence && self.moved == 0 {
            return;
        }
        let left = self.over.since(Moment::START);
        self.over = now.exact().after(left);
        // With silence allowed, only a window that was over before this wait began.
        self.state = if !self.silence || left == Span::ZERO {
            State::Failing
        } else {
            State::Running
        };
    }

    /// Returns when the operation that waits fails.
    #[inline]
    pub(super) fn due(&self) -> Moment {
        if self.state == State::Failing {
            self.over
        } else {
            Moment::NEVER
        }
    }

    /// No such operation waits any more.
    #[inline]
    pub(super) fn pause(&mut self, now: &Now<'_>) {
        if self.state != State::Paused {
            self.over = Moment::START.after(self.over.since(now.exact()));
            self.state = State::Paused;
        }
    }

    /// Bytes have moved in this direction.
    #[inline]
    pub(super) fn count(&mut self, bytes: usize) {
        self.moved = self.moved.saturating_add(bytes);
        if self.moved >= self.bytes {
            self.close();
        }
    }

    /// Bytes have moved in the other direction.
    #[inline]
    pub(super) fn other_moved(&mut self) {
        if self.silence {
            self.close();
        }
    }

    /// Closes the window. Unless silence is allowed, this opens the next one.
    pub(super) fn close(&mut self) {
        *self = Self::new(self.rate());
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use super::*;

    /// `docs/migration.md` has this figure. `tests/io/` tests the size of a stream without rates.
    #[test]
    fn the_meters_of_a_stream_take_as_much_memory_as_documented() {
        assert_eq!(size_of::<[Option<Meter>; 2]>(), 72);
    }
}
