//! An alarm that uses Linux's `timerfd`. The alarm is exact to tens of microseconds.
//!
//! One file descriptor serves the whole timer, however many entries the timer has. The crate never reads the
//! descriptor. Setting the descriptor again clears its last expiration. The runtime detects each expiration
//! by an edge-triggered event.
//!
//! The descriptor does not follow a paused clock. The clock of a current-thread runtime can be paused at any
//! time. So on such a runtime this alarm also sets tokio's alarm. A paused clock can advance to tokio's
//! alarm.

use std::{
    future::{Future, poll_fn},
    io,
    os::fd::OwnedFd,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    runtime::{Handle, RuntimeFlavor},
    task::coop::unconstrained,
    time::Instant,
};

use crate::driver::alarm::{Alarm, TokioTime};

/// A `timerfd` that the runtime's I/O driver watches.
pub(crate) struct TimerFd {
    fd: AsyncFd<OwnedFd>,
    /// Tokio's alarm, if the runtime's clock can be paused.
    substitute: Option<TokioTime>,
}

impl TimerFd {
    /// Creates an alarm on the current runtime of the calling thread.
    ///
    /// # Panics
    ///
    /// Panics if I/O or time is not enabled in the runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if the system has no file descriptor left.
    #[track_caller]
    pub(crate) fn new() -> io::Result<Self> {
        // This call panics if time is not enabled in the runtime.
        let substitute = TokioTime::new();
        let flavor = Handle::current().runtime_flavor();
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[expect(
            deprecated,
            reason = "the replacement is for types whose descriptor may change; the descriptor of an \
                      `OwnedFd` does not change"
        )]
        let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
        Ok(Self {
            fd,
            substitute: (flavor != RuntimeFlavor::MultiThread).then_some(substitute),
        })
    }

    /// Sets the descriptor to expire at `instant`. This clears its last expiration.
    fn set_descriptor(&self, instant: Instant) -> io::Result<()> {
        let left = instant.saturating_duration_since(Instant::now());
        // A duration of zero would disarm the descriptor.
        let left = left.max(Duration::from_nanos(1));
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value: left.try_into().map_err(io::Error::other)?,
        };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

impl Alarm for TimerFd {
    fn set(&mut self, instant: Instant, waker: &Waker) {
        if let Some(substitute) = &mut self.substitute {
            substitute.set(instant, waker);
        }
        let cx = &mut Context::from_waker(waker);
        // The loop forgets the events of earlier settings. Then the descriptor keeps the waker. An error means
        // that the runtime is shutting down. The runtime will drop the driver next.
        // Without `unconstrained`, tokio would not keep the waker if the calling task has used up its budget.
        let mut events = pin!(unconstrained(poll_fn(|cx| self.fd.poll_read_ready(cx))));
        while let Poll::Ready(Ok(mut event)) = events.as_mut().poll(cx) {
            event.clear_ready();
        }
        if self.set_descriptor(instant).is_err() {
            // The descriptor is valid and the time is in range. So this does not happen in practice.
            waker.wake_by_ref();
        }
    }
}
