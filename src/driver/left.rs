//! The entries that dropped futures have left with their worker, for the next futures of the same task.
//!
//! A connection's task drops one timeout and sets the next within the same poll. So a dropped future does not
//! deregister its entry. It leaves the entry in its worker's [`Left`], without a lock. The next registration on
//! this worker takes the entry over, if the entry has a waker of the same task: one lock, no waker cloned or
//! dropped, and a later deadline is only stored.
//!
//! # Rules
//!
//! * To everyone who can look, a left entry is canceled. It wakes no task, and the counters count it as
//!   canceled. Test: `tests/promises/p15_dropped.rs`.
//! * Only the worker adds keys. Only a thread that holds the lock of the shard takes a key out or replaces it. So
//!   an entry is never taken over twice, and never fires as the entry of a future that was dropped.
//! * A visit of the driver drops the left entries that have expired. A shard that closes drops all of them. A
//!   worker that no longer uses the shard drops its own.
//! * A worker keeps at most [`PLACES`] entries. If there are more, it deregisters the oldest.
//! * A worker's wheel fires in the order of slots, not strictly in the order of registrations. So an entry that
//!   was taken over may stay in its old slot.
//!
//! Models: `loom_tests::leaving_races_fire`, `taking_over_races_fire` and `leaving_races_close`.

use crate::{
    ground::sync::{AtomicU64, Ordering},
    wheel::Key,
};

/// The maximum number of entries that a worker keeps. Two serve a timeout within a timeout.
const PLACES: usize = 2;

/// The keys of the entries that futures have left with one worker.
///
/// Only this worker writes to the cache lines, except when the driver drops an entry.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Left {
    /// The words of the keys. A free place is 0.
    // The accesses may be relaxed: each reader that knows of a drop reads what the drop has written.
    places: [AtomicU64; PLACES],
}

impl Left {
    /// The maximum number of entries that a worker keeps.
    pub(crate) const PLACES: usize = PLACES;

    /// Returns the keys. Some of the entries may have left the wheel.
    #[inline]
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> {
        (self.places.iter()).filter_map(|place| Key::from_word(place.load(Ordering::Relaxed)))
    }

    /// Adds a key, if there is room. Only the worker calls this function.
    #[inline]
    pub(crate) fn add(&self, key: Key) -> bool {
        self.replace(0, key.word())
    }

    /// Takes a key out. The caller holds the lock of the shard.
    #[inline]
    pub(crate) fn remove(&self, key: Key) {
        self.replace(key.word(), 0);
    }

    #[inline]
    fn replace(&self, from: u64, to: u64) -> bool {
        let mut places = self.places.iter();
        let place = places.find(|place| place.load(Ordering::Relaxed) == from);
        place
            .inspect(|place| place.store(to, Ordering::Relaxed))
            .is_some()
    }
}
