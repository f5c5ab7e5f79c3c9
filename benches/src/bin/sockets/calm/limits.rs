//! The three limits of a connection, as users of each timer would set them.
//!
//! | limit   | tokio-wheel        | `tokio::time`                        | with tokio-io-timeout     |
//! |---------|--------------------|--------------------------------------|---------------------------|
//! | head    | `WheelTimer`       | hyper-util's `TokioTimer`            | hyper-util's `TokioTimer` |
//! | request | `timeout`          | `timeout`                            | `timeout`                 |
//! | idle    | `io::TimeoutStream`, any byte counts | [`Idle`], any byte counts | a read and a write timeout |
//!
//! [`Idle`] is the simplest code that keeps an idle limit on `tokio::time`. With it, the figures
//! compare tokio-wheel with the timer rather than with another crate.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use clap::ValueEnum;
use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep},
};
use tokio_wheel_benches::peer::{Bare, Timeouts, Tokio, TokioWheel};
use tokio_wheel_util::{
    hyper::WheelTimer,
    io::{Limits as StreamLimits, TimeoutStream},
};

/// The timers that keep a server's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Timer {
    /// tokio-wheel.
    Wheel,
    /// tokio::time.
    Tokio,
    /// tokio::time, with tokio-io-timeout for the idle limit.
    TokioIoTimeout,
    /// No limits.
    None,
}

impl Timer {
    /// Returns the name in tables and on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Wheel => "wheel",
            Self::Tokio => "tokio",
            Self::TokioIoTimeout => "tokio-io-timeout",
            Self::None => "none",
        }
    }
}

/// Sets the limits of a connection. The peer's `timeout` limits a request.
pub(crate) trait Limits: Timeouts {
    /// A socket with an idle limit.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Limits how long the head of a request may take.
    fn head(builder: &mut http1::Builder, limit: Duration);

    /// Limits how long no byte may move.
    fn idle(socket: TcpStream, limit: Duration) -> Self::Stream;
}

impl Limits for TokioWheel {
    type Stream = TimeoutStream<TcpStream>;

    fn head(builder: &mut http1::Builder, limit: Duration) {
        builder.timer(WheelTimer::new()).header_read_timeout(limit);
    }

    fn idle(socket: TcpStream, limit: Duration) -> Self::Stream {
        TimeoutStream::with_limits(socket, StreamLimits::new().idle_timeout(limit))
    }
}

impl Limits for Tokio {
    type Stream = Idle;

    fn head(builder: &mut http1::Builder, limit: Duration) {
        builder.timer(TokioTimer::new()).header_read_timeout(limit);
    }

    fn idle(socket: TcpStream, limit: Duration) -> Self::Stream {
        Idle::new(socket, limit)
    }
}

/// [`Tokio`] with another idle limit.
pub(crate) struct TokioIoTimeout;

impl Timeouts for TokioIoTimeout {
    const NAME: &'static str = "tokio-io-timeout";
    type Elapsed = <Tokio as Timeouts>::Elapsed;

    fn timeout<F: Future + Send>(
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send {
        Tokio::timeout(limit, future)
    }
}

impl Limits for TokioIoTimeout {
    type Stream = Pin<Box<tokio_io_timeout::TimeoutStream<TcpStream>>>;

    fn head(builder: &mut http1::Builder, limit: Duration) {
        Tokio::head(builder, limit);
    }

    fn idle(socket: TcpStream, limit: Duration) -> Self::Stream {
        let mut stream = tokio_io_timeout::TimeoutStream::new(socket);
        stream.set_read_timeout(Some(limit));
        stream.set_write_timeout(Some(limit));
        Box::pin(stream)
    }
}

impl Limits for Bare {
    type Stream = TcpStream;

    fn head(_: &mut http1::Builder, _: Duration) {}

    fn idle(socket: TcpStream, _: Duration) -> Self::Stream {
        socket
    }
}

/// A socket whose operations fail if they wait and no byte has moved for too long.
pub(crate) struct Idle {
    socket: TcpStream,
    limit: Duration,
    /// The sleep of the limit. The first operation that waits after bytes have moved postpones it.
    /// So each wait reads the clock once. This is the cheapest way on tokio, because postponing a
    /// deadline takes no lock.
    sleep: Pin<Box<Sleep>>,
    moved: bool,
}

impl Idle {
    fn new(socket: TcpStream, limit: Duration) -> Self {
        Self {
            socket,
            limit,
            sleep: Box::pin(sleep(limit)),
            moved: true,
        }
    }

    /// Polls an operation that may move bytes. Fails the operation if it has waited for too long.
    fn poll_in_time<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let outcome = poll(Pin::new(&mut self.socket), cx);
        if outcome.is_ready() {
            self.moved = true;
            return outcome;
        }
        if std::mem::take(&mut self.moved) {
            self.sleep.as_mut().reset(Instant::now() + self.limit);
        }
        self.sleep
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Idle {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.get_mut()
            .poll_in_time(cx, |socket, cx| socket.poll_read(cx, buf))
    }
}

impl AsyncWrite for Idle {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut()
            .poll_in_time(cx, |socket, cx| socket.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut()
            .poll_in_time(cx, |socket, cx| socket.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}
