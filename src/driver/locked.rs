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
//!   may be too early: a cancellation leaves it as it is. The next visit corrects it.
//! * The published tick has cache lines of its own. A driver that reads it does not take the lines of the lock from the
//!   worker that uses them.
//!
//! Test: `timer::tests::the_driver_visits_only_shards_that_have_something_due`. How a registration and the driver agree on
//! the published tick: [`arming`](super::arming).

use crate::{
    ground::sync::{AtomicU64, Mutex, MutexGuard, Ordering},
    wheel::{Refill, Tick},
};

#[cfg(not(tokio_wheel_loom))]
pub(crate) type Wheel<T> = crate::wheel::Wheel<T>;
#[cfg(tokio_wheel_loom)]
pub(crate) type Wheel<T> = crate::wheel::Wheel<T, 3, 4>;

/// A wheel under a lock, with whatever else the lock protects.
pub(crate) struct LockedWheel<T, X> {
    state: Mutex<State<T, X>>,
    next: Published,
}

/// The tick up to which a visit would find nothing to do.
#[repr(align(128))]
struct Published(AtomicU64);

// In this order, so that what every operation touches lies together with the lock before it.
#[repr(C)]
pub(crate) struct State<T, X> {
    /// Set once: nothing is registered any more.
    pub(crate) closed: bool,
    /// What is published.
    next: Tick,
    pub(crate) extra: X,
    pub(crate) wheel: Wheel<T>,
}

impl<T, X> State<T, X> {
    /// Returns the tick that is published.
    #[inline]
    pub(crate) fn next(&self) -> Tick {
        self.next
    }

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
            next: Published(AtomicU64::new(Tick::NEVER.0)),
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
        Tick(self.next.0.load(Ordering::Relaxed))
    }

    /// Publishes the tick at which the wheel next has something to do. `state` is under the lock of this wheel.
    pub(crate) fn publish(&self, state: &mut State<T, X>) {
        state.next = state.wheel.next_expiration().unwrap_or(Tick::NEVER);
        self.next.0.store(state.next.0, Ordering::Relaxed);
    }

    /// Publishes as [`publish`](Self::publish) does if an entry, which was registered or reset under this hold of the lock,
    /// has an earlier deadline than what is published. Returns what it publishes. Once the lock is released, the caller
    /// lowers the armed tick [to that](crate::driver::arming::Arming::lower_to).
    #[inline]
    pub(crate) fn publish_earlier(&self, state: &mut State<T, X>, deadline: Tick) -> Option<Tick> {
        if deadline >= state.next {
            return None;
        }
        self.publish(state);
        Some(state.next)
    }
}
