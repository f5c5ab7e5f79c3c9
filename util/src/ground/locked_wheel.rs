//! A wheel behind a lock.
//!
//! # Rules
//!
//! * No user code runs under the lock, except the comparison of keys in an idle set.
//! * No thread allocates or frees memory of the wheel under the lock, because allocating and freeing can take long.
//! * A closed wheel is empty and refuses entries, because no thread gets its lock (`schedule` and `idle` have the models).

use std::mem;

use bounded_wheel::{Nodes, Refill, Tick};

use super::sync::{Mutex, MutexGuard, lock};

#[cfg(not(tokio_wheel_util_loom))]
pub(crate) type Wheel<T> = bounded_wheel::Wheel<T>;
#[cfg(tokio_wheel_util_loom)]
pub(crate) type Wheel<T> = bounded_wheel::Wheel<T, 3, 4>;

/// A wheel of `T`, and the data of a service that the same lock protects.
pub(crate) struct LockedWheel<T, D = ()>(Mutex<State<T, D>>);

/// The lock's guard. Only an open wheel has one.
pub(crate) type Guard<'a, T, D = ()> = MutexGuard<'a, State<T, D>>;

/// The state that the lock protects.
///
/// The first fields are the fields that every operation uses. So these fields share a cache line with the lock.
#[repr(C)]
pub(crate) struct State<T, D> {
    is_closed: bool,
    pub(crate) data: D,
    pub(crate) wheel: Wheel<T>,
}

impl<T, D> LockedWheel<T, D> {
    /// Creates a wheel that begins at the tick `now`.
    pub(crate) fn new(now: Tick, data: D) -> Self {
        Self(Mutex::new(State {
            is_closed: false,
            data,
            wheel: Wheel::new(now),
        }))
    }

    /// Takes the lock. Returns `None` if the wheel is closed.
    #[inline]
    pub(crate) fn lock(&self) -> Option<Guard<'_, T, D>> {
        let state = lock(&self.0);
        (!state.is_closed).then_some(state)
    }

    /// Takes the lock as [`lock`](Self::lock) does. The wheel then has memory for one more entry.
    #[inline]
    pub(crate) fn lock_with_room(&self) -> Option<Guard<'_, T, D>> {
        loop {
            let mut state = self.lock()?;
            if state.wheel.has_room() {
                return Some(state);
            }
            let chunks = state.wheel.chunks_wanted();
            drop(state);
            self.refill(Refill::allocate(chunks));
        }
    }

    #[cold]
    fn refill(&self, refill: Refill<T>) {
        if let Some(mut state) = self.lock() {
            let replaced = state.wheel.refill(refill);
            drop(state);
            drop(replaced);
        }
    }

    /// Releases the lock, and then frees memory that the entries no longer need.
    #[inline]
    pub(crate) fn unlock_and_free(&self, state: Guard<'_, T, D>) {
        let has_unused = state.wheel.has_unused();
        drop(state);
        if has_unused {
            self.free_unused();
        }
    }

    #[cold]
    fn free_unused(&self) {
        while let Some(unused) = self.lock().and_then(|mut state| state.wheel.take_unused()) {
            drop(unused);
        }
    }

    /// Closes the wheel, and replaces its data. Returns the old data and the entries, which the caller drops.
    pub(crate) fn close(&self, data: D) -> (D, Nodes<T>) {
        let mut state = lock(&self.0);
        state.is_closed = true;
        (mem::replace(&mut state.data, data), state.wheel.take())
    }
}

#[cfg(all(test, not(tokio_wheel_util_loom)))]
mod tests {
    use super::*;

    impl<T, D> LockedWheel<T, D> {
        pub(crate) fn lock_even_if_closed(&self) -> Guard<'_, T, D> {
            lock(&self.0)
        }
    }
}
