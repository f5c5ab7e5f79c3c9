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
        if self.shard.is_near(tick) {
            return self.register_near(deadline, waker);
        }
        self.insert(None, tick, waker)
    }

    /// Registers as [`register`](Self::register) does, with a look at the clock.
    #[cold]
    fn register_near(&self, deadline: Instant, waker: &Waker) -> Result<Key, Refused> {
        let now = self.clock.present();
        if now >= deadline {
            return Err(Refused::Due);
        }
        let tick = self.clock.deadline(deadline);
        self.insert(self.up_to(now, tick), tick, waker)
    }

    #[inline]
    fn insert(&self, now: Option<Tick>, deadline: Tick, waker: &Waker) -> Result<Key, Refused> {
        let waker = waker.clone();
        let (key, published) = (self.shard).register(now, deadline, waker, Admission::Unlimited)?;
        if self.is_earliest(published) {
            self.rearm();
        }
        Ok(key)
    }

    /// Registers `waker`, even if `deadline` has been reached by `now`, the present. It is due at once
    /// then: rounding up would postpone it by as much as a tick.
    ///
    /// Returns the key, and whether the caller must [rearm](Self::rearm) the driver. The caller may hold a lock of its own.
    /// It rearms the driver when it has released that.
    pub(crate) fn register_always(
        &self,
        now: Instant,
        deadline: Instant,
        waker: Waker,
        admission: Admission,
    ) -> Result<(Key, bool), Refused> {
        let tick = if deadline <= now {
            self.clock.reached(now)
        } else {
            self.clock.deadline(deadline)
        };
        let is_near = self.shard.is_near(tick);
        let now = is_near.then(|| self.up_to(now, tick)).flatten();
        let (key, published) = self.shard.register(now, tick, waker, admission)?;
        Ok((key, self.is_earliest(published)))
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
        let now = self.is_current().then(|| self.reached(now));
        let published = self.shard.reset(now, key, tick);
        if self.is_earliest(published) {
            self.rearm();
        }
        Reset::Pending
    }

    /// Returns the tick up to which the shard should catch up with the clock before it registers a near deadline. A later
    /// deadline than the published tick gets a coarse slot all the same if it is far from `now`.
    fn up_to(&self, now: Instant, deadline: Tick) -> Option<Tick> {
        let now = self.reached(now);
        let is_coarse = deadline.0 >= now.0.saturating_add(COARSE_FROM);
        if is_coarse && deadline >= self.shard.next_expiration() {
            return None;
        }
        self.is_current().then_some(now)
    }

    /// Returns the tick that the driver has reached at that instant.
    fn reached(&self, now: Instant) -> Tick {
        self.driver.ahead(self.clock.reached(now))
    }

    /// Returns whether the calling thread is in the timer's runtime. Then the clock that it reads is the
    /// timer's own: another runtime's may be paused, or may have been moved ahead.
    fn is_current(&self) -> bool {
        runtime::Handle::try_current().is_ok_and(|current| current.id() == self.driver.runtime)
    }

    /// Returns whether the driver must wake earlier for what the shard has published, if anything.
    #[inline]
    fn is_earliest(&self, published: Option<Tick>) -> bool {
        published.is_some_and(|next| self.driver.arming.lower_to(next))
    }

    /// Has the driver wake at the armed tick, which a registration has just lowered.
    #[cold]
    pub(crate) fn rearm(&self) {
        self.driver.rearm(&self.clock);
    }
}

impl Drop for Registrar {
    fn drop(&mut self) {
        self.driver.drop_registrar();
    }
}
