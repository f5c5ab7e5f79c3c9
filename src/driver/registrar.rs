//! A thread's way into a timer: its shard, and what else a registration needs.
//!
//! Where there are as many shards as workers, each worker thread and the futures that registered
//! there share a registrar of their own: the reference count that a registration touches is, like
//! the shard's lock, on a cache line that no other worker writes to in the common case.

use std::{sync::Arc, task::Waker};

use tokio::{runtime, time::Instant};

use crate::{
    driver::{
        clock::Clock,
        ending::End,
        handle::DriverHandle,
        shard::{Admission, Postponed, Refused, Shard},
    },
    wheel::{COARSE_FROM, Key, Tick},
};

/// The outcome of a reset.
pub(crate) enum Reset {
    /// It waits for its new deadline.
    Pending,
    /// Its new deadline has been reached: it has fired, and the caller wakes its waker.
    Fired(Waker),
    /// It was not in the wheel any more.
    Absent,
}

/// Registers futures in one shard of one timer. The last one of a timer to be dropped tells the
/// driver, which ends.
#[repr(align(128))]
pub(crate) struct Registrar {
    pub(crate) shard: Arc<Shard>,
    clock: Clock,
    pub(crate) driver: Arc<DriverHandle>,
    ambient: bool,
}

impl Registrar {
    /// A registrar for futures that belong to the timer (`ambient` is false), or to whatever
    /// runtime polls them at the time of registration.
    pub(crate) fn new(
        shard: Arc<Shard>,
        clock: Clock,
        driver: Arc<DriverHandle>,
        ambient: bool,
    ) -> Self {
        driver.add_registrar();
        Self {
            shard,
            clock,
            driver,
            ambient,
        }
    }

    /// Whether a future that was registered here looks for its timer anew the next time.
    #[inline]
    pub(crate) fn is_ambient(&self) -> bool {
        self.ambient
    }

    #[inline]
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether a future that was refused here, or whose entry was closed, may look for its timer
    /// anew: if this is an ambient one which is not the latest, or was shut down.
    pub(crate) fn may_be_replaced(&self, latest: bool) -> bool {
        self.ambient && (!latest || self.driver.ending.get() == Some(End::Shutdown))
    }

    /// Registers a clone of `waker` to be woken at `deadline`.
    #[inline]
    pub(crate) fn register(&self, deadline: Instant, waker: &Waker) -> Result<Key, Refused> {
        let tick = self.clock.deadline(deadline);
        let armed = self.driver.arming.tick();
        // The alarm would have to be set for this one: worth a look at the clock first.
        if tick < armed && self.clock.present() >= deadline {
            return Err(Refused::Due);
        }
        let key = match self.shard.register(tick, far(armed), waker.clone()) {
            Err(Refused::Behind) => self.register_behind(tick, waker)?,
            registered => registered?,
        };
        self.rearm_for(tick);
        Ok(key)
    }

    /// Registers with a shard that may be behind the clock.
    #[cold]
    fn register_behind(&self, deadline: Tick, waker: &Waker) -> Result<Key, Refused> {
        if self.is_current() {
            self.shard.catch_up(self.clock.now());
        }
        self.shard.register(deadline, Tick(0), waker.clone())
    }

    /// Registers `waker`, even if `deadline` has been reached by `now`, the present. It is due at once
    /// then: rounding up would postpone it by as much as a tick.
    ///
    /// The caller may hold a lock of its own. If the tick that this returns
    /// [lowers](Arming::lower_to) the armed one, it has to
    /// [rearm](Self::rearm) the driver when it has released that.
    pub(crate) fn register_always(
        &self,
        now: Instant,
        deadline: Instant,
        waker: Waker,
        admission: Admission,
    ) -> Result<(Key, Tick), Refused> {
        let tick = if deadline <= now {
            self.clock.reached(now)
        } else {
            self.clock.deadline(deadline)
        };
        if tick < far(self.driver.arming.tick()) && self.is_current() {
            self.shard.catch_up(self.clock.reached(now));
        }
        let key = self.shard.register_always(tick, waker, admission)?;
        Ok((key, tick))
    }

    /// Gives an entry another deadline, if it is still there, and says what became of it. One whose
    /// deadline is reached fires at once.
    #[inline]
    pub(crate) fn reset(&self, key: Key, deadline: Instant) -> Reset {
        let tick = self.clock.deadline(deadline);
        match self.shard.postpone(key, tick) {
            None => Reset::Absent,
            // The driver looks at the entry when its old slot is reached.
            Some(Postponed::Stored) => Reset::Pending,
            Some(Postponed::Not) => self.reset_to_earlier(key, deadline, tick),
        }
    }

    fn reset_to_earlier(&self, key: Key, deadline: Instant, tick: Tick) -> Reset {
        let now = self.clock.present();
        if now >= deadline {
            return match self.shard.fire(key) {
                Some(waker) => Reset::Fired(waker),
                None => Reset::Absent,
            };
        }
        if self.is_current() {
            self.shard.catch_up(self.clock.reached(now));
        }
        self.shard.reset(key, tick);
        self.rearm_for(tick);
        Reset::Pending
    }

    /// Whether the calling thread is in the timer's runtime, and so the clock that it reads is the
    /// timer's own: another runtime's may be paused, or may have been moved ahead.
    fn is_current(&self) -> bool {
        runtime::Handle::try_current().is_ok_and(|current| current.id() == self.driver.runtime)
    }

    /// Has the driver wake for a deadline that has just been set, if it is before the armed tick.
    #[inline]
    pub(crate) fn rearm_for(&self, deadline: Tick) {
        if self.driver.arming.lower_to(deadline) {
            self.rearm();
        }
    }

    /// Has the driver wake at the armed tick, which a registration of this shard has just lowered.
    #[cold]
    pub(crate) fn rearm(&self) {
        self.driver
            .rearm(&self.clock, || self.shard.next_expiration());
    }
}

/// The tick from where on a deadline is far, whether or not the shard is behind the clock: unless the
/// driver is late, it is behind by no more than up to the armed tick.
#[inline]
fn far(armed: Tick) -> Tick {
    Tick(armed.0.saturating_add(COARSE_FROM))
}

impl Drop for Registrar {
    fn drop(&mut self) {
        self.driver.drop_registrar();
    }
}
