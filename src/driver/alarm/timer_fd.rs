//! The alarm of Linux's `timerfd`, which is exact to some ten microseconds.
//!
//! One file descriptor serves the whole timer, however many sleeps it has. It is never read: to set
//! it anew clears what has fired, and the runtime learns of each expiration by its edge.
//!
//! The descriptor knows nothing of a paused clock. A current-thread runtime's can be paused at any
//! time, so there tokio's alarm is set as well: it is what a paused clock moves on to.

use std::{
    io,
    os::fd::OwnedFd,
    task::{Context, Poll},
    time::Duration,
};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    runtime::{Handle, RuntimeFlavor},
    time::Instant,
};

use super::{Alarm, TokioTime};

/// A `timerfd` that the runtime's I/O driver watches.
pub(crate) struct TimerFd {
    fd: AsyncFd<OwnedFd>,
    /// What the descriptor is set for, if it has not fired since.
    set_for: Option<Instant>,
    /// For a paused clock, where it can be paused.
    substitute: Option<TokioTime>,
}

impl TimerFd {
    /// An alarm of the runtime that the calling thread is in.
    ///
    /// # Panics
    ///
    /// Where the runtime has no I/O enabled, or no time.
    ///
    /// # Errors
    ///
    /// If there is no file descriptor to be had.
    #[track_caller]
    pub(crate) fn new(runtime: &Handle) -> io::Result<Self> {
        // Also to find out whether there is time.
        let substitute = TokioTime::new();
        let can_be_paused = runtime.runtime_flavor() != RuntimeFlavor::MultiThread;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[allow(
            deprecated,
            reason = "what replaces it is for types that may say now one descriptor and now another; \
                      an `OwnedFd` always says the same"
        )]
        let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
        Ok(Self {
            fd,
            set_for: None,
            substitute: can_be_paused.then_some(substitute),
        })
    }

    /// Sets the descriptor, which clears what it told before.
    fn set(&mut self, instant: Instant) -> io::Result<()> {
        let left = instant.saturating_duration_since(Instant::now());
        // Zero would disarm it.
        let left = left.max(Duration::from_nanos(1));
        let to_spec = |left: Duration| Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let once = Itimerspec {
            it_interval: to_spec(Duration::ZERO),
            it_value: to_spec(left),
        };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &once)?;
        self.set_for = Some(instant);
        Ok(())
    }
}

impl Alarm for TimerFd {
    fn poll_until(&mut self, instant: Instant, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(substitute) = &mut self.substitute {
            if substitute.poll_until(instant, cx).is_ready() {
                return Poll::Ready(());
            }
        }
        loop {
            if self.set_for != Some(instant) && self.set(instant).is_err() {
                // It is a good descriptor, and what it is set to is in range.
                return Poll::Ready(());
            }
            match self.fd.poll_read_ready(cx) {
                // The runtime is shutting down, and drops the driver next.
                Poll::Pending | Poll::Ready(Err(_)) => return Poll::Pending,
                Poll::Ready(Ok(mut readable)) => readable.clear_ready(),
            }
            if Instant::now() >= instant {
                self.set_for = None;
                return Poll::Ready(());
            }
            // It tells of what it was set for before; or the clock was paused meanwhile and is behind.
            self.set_for = None;
        }
    }
}
