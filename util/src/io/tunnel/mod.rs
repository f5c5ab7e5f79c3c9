//! `Tunnel`: copies in both directions, until both have ended, a limit is exceeded, or a stream fails.

mod direction;
mod end;

use std::{
    fmt,
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Instant,
};

pub use end::{Side, TunnelEnd, TunnelReason};

use crate::limit::{Starved, has_budget_remaining, saturating_add, setters};
use direction::Direction;
use tokio_wheel::{Sleep, sleep_until};

/// How many bytes a direction reads at most before it writes them, by default. It is tokio's size.
const BUFFER: usize = 8 * 1_024;

/// After how many polls that use up the budget the other direction comes first.
const EXHAUSTED: u32 = 16;

/// Copies between `a` and `b` in both directions, with limits.
///
/// When one stream ends, the tunnel writes the remaining bytes, shuts down the other stream, and keeps copying in the other
/// direction. It is done when both streams have ended. So it can replace [`tokio::io::copy_bidirectional`]. It also does
/// three more things:
///
/// * It can end sooner: after an [`idle`](Tunnel::idle) and a [`half_close`](Tunnel::half_close) timeout.
/// * Its output, a [`TunnelEnd`], has the bytes of both directions, even if a stream has failed.
/// * In a task of tokio, a direction that always has bytes to copy keeps the other one waiting for at most 16 polls.
///
/// [`tokio::io::copy_bidirectional`]: https://docs.rs/tokio/latest/tokio/io/fn.copy_bidirectional.html
///
/// The tunnel owns its streams, so dropping it closes them. To keep a stream, pass `&mut stream`.
///
/// A byte counts when the other stream has accepted it. On a failure or timeout, each direction may lose up to one
/// [`buffer`](Tunnel::buffer) of bytes that it has read but not written.
///
/// # Cancel safety
///
/// You can poll a tunnel by reference in `select!`, and poll it again later. Dropping it loses the bytes that it has read
/// but not written.
///
/// # Panics
///
/// A tunnel with a limit panics in the cases that [`sleep`](tokio_wheel::sleep()) lists. One without limits needs no
/// runtime.
///
/// # Examples
///
/// The client sends a request, and then neither side sends anything:
///
/// ```
/// use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
/// use tokio_wheel::{Duration, Instant};
/// use tokio_wheel_util::io::{TunnelReason, tunnel};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let (mut client, downstream) = duplex(64);
/// let (upstream, mut server) = duplex(64);
/// let start = Instant::now();
/// let tunnel = tokio::spawn(
///     tunnel(downstream, upstream)
///         .idle(Duration::from_secs(60))
///         .half_close(Duration::from_secs(10)),
/// );
///
/// client.write_all(b"hello").await.unwrap();
/// let mut request = [0; 5];
/// server.read_exact(&mut request).await.unwrap();
/// assert_eq!(&request, b"hello");
///
/// let end = tunnel.await.unwrap();
/// assert!(matches!(end.reason, TunnelReason::Idle));
/// assert_eq!((end.a_to_b, end.b_to_a), (5, 0));
/// assert_eq!(start.elapsed(), Duration::from_secs(60));
/// # }
/// ```
pub fn tunnel<A, B>(a: A, b: B) -> Tunnel<A, B>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    Tunnel {
        a,
        b,
        a_to_b: Direction::new(BUFFER),
        b_to_a: Direction::new(BUFFER),
        first: Side::A,
        exhausted: 0,
        idle: None,
        half_close: None,
        last: None,
        alarm: None,
        starved: Starved::new(),
    }
}

/// The future returned by [`tunnel`].
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Tunnel<A, B> {
    a: A,
    b: B,
    a_to_b: Direction,
    b_to_a: Direction,
    /// The stream that the next poll reads first.
    first: Side,
    /// How many polls with this order have used up the budget.
    exhausted: u32,
    idle: Option<Duration>,
    half_close: Option<Duration>,
    /// When something moved for the last time, or the first poll. `None` before the first poll and while a poll moves
    /// something.
    last: Option<Instant>,
    /// Goes off at the end of the limit, or earlier. It stays where it is while bytes move, because only one that goes off
    /// is worth moving.
    alarm: Option<Sleep>,
    starved: Starved,
}

impl<A, B> Tunnel<A, B> {
    setters! {
        /// Ends the tunnel when no byte has moved in either direction for this long.
        ///
        /// A byte moves when a read returns it and when a write accepts it. The end of a stream counts as a byte. A tunnel is
        /// idle if both peers are silent, but also if one has more to send and the other does not read.
        ///
        /// # Examples
        ///
        /// ```
        /// use tokio_wheel::Duration;
        /// use tokio_wheel_util::io::{TunnelReason, tunnel};
        ///
        /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
        /// # async fn main() {
        /// let (a, _client) = tokio::io::duplex(64);
        /// let (b, _server) = tokio::io::duplex(64);
        /// let end = tunnel(a, b).idle(Duration::from_secs(60)).await;
        /// assert!(matches!(end.reason, TunnelReason::Idle));
        /// # }
        /// ```
        idle: Duration;

        /// Sets another idle timeout, which replaces [`idle`](Self::idle) as soon as one stream has ended.
        ///
        /// It is usually much shorter, because many peers that have ended their stream are gone. Bytes that still move restart
        /// the timeout, as with HAProxy's `timeout client-fin` and `timeout server-fin`, because a client may end its
        /// request and then receive data for hours. Without this limit, `idle` applies until the end.
        ///
        /// To limit the age of a tunnel, poll it by reference in a [`timeout`](tokio_wheel::timeout()), as the example of
        /// [`copied`](Self::copied) does.
        ///
        /// # Examples
        ///
        /// The client has gone, and the server never closes its connection:
        ///
        /// ```
        /// use tokio_wheel::{Duration, Instant};
        /// use tokio_wheel_util::io::{TunnelReason, tunnel};
        ///
        /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
        /// # async fn main() {
        /// let (a, client) = tokio::io::duplex(64);
        /// let (b, _server) = tokio::io::duplex(64);
        /// drop(client);
        /// let start = Instant::now();
        /// let tunnel = tunnel(a, b).idle(Duration::from_secs(3_600));
        /// let end = tunnel.half_close(Duration::from_secs(10)).await;
        /// assert!(matches!(end.reason, TunnelReason::HalfClosed));
        /// assert_eq!(start.elapsed(), Duration::from_secs(10));
        /// # }
        /// ```
        half_close: Duration;
    }

    /// Sets how many bytes each direction reads at most before it writes them. The default is 8 KiB.
    ///
    /// This call allocates both buffers, so it must come before the first poll.
    ///
    /// # Panics
    ///
    /// Panics if `bytes` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (a, b) = (tokio::io::empty(), tokio::io::empty());
    /// let end = tokio_wheel_util::io::tunnel(a, b).buffer(64 * 1_024).await;
    /// assert_eq!((end.a_to_b, end.b_to_a), (0, 0));
    /// # }
    /// ```
    #[track_caller]
    pub fn buffer(mut self, bytes: usize) -> Self {
        assert!(bytes > 0, "a tunnel's buffer must not be empty");
        (self.a_to_b, self.b_to_a) = (Direction::new(bytes), Direction::new(bytes));
        self
    }

    /// Returns how many bytes have been copied so far, from `a` to `b` and from `b` to `a`.
    ///
    /// # Examples
    ///
    /// A program that shuts down still knows what its tunnels have copied:
    ///
    /// ```
    /// use tokio::io::{AsyncWriteExt, duplex};
    /// use tokio_wheel::{Duration, timeout};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let (a, mut client) = duplex(64);
    /// let (b, _server) = duplex(64);
    /// client.write_all(b"hello").await.unwrap();
    /// let mut tunnel = tokio_wheel_util::io::tunnel(a, b);
    /// assert!(timeout(Duration::from_secs(10), &mut tunnel).await.is_err());
    /// assert_eq!(tunnel.copied(), (5, 0));
    /// # }
    /// ```
    pub fn copied(&self) -> (u64, u64) {
        (self.a_to_b.written, self.b_to_a.written)
    }

    /// Copies until both directions must wait or have ended.
    fn poll_copy(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), (Side, io::Error)>>
    where
        A: AsyncRead + AsyncWrite + Unpin,
        B: AsyncRead + AsyncWrite + Unpin,
    {
        let mut is_pending = false;
        // A direction copies for as long as it can: if the two took turns with each buffer, a tunnel would copy 20% less.
        for side in [self.first, self.first.other()] {
            let (a, b, last) = (&mut self.a, &mut self.b, &mut self.last);
            let polled = match side {
                Side::A => self.a_to_b.poll(cx, side, a, b, last)?,
                Side::B => self.b_to_a.poll(cx, side, b, a, last)?,
            };
            is_pending |= polled.is_pending();
        }
        // The direction that came first may have used up the budget. The order stays for a while, because a direction that
        // is last and then first finds few bytes to read.
        self.exhausted += u32::from(!has_budget_remaining());
        if self.exhausted == EXHAUSTED {
            self.exhausted = 0;
            self.first = self.first.other();
        }
        match is_pending {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    }

    /// Polls the limit that applies now.
    fn poll_limit(&mut self, cx: &mut Context<'_>) -> Poll<TunnelReason> {
        let is_half_closed = self.a_to_b.has_ended || self.b_to_a.has_ended;
        let (limit, reason) = match (self.half_close, self.idle) {
            (Some(limit), _) if is_half_closed => (limit, TunnelReason::HalfClosed),
            (_, Some(limit)) => (limit, TunnelReason::Idle),
            _ => return Poll::Pending,
        };
        let due = saturating_add(*self.last.get_or_insert_with(Instant::now), limit);
        let alarm = self.alarm.get_or_insert_with(|| sleep_until(due));
        if due < alarm.deadline() {
            Pin::new(&mut *alarm).reset(due);
        }
        loop {
            ready!(self.starved.poll_limit(alarm, cx));
            if due <= alarm.deadline() {
                return Poll::Ready(reason);
            }
            Pin::new(&mut *alarm).reset(due);
        }
    }
}

impl<A, B> Future for Tunnel<A, B>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    type Output = TunnelEnd;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TunnelEnd> {
        let this = self.get_mut();
        let reason = match this.poll_copy(cx) {
            Poll::Ready(Ok(())) => TunnelReason::Closed,
            Poll::Ready(Err((side, error))) => TunnelReason::Failed { side, error },
            Poll::Pending => ready!(this.poll_limit(cx)),
        };
        let (a_to_b, b_to_a) = this.copied();
        Poll::Ready(TunnelEnd {
            a_to_b,
            b_to_a,
            reason,
        })
    }
}

impl<A, B> fmt::Debug for Tunnel<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f.debug_struct("Tunnel"))
            .field("a_to_b", &self.a_to_b.written)
            .field("b_to_a", &self.b_to_a.written)
            .finish_non_exhaustive()
    }
}
