//! What wakes the driver at an instant.
//!
//! The driver knows nothing of its alarm but [`Alarm`]. It looks at the clock itself whenever it is
//! woken, so no alarm can make a timer early. An alarm that errs has these effects (`timer::tests`,
//! `timer::simulation`):
//!
//! * One that rings early, or twice, costs a wake-up, and is set anew.
//! * One that rings late makes late what is due by then: all of it fires at once.
//! * One that does not ring lets what is due wait until the driver is polled for another reason: an
//!   earlier deadline, which sets the alarm anew, or the end of the timer.
//!
//! A later deadline does not help an alarm that does not ring: a registration trusts the armed tick
//! and reads no clock, which would cost it half as much again.

#[cfg(all(feature = "high-resolution", target_os = "linux"))]
mod timer_fd;
mod tokio_time;

#[cfg(all(feature = "high-resolution", target_os = "linux"))]
pub(crate) use timer_fd::TimerFd;
pub(crate) use tokio_time::{LEAD, TokioTime};

use std::task::{Context, Poll};

use tokio::time::Instant;

/// Wakes the task that polled it last at an instant, which may be another one at every poll.
///
/// It is polled by the driver, and in its name by other tasks of the driver's runtime.
pub(crate) trait Alarm: Send {
    /// Ready once `instant` is reached, give or take what this alarm can do.
    ///
    /// Once it has been ready it may be polled again, for the same instant too.
    fn poll_until(&mut self, instant: Instant, cx: &mut Context<'_>) -> Poll<()>;
}
