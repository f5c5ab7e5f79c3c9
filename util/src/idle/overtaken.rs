//! The entries that a shed has overtaken. Their wheels cannot fire these entries in time.
//!
//! [`Reaper::shed`](super::Reaper::shed) advances wheels beyond the clock. So a wheel may already
//! have passed the tick of a new entry. The wheel stores such an entry in its current slot, which
//! fires too late. So the set also keeps the entry's tick, shard and key in a B-tree. When a
//! [sweep](super::sweep) reaches the tick, it removes the line from the B-tree and looks at the
//! entry.
//!
//! # Invariants
//!
//! * Each entry whose tick is before the `now` of its wheel has a line. A thread registers or
//!   resets the entry, and releases the lock of the shard. Then it adds the line, and then it lowers
//!   the armed tick. Model: `insertion_behind_a_shed_races_wait`.
//! * A line names its entry by the entry's key, which never names another entry. So a line whose
//!   entry has left the wheel has no effect, and a sweep discards it.
//! * If an entry has a line, a touch adds a second line only if the second line has an earlier tick
//!   (`touches_add_no_line_while_one_is_there`).
//!
//! The B-tree has its own lock. A thread that holds this lock takes no other lock and runs no user
//! code. A thread that reads only the earliest tick takes no lock. Each operation allocates or
//! frees at most a few nodes of the B-tree.

use std::collections::BTreeSet;

use bounded_wheel::{Key as EntryKey, NEVER, Tick};

use crate::ground::sync::{AtomicU64, Mutex, Ordering, lock};

/// The lines of all overtaken entries.
///
/// `Overtaken` has its own cache lines. Otherwise its changes would slow down touches, which read
/// the clock next to it.
#[repr(align(128))]
pub(super) struct Overtaken {
    /// The tick of the first line. A thread writes this tick only while it holds the lock.
    next: AtomicU64,
    /// The tick of each entry, the number of its shard, and its key.
    lines: Mutex<BTreeSet<(Tick, usize, EntryKey)>>,
}

impl Overtaken {
    pub(super) fn new() -> Self {
        Self {
            next: AtomicU64::new(NEVER),
            lines: Mutex::new(BTreeSet::new()),
        }
    }

    /// Returns the tick of the first line, without the lock.
    pub(super) fn next(&self) -> Tick {
        self.next.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, tick: Tick, shard: usize, entry: EntryKey) {
        let mut lines = lock(&self.lines);
        lines.insert((tick, shard, entry));
        self.publish(&lines);
    }

    /// Removes the first line if its tick is `until` or earlier. Returns the shard and the entry.
    pub(super) fn take(&self, until: Tick) -> Option<(usize, EntryKey)> {
        if self.next() > until {
            return None;
        }
        let mut lines = lock(&self.lines);
        let line = lines.pop_first();
        self.publish(&lines);
        line.map(|(_, shard, entry)| (shard, entry))
    }

    fn publish(&self, lines: &BTreeSet<(Tick, usize, EntryKey)>) {
        let next = lines.first().map_or(NEVER, |(tick, ..)| *tick);
        self.next.store(next, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(tokio_wheel_util_loom)))]
mod tests {
    use super::*;

    impl Overtaken {
        pub(in super::super) fn has(&self, tick: Tick, entry: EntryKey) -> bool {
            let lines = lock(&self.lines);
            lines.iter().any(|line| (line.0, line.2) == (tick, entry))
        }

        pub(in super::super) fn len(&self) -> usize {
            lock(&self.lines).len()
        }
    }
}
