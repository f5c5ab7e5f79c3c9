//! Polls the operations of a stream under its limits.

use std::{
    io,
    task::{Context, Poll, ready},
    time::Duration,
};

use super::{
    LimitExceeded, Limits,
    alarms::Alarms,
    counts::{Counts, Kind},
    direction::Direction,
    moment::{Moment, Span},
    now::Now,
};
use crate::{ground::coop, timer::Timer};

#[derive(Debug)]
pub(super) struct Limiter {
    alarms: Alarms,
    counts: Counts,
}

impl Limiter {
    /// Creates a limiter without limits, for `timer` or for the default timer.
    pub(super) fn new(timer: Option<&Timer>) -> Self {
        Self {
            alarms: Alarms::new(timer),
            counts: Counts::new(),
        }
    }

    pub(super) fn limits(&self) -> Limits {
        self.counts.limits()
    }

    /// Exchanges a timeout, which begins to count again.
    pub(super) fn set_timeout(&mut self, direction: Direction, timeout: Option<Duration>) {
        if self.counts.waits(direction) {
            self.alarms.wake(direction);
        }
        self.counts.set_timeout(direction, Span::limit(timeout));
    }

    /// Exchanges the limits that differ. The others go on counting.
    pub(super) fn set(&mut self, limits: Limits) {
        let waited = Direction::BOTH.map(|direction| self.counts.waits(direction));
        let differs = self.counts.set(limits);
        for direction in Direction::BOTH {
            if waited[direction as usize] && differs[direction as usize] {
                self.alarms.wake(direction);
            }
        }
    }

    /// Polls an operation, and fails it if it has waited for too long. When it is ready, `moved` says
    /// how many bytes it has moved.
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
        // An operation that is ready at once need not look.
        let had_budget = self.counts.waits(direction) && coop::has_budget_remaining();
        let result = match poll(cx) {
            Poll::Ready(result) => result,
            Poll::Pending => {
                let exceeded = self.poll_exceeded(direction, kind, had_budget, cx);
                Err(ready!(exceeded).into())
            }
        };
        let now = Now::new(&self.alarms);
        if let Ok(ready) = &result {
            // First, since it may spare the clock.
            self.counts.moved(direction, moved(ready), &now);
        }
        self.counts.end_wait(direction, &now);
        Poll::Ready(result)
    }

    /// Bytes of the buffer were consumed.
    pub(super) fn consume(&mut self, bytes: usize) {
        let now = Now::new(&self.alarms);
        self.counts.moved(Direction::Read, bytes, &now);
    }

    /// An operation waits: ready when it has exceeded a limit.
    #[track_caller]
    fn poll_exceeded(
        &mut self,
        direction: Direction,
        kind: Kind,
        had_budget: bool,
        cx: &mut Context<'_>,
    ) -> Poll<LimitExceeded> {
        let now = Now::new(&self.alarms);
        let due = self.counts.wait(direction, kind, &now);
        if due == Moment::NEVER {
            return Poll::Pending;
        }
        let other_waits = self.counts.waits(direction.other());
        ready!(self.alarms.poll(direction, due, other_waits, cx));
        ready!(coop::poll_progress(had_budget, cx));
        Poll::Ready(self.counts.exceeded(direction, due))
    }
}
