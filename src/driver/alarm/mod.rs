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

#[cfg(all(feature = "high-resolution", target_os = "linux"))]
mod timer_fd;
mod tokio_time;

#[cfg(all(feature = "high-resolution", target_os = "linux"))]
pub(crate) use timer_fd::TimerFd;
pub(crate) use tokio_time::TokioTime;

use std::task::Waker;

use tokio::time::Instant;

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
