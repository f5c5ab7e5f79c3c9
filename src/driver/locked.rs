//! A wheel behind a lock, which publishes when it next has something to do.
//!
//! Shards of timers and shards of idle sets are such wheels.
//!
//! # Rules
//!
//! * No memory is allocated or freed under the lock, as both can take long (see `wheel::nodes`). Test:
//!   `timer::tests::a_shard_frees_the_memory_of_a_peak`; model: `driver::loom_tests::refill_races_free`.
//! * The [published](LockedWheel::next_expiration) tick is written under the lock and read without it. Whenever the lock
//!   is free, no entry has an earlier deadline. So a driver that reads a later tick need not visit the wheel. The tick
//!   may be too early: a cancellation leaves it as it is. The driver corrects it later.
//! * Only a registration or a reset publishes an earlier tick than before, and then lowers the armed tick. All others
//!   leave the published tick or raise it, even where a coarse slot starts earlier: no deadline in that slot is earlier
//!   (`timer::tests::a_visit_before_its_time_leaves_the_published_tick`).
//! * The published ticks have cache lines of their own. A driver that reads them does not take the lines of the lock from
//!   a worker.
//! * The tick up to which the wheel was advanced is published as well. Only [`is_near`](LockedWheel::is_near) reads it.
//!
//! Test: `timer::tests::the_driver_visits_only_shards_that_have_something_due`. How a registration and the driver agree on
//! the published tick: [`arming`](super::arming).

use crate::{
    ground::sync::{AtomicU64, Mutex, MutexGuard, Ordering},
    wheel::{COARSE_FROM, FINE_TO, Refill, Tick},
};

#[cfg(not(tokio_wheel_loom))]
pub(crate) type Wheel<T> = crate::wheel::Wheel<T>;
#[cfg(tokio_wheel_loom)]
pub(crate) type Wheel<T> = crate::wheel::Wheel<T, 3, 4>;

/// A wheel under a lock, with whatever else the lock protects.
pub(crate) struct LockedWheel<T, X> {
    state: Mutex<State<T, X>>,
    published: Published,
}

#[repr(align(128))]
struct Published {
    /// The tick that no deadline is before.
    next: AtomicU64,
    /// The tick up to which the wheel was advanced.
    now: AtomicU64,
}

// In this order, so that what every operation touches lies together with the lock before it.
#[repr(C)]
pub(crate) struct State<T, X> {
    /// Set once: nothing is registered any more.
    pub(crate) closed: bool,
    /// The published tick. A registration reads this copy under the lock, and no other cache lines.
    next: Tick,
    pub(crate) extra: X,
    pub(crate) wheel: Wheel<T>,
}

impl<T, X> State<T, X> {
    /// Refuses registrations from now on, and returns the wheel with its entries.
    pub(crate) fn close(&mut self) -> Wheel<T> {
        self.closed = true;
        std::mem::replace(&mut self.wheel, Wheel::new(Tick(0)))
    }
}

impl<T, X> LockedWheel<T, X> {
    pub(crate) fn new(now: Tick, extra: X) -> Self {
        Self {
            state: Mutex::new(State {
                closed: false,
                next: Tick::NEVER,
                extra,
                wheel: Wheel::new(now),
            }),
            published: Published {
                next: AtomicU64::new(Tick::NEVER.0),
                now: AtomicU64::new(now.0),
            },
        }
    }

    #[inline]
    #[cfg_attr(tokio_wheel_lock_times, track_caller)]
    pub(crate) fn lock(&self) -> MutexGuard<'_, State<T, X>> {
        self.state.lock()
    }

    /// Locks, unless another thread holds the lock.
    #[cfg(feature = "idle")]
    #[inline]
    #[cfg_attr(tokio_wheel_lock_times, track_caller)]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, State<T, X>>> {
        self.state.try_lock()
    }

    /// Locks with `lock`, until the wheel has room for an entry or is closed.
    #[inline]
    #[cfg_attr(tokio_wheel_lock_times, track_caller)]
    pub(crate) fn lock_with_room<'a>(
        &'a self,
        lock: impl Fn() -> MutexGuard<'a, State<T, X>>,
    ) -> MutexGuard<'a, State<T, X>> {
        loop {
            let mut state = lock();
            if state.wheel.has_room() || state.closed {
                return state;
            }
            let chunks = state.wheel.chunks_wanted();
            drop(state);
            self.refill(Refill::allocate(chunks));
        }
    }

    #[cold]
    fn refill(&self, refill: Refill<T>) {
        let mut state = self.lock();
        if !state.closed {
            let replaced = state.wheel.refill(refill);
            // Opens a chunk, so that no other thread takes its memory for unused.
            state.wheel.has_room();
            drop(state);
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

    /// Returns the published tick, without a lock.
    #[inline]
    pub(crate) fn next_expiration(&self) -> Tick {
        Tick(self.published.next.load(Ordering::Relaxed))
    }

    /// Returns whether a registration should learn the time before it registers this deadline, because one of these may be
    /// true:
    ///
    /// * The deadline has been reached: it is before the published tick.
    /// * The wheel is so far behind the clock that the entry would go to a coarse slot and belongs in a fine one. Unless the
    ///   driver is late, the clock has not passed the published tick. A place [`COARSE_FROM`] ticks after that is coarse
    ///   whether or not the wheel is behind.
    #[inline]
    pub(crate) fn is_near(&self, deadline: Tick) -> bool {
        let next = self.next_expiration();
        let now = self.published.now.load(Ordering::Relaxed);
        let is_fine = deadline.0.saturating_sub(now) < FINE_TO;
        let near = if is_fine {
            next.0
        } else {
            next.0.saturating_add(COARSE_FROM)
        };
        deadline.0 < near
    }

    /// Brings the wheel up to `now`, as far as it can. `state` is under the lock of this wheel.
    pub(crate) fn catch_up(&self, state: &mut State<T, X>, now: Tick) {
        state.wheel.catch_up(now);
        self.publish_now(state);
    }

    /// For the driver: raises the published tick to the one at which the wheel next has something to do. `state` is under
    /// the lock of this wheel.
    pub(crate) fn raise(&self, state: &mut State<T, X>) {
        let next = state.wheel.next_expiration().unwrap_or(Tick::NEVER);
        self.publish(state, next.max(state.next));
    }

    /// Publishes for a wheel that has got entries from `other` alone, for which that has published its tick.
    #[cfg(feature = "idle")]
    pub(crate) fn publish_part_of(&self, state: &mut State<T, X>, other: &State<T, X>) {
        state.next = other.next;
        self.raise(state);
    }

    fn publish(&self, state: &mut State<T, X>, next: Tick) {
        state.next = next;
        self.published.next.store(next.0, Ordering::Relaxed);
        self.publish_now(state);
    }

    fn publish_now(&self, state: &State<T, X>) {
        let now = state.wheel.now();
        self.published.now.store(now.0, Ordering::Relaxed);
    }

    /// Publishes when the wheel next has something to do, if an entry was registered or reset under this hold of the lock
    /// whose `deadline` is before the published tick. Returns what it publishes. Once the lock is released, the caller
    /// lowers the armed tick [to that](crate::driver::arming::Arming::lower_to).
    #[inline]
    pub(crate) fn publish_earlier(&self, state: &mut State<T, X>, deadline: Tick) -> Option<Tick> {
        if deadline >= state.next {
            return None;
        }
        let next = state.wheel.next_expiration().unwrap_or(deadline);
        self.publish(state, next);
        Some(next)
    }
}
