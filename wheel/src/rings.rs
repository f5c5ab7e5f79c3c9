//! The rings of a wheel. A ring is a linked list of nodes. Each slot is a ring, and each part of
//! the backlog is a ring.
//!
//! The links of a ring lead from the ring through all of its nodes and back to the ring. So the
//! links of a node suffice to remove the node from its ring. The deadline of the node is not
//! needed.

use std::{iter, mem};

use crate::{
    nodes::{Links, Nodes},
    tick::Tick,
};

/// If this bit of a link is set, the other bits are the index of a ring. Otherwise, the link is the
/// index of a node.
const RING: u32 = 1 << 31;

/// The finest level whose slots go to the backlog.
///
/// With a tick of 1/64 ms, tokio-wheel's default, a slot of level 2 spans 64 ms. When the wheel
/// reaches such a slot, nearly all of its entries only cascade. A slot of level 1 spans 1 ms. When
/// the wheel reaches such a slot, nearly all of its entries are due.
pub(super) const COARSE: usize = 2;

/// The row and the number of a ring. The row of a slot is its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    pub(super) row: usize,
    pub(super) number: usize,
}

/// An occupied slot, and the first tick that it spans.
pub(super) struct Slot {
    pub(super) ring: Ring,
    pub(super) start: Tick,
}

/// Holds one row of rings for each of the `ROWS - 1` levels, and one row for the backlog. Each
/// level has `SLOTS` slots.
#[repr(C)]
pub(super) struct Rings<const ROWS: usize, const SLOTS: usize> {
    /// Bit `n` is set when a ring of row `n` has entries.
    rows: u64,
    /// One word for each row: bit `n` is set when ring `n` has entries.
    occupied: [u64; ROWS],
    /// The links of each ring to its first node and to its last node. An empty ring links to itself.
    links: [[Links; SLOTS]; ROWS],
}

impl<const ROWS: usize, const SLOTS: usize> Rings<ROWS, SLOTS> {
    /// The number of bits of a tick that a level resolves.
    const BITS: u32 = {
        assert!(SLOTS.is_power_of_two() && SLOTS >= 2 && SLOTS <= 64);
        assert!(Self::LEVELS >= 1 && Self::LEVELS <= SLOTS);
        assert!(Self::TOP * (SLOTS.trailing_zeros() as usize) < 64);
        SLOTS.trailing_zeros()
    };

    /// The number of levels.
    pub(super) const LEVELS: usize = ROWS - 1;

    /// The index of the top level.
    const TOP: usize = Self::LEVELS - 1;

    /// The row of the backlog.
    pub(super) const BACKLOG: usize = Self::LEVELS;

    /// Creates empty rings.
    pub(super) const fn new() -> Self {
        let mut links = [[Links { prev: 0, next: 0 }; SLOTS]; ROWS];
        let mut row = 0;
        while row < ROWS {
            let mut number = 0;
            while number < SLOTS {
                links[row][number] = Self::links_of_empty(Ring { row, number });
                number += 1;
            }
            row += 1;
        }
        Self {
            rows: 0,
            occupied: [0; ROWS],
            links,
        }
    }

    /// Returns the slot where an entry with this deadline belongs at the tick `now`.
    #[inline]
    pub(super) fn place(now: Tick, deadline: Tick) -> Ring {
        let deadline = deadline.max(now);
        let ahead = |shift| (deadline >> shift) - (now >> shift);
        // The distance in ticks selects the level. But `now` may lie anywhere within its own slot.
        // So the deadline can be `SLOTS` slots ahead. In this case, the deadline belongs one level
        // higher.
        let level = ((deadline - now) | 1).ilog2() / Self::BITS;
        let level = level + (ahead(level * Self::BITS) >> Self::BITS) as u32;
        // The formula below holds for every level. But an insertion waits for the slot, and with
        // this formula alone, a timeout took 1 ns more (`compare ops --workload io`).
        if (level as usize) < Self::TOP {
            return Self::slot_of(level as usize, deadline);
        }
        let shift = Self::TOP as u32 * Self::BITS;
        let distance = ahead(shift).min(SLOTS as u64 - 1);
        Self::slot_of(Self::TOP, Self::start(now, Self::TOP, distance))
    }

    /// Returns the occupied slot that starts first.
    ///
    /// If several slots start at one tick, the slot of level 0 comes last, because entries of the
    /// other slots may cascade into it. Of the other slots, the finest slot comes first, because
    /// its entries were inserted last. See [`Order::Strict`](super::Order::Strict).
    #[inline]
    pub(super) fn next_slot(&self, now: Tick) -> Option<Slot> {
        let mut next: Option<(usize, Tick)> = None;
        for (level, start) in self.next_starts(now) {
            let is_next = match next {
                Some((0, first)) => start <= first,
                Some((_, first)) => start < first,
                None => true,
            };
            if is_next {
                next = Some((level, start));
            }
        }
        let (level, start) = next?;
        let ring = Self::slot_of(level, start);
        Some(Slot { ring, start })
    }

    /// Returns the occupied levels, with the start of the first occupied slot of each.
    #[inline]
    pub(super) fn next_starts(&self, now: Tick) -> impl Iterator<Item = (usize, Tick)> {
        let mut levels = self.rows & !(1 << Self::BACKLOG);
        iter::from_fn(move || {
            if levels == 0 {
                return None;
            }
            let level = levels.trailing_zeros() as usize;
            levels &= levels - 1;
            Some((level, self.next_start(now, level)))
        })
    }

    /// Returns the start of the first occupied slot of a level, which must have one.
    #[inline]
    fn next_start(&self, now: Tick, level: usize) -> Tick {
        let occupied = self.occupied[level];
        let current = Self::slot_of(level, now).number;
        let ahead = occupied >> current;
        let distance = if ahead != 0 {
            ahead.trailing_zeros()
        } else {
            occupied.trailing_zeros() + (SLOTS - current) as u32
        };
        Self::start(now, level, u64::from(distance))
    }

    /// Returns the occupied slots of a level, ordered by start.
    pub(super) fn slots(&self, now: Tick, level: usize) -> impl Iterator<Item = Slot> {
        let occupied = self.occupied[level];
        let current = Self::slot_of(level, now).number;
        let ahead = if occupied == 0 { 0 } else { SLOTS };
        (0..ahead).filter_map(move |distance| {
            let number = (current + distance) % SLOTS;
            (occupied >> number & 1 == 1).then(|| Slot {
                ring: Ring { row: level, number },
                start: Self::start(now, level, distance as u64),
            })
        })
    }

    /// Returns the slot that spans a tick on a level.
    #[inline]
    pub(super) fn slot_of(level: usize, tick: Tick) -> Ring {
        let number = (tick >> (level as u32 * Self::BITS)) as usize % SLOTS;
        Ring { row: level, number }
    }

    /// Returns the start of the slot that is `distance` slots ahead of the slot of `now` on a
    /// level.
    #[inline]
    pub(super) fn start(now: Tick, level: usize, distance: u64) -> Tick {
        let shift = level as u32 * Self::BITS;
        ((now >> shift) + distance) << shift
    }

    /// Returns the first tick after a slot.
    pub(super) fn end_of(slot: &Slot) -> Tick {
        let span = 1 << (slot.ring.row as u32 * Self::BITS);
        slot.start.saturating_add(span)
    }

    /// Returns a ring of the backlog.
    pub(super) const fn backlog(number: usize) -> Ring {
        let row = Self::BACKLOG;
        Ring { row, number }
    }

    /// Returns a word in which bit `n` is set if ring `n` of the backlog has entries.
    #[inline]
    pub(super) fn occupied_backlog(&self) -> u64 {
        self.occupied[Self::BACKLOG]
    }

    /// Returns the index of the first node of a ring.
    #[inline]
    pub(super) fn first(&self, ring: Ring) -> Option<u32> {
        let first = self.links[ring.row][ring.number].next;
        (first & RING == 0).then_some(first)
    }

    /// Returns the index of the last node of a ring.
    #[inline]
    pub(super) fn last(&self, ring: Ring) -> Option<u32> {
        let last = self.links[ring.row][ring.number].prev;
        (last & RING == 0).then_some(last)
    }

    /// Returns the nodes of a ring with their deadlines, from first to last.
    pub(super) fn list<T>(
        &self,
        nodes: &Nodes<T>,
        ring: Ring,
    ) -> impl Iterator<Item = (u32, Tick)> {
        let mut next = self.links[ring.row][ring.number].next;
        iter::from_fn(move || {
            if next & RING != 0 {
                return None;
            }
            let (index, node) = (next, nodes.node(next));
            next = node.links.next;
            Some((index, node.deadline))
        })
    }

    /// Returns the links of a node that will become the last node of a ring.
    #[inline]
    pub(super) fn links_of_last(&self, ring: Ring) -> Links {
        Links {
            prev: self.links[ring.row][ring.number].prev,
            next: Self::link_to(ring),
        }
    }

    /// Puts a node at the end of a ring. `links` must come from [`links_of_last`](Self::links_of_last) for this
    /// ring, and the node must already have these links.
    #[inline]
    pub(super) fn push_last<T>(
        &mut self,
        nodes: &mut Nodes<T>,
        ring: Ring,
        index: u32,
        links: Links,
    ) {
        self.links[ring.row][ring.number].prev = index;
        self.occupy(ring);
        self.links_mut(nodes, links.prev).next = index;
    }

    /// Puts a node at the start of a ring. The node must be in no ring yet.
    pub(super) fn push_first<T>(&mut self, nodes: &mut Nodes<T>, ring: Ring, index: u32) {
        let next = self.links[ring.row][ring.number].next;
        nodes.node_mut(index).links = Links {
            prev: Self::link_to(ring),
            next,
        };
        self.links[ring.row][ring.number].next = index;
        self.occupy(ring);
        self.links_mut(nodes, next).prev = index;
    }

    /// Closes the gap that a node with these links leaves in its ring.
    #[inline]
    pub(super) fn unlink<T>(&mut self, nodes: &mut Nodes<T>, Links { prev, next }: Links) {
        self.links_mut(nodes, next).prev = prev;
        self.links_mut(nodes, prev).next = next;
        if prev & next & RING != 0 {
            self.vacate(Self::ring_of(prev));
        }
    }

    /// Records that a ring has entries.
    #[inline]
    fn occupy(&mut self, ring: Ring) {
        self.occupied[ring.row] |= 1 << ring.number;
        self.rows |= 1 << ring.row;
    }

    /// Records that a ring has no entry.
    #[inline]
    fn vacate(&mut self, ring: Ring) {
        let occupied = &mut self.occupied[ring.row];
        *occupied &= !(1 << ring.number);
        if *occupied == 0 {
            self.rows &= !(1 << ring.row);
        }
    }

    /// Moves the nodes of a slot to the end of a ring of the backlog.
    pub(super) fn move_to_backlog<T>(&mut self, nodes: &mut Nodes<T>, from: Ring, number: usize) {
        let emptied = &mut self.links[from.row][from.number];
        let moved = mem::replace(emptied, Self::links_of_empty(from));
        let (first, last) = (moved.next, moved.prev);
        if first & RING != 0 {
            return;
        }
        self.vacate(from);
        let to = Self::backlog(number);
        let Links { prev, next } = self.links_of_last(to);
        nodes.node_mut(first).links.prev = prev;
        nodes.node_mut(last).links.next = next;
        self.links_mut(nodes, prev).next = first;
        self.links[to.row][to.number].prev = last;
        self.occupy(to);
    }

    /// Returns the links of an empty ring, which lead to the ring itself.
    const fn links_of_empty(ring: Ring) -> Links {
        let (prev, next) = (Self::link_to(ring), Self::link_to(ring));
        Links { prev, next }
    }

    /// Returns the link that leads to a ring.
    #[inline]
    const fn link_to(ring: Ring) -> u32 {
        RING | (ring.row * SLOTS + ring.number) as u32
    }

    /// Returns the ring to which a link leads.
    #[inline]
    fn ring_of(link: u32) -> Ring {
        let number = (link & !RING) as usize;
        Ring {
            row: number / SLOTS,
            number: number % SLOTS,
        }
    }

    /// Returns the links of the node or ring to which `link` leads.
    #[inline]
    fn links_mut<'a, T>(&'a mut self, nodes: &'a mut Nodes<T>, link: u32) -> &'a mut Links {
        if link & RING == 0 {
            &mut nodes.node_mut(link).links
        } else {
            let ring = Self::ring_of(link);
            &mut self.links[ring.row][ring.number]
        }
    }
}

#[cfg(all(any(test, fuzzing), not(tokio_wheel_loom)))]
mod invariants {
    use super::*;

    impl<const ROWS: usize, const SLOTS: usize> Rings<ROWS, SLOTS> {
        /// Checks that the links of all nodes agree. Passes the row, the ring and the deadline of each
        /// node to `check`.
        pub(crate) fn assert_invariants<T>(
            &self,
            nodes: &Nodes<T>,
            mut check: impl FnMut(usize, usize, Tick),
        ) {
            for (row, rings) in self.links.iter().enumerate() {
                assert_eq!(
                    self.rows >> row & 1 == 1,
                    self.occupied[row] != 0,
                    "row {row}"
                );
                for (ring, links) in rings.iter().enumerate() {
                    let this = Self::link_to(Ring { row, number: ring });
                    let occupied = self.occupied[row] >> ring & 1 == 1;
                    assert_eq!(occupied, links.next != this, "row {row}, ring {ring}");
                    let (mut prev, mut index) = (this, links.next);
                    while index != this {
                        let node = nodes.node(index);
                        assert_eq!(
                            node.links.prev, prev,
                            "the links of row {row}, ring {ring} disagree"
                        );
                        check(row, ring, node.deadline);
                        (prev, index) = (index, node.links.next);
                    }
                    assert_eq!(
                        links.prev, prev,
                        "the links of row {row}, ring {ring} disagree"
                    );
                }
            }
        }
    }
}
