//! A stream with limits in both directions.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

use super::{MinRate, reader::read_into, side::Side};
use crate::timer::Timer;

pin_project! {
    /// A stream whose operations have timeouts, minimum rates, and a limit on idleness.
    ///
    /// There is no limit at first. Reads, and writes with flushes and the shutdown, are limited
    /// apart from each other: the stream may be [split](tokio::io::split) and used by two tasks.
    ///
    /// # Cancel safety
    ///
    /// As that of the inner stream. An operation that is abandoned while it waits goes on counting:
    /// see [the module](super#what-counts).
    ///
    /// # Panics
    ///
    /// An operation that has to wait panics where [`sleep`](crate::sleep()) does, if it has a limit.
    ///
    /// # Errors
    ///
    /// An operation that exceeds a limit fails with an error of the kind
    /// [`TimedOut`](io::ErrorKind::TimedOut), which contains a
    /// [`LimitExceeded`](super::LimitExceeded). A read or write that fails so has moved nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    /// use tokio_wheel::{Duration, Instant};
    /// use tokio_wheel::io::{LimitExceeded, TimeoutStream};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> std::io::Result<()> {
    /// let (mut client, server) = duplex(64);
    /// let mut server = TimeoutStream::new(server);
    /// server.set_read_timeout(Some(Duration::from_secs(30)));
    /// server.set_write_timeout(Some(Duration::from_secs(5)));
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
    pub struct TimeoutStream<S> {
        #[pin]
        stream: S,
        read: Side,
        write: Side,
    }
}

impl<S> TimeoutStream<S> {
    /// A stream without limits, which uses the ambient timer of the runtime that polls it.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::io::TimeoutStream;
    ///
    /// let stream = TimeoutStream::new(tokio::io::empty());
    /// assert_eq!((stream.read_timeout(), stream.write_timeout()), (None, None));
    /// ```
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            read: Side::read(None),
            write: Side::write(None),
        }
    }

    /// A stream without limits, which uses `timer`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio::io::{AsyncReadExt, duplex};
    /// use tokio_wheel::{Duration, Timer, io::TimeoutStream};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().tick(Duration::from_millis(10)).build()?;
    /// let (_client, server) = duplex(64);
    /// let mut server = TimeoutStream::with_timer(server, &timer);
    /// server.set_read_timeout(Some(Duration::from_secs(5)));
    /// assert!(server.read_u8().await.is_err());
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_timer(stream: S, timer: &Timer) -> Self {
        Self {
            stream,
            read: Side::read(Some(timer)),
            write: Side::write(Some(timer)),
        }
    }

    /// The read timeout.
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
        self.read.timeout()
    }

    /// Sets how long a read may wait; `None` is for ever.
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
        self.read.set_timeout(timeout);
    }

    /// [`set_read_timeout`](Self::set_read_timeout) of a pinned stream.
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
        self.project().read.set_timeout(timeout);
    }

    /// The write timeout.
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
        self.write.timeout()
    }

    /// Sets how long a write, a flush or a shutdown may wait; `None` is for ever.
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
        self.write.set_timeout(timeout);
    }

    /// [`set_write_timeout`](Self::set_write_timeout) of a pinned stream.
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
        self.project().write.set_timeout(timeout);
    }

    /// The idle limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, io::TimeoutStream};
    ///
    /// let mut stream = TimeoutStream::new(tokio::io::empty());
    /// stream.set_idle_timeout(Some(Duration::from_secs(60)));
    /// assert_eq!(stream.idle_timeout(), Some(Duration::from_secs(60)));
    /// ```
    pub fn idle_timeout(&self) -> Option<Duration> {
        self.read.idle_timeout()
    }

    /// Sets how long an operation may wait while no byte moves in either direction; `None` is for
    /// ever.
    ///
    /// # Examples
    ///
    /// A client that only listens is not idle:
    ///
    /// ```
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};
    /// use tokio_wheel::{Duration, Instant, io::TimeoutStream, sleep};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let (_client, server) = duplex(64);
    /// let mut server = TimeoutStream::new(server);
    /// server.set_idle_timeout(Some(Duration::from_secs(60)));
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
    pub fn set_idle_timeout(&mut self, timeout: Option<Duration>) {
        self.read.set_idle_timeout(timeout);
        self.write.set_idle_timeout(timeout);
    }

    /// [`set_idle_timeout`](Self::set_idle_timeout) of a pinned stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use tokio_wheel::{Duration, io::TimeoutStream};
    ///
    /// let mut stream = pin!(TimeoutStream::new(tokio::io::empty()));
    /// stream.as_mut().set_idle_timeout_pinned(Some(Duration::from_secs(60)));
    /// assert_eq!(stream.idle_timeout(), Some(Duration::from_secs(60)));
    /// ```
    pub fn set_idle_timeout_pinned(self: Pin<&mut Self>, timeout: Option<Duration>) {
        let this = self.project();
        this.read.set_idle_timeout(timeout);
        this.write.set_idle_timeout(timeout);
    }

    /// The minimum rate of reading.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::io::TimeoutStream;
    ///
    /// assert_eq!(TimeoutStream::new(tokio::io::empty()).min_read_rate(), None);
    /// ```
    pub fn min_read_rate(&self) -> Option<MinRate> {
        self.read.min_rate()
    }

    /// Sets the minimum rate of reading, and begins to measure anew.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    /// use tokio_wheel::Duration;
    /// use tokio_wheel::io::{MinRate, TimeoutStream};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let (mut client, server) = duplex(64);
    /// let mut server = TimeoutStream::new(server);
    /// server.set_min_read_rate(Some(MinRate::new(500, Duration::from_secs(10))));
    /// client.write_all(b"GET /").await.unwrap();
    ///
    /// let mut request = Vec::new();
    /// let error = server.read_to_end(&mut request).await.unwrap_err();
    /// assert_eq!(error.to_string(), "fewer than 500 bytes read in 10s");
    /// assert_eq!(request, b"GET /");
    /// # }
    /// ```
    pub fn set_min_read_rate(&mut self, rate: Option<MinRate>) {
        self.read.set_min_rate(rate);
    }

    /// [`set_min_read_rate`](Self::set_min_read_rate) of a pinned stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use tokio_wheel::Duration;
    /// use tokio_wheel::io::{MinRate, TimeoutStream};
    ///
    /// let rate = MinRate::new(500, Duration::from_secs(10));
    /// let mut stream = pin!(TimeoutStream::new(tokio::io::empty()));
    /// stream.as_mut().set_min_read_rate_pinned(Some(rate));
    /// assert_eq!(stream.min_read_rate(), Some(rate));
    /// ```
    pub fn set_min_read_rate_pinned(self: Pin<&mut Self>, rate: Option<MinRate>) {
        self.project().read.set_min_rate(rate);
    }

    /// The minimum rate of writing.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::io::TimeoutStream;
    ///
    /// assert_eq!(TimeoutStream::new(tokio::io::empty()).min_write_rate(), None);
    /// ```
    pub fn min_write_rate(&self) -> Option<MinRate> {
        self.write.min_rate()
    }

    /// Sets the minimum rate of writing, and begins to measure anew.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio::io::{AsyncWriteExt, duplex};
    /// use tokio_wheel::Duration;
    /// use tokio_wheel::io::{MinRate, TimeoutStream};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let (_client, server) = duplex(64);
    /// let mut server = TimeoutStream::new(server);
    /// server.set_min_write_rate(Some(MinRate::new(500, Duration::from_secs(10))));
    ///
    /// let error = server.write_all(&[0; 65]).await.unwrap_err();
    /// assert_eq!(error.to_string(), "fewer than 500 bytes written in 10s");
    /// # }
    /// ```
    pub fn set_min_write_rate(&mut self, rate: Option<MinRate>) {
        self.write.set_min_rate(rate);
    }

    /// [`set_min_write_rate`](Self::set_min_write_rate) of a pinned stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use tokio_wheel::Duration;
    /// use tokio_wheel::io::{MinRate, TimeoutStream};
    ///
    /// let rate = MinRate::new(500, Duration::from_secs(10));
    /// let mut stream = pin!(TimeoutStream::new(tokio::io::empty()));
    /// stream.as_mut().set_min_write_rate_pinned(Some(rate));
    /// assert_eq!(stream.min_write_rate(), Some(rate));
    /// ```
    pub fn set_min_write_rate_pinned(self: Pin<&mut Self>, rate: Option<MinRate>) {
        self.project().write.set_min_rate(rate);
    }

    /// The inner stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::io::TimeoutStream;
    ///
    /// assert_eq!(TimeoutStream::new(vec![7]).get_ref(), &[7]);
    /// ```
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// The inner stream, mutably. What moves there is not seen by the limits.
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
        &mut self.stream
    }

    /// The inner stream, pinned. What moves there is not seen by the limits.
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
        self.project().stream
    }

    /// Gives up the limits and keeps the inner stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::io::TimeoutStream;
    ///
    /// assert_eq!(TimeoutStream::new(vec![7]).into_inner(), [7]);
    /// ```
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead> AsyncRead for TimeoutStream<S> {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.project();
        let poll = read_into(this.stream, buf);
        let read = this.read.poll_transfer(Some(this.write), cx, poll);
        read.map_ok(|_| ())
    }
}

impl<S: AsyncBufRead> AsyncBufRead for TimeoutStream<S> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.project();
        let stream = this.stream;
        this.read.poll_fill(cx, |cx| stream.poll_fill_buf(cx))
    }

    fn consume(self: Pin<&mut Self>, amount: usize) {
        let this = self.project();
        this.stream.consume(amount);
        this.read.consume(amount, Some(this.write));
    }
}

impl<S: AsyncWrite> AsyncWrite for TimeoutStream<S> {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let stream = this.stream;
        let poll = |cx: &mut Context<'_>| stream.poll_write(cx, buf);
        this.write.poll_transfer(Some(this.read), cx, poll)
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let stream = this.stream;
        this.write.poll_flush(cx, |cx| stream.poll_flush(cx))
    }

    #[inline]
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let stream = this.stream;
        this.write.poll_flush(cx, |cx| stream.poll_shutdown(cx))
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let stream = this.stream;
        let poll = |cx: &mut Context<'_>| stream.poll_write_vectored(cx, bufs);
        this.write.poll_transfer(Some(this.read), cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
