//! `Direction`: copies from one stream to the other.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::coop::poll_proceed,
    time::Instant,
};

use super::end::Side;

/// How many reads and writes a unit of the budget pays for.
const ROUNDS: u32 = 32;

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
    is_closed: bool,
}

impl Direction {
    pub(super) fn new(buffer: usize) -> Self {
        Self {
            buffer: vec![0; buffer].into(),
            ..Self::default()
        }
    }

    /// Copies until the reader or the writer must wait, or the direction is closed. Clears `last` if anything moves.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: Side,
        reader: &mut (impl AsyncRead + Unpin),
        writer: &mut (impl AsyncWrite + Unpin),
        last: &mut Option<Instant>,
    ) -> Poll<Result<(), (Side, io::Error)>> {
        let failed = |error| (from.other(), error);
        let (mut reader, mut writer) = (Pin::new(reader), Pin::new(writer));
        let mut unit = ready!(poll_proceed(cx));
        let mut rounds = 0;
        while !self.is_closed {
            let mut progress = false;
            if !self.has_ended && self.filled < self.buffer.len() {
                let mut room = ReadBuf::new(&mut self.buffer[self.filled..]);
                let read = reader.as_mut().poll_read(cx, &mut room);
                if read.map_err(|error| (from, error))?.is_ready() {
                    let read = room.filled().len();
                    self.filled += read;
                    self.has_ended = read == 0;
                    progress = true;
                }
            }
            if self.start < self.filled {
                let write = (writer.as_mut()).poll_write(cx, &self.buffer[self.start..self.filled]);
                if let Poll::Ready(written) = write.map_err(failed)? {
                    if written == 0 {
                        return Poll::Ready(Err(failed(io::ErrorKind::WriteZero.into())));
                    }
                    self.start += written;
                    self.written += written as u64;
                    if self.start == self.filled {
                        (self.start, self.filled) = (0, 0);
                    }
                    self.needs_flush = true;
                    progress = true;
                }
            } else if self.has_ended {
                ready!(writer.as_mut().poll_shutdown(cx)).map_err(failed)?;
                self.is_closed = true;
                progress = true;
            } else if self.needs_flush && !progress {
                // The reader may wait for the answer to bytes that the writer has only buffered.
                ready!(writer.as_mut().poll_flush(cx)).map_err(failed)?;
                self.needs_flush = false;
                unit.made_progress();
            }
            if !progress {
                return Poll::Pending;
            }
            unit.made_progress();
            *last = None;
            // Sockets use units of their own. Streams that use none must not copy for ever.
            rounds += 1;
            if rounds % ROUNDS == 0 {
                unit = ready!(poll_proceed(cx));
            }
        }
        Poll::Ready(Ok(()))
    }
}
