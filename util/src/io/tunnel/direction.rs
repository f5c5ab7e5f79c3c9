//! `Direction`: copies from one stream to the other.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::end::{Side, TunnelReason};

#[derive(Default)]
pub(super) struct Direction {
    buffer: Box<[u8]>,
    /// The bytes of the buffer from here to `filled` are read and not yet written.
    start: usize,
    filled: usize,
    needs_flush: bool,
    pub(super) written: u64,
    /// Whether the reader has no more bytes.
    pub(super) has_ended: bool,
    /// Whether the writer has all bytes, and is shut down.
    pub(super) is_closed: bool,
}

impl Direction {
    pub(super) fn new(buffer: usize) -> Self {
        Self {
            buffer: vec![0; buffer].into(),
            ..Self::default()
        }
    }

    /// Reads once if the buffer has room, and writes once if it has bytes. Returns whether anything has moved. Otherwise the
    /// reader and the writer wake the task, or the direction is closed.
    pub(super) fn copy(
        &mut self,
        cx: &mut Context<'_>,
        from: Side,
        reader: &mut (impl AsyncRead + Unpin),
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Result<bool, TunnelReason> {
        let failed = |side| move |error| TunnelReason::Failed { side, error };
        let (reader, writer) = (Pin::new(reader), Pin::new(writer));
        if self.is_closed {
            return Ok(false);
        }
        let mut has_moved = false;
        if !self.has_ended && self.filled < self.buffer.len() {
            let mut room = ReadBuf::new(&mut self.buffer[self.filled..]);
            let read = reader.poll_read(cx, &mut room);
            if read.map_err(failed(from))?.is_ready() {
                let read = room.filled().len();
                self.filled += read;
                self.has_ended = read == 0;
                has_moved = true;
            }
        }
        let failed = failed(from.other());
        if self.start < self.filled {
            let write = writer.poll_write(cx, &self.buffer[self.start..self.filled]);
            if let Poll::Ready(written) = write.map_err(failed)? {
                if written == 0 {
                    return Err(failed(io::ErrorKind::WriteZero.into()));
                }
                self.start += written;
                self.written += written as u64;
                if self.start == self.filled {
                    (self.start, self.filled) = (0, 0);
                }
                self.needs_flush = true;
                has_moved = true;
            }
        } else if self.has_ended {
            self.is_closed = writer.poll_shutdown(cx).map_err(failed)?.is_ready();
            has_moved |= self.is_closed;
        } else if self.needs_flush && !has_moved {
            // The reader may wait for the answer to bytes that the writer has only buffered.
            self.needs_flush = writer.poll_flush(cx).map_err(failed)?.is_pending();
        }
        Ok(has_moved)
    }
}
