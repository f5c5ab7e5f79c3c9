//! An alarm that uses tokio's own timer. The precision of tokio's timer is one millisecond.

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

/// The alarm for a tick is first set for an earlier instant. This value is the difference: just under one
/// [`DEFAULT_TICK`].
///
/// The wheel rounds a deadline up to the next tick, and tokio rounds an alarm up to the next millisecond. If
/// a millisecond begins between the deadline and the tick, an alarm for the tick would be a millisecond late.
/// So the alarm is set for an instant before the tick. With ticks of the default length, this instant is the
/// earliest deadline that rounds up to the tick.
///
/// For example, let a tick begin 3 µs after each millisecond. A deadline at 6.999 ms rounds up to the tick at
/// 7.003 ms. An alarm for 7.003 ms would go off at 8 ms. An alarm for 6.987 ms goes off at 7 ms. The
/// remaining 3 µs are too short for another sleep.
pub(crate) const LEAD: Duration = DEFAULT_TICK.saturating_sub(Duration::from_nanos(1));

/// The difference that the alarm uses on a paused clock instead of [`LEAD`]: just under 1 ms.
///
/// A paused clock starts at the time of the pause, and moves by whole milliseconds. The time of the pause may
/// lie between two whole milliseconds. For example, let the clock stand at 3.4 ms, and let a deadline be at
/// 5.4 ms. An alarm for the deadline rounds up to 6 ms. Then the clock moves by three milliseconds to 6.4 ms.
/// This step makes all deadlines between 5.4 ms and 6.4 ms late. An alarm for the first instant that rounds
/// up to 5 ms moves the clock to 5.4 ms.
const PAUSED_LEAD: Duration = Duration::from_nanos(999_999);

/// A [`tokio::time::Sleep`] that is reset when the instant changes.
pub(crate) struct TokioTime {
    sleep: Pin<Box<Sleep>>,
    /// Whether the runtime's clock can be paused.
    can_be_paused: bool,
    /// The instant for which the alarm is set.
    instant: Instant,
    /// The time at which the sleep last elapsed before `instant`.
    early_at: Option<Instant>,
}

impl TokioTime {
    /// Creates an alarm on the current runtime of the calling thread.
    ///
    /// # Panics
    ///
    /// Panics if time is not enabled in the runtime.
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
            // The clock was paused when the sleep was set. The clock may run by now.
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
            // The clock stands still. A paused clock moves on when no task is awake.
            self.sleep.as_mut().reset(instant);
            return self.sleep.as_mut().poll(cx);
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
