//! A reader, a writer or a stream with limits.

use std::{
    io::{self, IoSlice, SeekFrom},
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

use super::{Limits, counts::Kind, direction::Direction, limiter::Limiter};
use crate::timer::Timer;

/// A reader whose reads have a timeout.
///
/// There is no limit at first. Writes and seeks pass through without limits. A reader that needs
/// other limits goes into a [`TimeoutStream`], which needs no writer.
///
/// # Examples
///
/// ```
/// use std::io::ErrorKind;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
/// use tokio_wheel::{Duration, Instant, io::TimeoutReader};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> std::io::Result<()> {
/// let (mut client, server) = duplex(64);
/// let mut server = TimeoutReader::new(server);
/// server.set_timeout(Some(Duration::from_secs(5)));
///
/// client.write_u8(7).await?;
/// assert_eq!(server.read_u8().await?, 7);
///
/// let start = Instant::now();
/// let error = server.read_u8().await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::TimedOut);
/// assert!(start.elapsed() >= Duration::from_secs(5));
///
/// client.write_u8(8).await?;
/// assert_eq!(server.read_u8().await?, 8);
/// # Ok(())
/// # }
/// ```
pub type TimeoutReader<R> = Limited<R, Reading>;

/// A writer whose writes, flushes and shutdown have a timeout.
///
/// There is no limit at first. Reads and seeks pass through without limits. A writer that needs
/// other limits goes into a [`TimeoutStream`], which needs no reader.
///
/// # Examples
///
/// ```
/// use std::io::ErrorKind;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
/// use tokio_wheel::{Duration, Instant, io::TimeoutWriter};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> std::io::Result<()> {
/// let (mut client, server) = duplex(1);
/// let mut server = TimeoutWriter::new(server);
/// server.set_timeout(Some(Duration::from_secs(5)));
///
/// server.write_u8(7).await?;
/// let start = Instant::now();
/// let error = server.write_u8(8).await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::TimedOut);
/// assert!(start.elapsed() >= Duration::from_secs(5));
///
/// assert_eq!(client.read_u8().await?, 7);
/// server.write_u8(8).await?;
/// # Ok(())
/// # }
/// ```
pub type TimeoutWriter<W> = Limited<W, Writing>;

/// A stream whose operations have timeouts, minimum rates, and a limit on idleness.
///
/// There is no limit at first. Reads, and writes with flushes and the shutdown, are limited
/// apart from each other: the stream may be split (`tokio::io::split`) and used by two tasks.
///
/// # Examples
///
/// ```
/// use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
/// use tokio_wheel::{Duration, Instant};
/// use tokio_wheel::io::{LimitExceeded, Limits, TimeoutStream};
///
/// const LIMITS: Limits = Limits::new()
///     .read_timeout(Duration::from_secs(30))
///     .write_timeout(Duration::from_secs(5));
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> std::io::Result<()> {
/// let (mut client, server) = duplex(64);
/// let mut server = TimeoutStream::new(server);
/// server.set_limits(LIMITS);
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
pub type TimeoutStream<S> = Limited<S, Duplex>;

/// Marks a [`TimeoutReader`].
#[derive(Debug)]
pub enum Reading {}

/// Marks a [`TimeoutWriter`].
#[derive(Debug)]
pub enum Writing {}

/// Marks a [`TimeoutStream`].
#[derive(Debug)]
pub enum Duplex {}

pin_project! {
    /// What [`TimeoutReader`], [`TimeoutWriter`] and [`TimeoutStream`] are.
    ///
    /// `D` decides which limits can be set.
    ///
    /// # Cancel safety
    ///
    /// Each operation is cancel safe if the inner operation is. An operation that is abandoned
    /// while it waits goes on counting: see [the module](super#what-counts).
    ///
    /// # Panics
    ///
    /// An operation that has to wait panics where [`sleep`](crate::sleep()) does, if it has a limit.
    ///
    /// # Errors
    ///
    /// An operation that exceeds a limit fails with an error of the kind
    /// [`TimedOut`](io::ErrorKind::TimedOut), which contains a
    /// [`LimitExceeded`](super::LimitExceeded). A read or write that fails so has moved no bytes.
    #[derive(Debug)]
    pub struct Limited<S, D> {
        #[pin]
        inner: S,
        limiter: Limiter,
        directions: PhantomData<D>,
    }
}

impl<S, D> Limited<S, D> {
    /// Sets no limit yet, and uses the default timer of the runtime that polls the operations.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::io::{Limits, TimeoutReader, TimeoutStream};
    ///
    /// assert_eq!(TimeoutReader::new(tokio::io::empty()).timeout(), None);
    /// assert_eq!(TimeoutStream::new(tokio::io::empty()).limits(), Limits::new());
    /// ```
    pub fn new(inner: S) -> Self {
        Self::on(None, inner)
    }

    /// Sets no limit yet, and uses `timer`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio::io::{AsyncReadExt, duplex};
    /// use tokio_wheel::{Duration, Timer, io::TimeoutReader};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().tick(Duration::from_millis(10)).build()?;
    /// let (_client, server) = duplex(64);
    /// let mut server = TimeoutReader::with_timer(server, &timer);
    /// server.set_timeout(Some(Duration::from_secs(5)));
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
            directions: PhantomData,
        }
    }

    /// Returns the inner reader, writer or stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::io::TimeoutStream;
    ///
    /// assert_eq!(TimeoutStream::new(vec![7]).get_ref(), &[7]);
    /// ```
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns the inner reader, writer or stream, mutably. The limits do not see what moves there.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::io::TimeoutStream;
    ///
    /// let mut stream = TimeoutStream::new(vec![7]);
    /// stream.get_mut().push(8);
    /// assert_eq!(stream.into_inner(), [7, 8]);
    /// ```
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Returns the inner reader, writer or stream, pinned. The limits do not see what moves there.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use tokio_wheel::io::TimeoutStream;
    ///
    /// let mut stream = pin!(TimeoutStream::new(vec![7]));
    /// stream.as_mut().get_pin_mut().push(8);
    /// assert_eq!(stream.get_ref(), &[7, 8]);
    /// ```
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut S> {
        self.project().inner
    }

    /// Drops the limits and returns the inner reader, writer or stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::io::TimeoutStream;
    ///
    /// assert_eq!(TimeoutStream::new(vec![7]).into_inner(), [7]);
    /// ```
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<R> TimeoutReader<R> {
    /// Returns the read timeout.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, io::TimeoutReader};
    ///
    /// let mut reader = TimeoutReader::new(tokio::io::empty());
    /// reader.set_timeout(Some(Duration::from_secs(5)));
    /// assert_eq!(reader.timeout(), Some(Duration::from_secs(5)));
    /// ```
    pub fn timeout(&self) -> Option<Duration> {
        self.limiter.limits().read_timeout
    }

    /// Sets how long a read may wait; `None` is forever.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio::io::{AsyncReadExt, duplex};
    /// use tokio_wheel::{Duration, Instant, io::TimeoutReader};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let (_client, server) = duplex(64);
    /// let mut server = TimeoutReader::new(server);
    /// for limit in [5, 30] {
    ///     let start = Instant::now();
    ///     server.set_timeout(Some(Duration::from_secs(limit)));
    ///     assert!(server.read_u8().await.is_err());
    ///     assert_eq!(start.elapsed().as_secs(), limit);
    /// }
    /// # }
    /// ```
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        (self.limiter).set_timeout(Direction::Read, timeout);
    }

    /// Does what [`set_timeout`](Self::set_timeout) does, for a pinned reader.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use tokio_wheel::{Duration, io::TimeoutReader};
    ///
    /// let mut reader = pin!(TimeoutReader::new(tokio::io::empty()));
    /// reader.as_mut().set_timeout_pinned(Some(Duration::from_secs(5)));
    /// assert_eq!(reader.timeout(), Some(Duration::from_secs(5)));
    /// ```
    pub fn set_timeout_pinned(self: Pin<&mut Self>, timeout: Option<Duration>) {
        (self.project().limiter).set_timeout(Direction::Read, timeout);
    }
}

impl<W> TimeoutWriter<W> {
    /// Returns the write timeout.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, io::TimeoutWriter};
    ///
    /// let mut writer = TimeoutWriter::new(tokio::io::sink());
    /// writer.set_timeout(Some(Duration::from_secs(5)));
    /// assert_eq!(writer.timeout(), Some(Duration::from_secs(5)));
    /// ```
    pub fn timeout(&self) -> Option<Duration> {
        self.limiter.limits().write_timeout
    }

    /// Sets how long a write, a flush or a shutdown may wait; `None` is forever.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio::io::{AsyncWriteExt, duplex};
    /// use tokio_wheel::{Duration, Instant, io::TimeoutWriter};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let (_client, server) = duplex(1);
    /// let mut server = TimeoutWriter::new(server);
    /// server.write_u8(7).await.unwrap();
    /// for limit in [5, 30] {
    ///     let start = Instant::now();
    ///     server.set_timeout(Some(Duration::from_secs(limit)));
    ///     assert!(server.write_u8(8).await.is_err());
    ///     assert_eq!(start.elapsed().as_secs(), limit);
    /// }
    /// # }
    /// ```
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        (self.limiter).set_timeout(Direction::Write, timeout);
    }

    /// Does what [`set_timeout`](Self::set_timeout) does, for a pinned writer.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use tokio_wheel::{Duration, io::TimeoutWriter};
    ///
    /// let mut writer = pin!(TimeoutWriter::new(tokio::io::sink()));
    /// writer.as_mut().set_timeout_pinned(Some(Duration::from_secs(5)));
    /// assert_eq!(writer.timeout(), Some(Duration::from_secs(5)));
    /// ```
    pub fn set_timeout_pinned(self: Pin<&mut Self>, timeout: Option<Duration>) {
        (self.project().limiter).set_timeout(Direction::Write, timeout);
    }
}

impl<S> TimeoutStream<S> {
    /// Returns all limits.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, io::TimeoutStream};
    ///
    /// let mut stream = TimeoutStream::new(tokio::io::empty());
    /// stream.set_read_timeout(Some(Duration::from_secs(5)));
    /// assert_eq!(stream.limits().read_timeout, Some(Duration::from_secs(5)));
    /// ```
    pub fn limits(&self) -> Limits {
        self.limiter.limits()
    }

    /// Sets all limits.
    ///
    /// A limit that differs from the one before counts from now on: see
    /// [the module](super#setting-limits). A limit that is as before goes on counting. So a server
    /// can set its limits before each request, and a slow client gains no time by that.
    ///
    /// # Examples
    ///
    /// A proxy gives a request less time than a tunnel:
    ///
    /// ```
    /// use tokio::io::{AsyncReadExt, duplex};
    /// use tokio_wheel::Duration;
    /// use tokio_wheel::io::{Limits, MinRate, TimeoutStream};
    ///
    /// const REQUEST: Limits = Limits::new()
    ///     .idle_timeout(Duration::from_secs(10))
    ///     .min_read_rate(MinRate::new(500, Duration::from_secs(10)));
    /// const TUNNEL: Limits = Limits::new().idle_timeout(Duration::from_secs(600));
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let (_client, server) = duplex(64);
    /// let mut server = TimeoutStream::new(server);
    /// server.set_limits(REQUEST);
    /// assert_eq!(server.read_u8().await.unwrap_err().to_string(), "idle for 10s");
    ///
    /// server.set_limits(TUNNEL);
    /// assert_eq!(server.read_u8().await.unwrap_err().to_string(), "idle for 600s");
    /// # }
    /// ```
    pub fn set_limits(&mut self, limits: Limits) {
        self.limiter.set(limits);
    }

    /// Does what [`set_limits`](Self::set_limits) does, for a pinned stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use tokio_wheel::Duration;
    /// use tokio_wheel::io::{Limits, TimeoutStream};
    ///
    /// let limits = Limits::new().idle_timeout(Duration::from_secs(60));
    /// let mut stream = pin!(TimeoutStream::new(tokio::io::empty()));
    /// stream.as_mut().set_limits_pinned(limits);
    /// assert_eq!(stream.limits(), limits);
    /// ```
    pub fn set_limits_pinned(self: Pin<&mut Self>, limits: Limits) {
        self.project().limiter.set(limits);
    }

    /// Returns the read timeout.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, io::TimeoutStream};
    ///
    /// let mut stream = TimeoutStream::new(tokio::io::empty());
    /// stream.set_read_timeout(Some(Duration::from_secs(5)));
    /// assert_eq!(stream.read_timeout(), Some(Duration::from_secs(5)));
    /// ```
    pub fn read_timeout(&self) -> Option<Duration> {
        self.limiter.limits().read_timeout
    }

    /// Sets how long a read may wait; `None` is forever.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio::io::{AsyncReadExt, duplex};
    /// use tokio_wheel::{Duration, io::TimeoutStream};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let (_client, server) = duplex(64);
    /// let mut server = TimeoutStream::new(server);
    /// server.set_read_timeout(Some(Duration::from_secs(5)));
    /// let error = server.read_u8().await.unwrap_err();
    /// assert_eq!(error.to_string(), "no read completed within 5s");
    /// # }
    /// ```
    pub fn set_read_timeout(&mut self, timeout: Option<Duration>) {
        (self.limiter).set_timeout(Direction::Read, timeout);
    }

    /// Does what [`set_read_timeout`](Self::set_read_timeout) does, for a pinned stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use tokio_wheel::{Duration, io::TimeoutStream};
    ///
    /// let mut stream = pin!(TimeoutStream::new(tokio::io::empty()));
    /// stream.as_mut().set_read_timeout_pinned(Some(Duration::from_secs(5)));
    /// assert_eq!(stream.read_timeout(), Some(Duration::from_secs(5)));
    /// ```
    pub fn set_read_timeout_pinned(self: Pin<&mut Self>, timeout: Option<Duration>) {
        (self.project().limiter).set_timeout(Direction::Read, timeout);
    }

    /// Returns the write timeout.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, io::TimeoutStream};
    ///
    /// let mut stream = TimeoutStream::new(tokio::io::empty());
    /// stream.set_write_timeout(Some(Duration::from_secs(5)));
    /// assert_eq!(stream.write_timeout(), Some(Duration::from_secs(5)));
    /// ```
    pub fn write_timeout(&self) -> Option<Duration> {
        self.limiter.limits().write_timeout
    }

    /// Sets how long a write, a flush or a shutdown may wait; `None` is forever.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio::io::{AsyncWriteExt, duplex};
    /// use tokio_wheel::{Duration, io::TimeoutStream};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let (_client, server) = duplex(1);
    /// let mut server = TimeoutStream::new(server);
    /// server.set_write_timeout(Some(Duration::from_secs(5)));
    /// let error = server.write_all(b"ab").await.unwrap_err();
    /// assert_eq!(error.to_string(), "no write completed within 5s");
    /// # }
    /// ```
    pub fn set_write_timeout(&mut self, timeout: Option<Duration>) {
        (self.limiter).set_timeout(Direction::Write, timeout);
    }

    /// Does what [`set_write_timeout`](Self::set_write_timeout) does, for a pinned stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use tokio_wheel::{Duration, io::TimeoutStream};
    ///
    /// let mut stream = pin!(TimeoutStream::new(tokio::io::empty()));
    /// stream.as_mut().set_write_timeout_pinned(Some(Duration::from_secs(5)));
    /// assert_eq!(stream.write_timeout(), Some(Duration::from_secs(5)));
    /// ```
    pub fn set_write_timeout_pinned(self: Pin<&mut Self>, timeout: Option<Duration>) {
        (self.project().limiter).set_timeout(Direction::Write, timeout);
    }
}

impl<S: AsyncRead, D> AsyncRead for Limited<S, D> {
    #[inline]
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
        let read = (this.limiter).poll(Direction::Read, Kind::Transfer, cx, poll, |&bytes| bytes);
        read.map_ok(|_| ())
    }
}

impl<S: AsyncBufRead, D> AsyncBufRead for Limited<S, D> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.project();
        let inner = this.inner;
        let poll = |cx: &mut Context<'_>| inner.poll_fill_buf(cx);
        // The bytes move when they are consumed.
        (this.limiter).poll(Direction::Read, Kind::Transfer, cx, poll, |_| 0)
    }

    fn consume(self: Pin<&mut Self>, amount: usize) {
        let this = self.project();
        this.inner.consume(amount);
        this.limiter.consume(amount);
    }
}

impl<S: AsyncWrite, D> AsyncWrite for Limited<S, D> {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let poll = |cx: &mut Context<'_>| this.inner.poll_write(cx, buf);
        (this.limiter).poll(Direction::Write, Kind::Transfer, cx, poll, |&bytes| bytes)
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let poll = |cx: &mut Context<'_>| this.inner.poll_flush(cx);
        (this.limiter).poll(Direction::Write, Kind::Flush, cx, poll, |()| 0)
    }

    #[inline]
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let poll = |cx: &mut Context<'_>| this.inner.poll_shutdown(cx);
        (this.limiter).poll(Direction::Write, Kind::Flush, cx, poll, |()| 0)
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let poll = |cx: &mut Context<'_>| this.inner.poll_write_vectored(cx, bufs);
        (this.limiter).poll(Direction::Write, Kind::Transfer, cx, poll, |&bytes| bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

impl<S: AsyncSeek, D> AsyncSeek for Limited<S, D> {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        self.project().inner.start_seek(position)
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        self.project().inner.poll_complete(cx)
    }
}
