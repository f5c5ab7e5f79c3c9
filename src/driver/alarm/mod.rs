//! Alarms, which wake the driver at an instant.
//!
//! The driver uses an alarm only through [`Alarm`]. It reads the clock itself whenever it is woken. So no
//! alarm can make an entry fire early. An inexact alarm has these effects (`timer::tests`,
//! `timer::simulation`):
//!
//! * An alarm that goes off early or twice costs a wake-up, and the driver sets it again.
//! * An alarm that goes off late makes the expired entries late. All of them fire at once.
//! * An alarm that does not go off leaves expired entries pending until the driver is polled for another
//!   reason. An earlier deadline polls it and sets the alarm again, and so does the end of the timer.
//!
//! A registration with a later deadline does not detect an alarm that failed. It trusts the armed tick and
//! reads no clock, because that would make it half as expensive again.

#[cfg(all(feature = "high-resolution", target_os = "linux"))]
mod timer_fd;
mod tokio_time;

#[cfg(all(feature = "high-resolution", target_os = "linux"))]
pub(crate) use timer_fd::TimerFd;
pub(crate) use tokio_time::{LEAD, TokioTime};

use std::task::{Context, Poll};

use tokio::time::Instant;

/// An alarm that wakes a task at an instant.
///
/// It wakes the task that polled it last. Each poll may name another instant.
///
/// The driver polls it. Other tasks of the driver's runtime poll it with the driver's waker.
pub(crate) trait Alarm: Send {
    /// Is ready when `instant` is reached, within the precision of the alarm.
    ///
    /// After it was ready, the caller may poll it again, also for the same instant.
    fn poll_until(&mut self, instant: Instant, cx: &mut Context<'_>) -> Poll<()>;
}
