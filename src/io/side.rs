//! One direction: its limits, and the one timer that serves them.
//!
//! The timer is never later than the limit that is reached first. It may be earlier, since it stays
//! where it is when an operation ends and when a limit moves back. Then it fires for nothing, and
//! is set to what is true by then.

use std::{
    io,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{task::coop, time::Instant};

use super::{LimitExceeded, MinRate, countdown::Countdown, now::Now, rate::Meter};
use crate::{futures::Sleep, timer::Timer};

#[derive(Clone, Copy, Debug)]
enum Direction {
    Read,
    Write,
}

/// Whether an operation moves bytes that can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Transfer,
    Flush,
}

#[derive(Debug)]
pub(super) struct Side {
    direction: Direction,
    timeout: Countdown,
    idle: Countdown,
    meter: Option<Meter>,
    /// `None` if the ambient timer is to be used and none was needed yet.
    alarm: Option<Sleep>,
    /// An operation has exceeded a limit, and was polled when the task had no budget left.
    waits_for_budget: bool,
}

impl Side {
    /// Reads without limits, to be timed by `timer` or by the ambient one.
    pub(super) fn read(timer: Option<&Timer>) -> Self {
        Self::new(Direction::Read, timer)
    }

    /// Writes without limits, to be timed by `timer` or by the ambient one.
    pub(super) fn write(timer: Option<&Timer>) -> Self {
        Self::new(Direction::Write, timer)
    }

    fn new(direction: Direction, timer: Option<&Timer>) -> Self {
        Self {
            direction,
            timeout: Countdown::default(),
            idle: Countdown::default(),
            meter: None,
            // Later than any limit, so that the first one moves it.
            alarm: timer.map(|timer| timer.sleep(Duration::MAX)),
            waits_for_budget: false,
        }
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        self.timeout.limit()
    }

    pub(super) fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.wake();
        self.timeout.set(timeout);
    }

    pub(super) fn idle_timeout(&self) -> Option<Duration> {
        self.idle.limit()
    }

    pub(super) fn set_idle_timeout(&mut self, timeout: Option<Duration>) {
        self.wake();
        self.idle.set(timeout);
    }

    pub(super) fn min_rate(&self) -> Option<MinRate> {
        self.meter.as_ref().map(Meter::rate)
    }

    pub(super) fn set_min_rate(&mut self, rate: Option<MinRate>) {
        self.wake();
        self.meter = rate.map(Meter::new);
    }

    /// Has the task that waits look at its limits again.
    fn wake(&mut self) {
        let measuring = self.meter.as_ref().is_some_and(Meter::is_counting);
        if measuring || self.timeout.is_counting() || self.idle.is_counting() {
            if let Some(alarm) = &mut self.alarm {
                alarm.reset_deadline(Instant::now());
            }
        }
    }

    /// Polls an operation that moves bytes and says how many.
    #[inline]
    #[track_caller]
    pub(super) fn poll_transfer(
        &mut self,
        other: Option<&mut Self>,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let result = ready!(self.poll_in_time(cx, Kind::Transfer, poll));
        let mut now = Now::default();
        if let Ok(bytes) = result {
            // First, since it may spare the clock.
            self.moved(bytes, other, &mut now);
        }
        self.end_wait(&mut now);
        Poll::Ready(result)
    }

    /// Polls for bytes in a buffer, which move when they are [consumed](Self::consume).
    #[inline]
    #[track_caller]
    pub(super) fn poll_fill<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let result = ready!(self.poll_in_time(cx, Kind::Transfer, poll));
        self.end_wait(&mut Now::default());
        Poll::Ready(result)
    }

    /// Bytes of the buffer were consumed.
    pub(super) fn consume(&mut self, bytes: usize, other: Option<&mut Self>) {
        self.moved(bytes, other, &mut Now::default());
    }

    /// Polls a flush or a shutdown.
    #[inline]
    #[track_caller]
    pub(super) fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<()>>,
    ) -> Poll<io::Result<()>> {
        let result = ready!(self.poll_in_time(cx, Kind::Flush, poll));
        self.end_wait(&mut Now::default());
        Poll::Ready(result)
    }

    /// Bytes have moved in the other direction, which has no limits of its own.
    pub(super) fn passed_through(&mut self, bytes: usize) {
        if bytes > 0 {
            self.other_moved(&mut Now::default());
        }
    }

    /// Polls an operation, and fails it if it has waited for too long.
    #[inline]
    #[track_caller]
    fn poll_in_time<T>(
        &mut self,
        cx: &mut Context<'_>,
        kind: Kind,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let outcome = poll(cx);
        if outcome.is_ready() {
            return outcome;
        }
        let exceeded = ready!(self.poll_exceeded(cx, kind));
        Poll::Ready(Err(exceeded.into()))
    }

    /// An operation waits: ready when it has exceeded a limit.
    #[track_caller]
    fn poll_exceeded(&mut self, cx: &mut Context<'_>, kind: Kind) -> Poll<LimitExceeded> {
        let Some(due) = self.wait(kind) else {
            return Poll::Pending;
        };
        let alarm = self.alarm.get_or_insert_with(|| Sleep::new(due));
        if alarm.deadline() > due {
            alarm.reset_deadline(due);
        }
        ready!(alarm.poll_alarm(cx));
        if alarm.deadline() < due {
            alarm.reset_deadline(due);
            ready!(alarm.poll_alarm(cx));
        }
        // Failing uses budget, but only once has to wait for it: an operation that uses up all
        // there is must not keep its limit from being reached.
        match coop::poll_proceed(cx) {
            Poll::Ready(budget) => budget.made_progress(),
            Poll::Pending if !self.waits_for_budget => {
                self.waits_for_budget = true;
                return Poll::Pending;
            }
            Poll::Pending => {}
        }
        Poll::Ready(self.exceeded(due))
    }

    /// An operation waits: when it reaches the first of its limits.
    #[inline]
    fn wait(&mut self, kind: Kind) -> Option<Instant> {
        let mut now = Now::default();
        let timeout = self.timeout.wait(&mut now);
        let idle = self.idle.wait(&mut now);
        let rate = match &mut self.meter {
            Some(meter) if kind == Kind::Transfer => meter.wait(&mut now),
            Some(meter) => {
                // After a write that was abandoned.
                meter.pause(&mut now);
                None
            }
            None => None,
        };
        first(first(timeout, idle), rate)
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
        if let Some(idle) = self.idle.reached_at(due) {
            return LimitExceeded::Idle(idle);
        }
        let meter = self.meter.as_mut().expect("one of the limits is reached");
        meter.close();
        match self.direction {
            Direction::Read => LimitExceeded::ReadRate(meter.rate()),
            Direction::Write => LimitExceeded::WriteRate(meter.rate()),
        }
    }

    /// No operation waits any more.
    #[inline]
    fn end_wait(&mut self, now: &mut Now) {
        self.timeout.stop();
        self.idle.stop();
        self.waits_for_budget = false;
        if let Some(meter) = &mut self.meter {
            meter.pause(now);
        }
    }

    #[inline]
    fn moved(&mut self, bytes: usize, other: Option<&mut Self>, now: &mut Now) {
        if bytes == 0 {
            return;
        }
        if let Some(meter) = &mut self.meter {
            meter.count(bytes);
        }
        if let Some(other) = other {
            other.other_moved(now);
        }
    }

    /// Bytes have moved in the other direction.
    #[inline]
    fn other_moved(&mut self, now: &mut Now) {
        self.idle.restart(now);
        if let Some(meter) = &mut self.meter {
            meter.other_moved();
        }
    }
}

/// The earlier of two instants, if there are any.
#[inline]
fn first(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
