//! `Limiter`: polls the operations of a stream, and returns an error if an operation exceeds a limit.
//!
//! A limit counts from the first pending poll of an operation to the end of the operation. Each poll computes from the
//! start of the wait which limit comes first, and sets the alarm of its direction to this instant.

use std::{
    io, mem,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    LimitExceeded::{self, IdleTimeout, MinReadRate, MinWriteRate, ReadTimeout, WriteTimeout},
    Limits, MinRate,
};
use crate::limit::{Starved, nanos, saturating_add};
use tokio_wheel::{Sleep, sleep_until};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Write,
    /// A flush or a shutdown. Minimum rates do not measure it, because the stream cannot count its bytes.
    Flush,
}

#[derive(Debug)]
pub(super) struct Limiter {
    reads: Side,
    /// Writes, flushes and the shutdown.
    writes: Side,
    /// The idle timeout in nanoseconds, or [`NONE`].
    idle: u64,
}

impl Limiter {
    /// Creates a limiter without limits.
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            reads: Side::new(sleep_until(now)),
            writes: Side::new(sleep_until(now)),
            idle: NONE,
        }
    }

    /// Returns all limits.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            read_timeout: limit(self.reads.timeout),
            write_timeout: limit(self.writes.timeout),
            idle_timeout: limit(self.idle),
            min_read_rate: self.reads.rate,
            min_write_rate: self.writes.rate,
        }
    }

    /// Replaces the limits. If a limit of a direction differs, the limits of this direction start again, and this call
    /// wakes the task whose operation waits.
    pub(super) fn set(&mut self, limits: Limits) {
        let nanos = |limit: Option<Duration>| limit.map_or(NONE, nanos);
        let idle = nanos(limits.idle_timeout);
        let idle_differs = idle != self.idle;
        self.idle = idle;
        let (reads, writes) = (nanos(limits.read_timeout), nanos(limits.write_timeout));
        (self.reads).set(reads, limits.min_read_rate, idle_differs);
        (self.writes).set(writes, limits.min_write_rate, idle_differs);
    }

    /// Polls an operation, which returns the number of bytes that it has moved. Returns an error if the operation has
    /// exceeded a limit.
    pub(super) fn poll(
        &mut self,
        operation: Operation,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match poll(cx) {
            Poll::Ready(result) => {
                self.end(operation, *result.as_ref().unwrap_or(&0));
                Poll::Ready(result)
            }
            Poll::Pending => {
                let exceeded = ready!(self.poll_exceeded(operation, cx));
                Poll::Ready(Err(exceeded.into()))
            }
        }
    }

    /// Ends the wait of an operation that has moved `bytes`.
    #[inline]
    pub(super) fn end(&mut self, operation: Operation, bytes: usize) {
        let is_idle_limited = self.idle != NONE;
        let (side, other) = self.sides(operation);
        side.end_wait(bytes);
        if bytes > 0 {
            other.other_moves(is_idle_limited);
        }
    }

    /// Polls the limits of a waiting operation. The result is ready when the operation has exceeded a limit. If it reaches
    /// two limits at the same time, the result is the first in the order of the table in the documentation.
    fn poll_exceeded(&mut self, operation: Operation, cx: &mut Context<'_>) -> Poll<LimitExceeded> {
        let idle = self.idle;
        let (side, _) = self.sides(operation);
        let (timeout, rate) = (side.timeout, side.rate);
        if timeout == NONE && idle == NONE && rate.is_none() {
            return Poll::Pending;
        }
        let is_transfer = operation != Operation::Flush;
        let since = side.wait(is_transfer);
        // The limits count in nanoseconds from the start of the wait, because this code runs once or twice for each
        // request of a server.
        let idle_end = idle.saturating_add(side.other_moved);
        let window_end = rate.filter(|_| is_transfer);
        let window_end = window_end.map_or(NONE, |rate| side.window_left(rate));
        let first = timeout.min(idle_end).min(window_end);
        if first == NONE {
            return Poll::Pending;
        }
        let due = saturating_add(since, Duration::from_nanos(first));
        if side.alarm.deadline() != due {
            Pin::new(&mut side.alarm).reset(due);
        }
        ready!(side.starved.poll_limit(&mut side.alarm, cx));
        side.end_wait(0);
        let is_read = operation == Operation::Read;
        Poll::Ready(match rate {
            Some(rate) if first < timeout.min(idle_end) => {
                side.close_window();
                let exceeded = if is_read { MinReadRate } else { MinWriteRate };
                exceeded(rate)
            }
            _ if first < timeout => IdleTimeout(Duration::from_nanos(idle)),
            _ => {
                let exceeded = if is_read { ReadTimeout } else { WriteTimeout };
                exceeded(Duration::from_nanos(timeout))
            }
        })
    }

    /// Returns the direction of an operation, and the other direction.
    #[inline]
    fn sides(&mut self, operation: Operation) -> (&mut Side, &mut Side) {
        match operation {
            Operation::Read => (&mut self.reads, &mut self.writes),
            Operation::Write | Operation::Flush => (&mut self.writes, &mut self.reads),
        }
    }
}

fn limit(nanos: u64) -> Option<Duration> {
    (nanos != NONE).then(|| Duration::from_nanos(nanos))
}

/// No limit. A limit of 584 years or more is no limit either.
const NONE: u64 = u64::MAX;

/// One direction of a stream: its limits, the wait of its operation, and the window of its minimum rate. A table in the
/// documentation of `io` lists the states of a window.
///
/// Durations are nanoseconds in a `u64`, because a [`Duration`] takes 16 bytes and a server has very many streams.
#[derive(Debug)]
struct Side {
    /// Wakes the task of the waiting operation at its first limit. The alarm stays registered when the operation ends,
    /// because the next operation can then postpone it, which is cheaper than to register it.
    alarm: Sleep,
    /// The start of the wait. `None` if no operation waits.
    since: Option<Instant>,
    /// How long after the start of the wait bytes moved in the other direction for the last time. Each wait
    /// begins with 0.
    other_moved: u64,
    /// The longest wait, or [`NONE`].
    timeout: u64,
    rate: Option<MinRate>,
    /// How long earlier reads or writes have waited in the window.
    used: u64,
    /// The bytes that have moved in the window. If silence is allowed, 0 means that the window is closed.
    moved: u32,
    /// Whether the window measures the wait.
    is_measured: bool,
    starved: Starved,
}

impl Side {
    /// Creates a direction without limits.
    fn new(alarm: Sleep) -> Self {
        Self {
            alarm,
            since: None,
            other_moved: 0,
            timeout: NONE,
            rate: None,
            used: 0,
            moved: 0,
            is_measured: false,
            starved: Starved::new(),
        }
    }

    /// Replaces the limits. If a limit differs, or if `idle_differs`, the wait starts again at the next poll, and this
    /// call wakes the task.
    fn set(&mut self, timeout: u64, rate: Option<MinRate>, idle_differs: bool) {
        if !idle_differs && (timeout, rate) == (self.timeout, self.rate) {
            return;
        }
        let since = self.since;
        self.end_wait(0);
        if rate != self.rate {
            self.close_window();
        }
        (self.timeout, self.rate) = (timeout, rate);
        if let Some(passed) = since {
            // A deadline that has passed wakes the task at once.
            Pin::new(&mut self.alarm).reset(passed);
        }
    }

    /// Starts or continues a wait, and returns its start. `is_transfer` is false for a flush, which the window does not
    /// measure. If a transfer follows a canceled flush, and the stream has a minimum rate, the wait starts again.
    fn wait(&mut self, is_transfer: bool) -> Instant {
        let measures = is_transfer && self.rate.is_some();
        match self.since {
            Some(since) if self.is_measured || !measures => since,
            _ => {
                self.is_measured = measures;
                self.other_moved = 0;
                *self.since.insert(Instant::now())
            }
        }
    }

    /// Returns how long a transfer may wait for the minimum rate, or [`NONE`].
    ///
    /// If silence is allowed, only a window that was over before the wait limits the transfer.
    fn window_left(&self, rate: MinRate) -> u64 {
        match rate.window_nanos.saturating_sub(self.used) {
            left if rate.silence && left > 0 => NONE,
            left => left,
        }
    }

    /// Ends the wait of an operation that has moved `bytes`.
    #[inline]
    fn end_wait(&mut self, bytes: usize) {
        let since = self.since.take();
        let was_measured = mem::take(&mut self.is_measured);
        let Some(rate) = self.rate else { return };
        let was_open = !rate.silence || self.moved > 0;
        let bytes = bytes.try_into().unwrap_or(u32::MAX);
        self.moved = self.moved.saturating_add(bytes);
        if self.moved >= rate.bytes {
            self.close_window();
        } else if let (true, Some(since)) = (was_measured && was_open, since) {
            self.used = self.used.saturating_add(nanos(since.elapsed()));
        }
    }

    /// Records that bytes have moved in the other direction. This closes the window if silence is allowed, and starts
    /// the idle timeout again.
    #[inline]
    fn other_moves(&mut self, is_idle_limited: bool) {
        if self.rate.is_some_and(|rate| rate.silence) {
            self.close_window();
        }
        if let Some(since) = self.since.filter(|_| is_idle_limited) {
            self.other_moved = nanos(since.elapsed());
        }
    }

    /// Closes the window. If silence is not allowed, the next window opens at once.
    fn close_window(&mut self) {
        (self.used, self.moved) = (0, 0);
    }
}
