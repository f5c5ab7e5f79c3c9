//! Measures how long the reader of a body has waited, and keeps the body's entry in the timer.
//!
//! A wait begins when a poll of the body returns no frame. The wait ends when a poll returns a frame. The
//! limits measure only waits (`http::body::a_slow_reader_is_no_slow_body`).
//!
//! The first wait registers the entry. Each later wait moves the deadline of the entry. The entry stays
//! registered between waits. When the body ends, it deregisters the entry
//! (`http::body::a_body_has_one_entry_that_each_wait_moves`).

use std::{
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::Instant;

use super::{error::LimitExceeded, limits::BodyLimits};
use crate::{driver::clock, futures::Sleep, timer::Timer};

/// Measures the waits of one body.
#[derive(Debug)]
pub(super) struct Waits {
    limits: BodyLimits,
    /// `None` stands for the default timer of the runtime that polls the body.
    timer: Option<Timer>,
    /// A sleep that ends when the current wait reaches its limit. It is `None` before the first wait and after the end
    /// of the body.
    alarm: Option<Sleep>,
    /// The instant at which the current wait began. It is `None` between waits.
    began: Option<Instant>,
    /// The total time of all finished waits. It is measured only if the whole body has a limit.
    spent: Duration,
}

impl Waits {
    pub(super) const fn new(limits: BodyLimits, timer: Option<Timer>) -> Self {
        Self {
            limits,
            timer,
            alarm: None,
            began: None,
            spent: Duration::ZERO,
        }
    }

    /// Returns how long the current wait may take, and which limit the wait exceeds after that time.
    fn allowance(&self) -> Option<(Duration, LimitExceeded)> {
        let frame = (self.limits.frame_timeout).map(|limit| (limit, LimitExceeded::Frame(limit)));
        let body = self.limits.body_timeout.map(|limit| {
            let left = limit.saturating_sub(self.spent);
            (left, LimitExceeded::Body(limit))
        });
        frame.into_iter().chain(body).min_by_key(|(left, _)| *left)
    }

    /// Begins or continues a wait. The poll is pending until the wait exceeds a limit. Then it returns this
    /// limit.
    ///
    /// `had_budget` is the result of
    /// [`coop::has_budget_remaining`](crate::ground::coop::has_budget_remaining) before the poll of the body.
    #[track_caller]
    pub(super) fn poll(&mut self, had_budget: bool, cx: &mut Context<'_>) -> Poll<LimitExceeded> {
        let Some((allowed, exceeded)) = self.allowance() else {
            return Poll::Pending;
        };
        if self.began.is_none() {
            let now = Instant::now();
            let deadline = clock::saturating_add(now, allowed);
            match &mut self.alarm {
                Some(alarm) => alarm.reset_deadline(deadline),
                None => self.alarm = Some(Sleep::at(self.timer.as_ref(), deadline)),
            }
            self.began = Some(now);
        }
        if let Some(alarm) = &mut self.alarm {
            ready!(alarm.poll_as_limit(had_budget, cx));
        }
        Poll::Ready(exceeded)
    }

    /// Ends the current wait, if there is one.
    #[inline]
    pub(super) fn end_wait(&mut self) {
        if let (Some(began), Some(_)) = (self.began.take(), self.limits.body_timeout) {
            self.spent = self.spent.saturating_add(began.elapsed());
        }
    }

    /// Deregisters the entry.
    pub(super) fn end(&mut self) {
        self.alarm = None;
    }
}
