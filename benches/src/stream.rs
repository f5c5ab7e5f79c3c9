//! Measures the memory of a stream with all limits, without its inner stream.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_wheel_util::io::{Limits, MinRate, TimeoutStream};

use crate::{lab::runtime, process::resident_bytes};

const LIMIT: Duration = Duration::from_secs(30);
const RATE: MinRate = MinRate::new(1_000, LIMIT);

/// Bytes per stream, without the inner stream.
pub struct Memory {
    /// The stream with all its allocations, if all limits are set and no operation waits.
    pub at_rest: f64,
    /// The stream while a read waits, with the entries that the timer holds for it.
    pub reading: f64,
    /// The size of the stream itself, which both figures include.
    pub size: usize,
}

/// Measures how much resident memory grows per stream.
pub fn memory(streams: usize) -> Memory {
    let runtime = runtime(1);
    let _entered = runtime.enter();
    let waiting = |stream: &mut TimeoutStream<Silent>| {
        let mut cx = Context::from_waker(Waker::noop());
        let read = Pin::new(stream).poll_read(&mut cx, &mut ReadBuf::new(&mut [0]));
        assert!(read.is_pending());
    };
    // Creates the timer and its driver before the first count.
    waiting(&mut limited());
    let before = resident_bytes();
    let grown = || (resident_bytes() - before) as f64 / streams as f64;
    let mut all = Vec::with_capacity(streams);
    all.extend((0..streams).map(|_| limited()));
    let at_rest = grown();
    all.iter_mut().for_each(waiting);
    Memory {
        at_rest,
        reading: grown(),
        size: size_of::<TimeoutStream<Silent>>(),
    }
}

/// Creates a stream with every limit.
fn limited() -> TimeoutStream<Silent> {
    let limits = Limits::new()
        .read_timeout(LIMIT)
        .write_timeout(LIMIT)
        .idle_timeout(LIMIT)
        .min_read_rate(RATE)
        .min_write_rate(RATE);
    TimeoutStream::with_limits(Silent, limits)
}

/// A stream of size zero whose peer does nothing.
struct Silent;

impl AsyncRead for Silent {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Silent {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}
