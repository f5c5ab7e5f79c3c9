//! The hierarchical timing wheel: a pure data structure, without a clock, a lock or a waker.
//!
//! The wheel follows scheme 7 of Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP
//! 1987; IEEE/ACM Transactions on Networking 5(6), 1997). Registering, deregistering and resetting
//! an entry are O(1). The cost of advancing depends on the number of visited slots, not on the
//! number of ticks.
//!
//! # The levels
//!
//! ```text
//!              now = tick 70: slot 6 of level 0, slot 1 of level 1, slot 0 of level 2
//!               |
//! level 0  slot 6   7   8  ...  63   0  ...  5   a slot = 1 tick       up to tick 133
//! level 1  slot 1   2   3  ...  63   0           a slot = 64 ticks     up to tick 4,159
//! level 2  slot 0   1   2  ...  62  63           a slot = 64^2 ticks   up to tick 262,143
//!   ...
//! level 10                                       a slot = 64^10 ticks
//!
//! register(deadline 75)      75 - 70 < 64:               level 0, slot 75 % 64 = 11
//! register(deadline 1,000)   1,000 / 64 - 70 / 64 < 64:  level 1, slot 1,000 / 64 = 15
//! cascade at tick 960        slot 15 of level 1 starts at 15 * 64 = 960. Its entries go to level 0
//! fire at tick 1,000         the entry is in slot 1,000 % 64 = 40 of level 0
//! ```
//!
//! With the default tick of 1/64 ms, the levels have these sizes:
//!
//! | level | a slot lasts | the level spans |
//! |------:|--------------|-----------------|
//! | 0     | 15.6 µs      | 1 ms            |
//! | 1     | 1 ms         | 64 ms           |
//! | 2     | 64 ms        | 4.1 s           |
//! | 3     | 4.1 s        | 4.4 min         |
//! | 4     | 4.4 min      | 4.7 h           |
//! | 5     | 4.7 h        | 12.4 days       |
//! | 6     | 12.4 days    | 2.2 years       |
//! | 7     | 2.2 years    | 139 years       |
//! | 8     | 139 years    | 8,900 years     |
//! | 9     | 8,900 years  | 571,000 years   |
//! | 10    | 571,000 years | the rest of the 64 bits of a tick |
//!
//! # Terms
//!
//! * A **tick** is the unit of time. [`Wheel::now`] is the tick that the wheel has reached.
//! * A **level** is an array of slots. A slot of level `k` spans `SLOTS^k` ticks.
//! * A **slot** is a list of entries. Its **start** is the first tick that it spans.
//! * The **deadline** of an entry is the tick at which the entry fires. If the wheel is not
//!   advanced at that tick, the entry fires at a later advance.
//! * To **cascade** an entry means to move it into a finer slot. The wheel does this when it
//!   reaches the start of the entry's slot.
//!
//! # The operations
//!
//! * **Register** puts an entry into a slot. Each level has a slot of `now` and a slot of the
//!   deadline. The operation chooses the finest level on which the distance between these two slots
//!   is less than `SLOTS`.
//!   * Before: there is memory for one more entry, or the caller may allocate.
//!   * After: the slot starts at the deadline or before it. The slot starts after `now`, unless the
//!     entry is due.
//! * **Cascade** moves the entries of a coarse slot into finer slots.
//!   * Before: the start of the slot is reached.
//!   * After: each entry is in the slot where a registration would put it now.
//! * **Fire** removes an entry and passes it to the caller.
//!   * Before: the wheel is advanced at least to the deadline of the entry.
//!   * After: the key of the entry is stale.
//!
//! An entry with a near deadline is therefore always in a fine slot. Such an entry never shares a
//! coarse slot with very many entries that have later deadlines. In such a shared slot, the entry
//! could fire only after all other entries have cascaded.
//!
//! In the small geometry of tests, a deadline can be beyond the top level. The entry then goes into
//! the farthest slot of the top level. When the wheel reaches that slot, it places the entry again.
//!
//! | State    | The entry is in                              | The entry leaves through                     |
//! |----------|----------------------------------------------|----------------------------------------------|
//! | waiting  | a slot that starts after `now`               | `deregister`, `reset`, `advance`             |
//! | reached  | a slot that starts at `now` or before        | `deregister`, `reset`, `advance`             |
//! | backlog  | the backlog's ring for the level of its slot | `deregister`, `reset`, `cascade_backlog`     |
//! | late     | the backlog's first ring                     | `deregister`, `reset`, `advance`, which fires it first |
//!
//! The deadline of an entry may lie after the end of its slot, because [`Wheel::reset`] only stores
//! a later deadline. The entry moves when the wheel reaches its old slot.
//!
//! `assert_invariants` checks these rules. The test `wheel_matches_oracle` calls it after every
//! operation.
//!
//! # What fires first
//!
//! [`Wheel::advance`] visits one slot after the other. The [`Order`] decides what happens to the
//! entries of each slot:
//!
//! * [`Order::Strict`] cascades or fires all entries of a slot before it reaches the next slot.
//!   Entries fire in the order of their deadlines. Entries with equal deadlines fire in the order
//!   of their registration, even if they were on different levels. To keep this order, a cascade
//!   takes the entries of a slot from the last to the first. The cascade puts each entry before the
//!   entries that are already in the finer slot, because the entries in the finer slot were
//!   registered later. A reset can move a deadline beyond the entry's slot. The order then treats
//!   the entry as if it was registered at the time of its cascade. Tests:
//!   `equal_deadlines_fire_in_the_order_of_registration` and
//!   `fires_in_order_at_the_edges_of_every_level`.
//! * [`Order::DueFirst`] fires the due entries of a fine slot, and moves all entries of a coarse
//!   slot to the *backlog* in one O(1) step. Afterwards, [`Wheel::cascade_backlog`] cascades the
//!   backlog in portions. So a due entry never waits for entries that only cascade
//!   (`a_crowd_that_cascades_keeps_nothing_waiting_that_is_due`). If an entry becomes due while it
//!   is on the backlog, it goes to the slot of `now` and fires at the next advance.
//!
//! With [`Order::DueFirst`], an advance can be interrupted before it has fired all due entries. The
//! remaining entries are *late*. They wait in the backlog's first ring, in the order of their
//! slots, and the next advance [fires them first](Wheel::fire_late). So two entries in fine slots
//! fire in the order of their deadlines, unless the deadlines differ by less than a slot of level 1
//! (`late_entries_fire_in_the_order_of_their_deadlines`). While entries are late, the owner of the
//! wheel still cascades the backlog (`a_late_crowd_does_not_stop_the_cascades`).
//!
//! # Bounded work
//!
//! `advance` and `cascade_backlog` stop when they have used up their steps, even in the middle of a
//! slot. In strict order, the remaining entries stay in their slot.
//! [`Wheel::next_expiration`] then returns the start of this slot, which `now` has already reached.

mod advance;
mod key;
mod nodes;
#[cfg(all(any(test, fuzzing), not(tokio_wheel_loom)))]
#[cfg_attr(not(test), allow(dead_code, reason = "for the fuzz target"))]
pub(crate) mod oracle;
mod rings;
#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests;
mod tick;

pub(crate) use advance::{Order, Removed};
pub(crate) use key::Key;
pub(crate) use nodes::{CHUNK, Nodes, Refill};
pub(crate) use tick::Tick;

use std::mem;

use rings::{Ring, Rings};

/// If a deadline is at least this number of ticks after `now`, its entry goes to a coarse level.
/// The slots of coarse levels go to the backlog.
///
/// With the default tick, this distance is 64 ms. The rule holds for the default geometry
/// (`what_is_coarse_for_sure`).
pub(crate) const COARSE_FROM: u64 = 64 * 64;

/// If a deadline is less than this number of ticks after `now`, its entry goes to a fine level.
///
/// With the default tick, this distance is 63 ms. The rule holds for the default geometry
/// (`what_is_coarse_for_sure`).
pub(crate) const FINE_TO: u64 = COARSE_FROM - 63;

/// A hierarchical timing wheel of `T`, with `ROWS - 1` levels of `SLOTS` slots.
///
/// The last row is the backlog. The backlog has one ring for late entries, and one ring for each
/// level above level 0. Entries are linked into these rings in the same way as into slots.
///
/// The default geometry resolves all 64 bits of a tick, so no deadline is beyond the top level.
/// Models and property tests also use wheels with 2 levels of 4 slots.
// The fields that every operation uses come first, so they lie next to the lock in front of the
// wheel. Otherwise, the slots would lie between the lock and these fields.
#[repr(C)]
pub(crate) struct Wheel<T, const ROWS: usize = 12, const SLOTS: usize = 64> {
    /// The tick that the wheel has reached.
    now: Tick,
    /// The entries, in chunks.
    pub(crate) nodes: Nodes<T>,
    /// The slots and the backlog, as lists of entries.
    rings: Rings<ROWS, SLOTS>,
}

impl<T, const ROWS: usize, const SLOTS: usize> Wheel<T, ROWS, SLOTS> {
    /// The maximum number of entries in a wheel.
    pub(crate) const MAX_ENTRIES: usize = nodes::MAX_ENTRIES;

    /// Creates an empty wheel that has reached the tick `now`.
    ///
    /// A wheel takes 6 KiB. So its owner makes a constant of it, which the compiler copies to the heap, and not a
    /// value on the stack.
    pub(crate) const fn new(now: Tick) -> Self {
        Self {
            now,
            nodes: Nodes::new(),
            rings: Rings::new(),
        }
    }

    /// Returns the tick that the wheel has reached.
    #[inline]
    pub(crate) fn now(&self) -> Tick {
        self.now
    }

    /// Returns the number of entries.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Registers an entry.
    ///
    /// An entry whose deadline is `now` or earlier is due at once. Allocates if there is no
    /// [room](Nodes::has_room).
    #[inline]
    pub(crate) fn register(&mut self, deadline: Tick, value: T) -> Key {
        while !self.nodes.has_room() {
            self.grow();
        }
        self.register_in_room(deadline, value)
    }

    /// Registers an entry. There must be [room](Nodes::has_room).
    #[inline]
    pub(crate) fn register_in_room(&mut self, deadline: Tick, value: T) -> Key {
        let slot = self.place(deadline);
        let links = self.rings.links_of_last(slot);
        let key = self.nodes.insert(value, deadline, links);
        let index = key.index();
        self.rings.push_last(&mut self.nodes, slot, index, links);
        key
    }

    /// Returns the slot where an entry with this deadline belongs at the tick `now`.
    #[inline]
    fn place(&self, deadline: Tick) -> Ring {
        Rings::<ROWS, SLOTS>::place(self.now, deadline)
    }

    /// Removes an entry and returns it, or returns `None` if the key is stale.
    #[inline]
    pub(crate) fn deregister(&mut self, key: Key) -> Option<Removed<T>> {
        self.nodes.find(key)?;
        Some(self.remove(key.index()))
    }

    /// Removes the entry at `index`, which must exist.
    #[inline]
    fn remove(&mut self, index: u32) -> Removed<T> {
        let node = self.nodes.remove(index);
        self.rings.unlink(&mut self.nodes, node.links);
        Removed {
            key: node.key(index),
            deadline: node.deadline,
            value: node.value.expect("a registered entry has a value"),
        }
    }

    /// Stores a deadline, unless it is earlier than the old deadline. Does not move the entry.
    ///
    /// Returns whether it stored the deadline, or `None` if the key is stale.
    #[inline]
    pub(crate) fn postpone(&mut self, key: Key, deadline: Tick) -> Option<bool> {
        let node = self.nodes.find_mut(key)?;
        let is_later = deadline >= node.deadline;
        if is_later {
            node.deadline = deadline;
        }
        Some(is_later)
    }

    /// Changes the deadline of an entry, and returns whether the entry exists.
    ///
    /// A later deadline is only stored. An earlier deadline moves the entry.
    #[inline]
    pub(crate) fn reset(&mut self, key: Key, deadline: Tick) -> bool {
        let Some(node) = self.nodes.find_mut(key) else {
            return false;
        };
        let later = deadline >= node.deadline;
        node.deadline = deadline;
        if !later {
            self.relink(key.index());
        }
        true
    }

    /// Moves an entry to the end of the slot where its deadline belongs.
    fn relink(&mut self, index: u32) {
        let node = self.nodes.node(index);
        let (deadline, links) = (node.deadline, node.links);
        self.rings.unlink(&mut self.nodes, links);
        let slot = self.place(deadline);
        let links = self.rings.links_of_last(slot);
        self.nodes.node_mut(index).links = links;
        self.rings.push_last(&mut self.nodes, slot, index, links);
    }

    /// Returns the key of the entry at an index. There must be an entry at this index.
    #[cfg(feature = "idle")]
    #[inline]
    pub(crate) fn key(&self, index: u32) -> Key {
        self.nodes.key(index)
    }

    /// Returns the value of an entry, or `None` if the key is stale.
    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        self.nodes.find(key)?.value.as_ref()
    }

    /// Returns a mutable reference to the value of an entry, or `None` if the key is stale.
    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.nodes.find_mut(key)?.value.as_mut()
    }

    /// Returns the deadline of an entry, or `None` if the key is stale.
    #[inline]
    pub(crate) fn deadline(&self, key: Key) -> Option<Tick> {
        Some(self.nodes.find(key)?.deadline)
    }

    /// Removes every entry and drops its value. The keys of these entries become stale.
    pub(crate) fn clear(&mut self) {
        let keys: Vec<Key> = self.nodes.keys().collect();
        for key in keys {
            drop(self.deregister(key));
        }
    }

    /// Allocates memory for one more chunk.
    #[cold]
    fn grow(&mut self) {
        let refill = Refill::allocate(self.nodes.chunks_wanted());
        drop(self.nodes.refill(refill));
    }

    /// Frees unused memory, except the memory for `keep` entries.
    #[inline]
    pub(crate) fn free_unused(&mut self, keep: usize) {
        while self.nodes.has_unused() && self.nodes.capacity() >= keep.saturating_add(CHUNK) {
            drop(self.nodes.take_unused());
        }
    }

    /// Frees all memory that holds no entry.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.nodes.close_empty();
        self.free_unused(0);
    }

    /// Removes all entries. The caller drops them.
    pub(crate) fn take(&mut self) -> Nodes<T> {
        self.rings = const { Rings::new() };
        mem::replace(&mut self.nodes, Nodes::new())
    }
}
