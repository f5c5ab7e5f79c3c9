//! Measures how long the reader of a body has waited, and keeps the body's entry in the timer.
//!
//! A wait begins when a poll of the body returns no frame. The wait ends when a poll returns a frame. The
//! limits measure only waits (`http::body::a_slow_reader_is_no_slow_body`).
//!
//! A reader may stop to wait, work, and poll again later. So a wait also excludes each time from a wake of
//! the inner body to the reader's next poll: `began` moves forward by this time
//! (`http::body::a_reader_that_works_during_a_wait_uses_no_time_of_its_client`). For this, the inner body gets
//! a waker that records the instant of its first wake. The first wait allocates this waker.
//!
//! In two cases a wake counts for nothing, because it only ends a pause in which other tasks run:
//!
//! * The poll used up the budget of the task.
//! * The wake comes during the poll. Another thread seldom wakes at that moment.
//!
//! A body that does so at each poll must still reach its limits
//! (`http::body::a_body_that_wakes_its_reader_in_each_poll_is_cut_off`).
//!
//! The first wait registers the entry. Each later wait moves the deadline of the entry. The entry stays
//! registered between waits. When the body ends, it deregisters the entry
//! (`http::body::a_body_has_one_entry_that_each_wait_moves`).

use std::{
    mem,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Wake, Waker, ready},
    time::Duration,
};

use tokio::time::Instant;
use tokio_wheel::{Sleep, sleep_until};

use super::body_limits::{BodyLimits, LimitExceeded};
use crate::limit::{Starved, has_budget_remaining, lock, saturating_add};

/// The current wait of one body, and the sum of its earlier waits.
#[derive(Debug)]
pub(super) struct Wait {
    limits: BodyLimits,
    /// A sleep that ends when the wait reaches its limit. It is `None` before the first wait and after the end
    /// of the body.
    sleep: Option<Sleep>,
    /// The instant at which the wait began, plus the time that the wait excludes. It is `None` between waits.
    began: Option<Instant>,
    /// The total time of all finished waits. It is measured only if the whole body has a limit.
    spent: Duration,
    /// It is `None` before the first wait and after the end of the body.
    reader: Option<Arc<Reader>>,
    /// Whether a wake after the last poll only ends a pause.
    pauses: bool,
    starved: Starved,
}

impl Wait {
    pub(super) const fn new(limits: BodyLimits) -> Self {
        Self {
            limits,
            sleep: None,
            began: None,
            spent: Duration::ZERO,
            reader: None,
            pauses: false,
            starved: Starved(false),
        }
    }

    /// Polls the inner body with `poll`, and then the limits.
    #[track_caller]
    pub(super) fn poll<R>(
        &mut self,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<R>,
    ) -> Poll<Result<R, LimitExceeded>> {
        if self.reader.is_none() {
            // Most bodies have their frames ready, so the first wait, and not the first poll, allocates.
            let polled = poll(cx);
            if polled.is_ready() || self.limits == BodyLimits::new() {
                return polled.map(Ok);
            }
        }
        let polled = self.poll_as_reader(cx, poll);
        if polled.is_ready() {
            if let (Some(began), Some(_)) = (self.began.take(), self.limits.body_timeout) {
                self.spent = self.spent.saturating_add(began.elapsed());
            }
            return polled.map(Ok);
        }
        self.poll_limits(cx).map(Err)
    }

    /// Polls the inner body with a waker that records its wake. Excludes the time since the last wake.
    fn poll_as_reader<R>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<R>,
    ) -> Poll<R> {
        let reader = self.reader.get_or_insert_default();
        let fresh = Woken {
            task: Some(cx.waker().clone()),
            at: None,
        };
        let last = mem::replace(&mut *lock(&reader.0), fresh);
        if let (Some(began), Some(at), false) = (&mut self.began, last.at, self.pauses) {
            *began = saturating_add(*began, at.max(*began).elapsed());
        }
        let polled = poll(&mut Context::from_waker(&Arc::clone(reader).into()));
        self.pauses = !has_budget_remaining() || lock(&reader.0).at.is_some();
        polled
    }

    /// Begins or continues the wait, and polls its limits.
    #[track_caller]
    fn poll_limits(&mut self, cx: &mut Context<'_>) -> Poll<LimitExceeded> {
        let frame = (self.limits.frame_timeout).map(|limit| (limit, LimitExceeded::Frame(limit)));
        let body = (self.limits.body_timeout)
            .map(|limit| (limit.saturating_sub(self.spent), LimitExceeded::Body(limit)));
        let shorter = frame.into_iter().chain(body).min_by_key(|(left, _)| *left);
        let Some((left, exceeded)) = shorter else {
            return Poll::Pending;
        };
        let began = *self.began.get_or_insert_with(Instant::now);
        let deadline = saturating_add(began, left);
        let sleep = self.sleep.get_or_insert_with(|| sleep_until(deadline));
        if sleep.deadline() != deadline {
            Pin::new(&mut *sleep).reset(deadline);
        }
        ready!(self.starved.poll_limit(sleep, cx));
        Poll::Ready(exceeded)
    }

    /// Deregisters the entry, and releases the waker of the reader.
    pub(super) fn end(&mut self) {
        self.sleep = None;
        self.reader = None;
    }
}

/// Wakes the task that reads a body, and records when the inner body woke it. No user code runs under the lock.
#[derive(Debug, Default)]
struct Reader(Mutex<Woken>);

#[derive(Debug, Default)]
struct Woken {
    /// The waker of the task that has polled the body last. A wake takes it.
    task: Option<Waker>,
    /// The instant of the first wake since the last poll.
    at: Option<Instant>,
}

impl Wake for Reader {
    fn wake(self: Arc<Self>) {
        let now = Instant::now();
        let task = {
            let mut woken = lock(&self.0);
            woken.at.get_or_insert(now);
            woken.task.take()
        };
        if let Some(task) = task {
            task.wake();
        }
    }
}
