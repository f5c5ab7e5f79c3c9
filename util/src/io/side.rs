//! `Side`: one direction of a stream, with its limits, the wait of its operation, and the window of its minimum rate.
//!
//! A table in the documentation of `io` lists the states of a window.
//!
//! Durations are nanoseconds in a `u64`, because a [`Duration`] takes 16 bytes and a server has very many streams.

use std::{mem, pin::Pin, time::Duration};

use tokio::time::Instant;

use super::{MinRate, limits::nanos};
use crate::coop::Starved;
use tokio_wheel::Sleep;

/// No limit. A limit of 584 years or more is no limit either.
pub(super) const NONE: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Side {
    /// Wakes the task of the waiting operation at its first limit. The alarm stays registered when the operation ends,
    /// because the next operation can then postpone it, which is cheaper than to register it.
    pub(super) alarm: Sleep,
    /// The start of the wait. `None` if no operation waits.
    pub(super) since: Option<Instant>,
    /// The longest wait, or [`NONE`].
    pub(super) timeout: u64,
    pub(super) rate: Option<MinRate>,
    /// How long earlier reads or writes have waited in the window.
    used: u64,
    /// The bytes that have moved in the window. If silence is allowed, 0 means that the window is closed.
    moved: u32,
    /// Whether the window measures the wait.
    is_measured: bool,
    pub(super) starved: Starved,
}

impl Side {
    /// Creates a direction without limits.
    pub(super) fn new(alarm: Sleep) -> Self {
        Self {
            alarm,
            since: None,
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
    pub(super) fn set(&mut self, timeout: u64, rate: Option<MinRate>, idle_differs: bool) {
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
    pub(super) fn wait(&mut self, is_transfer: bool) -> Instant {
        let measures = is_transfer && self.rate.is_some();
        match self.since {
            Some(since) if self.is_measured || !measures => since,
            _ => {
                self.is_measured = measures;
                *self.since.insert(Instant::now())
            }
        }
    }

    /// Returns how long a transfer may wait for the minimum rate.
    ///
    /// If silence is allowed, only a window that was over before the wait limits the transfer.
    pub(super) fn window_left(&self) -> Option<Duration> {
        let rate = self.rate?;
        let left = rate.window_nanos.saturating_sub(self.used);
        (!rate.silence || left == 0).then(|| Duration::from_nanos(left))
    }

    /// Ends the wait of an operation that has moved `bytes`.
    #[inline]
    pub(super) fn end_wait(&mut self, bytes: usize) {
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

    /// Closes the window because bytes have moved in the other direction, if silence is allowed.
    #[inline]
    pub(super) fn other_moved(&mut self) {
        if self.rate.is_some_and(|rate| rate.silence) {
            self.close_window();
        }
    }

    /// Closes the window. If silence is not allowed, the next window opens at once.
    pub(super) fn close_window(&mut self) {
        (self.used, self.moved) = (0, 0);
    }
}
