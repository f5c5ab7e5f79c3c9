//! A wheel behind a lock.
//!
//! Shards of timers and shards of idle sets are such wheels. No memory is allocated or freed under the lock, as both can
//! take long (see `wheel::nodes`). Test: `timer::tests::a_shard_frees_the_memory_of_a_peak`; model:
//! `driver::loom_tests::refill_races_free`.

use crate::{
    ground::sync::{Mutex, MutexGuard},
    wheel::{Refill, Tick},
};

#[cfg(not(tokio_wheel_loom))]
pub(crate) type Wheel<T> = crate::wheel::Wheel<T>;
#[cfg(tokio_wheel_loom)]
pub(crate) type Wheel<T> = crate::wheel::Wheel<T, 3, 4>;

/// A wheel under a lock, extra whatever else the lock protects.
pub(crate) struct LockedWheel<T, X>(Mutex<State<T, X>>);

// In this order, so that what every operation touches lies together with the lock before it.
#[repr(C)]
pub(crate) struct State<T, X> {
    /// Set once: nothing is registered any more.
    pub(crate) closed: bool,
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
        Self(Mutex::new(State {
            closed: false,
            extra,
            wheel: Wheel::new(now),
        }))
    }

    #[inline]
    #[cfg_attr(tokio_wheel_lock_times, track_caller)]
    pub(crate) fn lock(&self) -> MutexGuard<'_, State<T, X>> {
        self.0.lock()
    }

    /// Locks, unless another thread holds the lock.
    #[cfg(feature = "idle")]
    #[inline]
    #[cfg_attr(tokio_wheel_lock_times, track_caller)]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, State<T, X>>> {
        self.0.try_lock()
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

    /// Returns the tick at which the wheel next has something to do.
    pub(crate) fn next_expiration(&self) -> Option<Tick> {
        self.lock().wheel.next_expiration()
    }
}
