//! The alarm of tokio's own timer, which moves in milliseconds.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    time::{Instant, Sleep},
};

use super::Alarm;
use crate::driver::clock::{DEFAULT_TICK, is_real_time};

/// How much before an instant the alarm is set at first.
///
/// Tokio rounds an alarm up to its next millisecond, and the wheel a deadline to the next tick. To
/// round twice is to be later by a millisecond if a millisecond begins between the two. This is
/// the earliest deadline that rounds up to the default tick. Say that ticks begin 3 µs after
/// milliseconds: a deadline at 6.999 ms fires at 7.003, and an alarm for that would go off at 8. Set
/// for 6.987, it goes off at 7, and what is left of the tick is too short to sleep.
pub(crate) const LEAD: Duration = DEFAULT_TICK.saturating_sub(Duration::from_nanos(1));

/// How much before an instant the alarm is set at first if the clock is paused.
///
/// A paused clock leaps by whole milliseconds, from wherever it was paused: in the midst of one
/// perhaps. Say that it stands at 3.4 ms. Set for a deadline at 5.4, the alarm rounds up to 6 ms and
/// the clock leaps by three to 6.4, past all that is due in between. Set for the first instant that rounds
/// up to 5, the clock leaps to 5.4.
const PAUSED_LEAD: Duration = Duration::from_nanos(999_999);

/// A [`tokio::time::Sleep`], set anew when the instant changes.
pub(crate) struct TokioTime {
    sleep: Pin<Box<Sleep>>,
    /// Whether the runtime's clock can be paused.
    can_be_paused: bool,
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
        let runtime = Handle::try_current();
        Self {
            sleep,
            can_be_paused: runtime
                .is_ok_and(|runtime| runtime.runtime_flavor() != RuntimeFlavor::MultiThread),
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
            let is_paused = self.can_be_paused && !is_real_time();
            let lead = if is_paused { PAUSED_LEAD } else { LEAD };
            let early = instant.checked_sub(lead).unwrap_or(instant);
            self.sleep.as_mut().reset(early);
        }
        ready!(self.sleep.as_mut().poll(cx));
        let mut now = Instant::now();
        if instant.saturating_duration_since(now) > LEAD {
            // It was set for a paused clock, which may go on by now.
            self.sleep
                .as_mut()
                .reset(instant.checked_sub(LEAD).unwrap_or(instant));
            ready!(self.sleep.as_mut().poll(cx));
            now = Instant::now();
        }
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
