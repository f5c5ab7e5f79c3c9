//! The wheel against an oracle: a sorted map of deadlines.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};

use super::*;

impl<T, const LEVELS: usize, const SLOTS: usize> Wheel<T, LEVELS, SLOTS> {
    /// What must hold between any two operations.
    pub(crate) fn assert_invariants(&self) {
        self.entries.assert_invariants();
        let mut linked = 0;
        for (level, lists) in self.lists.iter().enumerate() {
            let shift = level as u32 * Self::BITS;
            let turn = self.now.0 >> shift;
            for (slot, ends) in lists.iter().enumerate() {
                let this = Self::link_to(level, slot);
                let occupied = self.occupied[level] >> slot & 1 == 1;
                assert_eq!(occupied, ends.first != this, "level {level}, slot {slot}");
                let distance = (slot + SLOTS - turn as usize % SLOTS) % SLOTS;
                let (mut prev, mut index) = (this, ends.first);
                while index != this {
                    let node = self.entries.node(index);
                    assert_eq!(node.links.prev, prev, "broken link");
                    let start = Tick((turn + distance as u64) << shift);
                    assert!(
                        start <= node.deadline.max(self.now),
                        "a slot that starts at {start:?} holds the deadline {:?}",
                        node.deadline
                    );
                    // No entry waits in a slot that has been passed.
                    assert!(level == Self::TOP || distance == 0 || slot > turn as usize % SLOTS);
                    (prev, index) = (index, node.links.next);
                    linked += 1;
                }
                assert_eq!(ends.last, prev, "broken link");
            }
        }
        assert_eq!(linked, self.len(), "an entry is in no slot");
        assert_eq!(self.entries.keys().count(), linked);
    }
}

/// The truth that the wheel is held against.
#[derive(Default)]
struct Oracle {
    now: u64,
    deadlines: BTreeMap<u32, u64>,
}

/// What a program does; `usize`s choose among the keys made so far, stale ones included.
#[derive(Clone, Debug)]
enum Op {
    Register(u64),
    RegisterAt(u64),
    Deregister(usize),
    Later(usize, u64),
    Reset(usize, u64),
    Advance(u64),
    AdvanceBy(u64, usize),
    AdvanceOneByOne(u64),
    Leap,
    Reserve(usize),
    ShrinkToFit,
    Compact,
    Clear,
}

/// Distances that matter: near, at the edges of levels, far.
fn distance() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..20_u64,
        (1..64_u32, -2..3_i64).prop_map(|(bit, off)| (1_u64 << bit).saturating_add_signed(off)),
        any::<u64>(),
    ]
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => distance().prop_map(Op::Register),
        1 => prop_oneof![Just(0), Just(u64::MAX), Just(u64::MAX - 1), any::<u64>()]
            .prop_map(Op::RegisterAt),
        2 => any::<usize>().prop_map(Op::Deregister),
        2 => (any::<usize>(), distance()).prop_map(|(key, by)| Op::Later(key, by)),
        2 => (any::<usize>(), distance()).prop_map(|(key, by)| Op::Reset(key, by)),
        2 => (0..50_u64).prop_map(Op::Advance),
        1 => distance().prop_map(Op::Advance),
        2 => (distance(), 1..5_usize).prop_map(|(by, budget)| Op::AdvanceBy(by, budget)),
        1 => distance().prop_map(Op::AdvanceOneByOne),
        1 => Just(Op::Leap),
        1 => (0..20_usize).prop_map(Op::Reserve),
        1 => Just(Op::ShrinkToFit),
        1 => Just(Op::Compact),
        1 => Just(Op::Clear),
    ]
}

/// A wheel and its oracle in step.
struct Pair<const LEVELS: usize, const SLOTS: usize> {
    wheel: Wheel<u32, LEVELS, SLOTS>,
    oracle: Oracle,
    keys: Vec<Key>,
}

impl<const LEVELS: usize, const SLOTS: usize> Pair<LEVELS, SLOTS> {
    fn new() -> Self {
        Self {
            wheel: Wheel::new(Tick(0)),
            oracle: Oracle::default(),
            keys: Vec::new(),
        }
    }

    fn apply(&mut self, op: Op) {
        let chosen = |key: usize| (!self.keys.is_empty()).then(|| key % self.keys.len());
        match op {
            Op::Register(after) => self.register(self.oracle.now.saturating_add(after)),
            Op::RegisterAt(deadline) => self.register(deadline),
            Op::Deregister(key) => {
                let Some(id) = chosen(key) else { return };
                let expected = self.oracle.deadlines.remove(&(id as u32));
                let removed = self.wheel.deregister(self.keys[id]);
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
            Op::Reserve(additional) => {
                self.wheel.reserve(additional);
                assert!(self.wheel.capacity() >= self.wheel.len() + additional);
            }
            Op::ShrinkToFit => self.wheel.shrink_to_fit(),
            Op::Compact => self.compact(),
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
    }

    fn register(&mut self, deadline: u64) {
        let id = self.keys.len() as u32;
        self.keys.push(self.wheel.register(Tick(deadline), id));
        self.oracle.deadlines.insert(id, deadline);
    }

    fn compact(&mut self) {
        let keys = &mut self.keys;
        self.wheel.compact(|old, new| {
            let id = keys.iter().position(|key| *key == old);
            keys[id.expect("only entries move")] = new;
        });
    }

    fn reset(&mut self, id: usize, deadline: u64) {
        let expected = self.oracle.deadlines.get_mut(&(id as u32));
        let reset = self.wheel.reset(self.keys[id], Tick(deadline));
        assert_eq!(reset, expected.is_some());
        if let Some(expected) = expected {
            *expected = deadline;
        }
    }

    /// Advances step by step, each within the budget, and compares what fires.
    fn advance(&mut self, to: u64, budget: usize) {
        self.advance_until(to, budget, ControlFlow::Continue(()));
    }

    fn advance_until(&mut self, to: u64, budget: usize, flow: ControlFlow<()>) {
        let mut fired = Vec::new();
        let mut steps = 0;
        loop {
            let before = fired.len();
            let advance = self
                .wheel
                .advance(Tick(to), &mut budget.clone(), |expired| {
                    assert_eq!(expired.key, self.keys[expired.value as usize]);
                    let deadline = self.oracle.deadlines[&expired.value];
                    assert_eq!(expired.deadline, Tick(deadline));
                    fired.push(expired.value);
                    flow
                });
            let most = if flow.is_break() { 1 } else { budget };
            assert!(fired.len() - before <= most, "it went on");
            self.wheel.assert_invariants();
            if advance == Advance::Done {
                break;
            }
            steps += 1;
            assert!(steps < 1_000_000, "no progress");
        }
        self.oracle.now = self.oracle.now.max(to);
        assert_eq!(self.wheel.now(), Tick(self.oracle.now));
        let deadlines: Vec<u64> = fired.iter().map(|id| self.oracle.deadlines[id]).collect();
        let due = |deadline: &u64| *deadline <= to;
        assert!(deadlines.iter().all(due), "fired early");
        fired.sort_unstable();
        let expected: Vec<u32> = (self.oracle.deadlines.iter())
            .filter_map(|(id, deadline)| due(deadline).then_some(*id))
            .collect();
        assert_eq!(fired, expected, "fired and due differ at {to}");
        self.oracle.deadlines.retain(|_, deadline| !due(deadline));
    }

    fn check(&self) {
        self.wheel.assert_invariants();
        assert_eq!(self.wheel.len(), self.oracle.deadlines.len());
        let first = self.oracle.deadlines.values().min();
        let next = self.wheel.next_expiration();
        assert_eq!(next.is_some(), first.is_some());
        if let (Some(next), Some(first)) = (next, first) {
            assert!(
                next.0 <= (*first).max(self.oracle.now),
                "an entry is overlooked"
            );
        }
        let mut seen = Vec::new();
        for chunk in (0..).map_while(|chunk| self.wheel.deadlines(chunk)) {
            let before = seen.len();
            seen.extend(chunk.map(|deadline| deadline.0));
            assert!(seen.len() - before <= CHUNK, "more than one chunk at once");
        }
        seen.sort_unstable();
        let mut deadlines: Vec<u64> = self.oracle.deadlines.values().copied().collect();
        deadlines.sort_unstable();
        assert_eq!(seen, deadlines, "an entry is not seen once");
        for (id, key) in self.keys.iter().enumerate() {
            let expected = self.oracle.deadlines.get(&(id as u32));
            let deadline = self.wheel.deadline(*key);
            assert_eq!(deadline, expected.map(|deadline| Tick(*deadline)));
            let value = expected.map(|_| id as u32);
            assert_eq!(self.wheel.get(*key).copied(), value);
        }
        // Which of several is first does not matter, nor in which order those come that are late.
        let now = Tick(self.oracle.now);
        let earliest = self.wheel.first().and_then(|key| self.wheel.deadline(key));
        let first = first.map(|first| Tick(*first).max(now));
        assert_eq!(earliest.map(|earliest| earliest.max(now)), first);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn wheel_matches_oracle(ops in vec(any_op(), 1..120)) {
        let mut pair = Pair::<11, 64>::new();
        ops.into_iter().for_each(|op| pair.apply(op));
    }

    #[test]
    fn tiny_wheel_matches_oracle(
        // A wheel of 16 ticks is advanced turn by turn: keep to what it can walk.
        ops in vec(any_op(), 1..120).prop_map(|ops| ops.into_iter().map(tame).collect::<Vec<_>>())
    ) {
        let mut pair = Pair::<2, 4>::new();
        ops.into_iter().for_each(|op| pair.apply(op));
    }
}

/// The same operation within a few hundred ticks, but for deadlines that are never reached.
fn tame(op: Op) -> Op {
    match op {
        Op::Advance(by) => Op::Advance(by % 100),
        Op::AdvanceBy(by, budget) => Op::AdvanceBy(by % 100, budget),
        Op::AdvanceOneByOne(by) => Op::AdvanceOneByOne(by % 100),
        Op::Leap => Op::Advance(16),
        other => other,
    }
}

/// The deadlines of a wheel's entries in the order in which they fire.
fn drain<const LEVELS: usize, const SLOTS: usize>(
    wheel: &mut Wheel<u64, LEVELS, SLOTS>,
    to: u64,
) -> Vec<u64> {
    let mut fired = Vec::new();
    let advance = wheel.advance(Tick(to), &mut { usize::MAX }, |expired| {
        fired.push(expired.value);
        ControlFlow::Continue(())
    });
    assert_eq!(advance, Advance::Done);
    fired
}

#[test]
fn fires_in_order_at_the_edges_of_every_level() {
    let mut wheel: Wheel<u64> = Wheel::new(Tick(0));
    let mut deadlines: Vec<u64> = (0..=63)
        .flat_map(|bit: u32| [-1, 0, 1].map(|off| (1_u64 << bit).saturating_add_signed(off)))
        .chain([u64::MAX, u64::MAX - 1])
        .collect();
    for deadline in deadlines.iter().rev() {
        wheel.register(Tick(*deadline), *deadline);
    }
    wheel.assert_invariants();
    deadlines.sort_unstable();
    assert_eq!(drain(&mut wheel, u64::MAX), deadlines);
}

#[test]
fn a_long_gap_costs_slots_visited() {
    // Ten years of ticks of 1/64 ms: 2 * 10^13 of them.
    let ten_years = 10 * 365 * 86_400 * 64_000_u64;
    let mut wheel: Wheel<u64> = Wheel::new(Tick(0));
    wheel.register(Tick(ten_years), 0);
    let mut fired = 0;
    let advance = wheel.advance(Tick(ten_years), &mut 30, |_| {
        fired += 1;
        ControlFlow::Continue(())
    });
    assert_eq!((advance, fired), (Advance::Done, 1));
}

#[test]
fn a_later_reset_stores_and_an_earlier_one_moves() {
    let mut wheel: Wheel<u64> = Wheel::new(Tick(0));
    let key = wheel.register(Tick(10), 0);
    assert!(wheel.reset(key, Tick(1_000_000)));
    assert_eq!(wheel.next_expiration(), Some(Tick(10)), "nothing moved");
    assert_eq!(drain(&mut wheel, 10), []);
    assert!(
        wheel.next_expiration() > Some(Tick(10)),
        "the entry moved on"
    );
    assert!(wheel.reset(key, Tick(20)));
    assert_eq!(wheel.next_expiration(), Some(Tick(20)));
    assert_eq!(drain(&mut wheel, 20), [0]);
    assert!(!wheel.reset(key, Tick(30)), "it has fired");
}

#[test]
fn a_slot_of_few_is_due_when_the_first_of_them_is() {
    let mut wheel: Wheel<u64> = Wheel::new(Tick(0));
    // All within the slot of level 1 that spans the ticks from 128 to 191.
    let deadlines = [150, 140, 180, 191, 170, 169, 141, 160];
    assert_eq!(deadlines.len(), FEW);
    let mut keys = Vec::new();
    for (n, deadline) in deadlines.into_iter().enumerate() {
        keys.push(wheel.register(Tick(deadline), 0));
        let first = deadlines[..=n].iter().min();
        assert_eq!(wheel.next_expiration(), first.map(|first| Tick(*first)));
    }
    let one_more = wheel.register(Tick(180), 0);
    assert_eq!(wheel.next_expiration(), Some(Tick(128)), "too many to look");
    wheel.deregister(one_more);
    assert_eq!(wheel.next_expiration(), Some(Tick(140)));
    // Of those that are put off beyond the slot, it is due at its end.
    for key in keys {
        wheel.reset(key, Tick(1_000_000));
    }
    assert_eq!(wheel.next_expiration(), Some(Tick(192)));
}

/// What is registered into the slot while it waits must not be more than a moment's worth.
#[test]
fn a_coarse_slot_is_due_at_its_start() {
    let mut wheel: Wheel<u64> = Wheel::new(Tick(0));
    wheel.register(Tick(12_000), 0);
    assert_eq!(wheel.next_expiration(), Some(Tick(8_192)));
    wheel.register(Tick(900_000), 0);
    assert_eq!(drain(&mut wheel, 12_000), [0]);
    assert_eq!(wheel.next_expiration(), Some(Tick(786_432)));
}

#[test]
fn an_interrupted_slot_is_the_next_expiration() {
    let mut wheel: Wheel<u64> = Wheel::new(Tick(0));
    for value in 0..100 {
        wheel.register(Tick(5_000), value);
    }
    let mut fired = 0;
    let mut calls = 1;
    let mut count = |_| {
        fired += 1;
        ControlFlow::Continue(())
    };
    while wheel.advance(Tick(5_000), &mut 10, &mut count) == Advance::Interrupted {
        assert!(wheel.next_expiration() <= Some(Tick(5_000)));
        wheel.assert_invariants();
        calls += 1;
    }
    assert_eq!(fired, 100);
    // A hundred to fire, and each cascades twice on the way.
    assert!((20..40).contains(&calls), "{calls} calls");
}

#[test]
fn a_deadline_in_the_past_is_due_at_once() {
    let mut wheel: Wheel<u64> = Wheel::new(Tick(0));
    drain(&mut wheel, 1_000);
    wheel.register(Tick(3), 3);
    wheel.assert_invariants();
    assert_eq!(wheel.next_expiration(), Some(Tick(1_000)));
    assert_eq!(drain(&mut wheel, 1_000), [3]);
}

#[test]
fn into_values_yields_every_entry() {
    let mut wheel: Wheel<u64> = Wheel::new(Tick(0));
    for value in 0..100 {
        wheel.register(Tick(value * value * value), value);
    }
    let mut values: Vec<u64> = wheel.into_values().collect();
    values.sort_unstable();
    assert!(values.into_iter().eq(0..100));
}

#[test]
fn memory_goes_back_when_a_peak_drains() {
    let mut wheel: Wheel<u64> = Wheel::new(Tick(0));
    for value in 0..10_000 {
        wheel.register(Tick(value), value);
    }
    let peak = wheel.capacity();
    drain(&mut wheel, 5_000);
    assert!(wheel.capacity() <= peak / 2 + 2 * slab::CHUNK);
    drain(&mut wheel, 10_000);
    assert_eq!(wheel.capacity(), slab::CHUNK);
}
