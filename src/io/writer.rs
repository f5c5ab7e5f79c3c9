//! A writer with limits.

use std::{
    io::{self, IoSlice, SeekFrom},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

use super::{MinRate, reader::read_into, side::Side};
use crate::timer::Timer;

pin_project! {
    /// A writer whose writes, flushes and shutdown have a timeout, and its writes a minimum rate.
    ///
    /// There is no limit at first. Reads and seeks pass through without limits.
    ///
    /// # Cancel safety
    ///
    /// As that of the inner writer. An operation that is abandoned while it waits goes on counting:
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
    /// [`LimitExceeded`](super::LimitExceeded). A write that fails so has written nothing.
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
    #[derive(Debug)]
    pub struct TimeoutWriter<W> {
        #[pin]
        writer: W,
        side: Side,
    }
}

impl<W> TimeoutWriter<W> {
    /// A writer without limits, which uses the ambient timer of the runtime that polls it.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::io::TimeoutWriter;
    ///
    /// assert_eq!(TimeoutWriter::new(tokio::io::sink()).timeout(), None);
    /// ```
    pub fn new(writer: W) -> Self {
        Self {
            writer,
            side: Side::write(None),
        }
    }

    /// A writer without limits, which uses `timer`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio::io::{AsyncWriteExt, duplex};
    /// use tokio_wheel::{Duration, Timer, io::TimeoutWriter};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().tick(Duration::from_millis(10)).build()?;
    /// let (_client, server) = duplex(1);
    /// let mut server = TimeoutWriter::with_timer(server, &timer);
    /// server.set_timeout(Some(Duration::from_secs(5)));
    /// assert!(server.write_all(b"ab").await.is_err());
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_timer(writer: W, timer: &Timer) -> Self {
        Self {
            writer,
            side: Side::write(Some(timer)),
        }
    }

    /// The write timeout.
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
        self.side.timeout()
    }

    /// Sets how long a write, a flush or a shutdown may wait; `None` is for ever.
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
        self.side.set_timeout(timeout);
    }

    /// [`set_timeout`](Self::set_timeout) of a pinned writer.
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
        self.project().side.set_timeout(timeout);
    }

    /// The minimum rate.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::io::TimeoutWriter;
    ///
    /// assert_eq!(TimeoutWriter::new(tokio::io::sink()).min_rate(), None);
    /// ```
    pub fn min_rate(&self) -> Option<MinRate> {
        self.side.min_rate()
    }

    /// Sets the minimum rate of writing, and begins to measure anew.
    ///
    /// Bytes that are read through this writer are those that move in the other direction.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio::io::{AsyncWriteExt, duplex};
    /// use tokio_wheel::Duration;
    /// use tokio_wheel::io::{MinRate, TimeoutWriter};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let (_client, server) = duplex(4);
    /// let mut server = TimeoutWriter::new(server);
    /// server.set_min_rate(Some(MinRate::new(10, Duration::from_secs(10))));
    ///
    /// let error = server.write_all(b"abcdef").await.unwrap_err();
    /// assert_eq!(error.to_string(), "fewer than 10 bytes written in 10s");
    /// # }
    /// ```
    pub fn set_min_rate(&mut self, rate: Option<MinRate>) {
        self.side.set_min_rate(rate);
    }

    /// [`set_min_rate`](Self::set_min_rate) of a pinned writer.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use tokio_wheel::Duration;
    /// use tokio_wheel::io::{MinRate, TimeoutWriter};
    ///
    /// let rate = MinRate::new(500, Duration::from_secs(10));
    /// let mut writer = pin!(TimeoutWriter::new(tokio::io::sink()));
    /// writer.as_mut().set_min_rate_pinned(Some(rate));
    /// assert_eq!(writer.min_rate(), Some(rate));
    /// ```
    pub fn set_min_rate_pinned(self: Pin<&mut Self>, rate: Option<MinRate>) {
        self.project().side.set_min_rate(rate);
    }

    /// The inner writer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::io::TimeoutWriter;
    ///
    /// assert_eq!(TimeoutWriter::new(vec![7]).get_ref(), &[7]);
    /// ```
    pub fn get_ref(&self) -> &W {
        &self.writer
    }

    /// The inner writer, mutably. What is written there is not seen by the limits.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::io::TimeoutWriter;
    ///
    /// let mut writer = TimeoutWriter::new(vec![7]);
    /// writer.get_mut().push(8);
    /// assert_eq!(writer.into_inner(), [7, 8]);
    /// ```
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.writer
    }

    /// The inner writer, pinned. What is written there is not seen by the limits.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use tokio_wheel::io::TimeoutWriter;
    ///
    /// let mut writer = pin!(TimeoutWriter::new(vec![7]));
    /// writer.as_mut().get_pin_mut().push(8);
    /// assert_eq!(writer.get_ref(), &[7, 8]);
    /// ```
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut W> {
        self.project().writer
    }

    /// Gives up the limits and keeps the inner writer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::io::TimeoutWriter;
    ///
    /// assert_eq!(TimeoutWriter::new(vec![7]).into_inner(), [7]);
    /// ```
    pub fn into_inner(self) -> W {
        self.writer
    }
}

impl<W: AsyncWrite> AsyncWrite for TimeoutWriter<W> {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let writer = this.writer;
        let poll = |cx: &mut Context<'_>| writer.poll_write(cx, buf);
        this.side.poll_transfer(None, cx, poll)
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let writer = this.writer;
        this.side.poll_flush(cx, |cx| writer.poll_flush(cx))
    }

    #[inline]
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let writer = this.writer;
        this.side.poll_flush(cx, |cx| writer.poll_shutdown(cx))
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let writer = this.writer;
        let poll = |cx: &mut Context<'_>| writer.poll_write_vectored(cx, bufs);
        this.side.poll_transfer(None, cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.writer.is_write_vectored()
    }
}

impl<W: AsyncRead> AsyncRead for TimeoutWriter<W> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.project();
        let read = ready!(read_into(this.writer, buf)(cx))?;
        this.side.passed_through(read);
        Poll::Ready(Ok(()))
    }
}

impl<W: AsyncBufRead> AsyncBufRead for TimeoutWriter<W> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.project().writer.poll_fill_buf(cx)
    }

    fn consume(self: Pin<&mut Self>, amount: usize) {
        let this = self.project();
        this.writer.consume(amount);
        this.side.passed_through(amount);
    }
}

impl<W: AsyncSeek> AsyncSeek for TimeoutWriter<W> {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        self.project().writer.start_seek(position)
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        self.project().writer.poll_complete(cx)
    }
}
