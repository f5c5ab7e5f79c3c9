//! Where the driver waits for the armed tick, and where a registration sets the alarm to an earlier instant.
//!
//! The armed tick is lowered before the lock is taken, and read again under it. So whoever is the
//! last to take the lock sets the alarm for the lowest tick, be it the driver or a registration.
//! Models: those of [`arming`](crate::driver::arming), `timer::loom_tests::alarm_goes_off_while_it_is_set` and
//! `runtime_end_races_rearm`.
//!
//! What runs under the lock is tokio's, and none of it is the user's; but tokio's own events, which
//! there are with `tokio_unstable` and its feature `tracing`, come from there as well.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::{Context, Poll, Waker},
};

use tokio::{task::coop::unconstrained, time::Instant};

use crate::{driver::alarm::Alarm, ground::sync::Mutex};

/// The alarm, and who waits for it.
pub(crate) struct Parking(Mutex<Parked>);

struct Parked {
    /// Until the driver is gone.
    alarm: Option<Box<dyn Alarm>>,
    /// The driver, since it last waited for the alarm.
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

    /// For the driver: ready when the alarm goes off. `armed` says for when to set it; never, if
    /// that is beyond the clock's reach.
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

    /// For a registration that has lowered the armed tick: sets the alarm for `armed`, if the
    /// driver waits. If it does not, it reads the tick before it does.
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

    /// Once the driver is gone: nobody waits for the alarm any more, and what it holds of the
    /// runtime goes.
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
    // Where the budget of the task that registers is used up, tokio would not take the waker.
    pin!(unconstrained(poll_fn(|cx| alarm.poll_until(instant, cx)))).poll(cx)
}
