//! A peer that follows a timetable.

use super::*;

/// Provides bytes at the times of a timetable, which count from the creation. A poll at the exact time finds the bytes.
pub(crate) struct Lane {
    due: VecDeque<(Instant, usize)>,
    alarm: Pin<Box<Sleep>>,
}

impl Lane {
    pub(crate) fn new(timetable: impl IntoIterator<Item = (Duration, usize)>) -> Self {
        let start = Instant::now();
        let due = timetable.into_iter().map(|(at, bytes)| (start + at, bytes));
        Self {
            due: due.collect(),
            alarm: Box::pin(sleep_until(start)),
        }
    }

    /// Takes up to `most` bytes. Returns 0 at the end of the timetable.
    fn poll_bytes(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<usize> {
        let Some((at, bytes)) = self.due.front_mut() else {
            return Poll::Ready(0);
        };
        if Instant::now() < *at {
            self.alarm.as_mut().reset(*at);
            ready!(self.alarm.as_mut().poll(cx));
        }
        let now = most.min(*bytes);
        *bytes -= now;
        if *bytes == 0 {
            self.due.pop_front();
        }
        Poll::Ready(now)
    }
}

/// A stream with one lane for reads and one for writes. Each flush and shutdown takes a byte of a third lane.
pub(crate) struct Scripted {
    pub(crate) reads: Lane,
    pub(crate) writes: Lane,
    pub(crate) flushes: Lane,
}

impl Scripted {
    pub(crate) fn new() -> Self {
        Self {
            reads: Lane::new([]),
            writes: Lane::new([]),
            flushes: Lane::new([]),
        }
    }

    pub(crate) fn reads(mut self, timetable: impl IntoIterator<Item = (Duration, usize)>) -> Self {
        self.reads = Lane::new(timetable);
        self
    }

    pub(crate) fn writes(mut self, timetable: impl IntoIterator<Item = (Duration, usize)>) -> Self {
        self.writes = Lane::new(timetable);
        self
    }

    pub(crate) fn flushes(mut self, timetable: impl IntoIterator<Item = Duration>) -> Self {
        self.flushes = Lane::new(timetable.into_iter().map(|at| (at, 1)));
        self
    }
}

impl AsyncRead for Scripted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let bytes = ready!(self.reads.poll_bytes(cx, buf.remaining()));
        buf.put_slice(&vec![b'r'; bytes]);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Scripted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.writes.poll_bytes(cx, buf.len()).map(Ok)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.flushes.poll_bytes(cx, 1).map(|_| Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }

    /// Takes all slices at once, unlike [`poll_write`](Self::poll_write).
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes = bufs.iter().map(|buf| buf.len()).sum();
        self.writes.poll_bytes(cx, bytes).map(Ok)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
