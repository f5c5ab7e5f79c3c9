//! `Direction`: copies from one stream to the other, one read and one write at a time.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::coop::poll_proceed,
};

use super::end::Side;

pub(super) struct Direction {
    /// The stream that is read.
    from: Side,
    /// Empty before the first poll.
    buffer: Box<[u8]>,
    /// The bytes of the buffer from here to `filled` are read and not yet written.
    start: usize,
    filled: usize,
    needs_flush: bool,
    pub(super) written: u64,
    /// Whether the reader has no more bytes.
    pub(super) has_ended: bool,
    /// Whether the writer is shut down after the reader's last byte.
    pub(super) is_closed: bool,
}

impl Direction {
    pub(super) fn new(from: Side) -> Self {
        Self {
            from,
            buffer: Box::default(),
            start: 0,
            filled: 0,
            needs_flush: false,
            written: 0,
            has_ended: false,
            is_closed: false,
        }
    }

    pub(super) fn allocate(&mut self, bytes: usize) {
        if self.buffer.is_empty() {
            self.buffer = vec![0; bytes].into();
        }
    }

    /// Copies until the reader or the writer must wait, or the direction is closed. `moved` becomes true if anything has
    /// happened, which is progress for a limit.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut (impl AsyncRead + Unpin),
        writer: &mut (impl AsyncWrite + Unpin),
        moved: &mut bool,
    ) -> Poll<Result<(), (Side, io::Error)>> {
        let failed = |error| (self.from.other(), error);
        let (mut reader, mut writer) = (Pin::new(reader), Pin::new(writer));
        while !self.is_closed {
            let unit = ready!(poll_proceed(cx));
            let mut progress = false;
            if !self.has_ended && self.filled < self.buffer.len() {
                let mut room = ReadBuf::new(&mut self.buffer[self.filled..]);
                let read = reader.as_mut().poll_read(cx, &mut room);
                let read = read.map_ok(|()| room.filled().len());
                if let Poll::Ready(read) = or_again(read).map_err(|error| (self.from, error))? {
                    progress = true;
                    self.has_ended = read == Some(0);
                    self.filled += read.unwrap_or(0);
                }
            }
            if self.start < self.filled {
                let write = (writer.as_mut()).poll_write(cx, &self.buffer[self.start..self.filled]);
                if let Poll::Ready(written) = or_again(write).map_err(failed)? {
                    if written == Some(0) {
                        return Poll::Ready(Err(failed(io::ErrorKind::WriteZero.into())));
                    }
                    progress = true;
                    self.needs_flush = true;
                    let written = written.unwrap_or(0);
                    self.start += written;
                    self.written += written as u64;
                    if self.start == self.filled {
                        (self.start, self.filled) = (0, 0);
                    }
                }
            } else if self.has_ended {
                ready!(writer.as_mut().poll_shutdown(cx)).map_err(failed)?;
                progress = true;
                self.is_closed = true;
            } else if self.needs_flush && !progress {
                // The reader may wait for the answer to bytes that the writer has only buffered.
                ready!(writer.as_mut().poll_flush(cx)).map_err(failed)?;
                unit.made_progress();
                self.needs_flush = false;
            }
            if !progress {
                return Poll::Pending;
            }
            unit.made_progress();
            *moved = true;
        }
        Poll::Ready(Ok(()))
    }
}

/// Turns an interrupted operation, which the caller must repeat, into `None`.
fn or_again<T>(operation: Poll<io::Result<T>>) -> Poll<io::Result<Option<T>>> {
    operation.map(|result| match result {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        result => result.map(Some),
    })
}
