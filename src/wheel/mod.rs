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
//! The highest digit, in base `SLOTS`, in which its deadline differs from `now` says its level,
//! and that digit its slot. So an entry of level 0 is in the slot of its very tick, a slot below
//! the top never holds entries of two turns, and every slot of a level starts before every slot
//! of the next. In a small geometry, a deadline beyond the top level goes into the top level's
//! farthest slot, and from there on when that is reached.
//!
//! | State    | In a slot whose start is         | Left through                            |
//! |----------|----------------------------------|-----------------------------------------|
//! | waiting  | after `now`, not after deadline  | `deregister`, `reset`, cascade          |
//! | due      | at `now` or before               | `deregister`, `reset`, fire, cascade    |
//!
//! A slot is never after the deadline of an entry in it, and that is all that must hold: it may
//! be earlier. [`Wheel::reset`] to a later deadline uses this, it only stores the deadline, and
//! the entry is put where it belongs when its slot comes due. The same holds for the deadlines
//! beyond the top level. `assert_invariants` states this in code, and `wheel_matches_oracle`
//! checks it after every operation.
//!
//! # Bounded work
//!
//! [`Wheel::advance`] stops when its budget is spent, in the middle of a slot if need be. The
//! rest of the slot stays where it is, its start now in the past, so it is simply the next
//! expiration; no other state remembers the interruption.

#[cfg(all(any(test, fuzzing), not(tokio_wheel_loom)))]
#[cfg_attr(not(test), allow(dead_code, reason = "for the fuzz target"))]
pub(crate) mod oracle;
mod slab;
#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests;

pub(crate) use slab::{CHUNK, Key, Lack, Room};

use std::ops::ControlFlow;

use slab::{Links, Slab};

/// A point in time, in ticks since the wheel's origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tick(pub(crate) u64);

impl Tick {
    /// Later than every tick that a clock reaches.
    pub(crate) const NEVER: Self = Self(u64::MAX);
}

/// Whether [`Wheel::advance`] did all there was to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advance {
    /// Everything due has fired.
    Done,
    /// The budget was spent first, or `fire` said to stop: call again with the same tick or a
    /// later one.
    Interrupted,
}

/// An entry that [`Wheel::advance`] has taken out.
pub(crate) struct Expired<T> {
    pub(crate) key: Key,
    pub(crate) deadline: Tick,
    pub(crate) value: T,
}

/// Set in a link to say that the rest is a slot's number, not a node's index: each slot's list
/// is a ring of its nodes and of the slot itself.
const SLOT: u32 = 1 << 31;

/// The most entries of a slot that are looked at for [`Wheel::next_expiration`].
const FEW: usize = 8;

/// A hierarchical timing wheel of `T`, with `LEVELS` levels of `SLOTS` slots.
///
/// The default geometry resolves all 64 bits of a tick, so no deadline is beyond its top level;
/// models and property tests run on 2 levels of 4 slots as well.
// In this order, so that what every operation touches lies together, with the lock before it,
// and not on either side of the slots.
#[repr(C)]
pub(crate) struct Wheel<T, const LEVELS: usize = 11, const SLOTS: usize = 64> {
    now: Tick,
    entries: Slab<T>,
    /// By level: bit `n` is set when slot `n` has entries.
    occupied: [u64; LEVELS],
    /// Which end of a list is visited next: see [`advance`](Wheel::advance).
    from_last: bool,
    /// By level and slot: the ends of the list.
    lists: [[Ends; SLOTS]; LEVELS],
}

/// The ends of a slot's list: nodes, or the slot itself if the list is empty.
#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
}

impl<T, const LEVELS: usize, const SLOTS: usize> Wheel<T, LEVELS, SLOTS> {
    /// The most entries that a wheel can hold.
    pub(crate) const MAX_ENTRIES: usize = slab::MAX_ENTRIES;

    /// Bits of a tick that a level resolves.
    const BITS: u32 = {
        assert!(SLOTS.is_power_of_two() && SLOTS >= 2 && SLOTS <= 64);
        assert!(LEVELS >= 1 && (LEVELS - 1) * (SLOTS.trailing_zeros() as usize) < 64);
        SLOTS.trailing_zeros()
    };

    /// The number of the top level.
    const TOP: usize = LEVELS - 1;

    pub(crate) fn new(now: Tick) -> Self {
        Self::on(Slab::new(), now)
    }

    /// A wheel behind a lock, under which nothing is to be allocated or freed: there has to be
    /// [room](Self::has_room) before each registration, and what is [spare](Self::take_spare) is the
    /// caller's to take after whatever takes entries out.
    pub(crate) fn deferring(now: Tick) -> Self {
        Self::on(Slab::deferring(), now)
    }

    fn on(entries: Slab<T>, now: Tick) -> Self {
        Self {
            now,
            entries,
            occupied: [0; LEVELS],
            from_last: false,
            lists: std::array::from_fn(|level| {
                std::array::from_fn(|slot| Ends {
                    first: Self::link_to(level, slot),
                    last: Self::link_to(level, slot),
                })
            }),
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
        self.entries.len()
    }

    /// Whether the next registration needs no memory.
    #[inline]
    pub(crate) fn has_room(&mut self) -> bool {
        self.entries.has_room()
    }

    /// What the next registration needs, if there is no room.
    pub(crate) fn lack(&self) -> Lack {
        self.entries.lack()
    }

    /// Gets room, and gives back what the caller is to drop.
    pub(crate) fn supply(&mut self, room: Room<T>) -> impl Sized + use<T, LEVELS, SLOTS> {
        self.entries.supply(room)
    }

    /// Whether there is memory for the caller to take.
    #[inline]
    pub(crate) fn has_spare(&self) -> bool {
        self.entries.has_spare()
    }

    /// Memory that is in use no more, for the caller to drop.
    pub(crate) fn take_spare(&mut self) -> Option<impl Sized + use<T, LEVELS, SLOTS>> {
        self.entries.take_spare()
    }

    /// Registers an entry. One whose deadline is not after `now` is due at once.
    #[inline]
    pub(crate) fn register(&mut self, deadline: Tick, value: T) -> Key {
        let (level, slot) = self.place(deadline);
        let links = self.first_links(level, slot);
        let key = self.entries.insert(value, deadline, links);
        self.push(level, slot, key.index(), links);
        key
    }

    /// Takes an entry out, if it is still there.
    #[inline]
    pub(crate) fn deregister(&mut self, key: Key) -> Option<T> {
        let (value, links) = self.entries.remove(key)?;
        self.mend(links);
        Some(value)
    }

    /// Gives an entry another deadline and returns whether it is still there.
    ///
    /// A later deadline is only stored; an earlier one moves the entry.
    #[inline]
    pub(crate) fn reset(&mut self, key: Key, deadline: Tick) -> bool {
        let Some(node) = self.entries.find_mut(key) else {
            return false;
        };
        let later = deadline >= node.deadline;
        node.deadline = deadline;
        if !later {
            let links = node.links;
            self.mend(links);
            self.link(key.index(), deadline);
        }
        true
    }

    /// The key of the entry at an index, where the caller knows that there is one: an index alone
    /// cannot tell.
    #[cfg(feature = "idle")]
    #[inline]
    pub(crate) fn key(&self, index: u32) -> Key {
        self.entries.key(index)
    }

    /// The value of an entry, if it is still there.
    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        self.entries.find(key)?.value.as_ref()
    }

    /// The value of an entry, if it is still there.
    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.entries.find_mut(key)?.value.as_mut()
    }

    /// The deadline of an entry, if it is still there.
    #[inline]
    pub(crate) fn deadline(&self, key: Key) -> Option<Tick> {
        Some(self.entries.find(key)?.deadline)
    }

    /// The deadlines of the entries in one chunk of the wheel's memory, in no order and at most
    /// [`CHUNK`]; `None` if there are not so many chunks. An entry stays in its chunk, whatever
    /// happens to others.
    pub(crate) fn deadlines(&self, chunk: usize) -> Option<impl Iterator<Item = Tick>> {
        self.entries.deadlines(chunk)
    }

    /// The entry with the earliest deadline; of those due, the one that fires next. Looks at all
    /// entries of the slots that start before that deadline, which as a rule is one slot.
    pub(crate) fn first(&self) -> Option<Key> {
        let due = (0..LEVELS).rev().find_map(|level| {
            let slot = (self.now.0 >> (level as u32 * Self::BITS)) as usize % SLOTS;
            self.list(level, slot)
                .find(|(_, deadline)| *deadline <= self.now)
        });
        if let Some((index, _)) = due {
            return Some(self.entries.key(index));
        }
        let mut first: Option<(Tick, u32)> = None;
        for level in 0..LEVELS {
            for slot in self.slots(level) {
                if first.is_some_and(|(deadline, _)| deadline < slot.start) {
                    break;
                }
                for (index, deadline) in self.list(level, slot.number) {
                    if first.is_none_or(|(first, _)| deadline < first) {
                        first = Some((deadline, index));
                    }
                }
            }
        }
        first.map(|(_, index)| self.entries.key(index))
    }

    /// The tick at which [`advance`](Self::advance) next has something to do: an entry to fire
    /// or a slot to cascade. No entry has a deadline before it, unless it is due already.
    ///
    /// To cascade a slot of level 1 that has [few](FEW) entries can wait for the first deadline among
    /// them, until the slot ends. So a timer by itself costs no wake-up for the level that nearly all
    /// come through. Coarser slots do not wait: whatever is registered meanwhile and belongs there
    /// would have to be cascaded just when the first of them is due.
    pub(crate) fn next_expiration(&self) -> Option<Tick> {
        let slot = self.next_slot()?;
        if slot.level != 1 || slot.start <= self.now {
            return Some(slot.start);
        }
        // As no finer slot is occupied and no coarser one starts before, nothing else is due.
        let mut first = Tick(slot.start.0.saturating_add(SLOTS as u64));
        for (n, (_, deadline)) in self.list(slot.level, slot.number).enumerate() {
            if n == FEW {
                return Some(slot.start);
            }
            first = first.min(deadline);
        }
        Some(first)
    }

    /// Moves `now` up to `to` and hands every entry whose deadline is reached to `fire`, visiting
    /// at most `budget` entries and slots, which it lowers by their number. `fire` may stop it as
    /// well.
    ///
    /// Entries fire in the order of their deadlines, to the tick; within a tick, in any order.
    /// Those that were put off by an interruption fire before any that come due later.
    ///
    /// Lists are visited from both ends in turn. To follow one is to wait for one cache miss
    /// after the other, when there are very many entries; the processor waits for two at a time.
    pub(crate) fn advance(
        &mut self,
        to: Tick,
        budget: &mut usize,
        mut fire: impl FnMut(Expired<T>) -> ControlFlow<()>,
    ) -> Advance {
        while let Some(slot) = self.next_slot().filter(|slot| slot.start <= to) {
            self.now = self.now.max(slot.start);
            loop {
                if *budget == 0 {
                    return Advance::Interrupted;
                }
                *budget -= 1;
                let Ends { first, last } = self.lists[slot.level][slot.number];
                if first & SLOT != 0 {
                    break;
                }
                let index = if self.from_last { last } else { first };
                self.from_last = !self.from_last;
                let node = self.entries.node(index);
                let (deadline, links) = (node.deadline, node.links);
                if deadline <= self.now {
                    let key = self.entries.key(index);
                    if let Some(value) = self.deregister(key) {
                        let expired = Expired {
                            key,
                            deadline,
                            value,
                        };
                        if fire(expired).is_break() {
                            return Advance::Interrupted;
                        }
                    }
                } else {
                    self.mend(links);
                    self.link(index, deadline);
                }
            }
        }
        self.now = self.now.max(to);
        Advance::Done
    }

    /// Takes every entry out and drops its value. Their keys stay stale.
    pub(crate) fn clear(&mut self) {
        let keys: Vec<Key> = self.entries.keys().collect();
        for key in keys {
            drop(self.deregister(key));
        }
    }

    /// The number of entries for which there is memory.
    pub(crate) fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// Gets memory for `additional` entries more and keeps it until
    /// [`shrink_to_fit`](Self::shrink_to_fit).
    pub(crate) fn reserve(&mut self, additional: usize) {
        self.entries.reserve(additional);
    }

    /// Gives all memory back in which there is no entry.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.entries.shrink_to_fit();
    }

    /// Moves entries together and gives back the memory that this frees. Tells `moved` the old
    /// and the new key of each entry that it moves.
    pub(crate) fn compact(&mut self, mut moved: impl FnMut(Key, Key)) {
        self.entries.shrink_to_fit();
        for old in self.entries.begin_compaction() {
            let deadline = self.entries.node(old.index()).deadline;
            let Some((value, links)) = self.entries.remove(old) else {
                continue;
            };
            let new = self.entries.insert(value, deadline, links);
            self.set_prev(links.next, new.index());
            self.set_next(links.prev, new.index());
            moved(old, new);
        }
        self.entries.shrink_to_fit();
    }

    /// Turns the wheel into the values of its entries, in no order.
    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        self.entries.into_values()
    }

    /// The occupied slot that starts first. Of two with the same start the coarser one: it is
    /// being cascaded into the finer one.
    fn next_slot(&self) -> Option<Slot> {
        let mut next: Option<Slot> = None;
        for (level, &occupied) in self.occupied.iter().enumerate() {
            if occupied == 0 {
                continue;
            }
            let shift = level as u32 * Self::BITS;
            let turn = self.now.0 >> shift;
            let current = turn as usize % SLOTS;
            let ahead = occupied >> current;
            let distance = if ahead != 0 {
                ahead.trailing_zeros() as usize
            } else {
                occupied.trailing_zeros() as usize + SLOTS - current
            };
            let start = Tick((turn + distance as u64) << shift);
            if next.as_ref().is_none_or(|next| start <= next.start) {
                next = Some(Slot {
                    level,
                    number: (current + distance) % SLOTS,
                    start,
                });
            }
        }
        next
    }

    /// The occupied slots of a level, by start.
    fn slots(&self, level: usize) -> impl Iterator<Item = Slot> {
        let occupied = self.occupied[level];
        let shift = level as u32 * Self::BITS;
        let turn = self.now.0 >> shift;
        let ahead = if occupied == 0 { 0 } else { SLOTS };
        (0..ahead).filter_map(move |distance| {
            let number = (turn as usize % SLOTS + distance) % SLOTS;
            (occupied >> number & 1 == 1).then(|| Slot {
                level,
                number,
                start: Tick((turn + distance as u64) << shift),
            })
        })
    }

    /// The entries of a slot with their deadlines, in the order in which they are visited.
    fn list(&self, level: usize, slot: usize) -> impl Iterator<Item = (u32, Tick)> {
        let Ends {
            mut first,
            mut last,
        } = self.lists[level][slot];
        let mut from_last = self.from_last;
        let mut ended = first & SLOT != 0;
        std::iter::from_fn(move || {
            if ended {
                return None;
            }
            ended = first == last;
            let index = if from_last { last } else { first };
            let node = self.entries.node(index);
            if from_last {
                last = node.links.prev;
            } else {
                first = node.links.next;
            }
            from_last = !from_last;
            Some((index, node.deadline))
        })
    }

    /// The level and the slot of a deadline, as seen from `now`.
    #[inline]
    fn place(&self, deadline: Tick) -> (usize, usize) {
        let deadline = deadline.max(self.now);
        let differing = self.now.0 ^ deadline.0;
        let level = (differing | 1).ilog2() / Self::BITS;
        if (level as usize) < Self::TOP {
            let slot = deadline.0 >> (level * Self::BITS);
            return (level as usize, slot as usize % SLOTS);
        }
        let shift = Self::TOP as u32 * Self::BITS;
        let turn = self.now.0 >> shift;
        let distance = ((deadline.0 >> shift) - turn).min(SLOTS as u64 - 1);
        (Self::TOP, (turn + distance) as usize % SLOTS)
    }

    /// What a link to a slot is.
    #[inline]
    fn link_to(level: usize, slot: usize) -> u32 {
        SLOT | (level * SLOTS + slot) as u32
    }

    /// The links of a node that is about to be the first of a slot's list.
    #[inline]
    fn first_links(&self, level: usize, slot: usize) -> Links {
        Links {
            prev: Self::link_to(level, slot),
            next: self.lists[level][slot].first,
        }
    }

    /// Makes a node, which has these links, the first of a slot's list.
    #[inline]
    fn push(&mut self, level: usize, slot: usize, index: u32, links: Links) {
        self.lists[level][slot].first = index;
        self.occupied[level] |= 1 << slot;
        self.set_prev(links.next, index);
    }

    /// Puts a node that is in no list where its deadline belongs.
    fn link(&mut self, index: u32, deadline: Tick) {
        let (level, slot) = self.place(deadline);
        let links = self.first_links(level, slot);
        self.entries.node_mut(index).links = links;
        self.push(level, slot, index, links);
    }

    /// Closes the gap that a node with these links leaves in its slot's list.
    #[inline]
    fn mend(&mut self, Links { prev, next }: Links) {
        self.set_prev(next, prev);
        self.set_next(prev, next);
        if prev & next & SLOT != 0 {
            let number = (prev & !SLOT) as usize;
            self.occupied[number / SLOTS] &= !(1 << (number % SLOTS));
        }
    }

    /// Makes `prev` what comes before `link`, a node or a slot.
    #[inline]
    fn set_prev(&mut self, link: u32, prev: u32) {
        if link & SLOT == 0 {
            self.entries.node_mut(link).links.prev = prev;
        } else {
            let number = (link & !SLOT) as usize;
            self.lists[number / SLOTS][number % SLOTS].last = prev;
        }
    }

    /// Makes `next` what comes after `link`, a node or a slot.
    #[inline]
    fn set_next(&mut self, link: u32, next: u32) {
        if link & SLOT == 0 {
            self.entries.node_mut(link).links.next = next;
        } else {
            let number = (link & !SLOT) as usize;
            self.lists[number / SLOTS][number % SLOTS].first = next;
        }
    }
}

/// An occupied slot and when it is due.
struct Slot {
    level: usize,
    number: usize,
    start: Tick,
}
