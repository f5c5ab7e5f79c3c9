//! The driver of a timer, as registrations see it.

use std::task::{Context, Poll};

use tokio::runtime;

use crate::{
    driver::{alarm::Alarm, arming::Arming, clock::Clock, ending::Ending, parking::Parking},
    ground::sync::{AtomicUsize, Notify, Ordering},
};

/// What the registrations of a timer share with its driver.
#[repr(align(128))]
pub(crate) struct DriverHandle {
    pub(crate) arming: Arming,
    pub(crate) parking: Parking,
    /// Wakes the driver.
    pub(crate) notify: Notify,
    pub(crate) ending: Ending,
    /// Where the driver runs.
    pub(crate) runtime: runtime::Id,
    /// Registrars that a handle or a future still holds.
    registrars: AtomicUsize,
}

impl DriverHandle {
    pub(crate) fn new(runtime: runtime::Id, alarm: Box<dyn Alarm>) -> Self {
        Self {
            arming: Arming::new(),
            parking: Parking::new(alarm),
            notify: Notify::new(),
            ending: Ending::new(),
            runtime,
            registrars: AtomicUsize::new(0),
        }
    }

    /// Polls the alarm for the driver, after setting it for the armed tick.
    pub(crate) fn poll_alarm(&self, clock: &Clock, cx: &mut Context<'_>) -> Poll<()> {
        self.parking.poll(|| clock.instant(self.arming.tick()), cx)
    }

    /// Counts a registrar.
    pub(crate) fn add_registrar(&self) {
        self.registrars.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a registrar that is dropped. The last one wakes the driver, which ends.
    pub(crate) fn drop_registrar(&self) {
        if self.registrars.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.notify.notify_one();
        }
    }

    /// Returns whether no handle and no future can reach the timer any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.registrars.load(Ordering::Acquire) == 0
    }
}
