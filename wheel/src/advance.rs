//! Advances a wheel: fires entries, cascades them, and moves slots to the backlog.
//!
//! The [wheel's documentation](super) defines the terms and both orders.

use std::ops::ControlFlow;

use crate::{
    Wheel,
    key::Key,
    nodes::Removed,
    rings::{COARSE, Ring, Rings, Slot},
    tick::{NEVER, Tick},
};

/// The order in which [`Wheel::advance`] fires entries.
///
/// # Examples
///
/// ```
/// use std::ops::ControlFlow;
/// use bounded_wheel::{Order, Wheel};
///
/// let mut wheel: Wheel<&str> = Wheel::new(0);
/// wheel.insert(9_000, "idle");
/// wheel.insert(10, "read");
/// let mut fired = Vec::new();
/// let _ = wheel.advance(9_000, Order::Strict, &mut 128, |entry| {
///     fired.push(entry.value);
///     ControlFlow::Continue(())
/// });
/// assert_eq!(fired, ["read", "idle"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Entries fire in the order of their deadlines. Entries with equal deadlines fire in the order
    /// of their insertion.
    Strict,
    /// Late entries fire first, then the other due entries. Coarse slots go to the backlog.
    DueFirst,
}

/// The backlog's ring of late entries.
const LATE_RING: usize = 0;

/// Out of this many steps, the coarsest level of the backlog gets one step. The finer levels get
/// the other steps.
///
/// Finer levels go first, because their entries are due sooner. Without steps of its own, the
/// coarsest level would wait as long as finer levels receive entries (`no_backlog_waits_forever`).
const COARSEST_SHARE: usize = 4;

/// The maximum number of entries that [`Wheel::next_expiration`] and [`Wheel::next_deadline`] look at in a slot.
pub(super) const FEW: usize = 8;

impl<T, const ROWS: usize, const SLOTS: usize> Wheel<T, ROWS, SLOTS> {
    /// The number of levels.
    const LEVELS: usize = Rings::<ROWS, SLOTS>::LEVELS;

    /// The backlog's ring of late entries.
    const LATE: Ring = Rings::<ROWS, SLOTS>::backlog(LATE_RING);

    /// Moves `now` up to `to`, or up to the start of the first occupied slot if that is earlier.
    ///
    /// A wheel that is advanced only when something is due falls behind the clock. Call this method before you insert into
    /// such a wheel. Otherwise, new entries go to levels that are too coarse.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::Wheel;
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// wheel.insert(1_000, "read"); // In the slot from 960 to 1,023.
    /// wheel.catch_up(500);
    /// assert_eq!(wheel.now(), 500);
    /// wheel.catch_up(2_000);
    /// assert_eq!(wheel.now(), 960);
    /// ```
    pub fn catch_up(&mut self, to: Tick) {
        let next = self.next_slot(to).map_or(to, |slot| slot.start);
        self.now = self.now.max(next);
    }

    /// Returns the key of the entry with the earliest deadline. If entries are due, returns the key of the entry that fires
    /// next.
    ///
    /// This method looks at all entries of each slot that starts at the earliest deadline or before it. There is usually one
    /// such slot. The wheel must be advanced in strict order, so that no entry on its backlog is due.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::Wheel;
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// assert_eq!(wheel.first(), None);
    /// wheel.insert(20, "write");
    /// let read = wheel.insert(10, "read");
    /// assert_eq!(wheel.first(), Some(read));
    /// ```
    pub fn first(&self) -> Option<Key> {
        let list = |ring| self.rings.list(&self.nodes, ring);
        let due = (0..Self::LEVELS).rev().find_map(|level| {
            let slot = Rings::<ROWS, SLOTS>::slot_of(level, self.now);
            list(slot).find(|(_, deadline)| *deadline <= self.now)
        });
        if let Some((index, _)) = due {
            return Some(self.key(index));
        }
        let mut first: Option<(u32, Tick)> = None;
        for level in 0..Self::LEVELS {
            for slot in self.rings.slots(self.now, level) {
                if first.is_some_and(|(_, deadline)| deadline < slot.start) {
                    break;
                }
                let entries = first.into_iter().chain(list(slot.ring));
                first = entries.min_by_key(|(_, deadline)| *deadline);
            }
        }
        let backlog = (0..Self::LEVELS).flat_map(|ring| list(Rings::<ROWS, SLOTS>::backlog(ring)));
        let first = (first.into_iter().chain(backlog)).min_by_key(|(_, deadline)| *deadline);
        first.map(|(index, _)| self.key(index))
    }

    /// Returns the next tick at which an entry must fire or a slot must cascade.
    ///
    /// If an entry has an earlier deadline than this tick, it is already due.
    ///
    /// A slot of level 1 with at most 8 entries can wait until the earliest deadline of its entries. Nearly all entries pass
    /// through level 1, so a single entry usually causes no wake-up for its cascade.
    ///
    /// Coarser slots do not wait, because more entries may be inserted into them in the meantime, and all of them would then
    /// cascade at the tick at which the first one is due.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::Wheel;
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// assert_eq!(wheel.next_expiration(), None);
    /// wheel.insert(30_000, "idle"); // In a coarse slot, which starts at 28,672.
    /// assert_eq!(wheel.next_expiration(), Some(28_672));
    /// wheel.insert(1_000, "read"); // In a slot of level 1.
    /// assert_eq!(wheel.next_expiration(), Some(1_000));
    /// ```
    pub fn next_expiration(&self) -> Option<Tick> {
        self.next_work(COARSE - 1)
    }

    /// Like [`next_expiration`](Self::next_expiration), but skips cascades that can wait until an entry is due.
    ///
    /// Use this method with a clock that stands still while the wheel is advanced, such as the paused clock of a test. On such a
    /// clock, a cascade cannot make an entry late.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::Wheel;
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// wheel.insert(30_000, "idle");
    /// assert_eq!(wheel.next_expiration(), Some(28_672));
    /// assert_eq!(wheel.next_deadline(), Some(30_000));
    /// ```
    pub fn next_deadline(&self) -> Option<Tick> {
        self.next_work(Self::LEVELS)
    }

    /// Returns the next tick at which an entry must fire or a slot must cascade. Slots up to the level `patient` may wait.
    fn next_work(&self, patient: usize) -> Option<Tick> {
        if let Some(late) = self.rings.first(Self::LATE) {
            return Some(self.nodes.node(late).deadline.min(self.now));
        }
        if self.has_backlog() {
            return Some(self.now);
        }
        let next = self.rings.next_slot(self.now)?;
        let level = next.ring.row;
        if level == 0 || level > patient {
            return Some(next.start);
        }
        // No entry of another slot has a deadline before this tick.
        let others = (self.rings.next_starts(self.now)).filter(|(other, _)| *other != level);
        let mut first = others.map(|(_, start)| start).min().unwrap_or(NEVER);
        let entries = self.rings.list(&self.nodes, next.ring);
        for (n, (_, deadline)) in entries.enumerate() {
            if n == FEW {
                return Some(next.start);
            }
            first = first.min(deadline);
        }
        // Entries that were reset to a later deadline cascade when the slot ends.
        Some(first.min(Rings::<ROWS, SLOTS>::end_of(&next)))
    }

    /// Moves `now` up to `to`, and passes every entry whose deadline is reached to `fire`.
    ///
    /// Entries fire in this `order`. The advance visits at most `steps` entries and slots, and subtracts the number that it has
    /// visited from `steps`. `fire` can stop the advance earlier.
    ///
    /// Returns `Break` if the steps are used up or `fire` has stopped the advance. The caller must then advance again, to the
    /// same tick or a later one. Meanwhile, `now` stays at the first slot that is not empty, with one exception: if an advance
    /// with [`Order::DueFirst`] stops within a slot, `now` is `to`, and the remaining work is on the
    /// [backlog](Self::has_backlog).
    ///
    /// With [`Order::DueFirst`], entries whose deadlines lie in the same slot of level 1 fire in any order.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use bounded_wheel::{Order, Removed, Wheel};
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// wheel.insert(10, "read");
    /// wheel.insert(10, "write");
    /// wheel.insert(20, "idle");
    ///
    /// let mut fired = Vec::new();
    /// let mut fire = |entry: Removed<&'static str>| {
    ///     fired.push(entry.value);
    ///     ControlFlow::Continue(())
    /// };
    /// // One step is enough for one entry.
    /// assert!(wheel.advance(15, Order::Strict, &mut 1, &mut fire).is_break());
    /// assert!(wheel.advance(15, Order::Strict, &mut 128, &mut fire).is_continue());
    /// assert_eq!(fired, ["read", "write"]);
    /// assert_eq!((wheel.now(), wheel.len()), (15, 1));
    /// ```
    pub fn advance(
        &mut self,
        to: Tick,
        order: Order,
        steps: &mut usize,
        mut fire: impl FnMut(Removed<T>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if self.has_backlog() {
            // Late entries fire first, from the earliest slot to the latest.
            let late = self.visit(Self::LATE, self.now, steps, &mut fire);
            if late.is_break() || self.rings.first(Self::LATE).is_some() {
                return self.stop(to, order);
            }
            // Earlier advances with `Order::DueFirst` may have left a backlog.
            if order == Order::Strict {
                self.cascade_backlog(steps)?;
            }
        }
        while let Some(slot) = self.next_slot(to) {
            if *steps == 0 {
                // Entries that stay in their slots fire in one step, and entries of the backlog in two.
                return ControlFlow::Break(());
            }
            self.now = self.now.max(slot.start);
            let (ring, level) = (slot.ring, slot.ring.row);
            let flow = match order {
                Order::Strict if level > 0 => {
                    self.cascade(&slot, steps);
                    self.cascade_backlog(steps)
                }
                Order::Strict => self.visit(ring, self.now, steps, &mut fire),
                Order::DueFirst if level < COARSE => {
                    let flow = self.visit(ring, to, steps, &mut fire);
                    self.rings.move_to_backlog(&mut self.nodes, ring, LATE_RING);
                    flow
                }
                Order::DueFirst => {
                    *steps -= 1;
                    self.rings.move_to_backlog(&mut self.nodes, ring, level);
                    ControlFlow::Continue(())
                }
            };
            if flow.is_break() {
                return self.stop(to, order);
            }
        }
        self.now = self.now.max(to);
        // The steps may have been used up within the last slot.
        match self.rings.first(Self::LATE) {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }

    /// Ends an advance that has not done all of its work. With [`Order::DueFirst`], moves `now` up to `to`, and every
    /// slot that `now` reaches goes to the backlog. Each slot costs O(1).
    #[cold]
    fn stop(&mut self, to: Tick, order: Order) -> ControlFlow<()> {
        if order == Order::Strict {
            return ControlFlow::Break(());
        }
        while let Some(slot) = self.next_slot(to) {
            self.now = self.now.max(slot.start);
            // Entries of level 0 are all due, so they are late. A slot of level 1 may hold entries
            // that are not due yet.
            self.rings
                .move_to_backlog(&mut self.nodes, slot.ring, slot.ring.row);
        }
        self.now = self.now.max(to);
        ControlFlow::Break(())
    }

    /// Returns whether late entries wait, or [`cascade_backlog`](Self::cascade_backlog) has work to do.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use bounded_wheel::{Order, Wheel};
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// wheel.insert(10_000, "read"); // In a coarse slot, which starts at 8,192.
    /// let _ = wheel.advance(8_192, Order::DueFirst, &mut 128, |_| ControlFlow::Continue(()));
    /// assert!(wheel.has_backlog());
    /// let _ = wheel.cascade_backlog(&mut 128);
    /// assert!(!wheel.has_backlog());
    /// ```
    #[inline]
    pub fn has_backlog(&self) -> bool {
        self.rings.occupied_backlog() != 0
    }

    /// Returns whether [`cascade_backlog`](Self::cascade_backlog) has work to do.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use bounded_wheel::{Order, Wheel};
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// wheel.insert(10, "read");
    /// wheel.insert(10, "write");
    /// // The budget is enough for one entry, so the other one is late. Late entries fire, and do not cascade.
    /// let _ = wheel.advance(10, Order::DueFirst, &mut 1, |_| ControlFlow::Continue(()));
    /// assert!(wheel.has_backlog());
    /// assert!(!wheel.has_cascades());
    /// ```
    #[inline]
    pub fn has_cascades(&self) -> bool {
        self.rings.occupied_backlog() & !(1 << LATE_RING) != 0
    }

    /// Moves entries from the backlog to the slots where they belong now.
    ///
    /// Due entries go to the slot of `now`, and [`advance`](Self::advance) fires them. This method visits at most `steps`
    /// entries, and subtracts the number that it has visited from `steps`. Returns `Break` if entries remain.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use bounded_wheel::{Order, Wheel};
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// wheel.insert(10_000, "read"); // In a coarse slot, which starts at 8,192.
    /// let _ = wheel.advance(8_192, Order::DueFirst, &mut 128, |_| ControlFlow::Continue(()));
    /// assert!(wheel.has_cascades());
    /// assert!(wheel.cascade_backlog(&mut 128).is_continue());
    /// assert_eq!(wheel.next_expiration(), Some(10_000));
    /// ```
    pub fn cascade_backlog(&mut self, steps: &mut usize) -> ControlFlow<()> {
        let levels = |wheel: &Self| wheel.rings.occupied_backlog() & !(1 << LATE_RING);
        if let Some(coarsest) = levels(self).checked_ilog2() {
            let mut share = steps.div_ceil(COARSEST_SHARE);
            *steps -= share;
            self.cascade_ring(coarsest as usize, &mut share);
            *steps += share;
        }
        while levels(self) != 0 {
            if *steps == 0 {
                return ControlFlow::Break(());
            }
            self.cascade_ring(levels(self).trailing_zeros() as usize, steps);
        }
        ControlFlow::Continue(())
    }

    /// Returns the occupied slot that starts first, if it starts at `to` or earlier.
    #[inline]
    fn next_slot(&self, to: Tick) -> Option<Slot> {
        let next = self.rings.next_slot(self.now);
        next.filter(|slot| slot.start <= to)
    }

    /// Visits the entries of a ring from first to last, up to `steps` entries.
    ///
    /// The function fires the entries whose deadline is not after `due`. It moves every other entry
    /// to the slot where the entry belongs. It stops when `fire` returns `Break`.
    fn visit(
        &mut self,
        ring: Ring,
        due: Tick,
        steps: &mut usize,
        mut fire: impl FnMut(Removed<T>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        while let Some(index) = self.rings.first(ring).filter(|_| *steps > 0) {
            *steps -= 1;
            let deadline = self.nodes.node(index).deadline;
            if deadline > due {
                self.relink(index);
                continue;
            }
            fire(self.remove_at(index))?;
        }
        ControlFlow::Continue(())
    }

    /// Cascades the entries of a ring of the backlog from first to last, up to `steps` entries.
    fn cascade_ring(&mut self, ring: usize, steps: &mut usize) {
        let ring = Rings::<ROWS, SLOTS>::backlog(ring);
        while let Some(index) = self.rings.first(ring).filter(|_| *steps > 0) {
            *steps -= 1;
            self.relink(index);
        }
    }

    /// Cascades the entries of a slot from last to first, up to `steps` entries.
    ///
    /// Each entry goes before the other entries of its new slot. An entry that was reset to a
    /// deadline after this slot goes to the backlog. When this entry leaves the backlog, it goes
    /// after the other entries of its new slot.
    fn cascade(&mut self, slot: &Slot, steps: &mut usize) {
        let end = Rings::<ROWS, SLOTS>::end_of(slot);
        while let Some(index) = self.rings.last(slot.ring).filter(|_| *steps > 0) {
            *steps -= 1;
            let node = self.nodes.node(index);
            let (deadline, links) = (node.deadline, node.links);
            self.rings.unlink(&mut self.nodes, links);
            let ring = if deadline < end {
                self.place(deadline)
            } else {
                Rings::<ROWS, SLOTS>::backlog(slot.ring.row)
            };
            self.rings.push_first(&mut self.nodes, ring, index);
        }
    }
}
