//! The driver waits here for the armed tick. Registrations can set the driver's alarm to an earlier instant.
//!
//! A registration lowers the armed tick before it takes the lock of [`Parking`]. The driver and registrations
//! read the armed tick under that lock. So the last thread that takes the lock sets the alarm for the lowest
//! tick. Models: `timer::loom_tests::alarm_goes_off_while_it_is_set`, `runtime_end_races_rearm` and all
//! models of [`arming`](crate::driver::arming).
//!
//! The code that runs under the lock belongs to tokio. No user code runs under the lock, with one exception.
//! With `tokio_unstable` and tokio's feature `tracing`, tokio emits its own events under the lock.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::{Context, Poll, Waker},
};

use tokio::{task::coop::unconstrained, time::Instant};

use crate::{driver::alarm::Alarm, ground::sync::Mutex};

/// The alarm, and the waker of the driver that waits for the alarm.
pub(crate) struct Parking(Mutex<Parked>);

/// The state that the lock protects. The driver and registrations write both fields.
struct Parked {
    /// The alarm. `None` after the driver was dropped.
    alarm: Option<Box<dyn Alarm>>,
    /// The waker of the driver. `None` if the driver does not wait for the alarm.
    driver: Option<Waker>,
}

impl Parking {
    pub(crate) fn new(alarm: Box<dyn Alarm>) -> Self {
        let alarm = Some(alarm);
        Self(Mutex::new(Parked {
            alarm,
            driver: None,
        }))
    }

    /// Sets the alarm for the driver. Returns ready when the alarm has gone off.
    ///
    /// `armed` returns the instant of the armed tick. It returns `None` if that instant is beyond the clock's
    /// reach. In this case, `poll` does not set the alarm.
    pub(crate) fn poll(
        &self,
        armed: impl FnOnce() -> Option<Instant>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let mut parked = self.0.lock();
        let reached = poll(&mut parked.alarm, armed, cx);
        parked.driver = reached.is_pending().then(|| cx.waker().clone());
        reached
    }

    /// Sets the alarm for a registration that has lowered the armed tick.
    ///
    /// Does nothing if the driver is not waiting. Then the driver reads the armed tick before it waits again.
    #[cold]
    pub(crate) fn rearm(&self, armed: impl FnOnce() -> Option<Instant>) {
        let mut parked = self.0.lock();
        let Parked { alarm, driver } = &mut *parked;
        let Some(waiting) = driver else {
            return;
        };
        if poll(alarm, armed, &mut Context::from_waker(waiting)).is_ready() {
            let driver = driver.take();
            drop(parked);
            driver.into_iter().for_each(Waker::wake);
        }
    }

    /// Drops the alarm and the waker of the driver, because they may keep parts of the runtime alive.
    ///
    /// The driver calls this function when it is dropped.
    pub(crate) fn close(&self) {
        let mut parked = self.0.lock();
        let (alarm, driver) = (parked.alarm.take(), parked.driver.take());
        drop(parked);
        drop((alarm, driver));
    }
}

fn poll(
    alarm: &mut Option<Box<dyn Alarm>>,
    armed: impl FnOnce() -> Option<Instant>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    let (Some(instant), Some(alarm)) = (armed(), alarm) else {
        return Poll::Pending;
    };
    // Without `unconstrained`, tokio would not keep the waker if the registering task has used up its budget.
    pin!(unconstrained(poll_fn(|cx| alarm.poll_until(instant, cx)))).poll(cx)
}
