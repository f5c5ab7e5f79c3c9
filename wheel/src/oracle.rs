//! Applies each operation to a wheel and to a sorted map of deadlines, and compares the results.
//!
//! The property tests and the fuzz target `wheel` choose the operations.

use std::{collections::BTreeMap, ops::ControlFlow};

use crate::*;

impl<T, const ROWS: usize, const SLOTS: usize> Wheel<T, ROWS, SLOTS> {
    /// Asserts the rules that hold between any two operations.
    pub fn assert_invariants(&self) {
        self.nodes.assert_invariants();
        let mut linked = 0;
        self.rings
            .assert_invariants(&self.nodes, |row, ring, deadline| {
                if row != Rings::<ROWS, SLOTS>::BACKLOG {
                    let start = self.start_of(row, ring);
                    assert!(
                        start <= deadline.max(self.now),
                        "a slot that starts at {start:?} holds the deadline {deadline:?}"
                    );
                }
                linked += 1;
            });
        assert_eq!(linked, self.len(), "an entry is in no slot");
        let chunks = (0..).map_while(|number| self.chunk(number));
        assert_eq!(chunks.flatten().count(), linked);
    }

    /// Returns the first tick that a slot spans.
    ///
    /// If the wheel passed an occupied slot by mistake, this function returns a later start of the
    /// slot. The deadlines in the slot are before this later start.
    fn start_of(&self, level: usize, slot: usize) -> Tick {
        let current = Rings::<ROWS, SLOTS>::slot_of(level, self.now).number;
        let distance = (slot + SLOTS - current) % SLOTS;
        Rings::<ROWS, SLOTS>::start(self.now, level, distance as u64)
    }
}

/// The expected content of the wheel.
#[derive(Default)]
struct Oracle {
    now: u64,
    deadlines: BTreeMap<u32, u64>,
}

/// An operation of a random program. In `Deregister`, `Later` and `Reset`, the `usize` selects one
/// of the keys made so far. The key may be stale.
#[derive(Clone, Debug)]
pub enum Op {
    Register(u64),
    RegisterAt(u64),
    Deregister(usize),
    Later(usize, u64),
    Reset(usize, u64),
    Advance(u64),
    AdvanceBy(u64, usize),
    AdvanceOneByOne(u64),
    /// Advances in one round, with this many steps for each kind of work.
    AdvanceOnce(u64, usize),
    Leap,
    CatchUp(u64),
    Reserve(usize),
    ShrinkToFit,
    Clear,
}

impl Op {
    /// Returns the operation, and limits an advance to fewer than 100 ticks. Does not change
    /// deadlines, even if the wheel never reaches them.
    ///
    /// A wheel of 16 ticks advances by one turn at a time, so a long advance would take too many
    /// turns.
    pub fn tame(self) -> Self {
        match self {
            Self::Advance(by) => Self::Advance(by % 100),
            Self::AdvanceBy(by, budget) => Self::AdvanceBy(by % 100, budget),
            Self::AdvanceOneByOne(by) => Self::AdvanceOneByOne(by % 100),
            Self::AdvanceOnce(by, steps) => Self::AdvanceOnce(by % 100, steps),
            Self::CatchUp(by) => Self::CatchUp(by % 100),
            Self::Leap => Self::Advance(16),
            other => other,
        }
    }
}

/// A wheel and its oracle.
pub struct Pair<const ROWS: usize, const SLOTS: usize> {
    order: Order,
    wheel: Wheel<u32, ROWS, SLOTS>,
    oracle: Oracle,
    keys: Vec<Key>,
}

impl<const ROWS: usize, const SLOTS: usize> Pair<ROWS, SLOTS> {
    /// Returns one pair for each order.
    pub fn all() -> [Self; 2] {
        [Order::Strict, Order::DueFirst].map(|order| Self {
            order,
            wheel: Wheel::new(0),
            oracle: Oracle::default(),
            keys: Vec::new(),
        })
    }

    pub fn apply(&mut self, op: Op) {
        let chosen = |key: usize| (!self.keys.is_empty()).then(|| key % self.keys.len());
        match op {
            Op::Register(after) => self.register(self.oracle.now.saturating_add(after)),
            Op::RegisterAt(deadline) => self.register(deadline),
            Op::Deregister(key) => {
                let Some(id) = chosen(key) else { return };
                let expected = self.oracle.deadlines.remove(&(id as u32));
                let removed = self.wheel.remove(self.keys[id]);
                let removed = removed.map(|removed| removed.value);
                assert_eq!(removed, expected.map(|_| id as u32));
            }
            Op::Later(key, by) => {
                let Some(id) = chosen(key) else { return };
                let from = self.oracle.deadlines.get(&(id as u32));
                self.reset(id, from.map_or(by, |from| from.saturating_add(by)));
            }
            Op::Reset(key, by) => {
                let Some(id) = chosen(key) else { return };
                self.reset(id, self.oracle.now.saturating_add(by));
            }
            Op::Advance(by) => self.advance(self.oracle.now.saturating_add(by), usize::MAX),
            Op::AdvanceBy(by, budget) => {
                self.advance(self.oracle.now.saturating_add(by), budget);
            }
            Op::AdvanceOneByOne(by) => {
                let to = self.oracle.now.saturating_add(by);
                self.advance_until(to, usize::MAX, ControlFlow::Break(()));
            }
            Op::AdvanceOnce(by, steps) => {
                let to = self.oracle.now.saturating_add(by);
                let _ = self.advance_once(to, steps, ControlFlow::Continue(()));
                // Time has passed, even if the wheel has more to do.
                self.oracle.now = self.wheel.now();
            }
            Op::CatchUp(by) => {
                self.wheel.catch_up(self.oracle.now.saturating_add(by));
                self.oracle.now = self.wheel.now();
            }
            Op::Reserve(additional) => {
                while self.wheel.nodes.capacity() < self.wheel.len() + additional {
                    let chunks = self.wheel.nodes.chunks_wanted();
                    drop(self.wheel.nodes.refill(Refill::allocate(chunks)));
                }
            }
            Op::ShrinkToFit => self.wheel.shrink_to_fit(),
            Op::Clear => {
                self.wheel.clear();
                self.oracle.deadlines.clear();
            }
            Op::Leap => {
                let next = self.oracle.deadlines.values().min().copied();
                self.advance(next.unwrap_or(0).max(self.oracle.now), usize::MAX);
            }
        }
        self.check();
        if self.oracle.now % 2 == 0 {
            self.wheel.free_unused(0);
            self.check();
        }
    }

    fn register(&mut self, deadline: u64) {
        let id = self.keys.len() as u32;
        self.keys.push(self.wheel.insert(deadline, id));
        self.oracle.deadlines.insert(id, deadline);
    }

    fn reset(&mut self, id: usize, deadline: u64) {
        let expected = self.oracle.deadlines.get_mut(&(id as u32));
        // `postpone` and `reset` must agree.
        let postponed = self.wheel.postpone(self.keys[id], deadline);
        let stored = expected.as_ref().map(|before| deadline >= **before);
        assert_eq!(postponed, stored);
        let reset = self.wheel.reset(self.keys[id], deadline);
        assert_eq!(reset, expected.is_some());
        if let Some(expected) = expected {
            *expected = deadline;
        }
    }

    /// Advances in rounds until no work is left. Each round stays within the budget. Compares the
    /// fired entries with the oracle.
    fn advance(&mut self, to: u64, budget: usize) {
        self.advance_until(to, budget, ControlFlow::Continue(()));
    }

    fn advance_until(&mut self, to: u64, budget: usize, flow: ControlFlow<()>) {
        let mut last = 0;
        let mut rounds = 0;
        loop {
            let (advance, fired) = self.advance_once(to, budget, flow);
            for deadline in fired {
                // Entries that were due before this advance fire first.
                let deadline = deadline.max(self.oracle.now);
                assert!(
                    self.order != Order::Strict || last <= deadline,
                    "entries fired out of order"
                );
                last = deadline;
            }
            if advance == ControlFlow::Continue(()) {
                break;
            }
            rounds += 1;
            assert!(rounds < 1_000_000, "the wheel makes no progress");
        }
        self.oracle.now = self.oracle.now.max(to);
        assert_eq!(self.wheel.now(), self.oracle.now);
        let due = |deadline: &u64| *deadline <= to;
        assert!(
            !self.oracle.deadlines.values().any(due),
            "a due entry has not fired"
        );
    }

    /// Lets the wheel do up to `budget` steps of each kind of work. Returns the deadlines of the
    /// entries that fired.
    fn advance_once(
        &mut self,
        to: u64,
        budget: usize,
        flow: ControlFlow<()>,
    ) -> (ControlFlow<()>, Vec<u64>) {
        let mut fired = Vec::new();
        let mut fire = |expired: Removed<u32>| {
            assert_eq!(expired.key, self.keys[expired.value as usize]);
            let deadline = self.oracle.deadlines.remove(&expired.value);
            assert_eq!(
                Some(expired.deadline),
                deadline,
                "an entry fired twice or with a wrong deadline"
            );
            assert!(expired.deadline <= to, "an entry fired early");
            fired.push(expired.deadline);
            flow
        };
        let mut advance = (self.wheel).advance(to, self.order, &mut { budget }, &mut fire);
        let mut most = budget;
        if self.order == Order::DueFirst {
            let _ = self.wheel.cascade_backlog(&mut { budget });
            let (now, order) = (to, self.order);
            advance = (self.wheel).advance(now, order, &mut { budget }, &mut fire);
            if self.wheel.has_backlog() {
                advance = ControlFlow::Break(());
            }
            most = most.saturating_mul(2);
        } else {
            assert!(advance == ControlFlow::Break(()) || !self.wheel.has_backlog());
        }
        if flow.is_break() {
            most = most.min(2);
        }
        assert!(fired.len() <= most, "the wheel did more steps than it may");
        self.wheel.assert_invariants();
        (advance, fired)
    }

    fn check(&self) {
        self.wheel.assert_invariants();
        assert_eq!(self.wheel.len(), self.oracle.deadlines.len());
        let first = self.oracle.deadlines.values().min();
        let (next, patient) = (self.wheel.next_expiration(), self.wheel.next_deadline());
        assert_eq!(
            (next.is_some(), patient.is_some()),
            (first.is_some(), first.is_some())
        );
        if let (Some(next), Some(patient), Some(first)) = (next, patient, first) {
            assert!(
                next <= patient && patient <= (*first).max(self.oracle.now),
                "the next expiration is after a deadline"
            );
        }
        for (id, key) in self.keys.iter().enumerate() {
            let expected = self.oracle.deadlines.get(&(id as u32));
            let deadline = self.wheel.deadline(*key);
            assert_eq!(deadline, expected.copied());
            let value = expected.map(|_| id as u32);
            assert_eq!(self.wheel.get(*key).copied(), value);
        }
        if self.order == Order::DueFirst {
            return;
        }
        // Among equal deadlines, any entry may be first. Late entries may come in any order.
        let now = self.oracle.now;
        let earliest = self.wheel.first().and_then(|key| self.wheel.deadline(key));
        let first = first.map(|first| (*first).max(now));
        assert_eq!(earliest.map(|earliest| earliest.max(now)), first);
    }
}
