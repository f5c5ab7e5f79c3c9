//! The rings of a wheel. A ring is a linked list of nodes. Each slot is a ring, and each part of
//! the backlog is a ring.
//!
//! The links of a ring lead from the ring through all of its nodes and back to the ring. So the
//! links of a node suffice to remove the node from its ring. The deadline of the node is not
//! needed.

use super::{
    nodes::{Links, Nodes},
    tick::Tick,
};

/// If this bit of a link is set, the other bits are the index of a ring. Otherwise, the link is the
/// index of a node.
const RING: u32 = 1 << 31;

/// The finest level whose slots go to the backlog.
///
/// At the default tick, a slot of level 2 spans 64 ms. When the wheel reaches such a slot, nearly
/// all of its entries only cascade. A slot of level 1 spans 1 ms. When the wheel reaches such a
/// slot, nearly all of its entries are due.
pub(super) const COARSE: usize = 2;

/// The level and the slot where an entry belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(super) level: usize,
    pub(super) slot: usize,
}

/// An occupied slot, and the first tick that it spans.
pub(super) struct Slot {
    pub(super) level: usize,
    pub(super) number: usize,
    pub(super) start: Tick,
}

/// The first and the last node of a ring. An empty ring links to itself.
#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
}

/// Holds one row of rings for each of the `ROWS - 1` levels, and one row for the backlog. Each
/// level has `SLOTS` slots.
#[repr(C)]
pub(super) struct Rings<const ROWS: usize, const SLOTS: usize> {
    /// One word for each row: bit `n` is set when ring `n` has entries.
    occupied: [u64; ROWS],
    /// The ends of each ring, by row and ring.
    ends: [[Ends; SLOTS]; ROWS],
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
    pub(super) fn new() -> Self {
        Self {
            occupied: [0; ROWS],
            ends: std::array::from_fn(|row| {
                std::array::from_fn(|ring| Ends {
                    first: Self::link_to(row, ring),
                    last: Self::link_to(row, ring),
                })
            }),
        }
    }

    /// Returns the place where an entry with this deadline belongs at the tick `now`.
    #[inline]
    pub(super) fn place(now: Tick, deadline: Tick) -> Place {
        let deadline = deadline.max(now);
        let ahead = |shift| (deadline.0 >> shift) - (now.0 >> shift);
        // The distance in ticks selects the level. But `now` may lie anywhere within its own slot.
        // So the deadline can be `SLOTS` slots ahead. In this case, the deadline belongs one level
        // higher.
        let level = ((deadline.0 - now.0) | 1).ilog2() / Self::BITS;
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
        let slot = (now.0 >> shift) + distance;
        Place {
            level: Self::TOP,
            slot: slot as usize % SLOTS,
        }
    }

    /// Returns the occupied slot that starts first.
    ///
    /// If several slots start at one tick, the slot of level 0 comes last, because entries of the
    /// other slots may cascade into it. Of the other slots, the finest slot comes first, because
    /// its entries were registered last. See [`Order::Strict`](super::Order::Strict).
    #[inline]
    pub(super) fn next_slot(&self, now: Tick) -> Option<Slot> {
        let mut next: Option<(usize, Tick)> = None;
        for level in 0..Self::LEVELS {
            if let Some(start) = self.next_start(now, level) {
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
        Some(Slot {
            level,
            number: Self::slot_of(level, start),
            start,
        })
    }

    /// Returns the start of the first occupied slot of a level.
    #[inline]
    pub(super) fn next_start(&self, now: Tick, level: usize) -> Option<Tick> {
        let occupied = self.occupied[level];
        if occupied == 0 {
            return None;
        }
        let current = Self::slot_of(level, now);
        let ahead = occupied >> current;
        let distance = if ahead != 0 {
            ahead.trailing_zeros()
        } else {
            occupied.trailing_zeros() + (SLOTS - current) as u32
        };
        Some(Self::start(now, level, u64::from(distance)))
    }

    /// Returns the occupied slots of a level, ordered by start.
    pub(super) fn slots(&self, now: Tick, level: usize) -> impl Iterator<Item = Slot> {
        let occupied = self.occupied[level];
        let current = Self::slot_of(level, now);
        let ahead = if occupied == 0 { 0 } else { SLOTS };
        (0..ahead).filter_map(move |distance| {
            let number = (current + distance) % SLOTS;
            (occupied >> number & 1 == 1).then(|| Slot {
                level,
                number,
                start: Self::start(now, level, distance as u64),
            })
        })
    }

    /// Returns the index of the slot that spans a tick on a level.
    #[inline]
    pub(super) fn slot_of(level: usize, tick: Tick) -> usize {
        (tick.0 >> (level as u32 * Self::BITS)) as usize % SLOTS
    }

    /// Returns the start of the slot that is `distance` slots ahead of the slot of `now` on a
    /// level.
    #[inline]
    pub(super) fn start(now: Tick, level: usize, distance: u64) -> Tick {
        let shift = level as u32 * Self::BITS;
        Tick(((now.0 >> shift) + distance) << shift)
    }

    /// Returns the first tick after a slot.
    pub(super) fn end_of(slot: &Slot) -> Tick {
        let span = 1 << (slot.level as u32 * Self::BITS);
        Tick(slot.start.0.saturating_add(span))
    }

    /// Returns a word in which bit `n` is set if ring `n` of the backlog has entries.
    #[inline]
    pub(super) fn backlog(&self) -> u64 {
        self.occupied[Self::BACKLOG]
    }

    /// Returns the index of the first node of a ring.
    #[inline]
    pub(super) fn first(&self, row: usize, ring: usize) -> Option<u32> {
        let first = self.ends[row][ring].first;
        (first & RING == 0).then_some(first)
    }

    /// Returns the index of the last node of a ring.
    #[inline]
    pub(super) fn last(&self, row: usize, ring: usize) -> Option<u32> {
        let last = self.ends[row][ring].last;
        (last & RING == 0).then_some(last)
    }

    /// Returns the nodes of a ring with their deadlines, from first to last.
    pub(super) fn list<T>(
        &self,
        nodes: &Nodes<T>,
        row: usize,
        ring: usize,
    ) -> impl Iterator<Item = (u32, Tick)> {
        let mut next = self.ends[row][ring].first;
        std::iter::from_fn(move || {
            if next & RING != 0 {
                return None;
            }
            let (index, node) = (next, nodes.node(next));
            next = node.links.next;
            Some((index, node.deadline))
        })
    }

    /// Returns the links of a node that will become the last node of a slot.
    #[inline]
    pub(super) fn links_of_last(&self, Place { level, slot }: Place) -> Links {
        Links {
            prev: self.ends[level][slot].last,
            next: Self::link_to(level, slot),
        }
    }

    /// Puts a node with these links at the end of a slot.
    #[inline]
    pub(super) fn push_last<T>(
        &mut self,
        nodes: &mut Nodes<T>,
        Place { level, slot }: Place,
        index: u32,
        links: Links,
    ) {
        self.ends[level][slot].last = index;
        self.occupied[level] |= 1 << slot;
        self.set_next(nodes, links.prev, index);
    }

    /// Puts a node at the start of a ring. The node must be in no ring yet.
    pub(super) fn push_first<T>(
        &mut self,
        nodes: &mut Nodes<T>,
        (row, ring): (usize, usize),
        index: u32,
    ) {
        let next = self.ends[row][ring].first;
        nodes.node_mut(index).links = Links {
            prev: Self::link_to(row, ring),
            next,
        };
        self.ends[row][ring].first = index;
        self.occupied[row] |= 1 << ring;
        self.set_prev(nodes, next, index);
    }

    /// Closes the gap that a node with these links leaves in its ring.
    #[inline]
    pub(super) fn unlink<T>(&mut self, nodes: &mut Nodes<T>, Links { prev, next }: Links) {
        self.set_prev(nodes, next, prev);
        self.set_next(nodes, prev, next);
        if prev & next & RING != 0 {
            let (row, ring) = Self::ring_of(prev);
            self.occupied[row] &= !(1 << ring);
        }
    }

    /// Moves the nodes of a slot to the end of a ring of the backlog.
    pub(super) fn move_to_backlog<T>(&mut self, nodes: &mut Nodes<T>, slot: &Slot, ring: usize) {
        let Ends { first, last } = self.ends[slot.level][slot.number];
        if first & RING != 0 {
            return;
        }
        let emptied = Self::link_to(slot.level, slot.number);
        self.set_next(nodes, emptied, emptied);
        self.set_prev(nodes, emptied, emptied);
        self.occupied[slot.level] &= !(1 << slot.number);
        let backlog = Self::link_to(Self::BACKLOG, ring);
        let before = self.ends[Self::BACKLOG][ring].last;
        self.set_prev(nodes, first, before);
        self.set_next(nodes, before, first);
        self.set_next(nodes, last, backlog);
        self.set_prev(nodes, backlog, last);
        self.occupied[Self::BACKLOG] |= 1 << ring;
    }

    /// Returns the link that leads to a ring.
    #[inline]
    fn link_to(row: usize, ring: usize) -> u32 {
        RING | (row * SLOTS + ring) as u32
    }

    /// Returns the row and the ring to which a link leads.
    #[inline]
    fn ring_of(link: u32) -> (usize, usize) {
        let number = (link & !RING) as usize;
        (number / SLOTS, number % SLOTS)
    }

    /// Sets the predecessor of the node or ring to which `link` leads.
    #[inline]
    fn set_prev<T>(&mut self, nodes: &mut Nodes<T>, link: u32, prev: u32) {
        if link & RING == 0 {
            nodes.node_mut(link).links.prev = prev;
        } else {
            let (row, ring) = Self::ring_of(link);
            self.ends[row][ring].last = prev;
        }
    }

    /// Sets the successor of the node or ring to which `link` leads.
    #[inline]
    fn set_next<T>(&mut self, nodes: &mut Nodes<T>, link: u32, next: u32) {
        if link & RING == 0 {
            nodes.node_mut(link).links.next = next;
        } else {
            let (row, ring) = Self::ring_of(link);
            self.ends[row][ring].first = next;
        }
    }
}

#[cfg(all(any(test, fuzzing), not(tokio_wheel_loom)))]
impl<const ROWS: usize, const SLOTS: usize> Rings<ROWS, SLOTS> {
    /// Checks that the links of all nodes agree. Passes the row, the ring and the deadline of each
    /// node to `check`.
    pub(super) fn assert_invariants<T>(
        &self,
        nodes: &Nodes<T>,
        mut check: impl FnMut(usize, usize, Tick),
    ) {
        for (row, rings) in self.ends.iter().enumerate() {
            for (ring, ends) in rings.iter().enumerate() {
                let this = Self::link_to(row, ring);
                let occupied = self.occupied[row] >> ring & 1 == 1;
                assert_eq!(occupied, ends.first != this, "row {row}, ring {ring}");
                let (mut prev, mut index) = (this, ends.first);
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
                    ends.last, prev,
                    "the links of row {row}, ring {ring} disagree"
                );
            }
        }
    }
}
