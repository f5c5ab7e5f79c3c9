//! Measures how long the reader of a body has waited, and keeps the body's entry in the timer.
//!
//! A wait begins when a poll of the body returns no frame. The wait ends when a poll returns a frame. The
//! limits measure only waits (`http::body::a_slow_reader_is_no_slow_body`).
//!
//! A reader may stop to wait, work, and poll again later. So a wait also excludes each time from a wake of
//! the inner body to the reader's next poll: `began` moves forward by this time
//! (`http::body::a_reader_that_works_during_a_wait_uses_no_time_of_its_client`). For this, the inner body gets
//! the waker of a [`Woken`], which the first wait allocates.
//!
//! The first wait registers the entry. Each later wait moves the deadline of the entry. The entry stays
//! registered between waits. When the body ends, it deregisters the entry
//! (`http::body::a_body_has_one_entry_that_each_wait_moves`).

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::Instant;

use super::{error::LimitExceeded, limits::BodyLimits, woken::Woken};
use crate::limit::{poll_limit, saturating_add, sleep_until};
use tokio_wheel::{Sleep, Timer};

/// Measures the waits of one body.
#[derive(Debug)]
pub(super) struct Waits {
    limits: BodyLimits,
    /// `None` stands for the default timer of the runtime that polls the body.
    timer: Option<Timer>,
    /// A sleep that ends when the current wait reaches its limit. It is `None` before the first wait and after the end
    /// of the body.
    alarm: Option<Sleep>,
    /// The instant at which the current wait began, plus the time that the wait excludes. It is `None` between
    /// waits.
    began: Option<Instant>,
    /// It is `None` before the first wait, and without limits.
    woken: Option<Woken>,
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
            woken: None,
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

    /// Polls the inner body with `poll`.
    #[inline]
    pub(super) fn poll_body<R>(
        &mut self,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<R>,
    ) -> Poll<R> {
        if self.woken.is_none() {
            // Most bodies have their frames ready, so the first wait, and not the first poll, allocates.
            let polled = poll(cx);
            if polled.is_ready() || self.allowance().is_none() {
                return polled;
            }
        }
        let woken = self.woken.get_or_insert_with(Woken::new);
        if let (Some(began), Some(at)) = (&mut self.began, woken.at()) {
            let at = at.max(*began);
            *began = saturating_add(*began, at.elapsed());
        }
        woken.poll(cx, poll)
    }

    /// Begins or continues a wait. The poll is pending until the wait exceeds a limit. Then it returns this
    /// limit.
    ///
    /// `had_budget` is the result of
    /// [`coop::has_budget_remaining`](tokio::task::coop::has_budget_remaining) before the poll of the body.
    #[track_caller]
    pub(super) fn poll(&mut self, had_budget: bool, cx: &mut Context<'_>) -> Poll<LimitExceeded> {
        let Some((allowed, exceeded)) = self.allowance() else {
            return Poll::Pending;
        };
        let began = *self.began.get_or_insert_with(Instant::now);
        let deadline = saturating_add(began, allowed);
        let alarm = match &mut self.alarm {
            Some(alarm) => {
                if alarm.deadline() != deadline {
                    Pin::new(&mut *alarm).reset(deadline);
                }
                alarm
            }
            None => self
                .alarm
                .insert(sleep_until(self.timer.as_ref(), deadline)),
        };
        ready!(poll_limit(alarm, had_budget, cx));
        Poll::Ready(exceeded)
    }

    /// Ends the current wait, if there is one.
    #[inline]
    pub(super) fn end_wait(&mut self) {
        if let (Some(began), Some(_)) = (self.began.take(), self.limits.body_timeout) {
            self.spent = self.spent.saturating_add(began.elapsed());
        }
    }

    /// Deregisters the entry, and releases the waker of the reader.
    pub(super) fn end(&mut self) {
        self.alarm = None;
        self.woken = None;
    }
}
