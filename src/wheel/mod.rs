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
//! | put back | the backlog's ring for the level of its slot | `deregister`, `reset`, `cascade_backlog` |
//! | late     | the backlog's first ring                     | `deregister`, `reset`, `fire_late`       |
//!
//! A slot never starts after the deadline of an entry in it. The deadline may be later than the
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
//! * [`Order::DueFirst`]: a slot of a [coarse](COARSE) level goes to the *backlog* as a whole, in
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

#[cfg(all(any(test, fuzzing), not(tokio_wheel_loom)))]
#[cfg_attr(not(test), allow(dead_code, reason = "for the fuzz target"))]
pub(crate) mod oracle;
mod slab;
#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests;
mod tick;

pub(crate) use slab::{CHUNK, Key, Lack, Room};
pub(crate) use tick::Tick;

use std::ops::ControlFlow;

use slab::{Links, Slab};

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

/// What [`Wheel::postpone`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Postponed {
    /// It stored the deadline.
    Stored,
    /// It did nothing, as the deadline is earlier than the entry's.
    Not,
}

/// Where an entry belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    level: usize,
    slot: usize,
}

impl Place {
    /// Whether the slot goes to the backlog when it is reached.
    #[inline]
    pub(crate) fn is_coarse(self) -> bool {
        self.level >= COARSE
    }
}

/// Ticks ahead of `now` from where on every deadline has a [coarse](COARSE) place.
pub(crate) const COARSE_FROM: u64 = 64 * 64;

/// In which order [`Wheel::advance`] fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// In the order of the deadlines, then of registration.
    Strict,
    /// What is due before what cascades.
    DueFirst,
}

/// Set in a link to say that the rest is a ring's number, not a node's index: each slot's list
/// is a ring of its nodes and of the slot itself. The same holds for a backlog.
const RING: u32 = 1 << 31;

/// The finest level whose slots go to the backlog. With the default tick, a slot of level 2 spans
/// 64 ms, and nearly all of its entries only cascade when it is reached. A slot of level 1 spans
/// 1 ms, and nearly all of its entries are due.
const COARSE: usize = 2;

/// The backlog's ring of entries that are late.
const LATE: usize = 0;

/// The backlog's coarsest level gets one of so many steps, the finest levels the rest. An entry of a
/// fine level is due sooner, but a coarse level must not wait for as long as finer ones come.
const COARSEST_SHARE: usize = 4;

/// The most entries of a slot that are looked at for [`Wheel::next_expiration`].
const FEW: usize = 8;

/// A hierarchical timing wheel of `T`, with `ROWS - 1` levels of `SLOTS` slots.
///
/// The last row is the backlog: ring [`LATE`], and a ring for each coarser level. To the links of
/// an entry, these are slots like any other.
///
/// The default geometry resolves all 64 bits of a tick, so no deadline is beyond its top level.
/// Models and property tests run on 2 levels of 4 slots as well.
// In this order, so that what every operation touches lies together, with the lock before it,
// and not on either side of the slots.
#[repr(C)]
pub(crate) struct Wheel<T, const ROWS: usize = 12, const SLOTS: usize = 64> {
    now: Tick,
    entries: Slab<T>,
    /// By row: bit `n` is set when ring `n` has entries.
    occupied: [u64; ROWS],
    /// By level and slot; of the backlog, by level.
    rings: [[Ends; SLOTS]; ROWS],
}

/// The ends of a ring: nodes, or the ring itself if it is empty.
#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
}

impl<T, const ROWS: usize, const SLOTS: usize> Wheel<T, ROWS, SLOTS> {
    /// The most entries that a wheel can hold.
    pub(crate) const MAX_ENTRIES: usize = slab::MAX_ENTRIES;

    /// Bits of a tick that a level resolves.
    const BITS: u32 = {
        assert!(SLOTS.is_power_of_two() && SLOTS >= 2 && SLOTS <= 64);
        assert!(Self::LEVELS >= 1 && Self::LEVELS <= SLOTS);
        assert!(Self::TOP * (SLOTS.trailing_zeros() as usize) < 64);
        SLOTS.trailing_zeros()
    };

    const LEVELS: usize = ROWS - 1;

    /// The number of the top level.
    const TOP: usize = Self::LEVELS - 1;

    /// The row of the backlog.
    const BACKLOG: usize = Self::LEVELS;

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
            occupied: [0; ROWS],
            rings: std::array::from_fn(|row| {
                std::array::from_fn(|ring| Ends {
                    first: Self::link_to(row, ring),
                    last: Self::link_to(row, ring),
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
    pub(crate) fn supply(&mut self, room: Room<T>) -> impl Sized + use<T, ROWS, SLOTS> {
        self.entries.supply(room)
    }

    /// Whether there is memory for the caller to take.
    #[inline]
    pub(crate) fn has_spare(&self) -> bool {
        self.entries.has_spare()
    }

    /// Memory that is in use no more, for the caller to drop.
    pub(crate) fn take_spare(&mut self) -> Option<impl Sized + use<T, ROWS, SLOTS>> {
        self.entries.take_spare()
    }

    /// Registers an entry. One whose deadline is not after `now` is due at once.
    #[inline]
    pub(crate) fn register(&mut self, deadline: Tick, value: T) -> Key {
        self.register_at(self.place(deadline), deadline, value)
    }

    /// Registers an entry at the [place](Self::place) of its deadline.
    #[inline]
    pub(crate) fn register_at(&mut self, place: Place, deadline: Tick, value: T) -> Key {
        let Place { level, slot } = place;
        let links = self.links_of_last(level, slot);
        let key = self.entries.insert(value, deadline, links);
        self.push_last(level, slot, key.index(), links);
        key
    }

    /// Takes an entry out, if it is still there.
    #[inline]
    pub(crate) fn deregister(&mut self, key: Key) -> Option<T> {
        let (value, links) = self.entries.remove(key)?;
        self.mend(links);
        Some(value)
    }

    /// Moves `now` up to `to`, or to the first slot that is occupied if that comes before. An entry
    /// is placed as seen from `now`, and nobody advances a wheel on which nothing is due.
    pub(crate) fn catch_up(&mut self, to: Tick) {
        let next = self.next_slot().map_or(to, |slot| slot.start);
        self.now = self.now.max(to.min(next));
    }

    /// Gives an entry another deadline, if it is still there and the deadline is not earlier: that
    /// is only stored.
    #[inline]
    pub(crate) fn postpone(&mut self, key: Key, deadline: Tick) -> Option<Postponed> {
        let node = self.entries.find_mut(key)?;
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
    ///
    /// For a wheel that is advanced in strict order: nothing on its backlog is due.
    pub(crate) fn first(&self) -> Option<Key> {
        let due = (0..Self::LEVELS).rev().find_map(|level| {
            let slot = (self.now.0 >> (level as u32 * Self::BITS)) as usize % SLOTS;
            self.list(level, slot)
                .find(|(_, deadline)| *deadline <= self.now)
        });
        if let Some((index, _)) = due {
            return Some(self.entries.key(index));
        }
        let mut first: Option<(Tick, u32)> = None;
        for level in 0..Self::LEVELS {
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
        let backlog = (0..Self::LEVELS).flat_map(|level| self.list(Self::BACKLOG, level));
        for (index, deadline) in backlog {
            if first.is_none_or(|(first, _)| deadline < first) {
                first = Some((deadline, index));
            }
        }
        first.map(|(_, index)| self.entries.key(index))
    }

    /// The next tick at which there is an entry to fire or a slot to cascade. No entry has a deadline
    /// before it, unless it is due already.
    ///
    /// A slot of level 1 that has [few](FEW) entries can wait for the first deadline among them. So
    /// a timer by itself costs no wake-up for the level that nearly all come through. Coarser slots
    /// do not wait: all that is registered in the meantime and belongs there would have to cascade
    /// just when the first of them is due.
    pub(crate) fn next_expiration(&self) -> Option<Tick> {
        if self.has_backlog() {
            return Some(self.now);
        }
        let next = self.next_slot()?;
        if next.level != 1 || next.start <= self.now {
            return Some(next.start);
        }
        if (COARSE..Self::LEVELS).any(|level| self.next_start(level) == Some(next.start)) {
            return Some(next.start);
        }
        // What else is due before the slot ends is in a slot of level 0.
        let mut first = self.next_start(0).unwrap_or(Tick::NEVER);
        for (n, (_, deadline)) in self.list(next.level, next.number).enumerate() {
            if n == FEW {
                return Some(next.start);
            }
            first = first.min(deadline);
        }
        // Entries that were reset to a later deadline cascade when the slot ends.
        Some(first.min(Tick(next.start.0.saturating_add(SLOTS as u64))))
    }

    /// Moves `now` up to `to` and hands every entry whose deadline is reached to `fire`, in that
    /// [order](Order). Visits at most `steps` entries and slots, and lowers `steps` by their number.
    /// `fire` may stop it as well.
    ///
    /// When due entries come first, entries of about the same time fire in any order, and the
    /// [backlog](Self::has_backlog) has the rest.
    pub(crate) fn advance(
        &mut self,
        to: Tick,
        order: Order,
        steps: &mut usize,
        mut fire: impl FnMut(Expired<T>) -> ControlFlow<()>,
    ) -> Advance {
        if order == Order::Strict && self.has_backlog() {
            // From before the order was strict.
            let late = self.fire_late(steps, &mut fire);
            if late == Advance::Interrupted || self.cascade_backlog(steps) == Advance::Interrupted {
                return Advance::Interrupted;
            }
        }
        while let Some(slot) = self.next_slot().filter(|slot| slot.start <= to) {
            if *steps == 0 {
                return Advance::Interrupted;
            }
            self.now = self.now.max(slot.start);
            let ring = (slot.level, slot.number);
            let flow = match order {
                Order::Strict if slot.level > 0 => {
                    self.cascade(&slot, steps);
                    match self.cascade_backlog(steps) {
                        Advance::Done => ControlFlow::Continue(()),
                        Advance::Interrupted => ControlFlow::Break(()),
                    }
                }
                Order::Strict => self.visit(ring, self.now, steps, &mut fire),
                Order::DueFirst if slot.level < COARSE => {
                    let flow = self.visit(ring, to, steps, &mut fire);
                    self.put_back(ring, LATE);
                    flow
                }
                Order::DueFirst => {
                    *steps -= 1;
                    self.put_back(ring, slot.level);
                    ControlFlow::Continue(())
                }
            };
            if flow.is_break() {
                if order == Order::DueFirst {
                    self.put_back_all(to);
                }
                return Advance::Interrupted;
            }
        }
        self.now = self.now.max(to);
        Advance::Done
    }

    /// Moves `now` up to `to`, and what is reached by that to the backlog, in O(1) for each slot.
    #[cold]
    fn put_back_all(&mut self, to: Tick) {
        while let Some(slot) = self.next_slot().filter(|slot| slot.start <= to) {
            self.now = self.now.max(slot.start);
            // Not all of a slot of level 1 is due: what is in one of level 0 alone is late.
            self.put_back((slot.level, slot.number), slot.level);
        }
        self.now = self.now.max(to);
    }

    /// Whether there is something to do for [`cascade_backlog`](Self::cascade_backlog) or
    /// [`fire_late`](Self::fire_late).
    #[inline]
    pub(crate) fn has_backlog(&self) -> bool {
        self.occupied[Self::BACKLOG] != 0
    }

    /// Moves entries of the backlog to where they belong by now. Those that are due go to the slot of
    /// `now`, from where [`advance`](Self::advance) fires them. Visits at most `steps` entries, and lowers
    /// `steps` by their number.
    pub(crate) fn cascade_backlog(&mut self, steps: &mut usize) -> Advance {
        let levels = |wheel: &Self| wheel.occupied[Self::BACKLOG] & !(1 << LATE);
        if let Some(coarsest) = levels(self).checked_ilog2() {
            let mut share = steps.div_ceil(COARSEST_SHARE);
            *steps -= share;
            self.cascade_ring(coarsest as usize, &mut share);
            *steps += share;
        }
        while levels(self) != 0 {
            if *steps == 0 {
                return Advance::Interrupted;
            }
            self.cascade_ring(levels(self).trailing_zeros() as usize, steps);
        }
        Advance::Done
    }

    /// Hands entries that are late to `fire`. Visits at most `steps` entries, and lowers `steps` by
    /// their number. `fire` may stop it as well.
    pub(crate) fn fire_late(
        &mut self,
        steps: &mut usize,
        fire: impl FnMut(Expired<T>) -> ControlFlow<()>,
    ) -> Advance {
        let flow = self.visit((Self::BACKLOG, LATE), self.now, steps, fire);
        match self.occupied[Self::BACKLOG] >> LATE & 1 {
            0 if flow.is_continue() => Advance::Done,
            _ => Advance::Interrupted,
        }
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

    /// The occupied slot that starts first. Of those that start together, one of level 0 comes
    /// last, as what cascades may belong there; of the others, the finest comes first, as its
    /// entries were registered last (see [`Order::Strict`]).
    #[inline]
    fn next_slot(&self) -> Option<Slot> {
        let mut next: Option<(usize, Tick)> = None;
        for level in 0..Self::LEVELS {
            if let Some(start) = self.next_start(level) {
                let is_next = match next {
                    Some((0, first)) => start <= first,
                    Some((_, first)) => start < first,
                    None => true,
                };
                if is_next {
                    next = Some((level, start));
                }
            }
        }
        let (level, start) = next?;
        let turn = start.0 >> (level as u32 * Self::BITS);
        Some(Slot {
            level,
            number: turn as usize % SLOTS,
            start,
        })
    }

    /// Where the occupied slot of a level starts that starts first.
    #[inline]
    fn next_start(&self, level: usize) -> Option<Tick> {
        let occupied = self.occupied[level];
        if occupied == 0 {
            return None;
        }
        let shift = level as u32 * Self::BITS;
        let turn = self.now.0 >> shift;
        let current = turn as usize % SLOTS;
        let ahead = occupied >> current;
        let distance = if ahead != 0 {
            ahead.trailing_zeros()
        } else {
            occupied.trailing_zeros() + (SLOTS - current) as u32
        };
        Some(Tick((turn + u64::from(distance)) << shift))
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

    /// The entries of a slot with their deadlines, from first to last.
    fn list(&self, level: usize, slot: usize) -> impl Iterator<Item = (u32, Tick)> {
        let mut next = self.rings[level][slot].first;
        std::iter::from_fn(move || {
            if next & RING != 0 {
                return None;
            }
            let (index, node) = (next, self.entries.node(next));
            next = node.links.next;
            Some((index, node.deadline))
        })
    }

    /// Visits the entries of a ring from first to last, while there are `steps`. Fires those whose
    /// deadline is not after `due`, and moves the others to where they belong. Breaks if `fire` does.
    fn visit(
        &mut self,
        (row, ring): (usize, usize),
        due: Tick,
        steps: &mut usize,
        mut fire: impl FnMut(Expired<T>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        while *steps > 0 {
            let index = self.rings[row][ring].first;
            if index & RING != 0 {
                break;
            }
            *steps -= 1;
            let node = self.entries.node(index);
            let (deadline, links) = (node.deadline, node.links);
            if deadline > due {
                self.mend(links);
                self.link(index, deadline);
                continue;
            }
            let key = self.entries.key(index);
            if let Some(value) = self.deregister(key) {
                fire(Expired {
                    key,
                    deadline,
                    value,
                })?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Cascades the entries of a ring of the backlog from first to last, while there are `steps`.
    fn cascade_ring(&mut self, level: usize, steps: &mut usize) {
        while *steps > 0 {
            let index = self.rings[Self::BACKLOG][level].first;
            if index & RING != 0 {
                break;
            }
            *steps -= 1;
            let node = self.entries.node(index);
            let (deadline, links) = (node.deadline, node.links);
            self.mend(links);
            self.link(index, deadline);
        }
    }

    /// Cascades the entries of a slot from last to first, while there are `steps`. Each goes before
    /// what is in its new slot. One that was reset to a deadline after this slot goes to the backlog,
    /// and from there after what is in its new slot.
    fn cascade(&mut self, slot: &Slot, steps: &mut usize) {
        let span = 1 << (slot.level as u32 * Self::BITS);
        let end = Tick(slot.start.0.saturating_add(span));
        while *steps > 0 {
            let index = self.rings[slot.level][slot.number].last;
            if index & RING != 0 {
                break;
            }
            *steps -= 1;
            let node = self.entries.node(index);
            let (deadline, links) = (node.deadline, node.links);
            self.mend(links);
            if deadline < end {
                let Place { level, slot } = self.place(deadline);
                self.push_first(level, slot, index);
            } else {
                self.push_first(Self::BACKLOG, slot.level, index);
            }
        }
    }

    /// Moves the entries of a slot to the end of a ring of the backlog.
    fn put_back(&mut self, (level, slot): (usize, usize), ring: usize) {
        let Ends { first, last } = self.rings[level][slot];
        if first & RING != 0 {
            return;
        }
        let (emptied, backlog) = (
            Self::link_to(level, slot),
            Self::link_to(Self::BACKLOG, ring),
        );
        self.set_next(emptied, emptied);
        self.set_prev(emptied, emptied);
        self.occupied[level] &= !(1 << slot);
        let before = self.rings[Self::BACKLOG][ring].last;
        self.set_prev(first, before);
        self.set_next(before, first);
        self.set_next(last, backlog);
        self.set_prev(backlog, last);
        self.occupied[Self::BACKLOG] |= 1 << ring;
    }

    /// Where an entry of a deadline belongs, as seen from `now`.
    #[inline]
    pub(crate) fn place(&self, deadline: Tick) -> Place {
        let deadline = deadline.max(self.now);
        let ahead = |shift| (deadline.0 >> shift) - (self.now.0 >> shift);
        // The level whose slots are just short enough, unless the deadline is in the slot that
        // follows their last: `now` may be anywhere in its own.
        let level = ((deadline.0 - self.now.0) | 1).ilog2() / Self::BITS;
        let level = level + (ahead(level * Self::BITS) >> Self::BITS) as u32;
        if (level as usize) < Self::TOP {
            let slot = deadline.0 >> (level * Self::BITS);
            return Place {
                level: level as usize,
                slot: slot as usize % SLOTS,
            };
        }
        let shift = Self::TOP as u32 * Self::BITS;
        let distance = ahead(shift).min(SLOTS as u64 - 1);
        let slot = (self.now.0 >> shift) + distance;
        Place {
            level: Self::TOP,
            slot: slot as usize % SLOTS,
        }
    }

    /// What a link to a ring is.
    #[inline]
    fn link_to(row: usize, ring: usize) -> u32 {
        RING | (row * SLOTS + ring) as u32
    }

    /// The links of a node that is about to be the last of a slot.
    #[inline]
    fn links_of_last(&self, level: usize, slot: usize) -> Links {
        Links {
            prev: self.rings[level][slot].last,
            next: Self::link_to(level, slot),
        }
    }

    /// Makes a node, which has these links, the last of a slot.
    #[inline]
    fn push_last(&mut self, level: usize, slot: usize, index: u32, links: Links) {
        self.rings[level][slot].last = index;
        self.occupied[level] |= 1 << slot;
        self.set_next(links.prev, index);
    }

    /// Puts a node that is in no ring where its deadline belongs, as the last.
    fn link(&mut self, index: u32, deadline: Tick) {
        let Place { level, slot } = self.place(deadline);
        let links = self.links_of_last(level, slot);
        self.entries.node_mut(index).links = links;
        self.push_last(level, slot, index, links);
    }

    /// Makes a node that is in no ring the first of a ring.
    fn push_first(&mut self, row: usize, ring: usize, index: u32) {
        let next = self.rings[row][ring].first;
        self.entries.node_mut(index).links = Links {
            prev: Self::link_to(row, ring),
            next,
        };
        self.rings[row][ring].first = index;
        self.occupied[row] |= 1 << ring;
        self.set_prev(next, index);
    }

    /// Closes the gap that a node with these links leaves in its ring.
    #[inline]
    fn mend(&mut self, Links { prev, next }: Links) {
        self.set_prev(next, prev);
        self.set_next(prev, next);
        if prev & next & RING != 0 {
            let number = (prev & !RING) as usize;
            self.occupied[number / SLOTS] &= !(1 << (number % SLOTS));
        }
    }

    /// Makes `prev` what comes before `link`, a node or a ring.
    #[inline]
    fn set_prev(&mut self, link: u32, prev: u32) {
        if link & RING == 0 {
            self.entries.node_mut(link).links.prev = prev;
        } else {
            let number = (link & !RING) as usize;
            self.rings[number / SLOTS][number % SLOTS].last = prev;
        }
    }

    /// Makes `next` what comes after `link`, a node or a ring.
    #[inline]
    fn set_next(&mut self, link: u32, next: u32) {
        if link & RING == 0 {
            self.entries.node_mut(link).links.next = next;
        } else {
            let number = (link & !RING) as usize;
            self.rings[number / SLOTS][number % SLOTS].first = next;
        }
    }
}

/// An occupied slot, and the first tick that it spans.
struct Slot {
    level: usize,
    number: usize,
    start: Tick,
}
