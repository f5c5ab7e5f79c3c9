//! `Limiter`: polls the operations of a stream, and returns an error if an operation exceeds a limit.

use std::{
    io,
    task::{Context, Poll, ready},
};

use super::{
    LimitExceeded, Limits,
    alarms::Alarms,
    counts::{Counts, Kind},
    direction::Direction,
    moment::Moment,
    now::Now,
};
use crate::{
    coop::{self, Starved},
    timer::Timer,
};

/// The limits of a stream, and the alarms that wake the waiting tasks.
#[derive(Debug)]
pub(super) struct Limiter {
    alarms: Alarms,
    counts: Counts,
    /// The budget of the reads, and the budget of the writes.
    starved: [Starved; 2],
}

impl Limiter {
    /// Creates a limiter without limits. `None` stands for the default timer.
    pub(super) fn new(timer: Option<&Timer>) -> Self {
        Self {
            alarms: Alarms::new(timer),
            counts: Counts::new(),
            starved: [Starved::new(), Starved::new()],
        }
    }

    /// Returns all limits.
    pub(super) fn limits(&self) -> Limits {
        self.counts.limits()
    }

    /// Replaces the limits that differ from the old limits. If an operation waits and one of its limits
    /// differs, this call wakes the task of the operation.
    pub(super) fn set(&mut self, limits: Limits) {
        let waited = Direction::BOTH.map(|direction| self.counts.waits(direction));
        let differs = self.counts.set(limits);
        for direction in Direction::BOTH {
            if waited[direction as usize] && differs[direction as usize] {
                self.alarms.wake(direction);
            }
        }
    }

    /// Polls an operation. Returns an error if the operation has exceeded a limit. `moved` returns the number
    /// of bytes that a ready operation has moved.
    #[inline]
    #[track_caller]
    pub(super) fn poll<T>(
        &mut self,
        direction: Direction,
        kind: Kind,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<T>>,
        moved: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        // The budget matters only if the operation waited before this poll. Other polls skip the look-up of
        // the budget.
        let had_budget =
            self.counts.waits(direction) && self.starved[direction as usize].had_budget();
        let result = match poll(cx) {
            Poll::Ready(result) => result,
            Poll::Pending => {
                let exceeded = self.poll_exceeded(direction, kind, had_budget, cx);
                Err(ready!(exceeded).into())
            }
        };
        let now = Now::new();
        if let Ok(ready) = &result {
            // This call may close the window. `end_wait` then does not read the clock.
            self.counts.moved(direction, moved(ready), &now);
        }
        self.counts.end_wait(direction, &now);
        Poll::Ready(result)
    }

    /// Counts bytes that the user has consumed from the buffer.
    pub(super) fn consume(&mut self, bytes: usize) {
        let now = Now::new();
        self.counts.moved(Direction::Read, bytes, &now);
    }

    /// Polls the limits of a waiting operation. The result is ready when the operation has exceeded a limit.
    #[track_caller]
    fn poll_exceeded(
        &mut self,
        direction: Direction,
        kind: Kind,
        had_budget: bool,
        cx: &mut Context<'_>,
    ) -> Poll<LimitExceeded> {
        let now = Now::new();
        let due = self.counts.wait(direction, kind, &now);
        if due == Moment::NEVER {
            return Poll::Pending;
        }
        let other_waits = self.counts.waits(direction.other());
        ready!(self.alarms.poll(direction, due, other_waits, cx));
        let progress = coop::poll_progress(had_budget, cx);
        ready!(self.starved[direction as usize].record(progress));
        Poll::Ready(self.counts.exceeded(direction, due))
    }
}
