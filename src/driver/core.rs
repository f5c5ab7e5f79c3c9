//! The state of a timer that the two halves of its driver share.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::{
    driver::{clock::Clock, ending::End, handle::DriverHandle, shard::Shard, turn::Ground},
    ground::{trace, waker},
    wheel::Tick,
};

/// The clock, the shards and the [`DriverHandle`] of a timer.
///
/// A core holds no registrar. So the number of registrars shows whether a handle or a future can still use
/// the timer.
pub(crate) struct Core {
    clock: Clock,
    shards: Box<[Arc<Shard>]>,
    driver: Arc<DriverHandle>,
    /// A function that runs when the timer has ended, before its shards are closed.
    on_end: fn(&Self),
    /// The number of times that the driver was woken. Only the two halves of the driver write this field.
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
    fn now(&self) -> Tick {
        self.clock.now()
    }

    /// Returns the parts of the timer that a turn works on.
    pub(crate) fn ground(&self) -> Ground<'_> {
        Ground {
            clock: &self.clock,
            shards: &self.shards,
        }
    }

    pub(crate) fn driver(&self) -> &DriverHandle {
        &self.driver
    }

    pub(crate) fn shards(&self) -> &[Arc<Shard>] {
        &self.shards
    }

    /// Raises published ticks that are too early. A cancellation can leave a published tick too early.
    ///
    /// Skips a shard if the corrected tick of another shard is equal or earlier. Test:
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

    /// Returns the earliest published tick of all shards.
    fn next_expiration(&self) -> Tick {
        let published = self.shards.iter().map(|shard| shard.next_expiration());
        published.min().unwrap_or(Tick::NEVER)
    }

    /// Arms for the earliest published tick of all shards.
    pub(crate) fn arm(&self) {
        self.driver.arming.arm(|| self.next_expiration());
    }

    /// Returns whether the armed tick is reached, so that the driver must take another turn.
    pub(crate) fn is_due(&self) -> bool {
        self.driver.arming.tick() <= self.now()
    }

    /// Records that the driver was woken. `by` names the reason.
    pub(crate) fn wakes_up(&self, by: &'static str) {
        self.wakeups.fetch_add(1, Ordering::Relaxed);
        trace::wake_up(by);
    }

    /// Returns the number of times that the driver was woken.
    pub(crate) fn wakeups(&self) -> u64 {
        self.wakeups.load(Ordering::Relaxed)
    }

    /// Returns whether the driver task must end.
    pub(crate) fn should_end(&self) -> bool {
        self.driver.ending.get().is_some() || self.driver.has_no_registrars()
    }

    /// Closes the timer, unless it is closed already.
    ///
    /// From now on, the shards refuse registrations. The function wakes the wakers of all pending entries. In
    /// the meantime, [`Ending::is_closing`](super::ending::Ending::is_closing) returns `true` to the wakers.
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

    /// Closes the timer when its driver is dropped.
    pub(crate) fn abandon(&self) {
        self.driver.parking.close();
        self.close(End::Runtime);
    }
}
