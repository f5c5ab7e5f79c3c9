//! Alarms. An alarm wakes the driver at an instant.
//!
//! The driver uses an alarm only through [`Alarm`]. The driver reads the clock itself each time it is woken.
//! So no alarm can make an entry fire early. An inexact alarm has these effects (test:
//! `timer::simulation`):
//!
//! * An alarm that goes off early or twice costs one wake-up. Then the driver sets the alarm again.
//! * If an alarm goes off late, the expired entries fire late, and all at the same time.
//! * If an alarm does not go off, expired entries stay pending. A registration with an earlier deadline sets
//!   the alarm again or wakes the driver. The end of the timer also wakes the driver.
//!
//! A registration with a later deadline does not detect that the alarm has failed. The registration trusts
//! the armed tick and does not read the clock. A clock read is the most expensive part of a
//! short operation.

use std::{
    future::Future,
    pin::{Pin, pin},
    task::{Context, Waker},
    time::Duration,
};

use tokio::{
    task::coop::unconstrained,
    time::{Instant, Sleep},
};

use crate::driver::clock::{DEFAULT_TICK, look};

/// An alarm that wakes a waker at an instant.
///
/// Both halves of the driver set the alarm, and so do the workers of the driver's runtime.
pub(crate) trait Alarm: Send {
    /// Sets the alarm to wake `waker` at `instant`, or soon afterwards. Replaces the previous instant.
    ///
    /// If `instant` has passed, the alarm goes off when the runtime next looks at its alarms, at the latest in
    /// the next millisecond. It may also wake `waker` before the function returns.
    fn set(&mut self, instant: Instant, waker: &Waker);
}

/// The alarm for a tick is set for an earlier instant. This value is the difference: just under one
/// [`DEFAULT_TICK`].
///
/// The wheel rounds a deadline up to the next tick, and tokio rounds an alarm up to the next millisecond. If
/// a millisecond begins between the deadline and the tick, an alarm for the tick would be a millisecond late.
/// So the alarm is set for an instant before the tick. With ticks of the default length, this instant is the
/// earliest deadline that rounds up to the tick.
///
/// For example, let a tick begin 3 µs after each millisecond. A deadline at 6.999 ms rounds up to the tick at
/// 7.003 ms. An alarm for 7.003 ms would go off at 8 ms. An alarm for 6.987 ms goes off at 7 ms, and the
/// driver nearly always reads the clock more than 3 µs later.
const LEAD: Duration = DEFAULT_TICK.saturating_sub(Duration::from_nanos(1));

const NANOS_PER_MS: u32 = 1_000_000;

/// An alarm that uses tokio's own timer, a [`Sleep`] that is reset when the alarm is set. Its precision is one millisecond.
pub(crate) struct TokioTime {
    sleep: Pin<Box<Sleep>>,
}

impl TokioTime {
    /// Creates an alarm on the current runtime of the calling thread.
    ///
    /// # Panics
    ///
    /// Panics if time is not enabled in the runtime.
    #[track_caller]
    pub(crate) fn new() -> Self {
        Self {
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
        }
    }

    /// Returns the instant for which tokio's timer must be set.
    fn early(instant: Instant) -> Instant {
        let before = |lead| instant.checked_sub(lead).unwrap_or(instant);
        let (now, is_real) = look();
        if is_real {
            // For the current time, tokio's timer goes off at the next millisecond.
            return before(LEAD).max(now);
        }
        before(Self::paused_lead(instant.saturating_duration_since(now)))
    }

    /// Returns by how much earlier than its instant an alarm must be set that goes off after `wait` on a paused clock.
    ///
    /// A paused clock stands still until no task is awake. Then it moves by whole milliseconds, and may stand between two of
    /// them. For example, let the clock stand at 3.4 ms, and let the instant be at 5.2 ms. An alarm for this instant rounds
    /// up to 6 ms, which moves the clock by three milliseconds to 6.4 ms. An alarm for 4.4 ms and a nanosecond rounds up to
    /// 5 ms, which moves the clock to 5.4 ms: the first time after 5.2 ms at which the clock can stand.
    ///
    /// An instant that has passed needs no lead: it goes off when the runtime next looks at its alarms.
    fn paused_lead(wait: Duration) -> Duration {
        if wait.is_zero() {
            return Duration::ZERO;
        }
        let beyond = wait.subsec_nanos() % NANOS_PER_MS;
        Duration::from_nanos(((beyond + NANOS_PER_MS - 1) % NANOS_PER_MS).into())
    }
}

impl Alarm for TokioTime {
    fn set(&mut self, instant: Instant, waker: &Waker) {
        self.sleep.as_mut().reset(Self::early(instant));
        // Without `unconstrained`, tokio would not keep the waker if the calling task has used up its budget.
        let polled = pin!(unconstrained(self.sleep.as_mut())).poll(&mut Context::from_waker(waker));
        if polled.is_ready() {
            waker.wake_by_ref();
        }
    }
}
