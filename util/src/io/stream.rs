//! `TimeoutStream`: passes each operation of the inner stream through the limiter.

use std::{
    io::{self, IoSlice, SeekFrom},
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

use super::{
    Limits,
    limiter::{Limiter, Operation},
};
use tokio_wheel::Timer;

pin_project! {
    /// A stream whose operations have timeouts, an idle timeout and minimum rates.
    ///
    /// [The module](super) describes each limit. A stream has no limits until you call
    /// [`with_limits`](Self::with_limits) or [`set_limits`](Self::set_limits).
    ///
    /// The inner stream may be only a reader or only a writer. The limits of reads are separate from the
    /// limits of writes, flushes and the shutdown. You can therefore use `tokio::io::split` and give the two
    /// halves to two tasks. Seeks have no limits.
    ///
    /// # Cancel safety
    ///
    /// An operation is cancel safe if the inner operation is cancel safe. If you cancel an operation while it
    /// waits, its wait continues: see [the module](super#waiting).
    ///
    /// # Panics
    ///
    /// An operation that must wait and has a limit panics if it is polled outside a runtime. A stream that
    /// was created with [`with_timer`](Self::with_timer) does not need a runtime. [`sleep`](tokio_wheel::sleep())
    /// lists other causes of a panic.
    ///
    /// # Errors
    ///
    /// An operation that exceeds a limit fails with an error of the kind
    /// [`TimedOut`](io::ErrorKind::TimedOut). The error contains a [`LimitExceeded`](super::LimitExceeded).
    /// The failed operation has moved no bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    /// use tokio_wheel::{Duration, Instant};
    /// use tokio_wheel_util::io::{LimitExceeded, Limits, TimeoutStream};
    ///
    /// const LIMITS: Limits = Limits::new()
    ///     .read_timeout(Duration::from_secs(30))
    ///     .write_timeout(Duration::from_secs(5));
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> std::io::Result<()> {
    /// let (mut client, server) = duplex(64);
    /// let mut server = TimeoutStream::with_limits(server, LIMITS);
    ///
    /// client.write_all(b"ping").await?;
    /// let mut request = [0; 4];
    /// server.read_exact(&mut request).await?;
    /// server.write_all(b"pong").await?;
    ///
    /// let start = Instant::now();
    /// let error = server.read_u8().await.unwrap_err();
    /// assert!(start.elapsed() >= Duration::from_secs(30));
    /// let limit = error.downcast::<LimitExceeded>().unwrap();
    /// assert_eq!(limit, LimitExceeded::ReadTimeout(Duration::from_secs(30)));
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Debug)]
    #[must_use = "a stream does nothing unless it is read or written"]
    pub struct TimeoutStream<S> {
        #[pin]
        inner: S,
        limiter: Limiter,
    }
}

impl<S> TimeoutStream<S> {
    /// Creates a stream without limits.
    ///
    /// Limits that you set later use the default timer of the runtime that polls the operations.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::io::{Limits, TimeoutStream};
    ///
    /// let stream = TimeoutStream::new(tokio::io::empty());
    /// assert_eq!(stream.limits(), Limits::new());
    /// ```
    pub fn new(inner: S) -> Self {
        Self::on(None, inner)
    }

    /// Creates a stream with limits.
    ///
    /// The limits use the default timer of the runtime that polls the operations.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::io::{Limits, TimeoutStream};
    ///
    /// const LIMITS: Limits = Limits::new().idle_timeout(Duration::from_secs(60));
    ///
    /// let stream = TimeoutStream::with_limits(tokio::io::empty(), LIMITS);
    /// assert_eq!(stream.limits(), LIMITS);
    /// ```
    pub fn with_limits(inner: S, limits: Limits) -> Self {
        let mut stream = Self::new(inner);
        stream.set_limits(limits);
        stream
    }

    /// Creates a stream without limits, on `timer`.
    ///
    /// Limits that you set later use this timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio::io::{AsyncReadExt, duplex};
    /// use tokio_wheel::{Duration, Timer};
    /// use tokio_wheel_util::io::{Limits, TimeoutStream};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().tick(Duration::from_millis(10)).build()?;
    /// let (_client, server) = duplex(64);
    /// let mut server = TimeoutStream::with_timer(server, &timer);
    /// server.set_limits(Limits::new().read_timeout(Duration::from_secs(5)));
    /// assert!(server.read_u8().await.is_err());
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_timer(inner: S, timer: &Timer) -> Self {
        Self::on(Some(timer), inner)
    }

    fn on(timer: Option<&Timer>, inner: S) -> Self {
        Self {
            inner,
            limiter: Limiter::new(timer),
        }
    }

    /// Returns all limits.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::io::{Limits, TimeoutStream};
    ///
    /// let mut stream = TimeoutStream::new(tokio::io::empty());
    /// stream.set_limits(Limits::new().read_timeout(Duration::from_secs(5)));
    ///
    /// let more = stream.limits().write_timeout(Duration::from_secs(10));
    /// stream.set_limits(more);
    /// assert_eq!(stream.limits(), more);
    /// ```
    pub fn limits(&self) -> Limits {
        self.limiter.limits()
    }

    /// Sets all limits.
    ///
    /// If a limit changes, the timeouts of its direction start again: see [the module](super#setting-limits). A
    /// server can set the same limits before each request without giving a slow client more time.
    ///
    /// # Examples
    ///
    /// A proxy gives a request less time than a tunnel:
    ///
    /// ```
    /// use tokio::io::{AsyncReadExt, duplex};
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::io::{Limits, MinRate, TimeoutStream};
    ///
    /// const REQUEST: Limits = Limits::new()
    ///     .idle_timeout(Duration::from_secs(10))
    ///     .min_read_rate(MinRate::new(500, Duration::from_secs(10)));
    /// const TUNNEL: Limits = Limits::new().idle_timeout(Duration::from_secs(600));
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let (_client, server) = duplex(64);
    /// let mut server = TimeoutStream::with_limits(server, REQUEST);
    /// assert_eq!(server.read_u8().await.unwrap_err().to_string(), "idle for 10s");
    ///
    /// server.set_limits(TUNNEL);
    /// assert_eq!(server.read_u8().await.unwrap_err().to_string(), "idle for 600s");
    /// # }
    /// ```
    pub fn set_limits(&mut self, limits: Limits) {
        self.limiter.set(limits);
    }

    /// Sets all limits of a pinned stream.
    ///
    /// This method does what [`set_limits`](Self::set_limits) does. Use this method if the inner stream is
    /// not [`Unpin`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::io::{Limits, TimeoutStream};
    ///
    /// let limits = Limits::new().idle_timeout(Duration::from_secs(60));
    /// let mut stream = pin!(TimeoutStream::new(tokio::io::empty()));
    /// stream.as_mut().set_limits_pinned(limits);
    /// assert_eq!(stream.limits(), limits);
    /// ```
    pub fn set_limits_pinned(self: Pin<&mut Self>, limits: Limits) {
        self.project().limiter.set(limits);
    }

    /// Returns a reference to the inner stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::io::TimeoutStream;
    ///
    /// assert_eq!(TimeoutStream::new(vec![7]).get_ref(), &[7]);
    /// ```
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns a mutable reference to the inner stream.
    ///
    /// The stream does not count bytes that move through this reference.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::io::TimeoutStream;
    ///
    /// let mut stream = TimeoutStream::new(vec![7]);
    /// stream.get_mut().push(8);
    /// assert_eq!(stream.into_inner(), [7, 8]);
    /// ```
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Returns a pinned mutable reference to the inner stream.
    ///
    /// The stream does not count bytes that move through this reference.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use tokio_wheel_util::io::TimeoutStream;
    ///
    /// let mut stream = pin!(TimeoutStream::new(vec![7]));
    /// stream.as_mut().get_pin_mut().push(8);
    /// assert_eq!(stream.get_ref(), &[7, 8]);
    /// ```
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut S> {
        self.project().inner
    }

    /// Drops the limits and returns the inner stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::io::TimeoutStream;
    ///
    /// assert_eq!(TimeoutStream::new(vec![7]).into_inner(), [7]);
    /// ```
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: AsyncRead> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.project();
        let poll = |cx: &mut Context<'_>| {
            let before = buf.filled().len();
            ready!(this.inner.poll_read(cx, buf))?;
            Poll::Ready(Ok(buf.filled().len().saturating_sub(before)))
        };
        let read = (this.limiter).poll(Operation::Read, cx, poll, |&bytes| bytes);
        read.map_ok(|_| ())
    }
}

impl<S: AsyncBufRead> AsyncBufRead for TimeoutStream<S> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.project();
        let inner = this.inner;
        let poll = |cx: &mut Context<'_>| inner.poll_fill_buf(cx);
        // The limiter counts the bytes when the user consumes them.
        (this.limiter).poll(Operation::Read, cx, poll, |_| 0)
    }

    fn consume(self: Pin<&mut Self>, amount: usize) {
        let this = self.project();
        this.inner.consume(amount);
        this.limiter.end(Operation::Read, amount);
    }
}

impl<S: AsyncWrite> AsyncWrite for TimeoutStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let poll = |cx: &mut Context<'_>| this.inner.poll_write(cx, buf);
        (this.limiter).poll(Operation::Write, cx, poll, |&bytes| bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let poll = |cx: &mut Context<'_>| this.inner.poll_flush(cx);
        (this.limiter).poll(Operation::Flush, cx, poll, |()| 0)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let poll = |cx: &mut Context<'_>| this.inner.poll_shutdown(cx);
        (this.limiter).poll(Operation::Flush, cx, poll, |()| 0)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let poll = |cx: &mut Context<'_>| this.inner.poll_write_vectored(cx, bufs);
        (this.limiter).poll(Operation::Write, cx, poll, |&bytes| bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

impl<S: AsyncSeek> AsyncSeek for TimeoutStream<S> {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        self.project().inner.start_seek(position)
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        self.project().inner.poll_complete(cx)
    }
}
