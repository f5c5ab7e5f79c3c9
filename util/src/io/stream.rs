//! `TimeoutStream`: passes each operation of the inner stream through the limiter.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    Limits,
    limiter::{Limiter, Operation},
};

pin_project! {
    /// A stream whose operations have timeouts, an idle timeout and minimum rates.
    ///
    /// [The module](super) describes each limit. A stream has no limits until you call
    /// [`with_limits`](Self::with_limits) or [`set_limits`](Self::set_limits).
    ///
    /// The inner stream may be only a reader or only a writer. The limits of reads are separate from the
    /// limits of writes, flushes and the shutdown. You can therefore use `tokio::io::split` and give the two
    /// halves to two tasks.
    ///
    /// # Cancel safety
    ///
    /// An operation is cancel safe if the inner operation is cancel safe. If you cancel an operation while it
    /// waits, its wait continues: see [the module](super#waiting).
    ///
    /// # Panics
    ///
    /// An operation that must wait and has a limit panics if it is polled outside a runtime. [`sleep`](tokio_wheel::sleep())
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
        Self {
            inner,
            limiter: Limiter::new(),
        }
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
        (this.limiter).poll(Operation::Read, cx, poll).map_ok(drop)
    }
}

impl<S: AsyncWrite> AsyncWrite for TimeoutStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        (this.limiter).poll(Operation::Write, cx, |cx| this.inner.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let poll = |cx: &mut Context<'_>| this.inner.poll_flush(cx).map_ok(|()| 0);
        (this.limiter).poll(Operation::Flush, cx, poll).map_ok(drop)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let poll = |cx: &mut Context<'_>| this.inner.poll_shutdown(cx).map_ok(|()| 0);
        (this.limiter).poll(Operation::Flush, cx, poll).map_ok(drop)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        (this.limiter).poll(Operation::Write, cx, |cx| {
            this.inner.poll_write_vectored(cx, bufs)
        })
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
