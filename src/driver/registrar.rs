//! A thread's access to a timer: its shard, its clock, and what it shares with the driver.
//!
//! If a timer has as many shards as its runtime has workers, each worker has a registrar of its own. All
//! futures that register on a worker share the worker's registrar. A registration writes to the lock of the
//! shard, and seldom to the reference count of the registrar. In the common case, no other worker writes to the
//! cache lines of the registrar and the shard.

use std::{
    ptr,
    sync::{Arc, OnceLock, Weak},
    task::Waker,
};

use bounded_wheel::{Key, Tick};
use tokio::time::Instant;

use crate::{
    driver::{
        clock::Clock,
        entry::{Entry, Owner, Spares},
        shard::Shard,
        shared::Shared,
    },
    error::TimerShutdown,
    ground::{sync::Ordering, unwind, wake},
};

/// The key of a new entry, or the result of a future that needs none: its deadline has passed, or its timer has ended or is
/// another runtime's default timer.
// With an enum of its own, a registration takes 5 instructions more.
pub(crate) type Registered = Result<Key, Result<(), TimerShutdown>>;

/// The deadline has passed, so the future is ready.
const PASSED: Registered = Err(Ok(()));
/// The timer has ended, or is another runtime's default timer.
const REFUSED: Registered = Err(Err(TimerShutdown(())));

/// Registers futures in one shard of one timer.
///
/// When the last registrar of a timer is dropped, it wakes the driver. Then the driver ends.
#[repr(align(128))]
pub(crate) struct Registrar {
    pub(crate) shard: Arc<Shard>,
    clock: Clock,
    pub(crate) shared: Arc<Shared>,
    /// The spare entries of the worker to which this registrar belongs.
    pub(crate) spares: Option<Arc<Spares>>,
    /// The registrars of all shards, if futures always use this timer. Otherwise, they use the default timer of the
    /// runtime in which they register.
    all: Option<All>,
}

type All = Arc<OnceLock<Box<[Weak<Registrar>]>>>;

impl Registrar {
    /// Creates a registrar for each shard, for futures that always use this timer.
    pub(crate) fn of_all_shards(shared: &Arc<Shared>) -> Box<[Arc<Self>]> {
        let all = All::default();
        let of_shard = |shard| Self::new(shared, shard, None, Some(all.clone()));
        let registrars: Box<[_]> = shared.shards.iter().map(of_shard).collect();
        all.get_or_init(|| registrars.iter().map(Arc::downgrade).collect());
        registrars
    }

    /// Creates the registrar of a thread, or of all threads, for one shard.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        shard: &Arc<Shard>,
        spares: Option<Arc<Spares>>,
        all: Option<All>,
    ) -> Arc<Self> {
        shared.registrars.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self {
            shard: shard.clone(),
            clock: shared.agenda.clock,
            shared: shared.clone(),
            spares,
            all,
        })
    }

    /// Returns whether the futures of this registrar use the default timer.
    #[inline]
    pub(crate) fn is_default(&self) -> bool {
        self.all.is_none()
    }

    /// Returns the registrar of the calling thread's shard, if it is another one.
    ///
    /// A listener may make a future and move it to a connection's task. The future then registers where the task
    /// runs, and not in the shard of the listener. Test: `a_sleep_registers_where_it_is_first_polled`.
    #[inline]
    pub(crate) fn nearer(&self) -> Option<Arc<Self>> {
        let index = self.shared.shard_of_thread();
        if ptr::eq(&*self.shard, &*self.shared.shards[index]) {
            return None;
        }
        self.all.as_ref()?.get()?[index].upgrade()
    }

    /// Registers a future by a clone of its task's waker and the place that made it. The driver wakes the clone at
    /// `deadline`.
    #[inline]
    pub(crate) fn register(&self, deadline: Instant, of: Owner<'_>) -> Registered {
        let tick = self.clock.deadline(deadline);
        if self.shard.published.needs_the_time(tick) {
            return self.register_near(deadline, tick, of);
        }
        self.add_entry(None, tick, of)
    }

    /// Reads the clock, and then registers like [`register`](Self::register).
    ///
    /// A deadline that has just passed is registered for the next tick. So the sleep gives way to the tasks that are
    /// ready, as in tokio: a loop with a sleep of zero does not spin, and tasks that are ready come before the first
    /// tick of an interval. Outside the timer's runtime, nothing may drive the timer, so the sleep does not wait. Tests:
    /// `timer::tests::a_sleep_of_zero_waits_for_the_alarm` and `first_poll` in `tests/differential`.
    ///
    /// A thread that was a worker of the default timer's runtime may run another runtime by now, so it looks its timer up
    /// again: see [`default`](crate::timer::default).
    #[cold]
    fn register_near(&self, deadline: Instant, tick: Tick, of: Owner<'_>) -> Registered {
        let is_here = self.shared.agenda.is_here();
        if self.is_default() && !is_here {
            return REFUSED;
        }
        let now = self.clock.present();
        let tick = if now < deadline {
            tick
        } else if is_here && self.clock.has_just_passed(deadline, now) {
            self.clock.reached(now) + 1
        } else {
            return PASSED;
        };
        let now = is_here.then(|| self.clock.reached(now));
        self.add_entry(now, tick, of)
    }

    /// Adds an entry. `now` is the present tick if the thread has read the clock and is in the timer's runtime: the shard then
    /// advances its wheel, and a new earliest deadline sets the alarm.
    #[inline]
    fn add_entry(&self, now: Option<Tick>, at: Tick, of: Owner<'_>) -> Registered {
        let wake_for = |tick| self.shared.agenda.wake_for(tick, now.is_some());
        let spares = self.spares.as_deref();
        if let Some((spares, key)) = spares.and_then(|it| Some((it, it.keys().next()?))) {
            let taken = (self.shard).take_over((spares, key), now, at, of, wake_for);
            match taken {
                Ok(()) => return Ok(key),
                // The panic of another task's waker would harm this task.
                Err(unused) => unwind::discard(unused),
            }
        }
        let registered = self.shard.register(now, at, Entry::new(of), wake_for);
        registered.map_err(Err)
    }

    /// Ends the registration of a dropped future. The worker to which this registrar belongs keeps the entry as
    /// [spare](super::entry), any other thread deregisters it. Returns a waker that the caller drops.
    #[inline]
    pub(crate) fn release(&self, key: Key, is_worker: bool) -> Option<Waker> {
        match &self.spares {
            Some(spares) if is_worker => self.shard.keep(spares, key),
            _ => self.shard.deregister(key),
        }
    }

    /// Gives an entry another deadline, if the entry is still in the wheel.
    ///
    /// If the new deadline has expired, the entry fires at once, and its task is woken. Returns `false` if the entry was
    /// not in the wheel.
    #[inline]
    pub(crate) fn reset(&self, key: Key, deadline: Instant) -> bool {
        self.shared.agenda.timer_is_used();
        let tick = self.clock.deadline(deadline);
        match self.shard.postpone(key, tick) {
            None => false,
            // The driver visits the entry when the clock reaches the entry's old slot.
            Some(true) => true,
            Some(false) => self.reset_to_earlier(key, deadline, tick),
        }
    }

    #[inline]
    pub(crate) fn may_have_fired(&self, deadline: Instant) -> bool {
        let tick = self.clock.deadline(deadline);
        self.shard.published.may_have_fired(tick)
    }

    fn reset_to_earlier(&self, key: Key, deadline: Instant, tick: Tick) -> bool {
        let now = self.clock.present();
        if now >= deadline {
            return self.shard.fire(key, tick).map(wake::wake).is_some();
        }
        // Another runtime may have another clock, which may be paused, or a test may have moved it ahead. So a thread
        // of another runtime does not advance the wheel.
        let is_here = self.shared.agenda.is_here();
        let now = is_here.then(|| self.clock.reached(now));
        let wake_for = |tick| self.shared.agenda.wake_for(tick, is_here);
        self.shard.reset(now, key, tick, wake_for);
        true
    }
}

impl Drop for Registrar {
    fn drop(&mut self) {
        if self.shared.registrars.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.agenda.notify.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Registrar {
        /// Creates a registrar for futures that register in this shard on every thread.
        pub(crate) fn of_shard(shared: &Arc<Shared>, shard: usize) -> Arc<Self> {
            Self::new(shared, &shared.shards[shard], None, Some(All::default()))
        }
    }
}
