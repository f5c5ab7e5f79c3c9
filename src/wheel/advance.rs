//! How a wheel advances: what fires, what cascades, and what goes to the backlog.
//!
//! The [module](super) defines the terms and both orders.

use std::ops::ControlFlow;

use super::{
    Key, Wheel,
    rings::{COARSE, Rings, Slot},
    tick::Tick,
};

/// Whether [`Wheel::advance`] did all there was to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advance {
    /// There is nothing left to do of that kind.
    Done,
    /// The budget was spent first, or `fire` said to stop: call again with the same tick or a
    /// later one.
    Interrupted,
}

/// An entry that has been taken out.
pub(crate) struct Expired<T> {
    pub(crate) key: Key,
    pub(crate) deadline: Tick,
    pub(crate) value: T,
}

/// In which order [`Wheel::advance`] fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// In the order of the deadlines, then of registration.
    Strict,
    /// What is due before what cascades.
    DueFirst,
}

/// The backlog's ring of entries that are late.
const LATE_RING: usize = 0;

/// The backlog's coarsest level gets one of so many steps, the finest levels the rest. An entry of a
/// fine level is due sooner, but a coarse level must not wait for as long as finer ones come.
const COARSEST_SHARE: usize = 4;

/// The most entries of a slot that are looked at for [`Wheel::next_expiration`].
pub(super) const FEW: usize = 8;

impl<T, const ROWS: usize, const SLOTS: usize> Wheel<T, ROWS, SLOTS> {
    const LEVELS: usize = Rings::<ROWS, SLOTS>::LEVELS;

    /// The row of the backlog.
    const BACKLOG: usize = Rings::<ROWS, SLOTS>::BACKLOG;

    /// Moves `now` up to `to`, or to the first slot that is occupied if that comes before. An entry
    /// is placed as seen from `now`, and the driver does not advance a wheel on which nothing is due.
    pub(crate) fn catch_up(&mut self, to: Tick) {
        let next = self.next_slot().map_or(to, |slot| slot.start);
        self.now = self.now.max(to.min(next));
    }

    /// Returns the entry with the earliest deadline; of those due, the one that fires next. Looks at all
    /// entries of the slots that start before that deadline, which as a rule is one slot.
    ///
    /// For a wheel that is advanced in strict order: nothing on its backlog is due.
    pub(crate) fn first(&self) -> Option<Key> {
        let list = |row, ring| self.rings.list(&self.nodes, row, ring);
        let due = (0..Self::LEVELS).rev().find_map(|level| {
            let slot = Rings::<ROWS, SLOTS>::slot_of(level, self.now);
            list(level, slot).find(|(_, deadline)| *deadline <= self.now)
        });
        if let Some((index, _)) = due {
            return Some(self.nodes.key(index));
        }
        let mut first: Option<(u32, Tick)> = None;
        for level in 0..Self::LEVELS {
            for slot in self.rings.slots(self.now, level) {
                if first.is_some_and(|(_, deadline)| deadline < slot.start) {
                    break;
                }
                let entries = first.into_iter().chain(list(level, slot.number));
                first = entries.min_by_key(|(_, deadline)| *deadline);
            }
        }
        let backlog = (0..Self::LEVELS).flat_map(|ring| list(Self::BACKLOG, ring));
        let first = (first.into_iter().chain(backlog)).min_by_key(|(_, deadline)| *deadline);
        first.map(|(index, _)| self.nodes.key(index))
    }

    /// Returns the next tick at which there is an entry to fire or a slot to cascade. No entry has a deadline
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
        let starts = |level| self.rings.next_start(self.now, level);
        if (COARSE..Self::LEVELS).any(|level| starts(level) == Some(next.start)) {
            return Some(next.start);
        }
        // What else is due before the slot ends is in a slot of level 0.
        let mut first = starts(0).unwrap_or(Tick::NEVER);
        let entries = self.rings.list(&self.nodes, next.level, next.number);
        for (n, (_, deadline)) in entries.enumerate() {
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
                    self.rings
                        .move_to_backlog(&mut self.nodes, &slot, LATE_RING);
                    flow
                }
                Order::DueFirst => {
                    *steps -= 1;
                    self.rings
                        .move_to_backlog(&mut self.nodes, &slot, slot.level);
                    ControlFlow::Continue(())
                }
            };
            if flow.is_break() {
                if order == Order::DueFirst {
                    self.move_all_to_backlog(to);
                }
                return Advance::Interrupted;
            }
        }
        self.now = self.now.max(to);
        Advance::Done
    }

    /// Moves `now` up to `to`, and what is reached by that to the backlog, in O(1) for each slot.
    #[cold]
    fn move_all_to_backlog(&mut self, to: Tick) {
        while let Some(slot) = self.next_slot().filter(|slot| slot.start <= to) {
            self.now = self.now.max(slot.start);
            // Not all of a slot of level 1 is due: what is in one of level 0 alone is late.
            self.rings
                .move_to_backlog(&mut self.nodes, &slot, slot.level);
        }
        self.now = self.now.max(to);
    }

    /// Returns whether there is something to do for [`cascade_backlog`](Self::cascade_backlog) or
    /// [`fire_late`](Self::fire_late).
    #[inline]
    pub(crate) fn has_backlog(&self) -> bool {
        self.rings.backlog() != 0
    }

    /// Moves entries of the backlog to where they belong by now. Those that are due go to the slot of
    /// `now`, from where [`advance`](Self::advance) fires them. Visits at most `steps` entries, and lowers
    /// `steps` by their number.
    pub(crate) fn cascade_backlog(&mut self, steps: &mut usize) -> Advance {
        let levels = |wheel: &Self| wheel.rings.backlog() & !(1 << LATE_RING);
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
        let flow = self.visit((Self::BACKLOG, LATE_RING), self.now, steps, fire);
        match self.rings.backlog() >> LATE_RING & 1 {
            0 if flow.is_continue() => Advance::Done,
            _ => Advance::Interrupted,
        }
    }

    #[inline]
    fn next_slot(&self) -> Option<Slot> {
        self.rings.next_slot(self.now)
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
            let Some(index) = self.rings.first(row, ring) else {
                break;
            };
            *steps -= 1;
            let deadline = self.nodes.node(index).deadline;
            if deadline > due {
                self.relink(index);
                continue;
            }
            fire(self.remove(index))?;
        }
        ControlFlow::Continue(())
    }

    /// Cascades the entries of a ring of the backlog from first to last, while there are `steps`.
    fn cascade_ring(&mut self, ring: usize, steps: &mut usize) {
        while *steps > 0 {
            let Some(index) = self.rings.first(Self::BACKLOG, ring) else {
                break;
            };
            *steps -= 1;
            self.relink(index);
        }
    }

    /// Cascades the entries of a slot from last to first, while there are `steps`. Each goes before
    /// what is in its new slot. One that was reset to a deadline after this slot goes to the backlog,
    /// and from there after what is in its new slot.
    fn cascade(&mut self, slot: &Slot, steps: &mut usize) {
        let end = Rings::<ROWS, SLOTS>::end_of(slot);
        while *steps > 0 {
            let Some(index) = self.rings.last(slot.level, slot.number) else {
                break;
            };
            *steps -= 1;
            let node = self.nodes.node(index);
            let (deadline, links) = (node.deadline, node.links);
            self.rings.unlink(&mut self.nodes, links);
            let ring = if deadline < end {
                let place = self.place(deadline);
                (place.level, place.slot)
            } else {
                (Self::BACKLOG, slot.level)
            };
            self.rings.push_first(&mut self.nodes, ring, index);
        }
    }
}
