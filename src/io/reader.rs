//! A reader with limits.

use std::{
    io::{self, IoSlice, SeekFrom},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

use super::{MinRate, side::Side};
use crate::timer::Timer;

pin_project! {
    /// A reader whose reads have a timeout and a minimum rate.
    ///
    /// There is no limit at first. Writes and seeks pass through without limits.
    ///
    /// # Cancel safety
    ///
    /// As that of the inner reader. A read that is abandoned while it waits goes on counting: see
    /// [the module](super#what-counts).
    ///
    /// # Panics
    ///
    /// A read that has to wait panics where [`sleep`](crate::sleep()) does, if it has a limit.
    ///
    /// # Errors
    ///
    /// A read that exceeds a limit fails with an error of the kind
    /// [`TimedOut`](io::ErrorKind::TimedOut), which contains a
    /// [`LimitExceeded`](super::LimitExceeded). No bytes are lost.
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
    #[derive(Debug)]
    pub struct TimeoutReader<R> {
        #[pin]
        reader: R,
        side: Side,
    }
}

impl<R> TimeoutReader<R> {
    /// A reader without limits, which uses the ambient timer of the runtime that polls it.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::io::TimeoutReader;
    ///
    /// assert_eq!(TimeoutReader::new(tokio::io::empty()).timeout(), None);
    /// ```
    pub fn new(reader: R) -> Self {
        Self {
            reader,
            side: Side::read(None),
        }
    }

    /// A reader without limits, which uses `timer`.
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
    pub fn with_timer(reader: R, timer: &Timer) -> Self {
        Self {
            reader,
            side: Side::read(Some(timer)),
        }
    }

    /// The read timeout.
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
        self.side.timeout()
    }

    /// Sets how long a read may wait; `None` is for ever.
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
        self.side.set_timeout(timeout);
    }

    /// [`set_timeout`](Self::set_timeout) of a pinned reader.
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
        self.project().side.set_timeout(timeout);
    }

    /// The minimum rate.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::io::TimeoutReader;
    ///
    /// assert_eq!(TimeoutReader::new(tokio::io::empty()).min_rate(), None);
    /// ```
    pub fn min_rate(&self) -> Option<MinRate> {
        self.side.min_rate()
    }

    /// Sets the minimum rate of reading, and begins to measure anew.
    ///
    /// Bytes that are written through this reader are those that move in the other direction.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    /// use tokio_wheel::Duration;
    /// use tokio_wheel::io::{MinRate, TimeoutReader};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let (mut client, server) = duplex(64);
    /// let mut server = TimeoutReader::new(server);
    /// server.set_min_rate(Some(MinRate::new(3, Duration::from_secs(10))));
    ///
    /// client.write_all(b"abcd").await.unwrap();
    /// assert_eq!(server.read_u32().await.unwrap(), u32::from_be_bytes(*b"abcd"));
    ///
    /// client.write_all(b"ef").await.unwrap();
    /// let error = server.read_u32().await.unwrap_err();
    /// assert_eq!(error.to_string(), "fewer than 3 bytes read in 10s");
    /// # }
    /// ```
    pub fn set_min_rate(&mut self, rate: Option<MinRate>) {
        self.side.set_min_rate(rate);
    }

    /// [`set_min_rate`](Self::set_min_rate) of a pinned reader.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use tokio_wheel::Duration;
    /// use tokio_wheel::io::{MinRate, TimeoutReader};
    ///
    /// let rate = MinRate::new(500, Duration::from_secs(10));
    /// let mut reader = pin!(TimeoutReader::new(tokio::io::empty()));
    /// reader.as_mut().set_min_rate_pinned(Some(rate));
    /// assert_eq!(reader.min_rate(), Some(rate));
    /// ```
    pub fn set_min_rate_pinned(self: Pin<&mut Self>, rate: Option<MinRate>) {
        self.project().side.set_min_rate(rate);
    }

    /// The inner reader.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::io::TimeoutReader;
    ///
    /// let reader = TimeoutReader::new(&b"abc"[..]);
    /// assert_eq!(reader.get_ref(), b"abc");
    /// ```
    pub fn get_ref(&self) -> &R {
        &self.reader
    }

    /// The inner reader, mutably. What is read there is not seen by the limits.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::io::TimeoutReader;
    ///
    /// let mut reader = TimeoutReader::new(&b"abc"[..]);
    /// *reader.get_mut() = b"def";
    /// assert_eq!(reader.into_inner(), b"def");
    /// ```
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.reader
    }

    /// The inner reader, pinned. What is read there is not seen by the limits.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use tokio_wheel::io::TimeoutReader;
    ///
    /// let reader = pin!(TimeoutReader::new(&b"abc"[..]));
    /// assert_eq!(*reader.get_pin_mut(), b"abc");
    /// ```
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut R> {
        self.project().reader
    }

    /// Gives up the limits and keeps the inner reader.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::io::TimeoutReader;
    ///
    /// assert_eq!(TimeoutReader::new(&b"abc"[..]).into_inner(), b"abc");
    /// ```
    pub fn into_inner(self) -> R {
        self.reader
    }
}

impl<R: AsyncRead> AsyncRead for TimeoutReader<R> {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.project();
        let poll = read_into(this.reader, buf);
        this.side.poll_transfer(None, cx, poll).map_ok(|_| ())
    }
}

/// Polls a read, and says how many bytes it has read.
#[inline]
pub(super) fn read_into<R: AsyncRead>(
    reader: Pin<&mut R>,
    buf: &mut ReadBuf<'_>,
) -> impl FnOnce(&mut Context<'_>) -> Poll<io::Result<usize>> {
    move |cx| {
        let before = buf.filled().len();
        ready!(reader.poll_read(cx, buf))?;
        Poll::Ready(Ok(buf.filled().len().saturating_sub(before)))
    }
}

impl<R: AsyncBufRead> AsyncBufRead for TimeoutReader<R> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.project();
        let reader = this.reader;
        this.side.poll_fill(cx, |cx| reader.poll_fill_buf(cx))
    }

    fn consume(self: Pin<&mut Self>, amount: usize) {
        let this = self.project();
        this.reader.consume(amount);
        this.side.consume(amount, None);
    }
}

impl<R: AsyncWrite> AsyncWrite for TimeoutReader<R> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let written = ready!(this.reader.poll_write(cx, buf))?;
        this.side.passed_through(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().reader.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().reader.poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let written = ready!(this.reader.poll_write_vectored(cx, bufs))?;
        this.side.passed_through(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.reader.is_write_vectored()
    }
}

impl<R: AsyncSeek> AsyncSeek for TimeoutReader<R> {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        self.project().reader.start_seek(position)
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        self.project().reader.poll_complete(cx)
    }
}
