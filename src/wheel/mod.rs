//! The hierarchical timing wheel: a pure data structure, without clock, lock or waker.
//!
//! After Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (1987; journal version
//! 1997), scheme 7: registering, deregistering and resetting an entry are O(1), and time passes
//! at a cost of slots visited, not of ticks.
//!
//! # Terms
//!
//! * A **tick** is the unit of time; [`Wheel::now`] is the tick that the wheel has reached.
//! * A **level** is an array of slots. A slot of level `k` spans `SLOTS^k` ticks.
//! * A **slot** is a list of entries. Its **start** is the first tick that it spans.
//! * An entry's **deadline** is the tick at which it fires, or the first one after it at which
//!   the wheel is advanced.
//! * To **cascade** is to put the entries of a slot, whose start is reached, into finer slots.
//!
//! # Where an entry goes
//!
//! An entry goes to the finest level on which the slot of its deadline is fewer than `SLOTS` slots
//! ahead of the slot of `now`. So an entry of level 0 is in the slot of its very tick, and an entry
//! of a coarser level is in a slot that starts after `now`. A short timer is in a fine slot always:
//! it never lies in a coarse slot among very many long ones, which would have to cascade before it
//! fires. In a small geometry, a deadline beyond the top level goes into the top level's farthest
//! slot. The wheel looks at it again when that slot is reached.
//!
//! | State    | In                                           | Left through                             |
//! |----------|----------------------------------------------|------------------------------------------|
//! | waiting  | a slot that starts after `now`               | `deregister`, `reset`, `advance`         |
//! | reached  | a slot that starts at `now` or before        | `deregister`, `reset`, `advance`         |
//! | backlog  | the backlog's ring for the level of its slot | `deregister`, `reset`, `cascade_backlog` |
//! | late     | the backlog's first ring                     | `deregister`, `reset`, `fire_late`       |
//!
//! A slot never starts after the deadline of an entry in it, unless the entry is due. The deadline may be later than the
//! slot: [`Wheel::reset`] to a later deadline only stores the deadline, and the entry moves to
//! where it belongs when its old slot is reached. `assert_invariants` states these rules in code.
//! `wheel_matches_oracle` checks them after every operation.
//!
//! # What fires first
//!
//! [`Wheel::advance`] reaches one slot after the other. The [`Order`] says what it does there:
//!
//! * [`Order::Strict`]: all entries of a slot cascade or fire before the next slot is reached.
//!   Entries fire in the order of their deadlines. Entries of one deadline fire in the order in
//!   which they were registered, whatever their levels were: a cascade goes from the last entry of
//!   a slot to the first and puts each before those that were in the finer slot, as these were
//!   registered later. One whose deadline was reset beyond its slot counts from its cascade. Tests:
//!   `equal_deadlines_fire_in_the_order_of_registration` and
//!   `fires_in_order_at_the_edges_of_every_level`.
//! * [`Order::DueFirst`]: a slot of a coarse level goes to the *backlog* as a whole, in
//!   O(1), and the fine slots after it fire at once. [`Wheel::cascade_backlog`] cascades it
//!   afterwards, in portions. So what is due never waits for what only cascades
//!   (`a_crowd_that_cascades_keeps_nothing_waiting_that_is_due`). What is due by then goes to the slot
//!   of `now`, and fires with the next advance. What an advance has left that was interrupted is
//!   *late*, and goes to the backlog too. [`Wheel::fire_late`] fires it, after later entries perhaps. So
//!   a crowd that is due does not delay what comes after it in a fine slot
//!   (`a_crowd_that_is_due_keeps_nothing_waiting_that_comes_later`) or in a coarse one
//!   (`a_late_crowd_keeps_nothing_waiting_that_has_to_cascade`).
//!
//! # Bounded work
//!
//! Each of these three stops when its steps are spent, in the middle of a slot if need be. In strict
//! order the rest of the slot stays where it is. Its start is now in the past, so it is the next
//! expiration.

mod advance;
mod nodes;
#[cfg(all(any(test, fuzzing), not(tokio_wheel_loom)))]
#[cfg_attr(not(test), allow(dead_code, reason = "for the fuzz target"))]
pub(crate) mod oracle;
mod rings;
#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests;
mod tick;

pub(crate) use advance::{Advance, Expired, Order};
pub(crate) use nodes::{CHUNK, Key, Refill};
pub(crate) use rings::Place;
pub(crate) use tick::Tick;

use nodes::Nodes;
use rings::Rings;

/// What [`Wheel::postpone`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Postponed {
    /// It stored the deadline.
    Stored,
    /// It did nothing, as the deadline is earlier than the entry's.
    Not,
}

/// Ticks ahead of `now` from where on every deadline has a place on a coarse level, whose slots go to the backlog. For the
/// default geometry, as [`FINE_TO`] is (`what_is_coarse_for_sure`).
pub(crate) const COARSE_FROM: u64 = 64 * 64;

/// Ticks ahead of `now` before which no deadline has a place on a coarse level.
pub(crate) const FINE_TO: u64 = COARSE_FROM - 63;

/// A hierarchical timing wheel of `T`, with `ROWS - 1` levels of `SLOTS` slots.
///
/// The last row is the backlog: a ring for what is late, and a ring for each coarser level. To the links of
/// an entry, these are slots like any other.
///
/// The default geometry resolves all 64 bits of a tick, so no deadline is beyond its top level.
/// Models and property tests run on 2 levels of 4 slots as well.
// In this order, so that what every operation touches lies together, with the lock before it,
// and not on either side of the slots.
#[repr(C)]
pub(crate) struct Wheel<T, const ROWS: usize = 12, const SLOTS: usize = 64> {
    now: Tick,
    nodes: Nodes<T>,
    rings: Rings<ROWS, SLOTS>,
}

impl<T, const ROWS: usize, const SLOTS: usize> Wheel<T, ROWS, SLOTS> {
    /// The most entries that a wheel can hold.
    pub(crate) const MAX_ENTRIES: usize = nodes::MAX_ENTRIES;

    pub(crate) fn new(now: Tick) -> Self {
        Self {
            now,
            nodes: Nodes::new(),
            rings: Rings::new(),
        }
    }

    /// The tick up to which the wheel has been advanced.
    #[inline]
    pub(crate) fn now(&self) -> Tick {
        self.now
    }

    /// The number of entries.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether there is room for the next registration.
    #[inline]
    pub(crate) fn has_room(&mut self) -> bool {
        self.nodes.has_room()
    }

    /// Returns for how many chunks the next [`Refill`] must bring lists.
    pub(crate) fn chunks_wanted(&self) -> usize {
        self.nodes.chunks_wanted()
    }

    /// Takes a refill in, and returns what the owner must drop.
    pub(crate) fn refill(&mut self, refill: Refill<T>) -> impl Sized + use<T, ROWS, SLOTS> {
        self.nodes.refill(refill)
    }

    /// Returns whether there is memory that is not in use.
    #[inline]
    pub(crate) fn has_unused(&self) -> bool {
        self.nodes.has_unused()
    }

    /// Returns memory that is not in use, for the owner to drop.
    pub(crate) fn take_unused(&mut self) -> Option<impl Sized + use<T, ROWS, SLOTS>> {
        self.nodes.take_unused()
    }

    /// Registers an entry. One whose deadline is not after `now` is due at once. Allocates if there is no
    /// [room](Self::has_room).
    #[inline]
    pub(crate) fn register(&mut self, deadline: Tick, value: T) -> Key {
        while !self.has_room() {
            self.grow();
        }
        self.register_at(self.place(deadline), deadline, value)
    }

    /// Returns where an entry of a deadline belongs, as seen from `now`.
    #[inline]
    pub(crate) fn place(&self, deadline: Tick) -> Place {
        Rings::<ROWS, SLOTS>::place(self.now, deadline)
    }

    /// Registers an entry at the [place](Self::place) of its deadline. There must be [room](Self::has_room).
    #[inline]
    pub(crate) fn register_at(&mut self, place: Place, deadline: Tick, value: T) -> Key {
        let links = self.rings.links_of_last(place);
        let key = self.nodes.insert(value, deadline, links);
        let index = key.index();
        self.rings.push_last(&mut self.nodes, place, index, links);
        key
    }

    /// Takes an entry out, if it is still there.
    #[inline]
    pub(crate) fn deregister(&mut self, key: Key) -> Option<Expired<T>> {
        self.nodes.find(key)?;
        Some(self.remove(key.index()))
    }

    /// Takes out the entry at `index`, which must be there.
    #[inline]
    fn remove(&mut self, index: u32) -> Expired<T> {
        let node = self.nodes.remove(index);
        self.rings.unlink(&mut self.nodes, node.links);
        Expired {
            key: node.key(index),
            deadline: node.deadline,
            value: node.value.expect("a registered entry has a value"),
        }
    }

    /// Gives an entry another deadline, if it is still there and the deadline is not earlier: that
    /// is only stored.
    #[inline]
    pub(crate) fn postpone(&mut self, key: Key, deadline: Tick) -> Option<Postponed> {
        let node = self.nodes.find_mut(key)?;
        if deadline < node.deadline {
            return Some(Postponed::Not);
        }
        node.deadline = deadline;
        Some(Postponed::Stored)
    }

    /// Gives an entry another deadline, and says whether it is still there. An earlier deadline moves
    /// the entry.
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

    /// Moves an entry to where its deadline belongs, as the last of that slot.
    fn relink(&mut self, index: u32) {
        let node = self.nodes.node(index);
        let (deadline, links) = (node.deadline, node.links);
        self.rings.unlink(&mut self.nodes, links);
        let place = self.place(deadline);
        let links = self.rings.links_of_last(place);
        self.nodes.node_mut(index).links = links;
        self.rings.push_last(&mut self.nodes, place, index, links);
    }

    /// The key of the entry at an index, where the caller knows that there is one: an index alone
    /// cannot tell.
    #[cfg(feature = "idle")]
    #[inline]
    pub(crate) fn key(&self, index: u32) -> Key {
        self.nodes.key(index)
    }

    /// The value of an entry, if it is still there.
    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        self.nodes.find(key)?.value.as_ref()
    }

    /// The value of an entry, if it is still there.
    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.nodes.find_mut(key)?.value.as_mut()
    }

    /// The deadline of an entry, if it is still there.
    #[inline]
    pub(crate) fn deadline(&self, key: Key) -> Option<Tick> {
        Some(self.nodes.find(key)?.deadline)
    }

    /// Takes every entry out and drops its value. Their keys stay stale.
    pub(crate) fn clear(&mut self) {
        let keys: Vec<Key> = self.nodes.keys().collect();
        for key in keys {
            drop(self.deregister(key));
        }
    }

    /// Returns the number of entries for which there is memory.
    pub(crate) fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    #[cold]
    fn grow(&mut self) {
        drop(self.refill(Refill::allocate(self.chunks_wanted())));
    }

    /// Frees memory that is not in use, except what `keep` entries need.
    #[inline]
    pub(crate) fn free_unused(&mut self, keep: usize) {
        while self.has_unused() && self.capacity() >= keep.saturating_add(CHUNK) {
            drop(self.take_unused());
        }
    }

    /// Frees all memory in which there is no entry.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.nodes.close_empty();
        self.free_unused(0);
    }

    /// Turns the wheel into the values of its entries, in no order.
    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        self.nodes.into_values()
    }
}
