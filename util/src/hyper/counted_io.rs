//! The I/O of a connection, which tells whether the connection has written everything.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use ::hyper::rt::{Read, ReadBufCursor, Write};

use super::requests::Requests;

/// The I/O of a connection whose requests are counted.
///
/// [`ConnectionGuard::serve`](super::ConnectionGuard::serve) passes this I/O to the connection. A request is in flight
/// until the connection has written its response to the I/O and has flushed the I/O.
#[derive(Debug)]
pub struct CountedIo<I> {
    pub(super) io: I,
    pub(super) requests: Arc<Requests>,
}

impl<I> CountedIo<I> {
    /// Returns the inner I/O, for example after an upgrade.
    pub fn into_inner(self) -> I {
        self.io
    }
}

impl<I: Read + Unpin> Read for CountedIo<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<I: Write + Unpin> Write for CountedIo<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.requests.wrote(buf, written.is_pending());
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        match flushed {
            Poll::Ready(_) => self.requests.flushed(),
            Poll::Pending => self.requests.wrote(&[], true),
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper has flushed before, and neither writes nor flushes afterwards.
        self.requests.flushed();
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        let bytes = bufs.iter().find(|bytes| !bytes.is_empty());
        let bytes = bytes.map_or(&[][..], |bytes| bytes);
        self.requests.wrote(bytes, written.is_pending());
        written
    }
}
