//! The alarm of tokio's own timer, which moves in milliseconds.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, Sleep};

use super::Alarm;
use crate::clock::DEFAULT_TICK;

/// How much before an instant the alarm is set at first.
///
/// Tokio rounds an alarm up to its next millisecond, and the wheel a deadline to the next tick. To
/// round twice is to be later by a millisecond if a millisecond begins between the two. This is
/// the earliest deadline that rounds up to the default tick. Say that ticks begin 3 µs after
/// milliseconds: a deadline at 6.999 ms fires at 7.003, and an alarm for that would go off at 8. Set
/// for 6.987, it goes off at 7, and what is left of the tick is too short to sleep.
pub(crate) const LEAD: Duration = DEFAULT_TICK.saturating_sub(Duration::from_nanos(1));

/// A [`tokio::time::Sleep`], set anew when the instant changes.
pub(crate) struct TokioTime {
    sleep: Pin<Box<Sleep>>,
    /// What it is set for.
    instant: Instant,
    /// When it was last found to be early.
    early_at: Option<Instant>,
}

impl TokioTime {
    /// An alarm of the runtime that the calling thread is in.
    ///
    /// # Panics
    ///
    /// As [`tokio::time::sleep`] does where the runtime has no time enabled.
    #[track_caller]
    pub(crate) fn new() -> Self {
        let sleep = Box::pin(tokio::time::sleep(Duration::ZERO));
        let instant = sleep.deadline();
        Self {
            sleep,
            instant,
            early_at: None,
        }
    }
}

impl Alarm for TokioTime {
    fn poll_until(&mut self, instant: Instant, cx: &mut Context<'_>) -> Poll<()> {
        if self.instant != instant {
            self.instant = instant;
            self.early_at = None;
            let early = instant.checked_sub(LEAD).unwrap_or(instant);
            self.sleep.as_mut().reset(early);
        }
        ready!(self.sleep.as_mut().poll(cx));
        let now = Instant::now();
        if now >= instant {
            return Poll::Ready(());
        }
        if self.early_at.replace(now) == Some(now) {
            // The clock stands still. If it is paused, it goes on when nobody is awake any more.
            self.sleep.as_mut().reset(instant);
            return self.sleep.as_mut().poll(cx);
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
