//! A timer as its driver sees it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use crate::{
    driver::{clock::Clock, ending::End, handle::DriverHandle, shard::Shard},
    ground::{trace, waker},
    wheel::Tick,
};

/// The shards of a timer, and what its driver shares with registrations: without registrars, so that
/// these count who else uses it.
pub(crate) struct Core {
    clock: Clock,
    shards: Box<[Arc<Shard>]>,
    driver: Arc<DriverHandle>,
    /// Called when the timer has ended, before its shards are closed.
    on_end: fn(&Self),
    wakeups: AtomicU64,
}

impl Core {
    pub(crate) fn new(
        clock: Clock,
        shards: Box<[Arc<Shard>]>,
        driver: Arc<DriverHandle>,
        on_end: fn(&Self),
    ) -> Self {
        Self {
            clock,
            shards,
            driver,
            on_end,
            wakeups: AtomicU64::new(0),
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the tick that the driver has reached.
    pub(crate) fn now(&self) -> Tick {
        self.driver.ahead(self.clock.now())
    }

    pub(crate) fn driver(&self) -> &DriverHandle {
        &self.driver
    }

    pub(crate) fn shards(&self) -> &[Arc<Shard>] {
        &self.shards
    }

    /// Corrects what shards publish, from the earliest that is true on: cancellations may have left ticks too early. Test:
    /// `timer::tests::canceled_timers_wake_the_driver_once`.
    pub(crate) fn correct(&self) {
        let mut least = Tick::NEVER;
        for shard in self.shards() {
            if shard.next_expiration() < least {
                shard.correct();
                least = least.min(shard.next_expiration());
            }
        }
    }

    /// Arms for the earliest expiration of all shards.
    pub(crate) fn arm(&self) {
        self.driver.arming.arm(|| {
            let published = self.shards.iter().map(|shard| shard.next_expiration());
            published.min().unwrap_or(Tick::NEVER)
        });
    }

    /// Ready when the alarm goes off, which is set for the armed tick.
    pub(crate) fn poll_alarm(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.driver.poll_alarm(&self.clock, cx)
    }

    pub(crate) fn count_wakeup(&self) {
        self.wakeups.fetch_add(1, Ordering::Relaxed);
    }

    /// How often the driver was woken.
    pub(crate) fn wakeups(&self) -> u64 {
        self.wakeups.load(Ordering::Relaxed)
    }

    /// Whether the driver can end.
    pub(crate) fn should_end(&self) -> bool {
        self.driver.ending.get().is_some() || self.driver.has_no_registrars()
    }

    /// Closes the timer, if it is not closed yet: refuses what is new from now on, and wakes whoever
    /// waits. A waker learns by [`Ending::is_closing`] that it is woken for that.
    pub(crate) fn close(&self, end: End) {
        if !self.driver.ending.set(end) {
            return;
        }
        (self.on_end)(self);
        let mut pending = 0;
        self.driver.ending.while_closing(|| {
            for shard in self.shards() {
                for waker in shard.close() {
                    waker::wake(waker);
                    pending += 1;
                }
            }
        });
        trace::shutdown(pending);
    }

    /// Closes the timer because its driver is dropped.
    pub(crate) fn abandon(&self) {
        self.driver.parking.close();
        self.close(End::Runtime);
    }
}
