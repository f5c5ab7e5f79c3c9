//! A shard: a wheel of wakers behind a lock. The shard publishes the tick at which its wheel next has work.
//!
//! By default, each worker thread registers in a shard of its own. So threads compete for the lock of a shard only if the
//! driver visits the shard, or if another thread polls or drops a future of the shard. [`entries`](super::entries) has
//! the operations.
//!
//! # Rules
//!
//! * No thread allocates or frees memory under the lock, because allocating and freeing can take long (see
//!   `wheel::nodes`). Test: `timer::tests::a_shard_frees_the_memory_of_a_peak`. Model:
//!   `driver::loom_tests::refill_races_free`.
//! * Threads write the [published](Shard::published) tick only under the lock. They read this
//!   tick without the lock. Whenever the lock is free, no entry has a deadline before the published tick. So
//!   a driver does not need to visit a wheel before the published tick of the wheel is reached.
//! * The published tick may be too early, because a cancellation does not change it. The driver raises it
//!   later.
//! * Only a registration or a reset lowers the published tick. The registration or reset then also lowers the
//!   armed tick. All other operations keep the published tick or raise it. A coarse slot may start before the
//!   published tick. These operations still keep the tick, because no deadline in the slot is before it.
//!   Test: `timer::tests::a_visit_before_its_time_leaves_the_published_tick`.
//! * The published ticks have cache lines of their own. So a driver that reads the published ticks does not
//!   take the cache line of the lock from a worker.
//! * The wheel also publishes the tick up to which it was advanced. Only
//!   [`needs_the_time`](Shard::needs_the_time) reads that tick.
//!
//! Test: `timer::tests::the_driver_visits_only_shards_that_have_something_due`. [`arming`](super::arming)
//! describes how a registration and the driver use the published tick.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    task::Waker,
};

use bounded_wheel::{COARSE_FROM, FINE_TO, NEVER, Refill, Tick};

use crate::{
    driver::{arming::Earlier, lateness::Lateness, left::Leavers},
    ground::sync::{AtomicU64, Mutex, MutexGuard, Ordering, Wheel},
};

/// A locked wheel of wakers, on cache lines of its own.
#[repr(align(128))]
pub(crate) struct Shard {
    state: Mutex<State>,
    published: Published,
}

/// The ticks that threads read without the lock. Only a thread that holds the lock writes them.
#[repr(align(128))]
struct Published {
    /// The published tick. No entry has an earlier deadline.
    tick: AtomicU64,
    /// The tick up to which the wheel was advanced.
    advanced: AtomicU64,
}

/// The state that the lock protects.
///
/// The fields that every operation uses come first, so that they share a cache line with the lock. The large histogram,
/// which a registration does not touch, comes last.
#[repr(C)]
pub(super) struct State {
    /// Whether the shard is closed. A closed shard refuses registrations, and stays closed.
    pub(super) closed: bool,
    /// Whether the last visit was on a paused clock.
    pub(super) is_paused: bool,
    /// A copy of the published tick. A registration that reads this copy needs only the cache line of the
    /// lock.
    published: Tick,
    /// The number of registrations. It never decreases.
    pub(super) registered: u64,
    pub(super) leavers: Leavers,
    pub(super) wheel: Wheel<Waker>,
    /// Counts the entries that have fired.
    pub(super) lateness: Lateness,
}

/// Holds the lock.
pub(super) struct Held<'a> {
    state: MutexGuard<'a, State>,
    published: &'a Published,
}

impl Shard {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                closed: false,
                is_paused: false,
                published: NEVER,
                registered: 0,
                leavers: Leavers::default(),
                wheel: Wheel::new(0),
                lateness: Lateness::new(),
            }),
            published: Published {
                tick: AtomicU64::new(NEVER),
                advanced: AtomicU64::new(0),
            },
        })
    }

    #[inline]
    pub(super) fn lock(&self) -> Held<'_> {
        Held {
            state: self.state.lock(),
            published: &self.published,
        }
    }

    /// Takes the lock. When the function returns, the wheel has room for an entry, or is closed.
    ///
    /// If the wheel is full, the function releases the lock, allocates memory, and takes the lock again.
    #[inline]
    pub(super) fn lock_with_room(&self) -> Held<'_> {
        loop {
            let mut held = self.lock();
            if held.wheel.has_room() || held.closed {
                return held;
            }
            let chunks = held.wheel.chunks_wanted();
            drop(held);
            self.refill(Refill::allocate(chunks));
        }
    }

    #[cold]
    fn refill(&self, refill: Refill<Waker>) {
        let mut held = self.lock();
        if !held.closed {
            let replaced = held.wheel.refill(refill);
            // This call opens a chunk in the new memory. Otherwise another thread could find the memory
            // unused, and free it.
            held.wheel.has_room();
            drop(held);
            drop(replaced);
        }
    }

    /// Frees the memory that the wheel does not use.
    #[cold]
    pub(crate) fn free_unused(&self) {
        loop {
            let unused = self.lock().wheel.take_unused();
            if unused.is_none() {
                return;
            }
        }
    }

    /// Returns the published tick without taking the lock.
    #[inline]
    pub(crate) fn published(&self) -> Tick {
        self.published.tick.load(Ordering::Relaxed)
    }

    /// Returns whether a registration should read the time before it registers this deadline.
    ///
    /// The registration should read the time in these two cases:
    ///
    /// * The deadline may have passed, because it is before the published tick.
    /// * The entry may get a coarse slot instead of a fine slot, because the wheel may be behind the clock. But if the
    ///   deadline is [`COARSE_FROM`] ticks or more after the published tick, the slot is coarse in any case: the clock has
    ///   not passed the published tick, unless the driver is late.
    #[inline]
    pub(crate) fn needs_the_time(&self, deadline: Tick) -> bool {
        let published = self.published();
        let advanced = self.published.advanced.load(Ordering::Relaxed);
        let may_have_passed = deadline < published;
        let gets_coarse = deadline.saturating_sub(advanced) >= FINE_TO;
        let must_be_coarse = deadline >= published.saturating_add(COARSE_FROM);
        may_have_passed || gets_coarse && !must_be_coarse
    }
}

impl Held<'_> {
    /// Advances the wheel to `now`, or to its first occupied slot if that slot starts earlier. Does nothing if `now` is
    /// `None`.
    #[inline]
    pub(super) fn catch_up(&mut self, now: Option<Tick>) {
        if let Some(now) = now {
            self.wheel.catch_up(now);
            self.publish_advance();
        }
    }

    /// Raises the published tick to the tick at which the wheel next has work. Only the driver calls this function.
    pub(super) fn raise(&mut self) {
        let next = self.next_work().unwrap_or(NEVER);
        self.publish(next.max(self.state.published));
    }

    /// Publishes an earlier tick if `deadline` is before the published tick. The caller has registered or reset an
    /// entry.
    #[inline]
    pub(super) fn publish_earlier(&mut self, deadline: Tick) -> Option<Earlier> {
        if deadline >= self.state.published {
            return None;
        }
        let next = self.next_work().unwrap_or(deadline);
        self.publish(next);
        Some(Earlier(next))
    }

    /// Returns the tick at which the wheel next has work. On a paused clock it has none before a deadline.
    fn next_work(&self) -> Option<Tick> {
        match self.is_paused {
            true => self.wheel.next_deadline(),
            false => self.wheel.next_expiration(),
        }
    }

    fn publish(&mut self, tick: Tick) {
        self.state.published = tick;
        self.published.tick.store(tick, Ordering::Relaxed);
        self.publish_advance();
    }

    fn publish_advance(&self) {
        let advanced = self.wheel.now();
        self.published.advanced.store(advanced, Ordering::Relaxed);
    }
}

impl Deref for Held<'_> {
    type Target = State;

    #[inline]
    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Held<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

/// A greater alignment would put the state into another cache line than the lock.
#[cfg(not(tokio_wheel_loom))]
const _: () = assert!(align_of::<State>() == align_of::<u64>());

#[cfg(test)]
mod tests {
    use super::*;

    impl Shard {
        /// Returns the tick up to which the wheel was advanced.
        #[cfg(not(tokio_wheel_loom))]
        pub(crate) fn advanced_to(&self) -> Tick {
            self.lock().wheel.now()
        }

        /// Returns the number of entries for which the wheel has memory.
        pub(crate) fn capacity(&self) -> usize {
            self.lock().wheel.capacity()
        }
    }
}
