//! One half of a stream, for reading or for writing: its limits, and the one timer that serves them.
//!
//! The timer is never later than the limit that is reached first. It may be earlier, since it stays
//! where it is when an operation ends and when a limit moves back. Then it fires for nothing, and
//! is set to what is true by then.

use std::{
    io,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    LimitExceeded, MinRate,
    countdown::{Countdown, Now},
    rate::Meter,
};
use crate::{futures::Sleep, ground::coop, timer::Timer};

#[derive(Clone, Copy, Debug)]
pub(super) enum Direction {
    Read,
    Write,
}

/// Whether a rate measures an operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A read or a write, or the wait for bytes in a buffer.
    Transfer,
    /// A flush or a shutdown, which moves bytes that nobody can count.
    Flush,
}

#[derive(Debug)]
pub(super) struct Half {
    direction: Direction,
    /// Whether the latest poll of an operation was pending, and left its task with the alarm.
    is_waiting: bool,
    timeout: Countdown,
    /// `None` without such limits. Most streams have timeouts alone, and take less memory so.
    more: Option<Box<More>>,
    /// Later than any limit until the first one moves it.
    alarm: Sleep,
}

/// The limits that look at the bytes.
#[derive(Debug, Default)]
struct More {
    idle: Countdown,
    meter: Option<Meter>,
}

impl Half {
    /// Creates a half without limits, for `timer` or for the default timer.
    pub(super) fn new(direction: Direction, timer: Option<&Timer>) -> Self {
        Self {
            direction,
            is_waiting: false,
            timeout: Countdown::default(),
            more: None,
            alarm: Sleep::after(timer, Duration::MAX),
        }
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        self.timeout.limit
    }

    pub(super) fn idle_timeout(&self) -> Option<Duration> {
        self.more.as_ref()?.idle.limit
    }

    pub(super) fn min_rate(&self) -> Option<MinRate> {
        Some(self.more.as_ref()?.meter.as_ref()?.rate)
    }

    /// Exchanges the timeout, which begins to count again.
    pub(super) fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.wake();
        self.timeout = Countdown::new(timeout);
    }

    /// Exchanges the limits that differ. The others go on counting.
    pub(super) fn set(
        &mut self,
        timeout: Option<Duration>,
        idle: Option<Duration>,
        rate: Option<MinRate>,
    ) {
        if timeout != self.timeout() {
            self.set_timeout(timeout);
        }
        let (idle_differs, rate_differs) = (idle != self.idle_timeout(), rate != self.min_rate());
        if idle_differs || rate_differs {
            self.wake();
            let mut more = self.more.take().unwrap_or_default();
            if idle_differs {
                more.idle = Countdown::new(idle);
            }
            if rate_differs {
                more.meter = rate.map(Meter::new);
            }
            self.more = (idle.is_some() || rate.is_some()).then_some(more);
        }
    }

    /// Has the task that waits look at its limits again.
    fn wake(&mut self) {
        if self.is_waiting {
            self.alarm.reset_deadline(Instant::now());
        }
    }

    /// Polls an operation, and fails it if it has waited for too long. When it is ready, `moved` says
    /// how many bytes it has moved.
    #[inline]
    #[track_caller]
    pub(super) fn poll<T>(
        &mut self,
        other: &mut Self,
        cx: &mut Context<'_>,
        kind: Kind,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<T>>,
        moved: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        // An operation that is ready at once need not look.
        let had_budget = self.is_waiting && coop::has_budget_remaining();
        let result = match poll(cx) {
            Poll::Ready(result) => result,
            Poll::Pending => Err(ready!(self.poll_exceeded(had_budget, cx, kind)).into()),
        };
        let now = Now::new(Instant::now);
        if let Ok(ready) = &result {
            // First, since it may spare the clock.
            self.moved(moved(ready), other, &now);
        }
        self.end_wait(&now);
        Poll::Ready(result)
    }

    /// Bytes of the buffer were consumed.
    pub(super) fn consume(&mut self, bytes: usize, other: &mut Self) {
        self.moved(bytes, other, &Now::new(Instant::now));
    }

    /// An operation waits: ready when it has exceeded a limit.
    #[track_caller]
    fn poll_exceeded(
        &mut self,
        had_budget: bool,
        cx: &mut Context<'_>,
        kind: Kind,
    ) -> Poll<LimitExceeded> {
        let due = self.wait(kind);
        self.is_waiting = due.is_some();
        let Some(due) = due else {
            return Poll::Pending;
        };
        if self.alarm.deadline() > due {
            self.alarm.reset_deadline(due);
        }
        ready!(self.alarm.poll_elapsed(cx));
        if self.alarm.deadline() < due {
            self.alarm.reset_deadline(due);
            ready!(self.alarm.poll_elapsed(cx));
        }
        ready!(coop::poll_progress(had_budget, cx));
        Poll::Ready(self.exceeded(due))
    }

    /// An operation waits: when it reaches the first of its limits.
    #[inline]
    fn wait(&mut self, kind: Kind) -> Option<Instant> {
        let now = Now::new(Instant::now);
        let timeout = self.timeout.wait(&now);
        let Some(more) = &mut self.more else {
            return timeout;
        };
        let idle = more.idle.wait(&now);
        let rate = more.meter.as_mut().and_then(|meter| match kind {
            Kind::Transfer => meter.wait(&now),
            Kind::Flush => {
                // After a write that was abandoned.
                meter.pause(&now);
                None
            }
        });
        [timeout, idle, rate].into_iter().flatten().min()
    }

    /// The limit that the operation has reached at `due`.
    #[cold]
    fn exceeded(&mut self, due: Instant) -> LimitExceeded {
        if let Some(timeout) = self.timeout.reached_at(due) {
            return match self.direction {
                Direction::Read => LimitExceeded::ReadTimeout(timeout),
                Direction::Write => LimitExceeded::WriteTimeout(timeout),
            };
        }
        let more = self.more.as_mut().expect("one of the limits is reached");
        if let Some(idle) = more.idle.reached_at(due) {
            return LimitExceeded::Idle(idle);
        }
        let meter = more.meter.as_mut().expect("one of the limits is reached");
        meter.close();
        match self.direction {
            Direction::Read => LimitExceeded::ReadRate(meter.rate),
            Direction::Write => LimitExceeded::WriteRate(meter.rate),
        }
    }

    /// No operation waits any more.
    #[inline]
    fn end_wait(&mut self, now: &Now) {
        self.is_waiting = false;
        self.timeout.stop();
        if let Some(more) = &mut self.more {
            more.idle.stop();
            if let Some(meter) = &mut more.meter {
                meter.pause(now);
            }
        }
    }

    /// Bytes have moved in this direction.
    #[inline]
    fn moved(&mut self, bytes: usize, other: &mut Self, now: &Now) {
        if bytes == 0 {
            return;
        }
        if let Some(meter) = self.more.as_mut().and_then(|more| more.meter.as_mut()) {
            meter.count(bytes);
        }
        if let Some(more) = &mut other.more {
            more.idle.restart(now);
            if let Some(meter) = &mut more.meter {
                meter.other_moved();
            }
        }
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use super::*;

    /// `docs/migration.md` has this figure. `tests/io/` tests the size of a stream without these limits.
    #[test]
    fn limits_that_look_at_the_bytes_take_as_much_memory_as_documented() {
        assert_eq!(size_of::<More>(), 96);
    }
}
