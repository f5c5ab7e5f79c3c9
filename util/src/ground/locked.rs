//! A wheel behind a lock. The wheel publishes the tick at which it next has work.
//!
//! # Rules
//!
//! * No thread allocates or frees memory under the lock, because allocating and freeing can take long.
//! * Threads write the [published](LockedWheel::published) tick only under the lock. They read this tick without the
//!   lock. Whenever the lock is free, no entry has a deadline before the published tick. So a reaper does not need to
//!   visit a wheel before the published tick of the wheel is reached.
//! * The published tick may be too early, because a removal does not change it. The reaper raises it later.
//! * Only a new entry or a reset lowers the published tick. The thread then also lowers the armed tick. All other
//!   operations keep the published tick or raise it. A coarse slot may start before the published tick. These operations
//!   still keep the tick, because no deadline in the slot is before it.
//! * The published tick has cache lines of its own. So a reaper that reads the published ticks does not take the cache
//!   line of the lock from a worker.
//!
//! [`arming`](super::arming) describes how a touch and the reaper use the published tick.

use bounded_wheel::{NEVER, Nodes, Refill, Tick};

use super::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};

#[cfg(not(tokio_wheel_util_loom))]
pub(crate) type Wheel<T> = bounded_wheel::Wheel<T>;
#[cfg(tokio_wheel_util_loom)]
pub(crate) type Wheel<T> = bounded_wheel::Wheel<T, 3, 4>;

/// A wheel and other state of type `X`, under one lock.
pub(crate) struct LockedWheel<T, X> {
    state: Mutex<State<T, X>>,
    published: Published,
}

/// The tick that threads read without the lock. Only a thread that holds the lock writes it. No entry has an earlier
/// deadline.
#[repr(align(128))]
struct Published(AtomicU64);

/// The state that the lock protects.
///
/// The first fields are the fields that every operation uses. So these fields share a cache line with the lock.
#[repr(C)]
pub(crate) struct State<T, X> {
    /// Whether the wheel is closed. A closed wheel refuses entries, and stays closed.
    pub(crate) closed: bool,
    /// A copy of the published tick. A touch that reads this copy needs only the cache line of the lock.
    published: Tick,
    pub(crate) attached: X,
    pub(crate) wheel: Wheel<T>,
}

impl<T, X> State<T, X> {
    /// Closes the wheel, so that it refuses entries. Returns its entries.
    pub(crate) fn close(&mut self) -> Nodes<T> {
        self.closed = true;
        self.wheel.take()
    }
}

impl<T, X> LockedWheel<T, X> {
    /// Creates a wheel that begins at the tick `now`.
    pub(crate) fn new(attached: X, now: Tick) -> Self {
        Self {
            state: Mutex::new(State {
                closed: false,
                published: NEVER,
                attached,
                wheel: Wheel::new(now),
            }),
            published: Published(AtomicU64::new(NEVER)),
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, State<T, X>> {
        lock(&self.state)
    }

    /// Takes the lock. When the function returns, the wheel has room for an entry, or is closed.
    ///
    /// If the wheel is full, the function releases the lock, allocates memory, and takes the lock again.
    pub(crate) fn lock_with_room(&self) -> MutexGuard<'_, State<T, X>> {
        loop {
            let mut state = self.lock();
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
            // This call opens a chunk in the new memory. Otherwise another thread could find the memory unused, and free
            // it.
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

    /// Returns the published tick without taking the lock.
    #[inline]
    pub(crate) fn published(&self) -> Tick {
        self.published.0.load(Ordering::Relaxed)
    }

    /// Raises the published tick to the tick at which the wheel next has work.
    ///
    /// Only the reaper calls this function. The caller holds the lock of this wheel in `state`.
    pub(crate) fn raise(&self, state: &mut State<T, X>) {
        let next = state.wheel.next_expiration().unwrap_or(NEVER);
        self.publish(state, next.max(state.published));
    }

    fn publish(&self, state: &mut State<T, X>, tick: Tick) {
        state.published = tick;
        self.published.0.store(tick, Ordering::Relaxed);
    }

    /// Publishes an earlier tick if `deadline` is before the published tick. Returns the new tick.
    ///
    /// The caller holds the lock, and has inserted or reset an entry. After this call, the caller must release the lock.
    /// Then it must [lower the armed tick](super::arming::Arming::lower_to) to the returned tick.
    #[inline]
    pub(crate) fn publish_earlier(&self, state: &mut State<T, X>, deadline: Tick) -> Option<Tick> {
        if deadline >= state.published {
            return None;
        }
        let next = state.wheel.next_expiration().unwrap_or(deadline);
        self.publish(state, next);
        Some(next)
    }
}
