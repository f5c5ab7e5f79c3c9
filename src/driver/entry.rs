//! Entries: what a wheel keeps of a future, and what a dropped future keeps for the next one of the same task.
//!
//! An entry has the waker of the future's task, and the place in the program's source that made the future.
//!
//! # Spare entries
//!
//! A connection's task drops one timeout and sets the next within the same poll. So a dropped future does not
//! deregister its entry. It keeps the entry in its worker's [`Spares`], without a lock. The next registration on this
//! worker takes the entry over, if the entry has a waker of the same task: one lock, no waker cloned or dropped, and a
//! later deadline is only stored.
//!
//! # Rules
//!
//! * A spare entry counts as canceled, and wakes no task: a visit of the driver that begins after the drop knows that
//!   the entry is spare. Test: `tests/promises/p15_dropped.rs`.
//! * Only the worker adds keys. Only a thread that holds the lock of the shard removes keys. So no entry is taken
//!   over twice.
//! * A registration looks at the oldest entry only. If the entry belongs to another task, the registration
//!   deregisters it. So the entries of tasks that have ended go first.
//! * Each visit of the driver drops all spare entries of the shard first, so that none of them fires, and a spare entry causes
//!   at most one wake-up of the driver, like every canceled entry. A shard that closes, and a worker that no longer uses
//!   the shard, drop them too.
//! * A worker keeps at most [`PLACES`] entries. If there are more, it deregisters the oldest.
//!
//! Models: `driver::loom_tests::keeping_races_fire`, `keeping_keeps_the_order`, `taking_over_races_fire` and `keeping_races_close`.

#[cfg(feature = "call-sites")]
use std::panic::Location;
use std::{sync::Arc, task::Waker};

use bounded_wheel::Key;

use crate::ground::sync::{AtomicU64, AtomicUsize, Ordering, Wheel};

/// The place that called `sleep`, `timeout` or `interval`. Has no size without the feature `call-sites`.
#[derive(Clone, Copy)]
pub(crate) struct Site {
    #[cfg(feature = "call-sites")]
    pub(crate) location: &'static Location<'static>,
}

impl Site {
    #[inline]
    #[cfg_attr(feature = "call-sites", track_caller)]
    pub(crate) fn of_caller() -> Self {
        Self {
            #[cfg(feature = "call-sites")]
            location: Location::caller(),
        }
    }
}

/// The task of a future, and the future's place.
pub(crate) type Owner<'a> = (&'a Waker, Site);

/// An entry of a wheel.
pub(crate) struct Entry {
    pub(crate) waker: Waker,
    pub(crate) site: Site,
}

impl Entry {
    #[inline]
    pub(crate) fn new((waker, site): Owner<'_>) -> Self {
        let waker = waker.clone();
        Self { waker, site }
    }
}

/// The maximum number of entries that a worker keeps. Two serve a timeout within a timeout.
const PLACES: usize = 2;

/// The keys of the spare entries of one worker.
///
/// Only this worker writes to the cache lines, except when the driver drops an entry.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Spares {
    /// The words of the keys. A free place is 0.
    // The accesses may be relaxed: each reader that knows of a drop reads what the drop has written.
    places: [AtomicU64; PLACES],
    /// The place whose key is older, if both have one.
    older: AtomicUsize,
}

impl Spares {
    /// Returns the keys, the oldest first. Some of the entries may have left the wheel.
    #[inline]
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> {
        let older = self.older.load(Ordering::Relaxed) % PLACES;
        let places = [&self.places[older], &self.places[1 - older]];
        let words = places.map(|place| place.load(Ordering::Relaxed));
        words.into_iter().filter_map(Key::from_word)
    }

    /// Adds a key, if there is room. Only the worker calls this function.
    #[inline]
    pub(crate) fn add(&self, key: Key) -> bool {
        let is_free = |number: &usize| self.places[*number].load(Ordering::Relaxed) == 0;
        let free = (0..PLACES).find(is_free);
        if let Some(number) = free {
            self.places[number].store(key.word(), Ordering::Relaxed);
            self.older.store(1 - number, Ordering::Relaxed);
        }
        free.is_some()
    }

    /// Removes a key, if it is there. The caller holds the lock of the shard.
    #[inline]
    pub(crate) fn remove(&self, key: Key) {
        // The worker may add a key to a free place at this moment, so a key stays in its place.
        let is_there = |place: &&AtomicU64| place.load(Ordering::Relaxed) == key.word();
        if let Some(place) = self.places.iter().find(is_there) {
            place.store(0, Ordering::Relaxed);
        }
    }
}

/// The maximum number of threads that may keep entries in a shard. A worker moves to another thread when its task
/// calls `block_in_place`, so there may be more threads than workers. A thread that finds no room deregisters its entries.
const KEEPERS: usize = 4;

/// The spare entries of all workers of a shard. The lock of the shard protects the list.
// An array, because no thread allocates under the lock.
#[derive(Default)]
pub(crate) struct Keepers([Option<Arc<Spares>>; KEEPERS]);

impl Keepers {
    /// The maximum number of spare entries in a shard.
    pub(crate) const MAX_SPARE: usize = KEEPERS * PLACES;

    /// Adds a worker, and returns whether there was room for it.
    pub(crate) fn add(&mut self, spares: Arc<Spares>) -> bool {
        let free = self.0.iter_mut().find(|place| place.is_none());
        free.map(|place| *place = Some(spares)).is_some()
    }

    pub(crate) fn remove(&mut self, spares: &Arc<Spares>) {
        for place in &mut self.0 {
            place.take_if(|it| Arc::ptr_eq(it, spares));
        }
    }

    /// Removes the spare entries from the wheel.
    ///
    /// Puts their wakers into `unused`, which must have room for [`MAX_SPARE`](Self::MAX_SPARE) wakers. The caller drops
    /// the wakers.
    pub(crate) fn remove_spares(&self, wheel: &mut Wheel<Entry>, unused: &mut Vec<Waker>) {
        for spares in self.0.iter().flatten() {
            for key in spares.keys() {
                spares.remove(key);
                unused.extend(wheel.remove(key).map(|entry| entry.value.waker));
            }
        }
    }

    /// Returns the keys of all workers. Some of the entries may have left the wheel.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> {
        self.0.iter().flatten().flat_map(|it| it.keys())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl From<Waker> for Entry {
        fn from(waker: Waker) -> Self {
            let site = Site::of_caller();
            Self { waker, site }
        }
    }
}
