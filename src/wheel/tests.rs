//! The wheel against an oracle, and what it does in particular.

use proptest::{collection::vec, prelude::*};

use super::{
    oracle::{Op, Pair},
    *,
};

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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn wheel_matches_oracle(ops in vec(any_op(), 1..120)) {
        for mut pair in [Pair::<11, 64>::new(), Pair::deferring()] {
            ops.iter().for_each(|op| pair.apply(op.clone()));
        }
    }

    #[test]
    fn tiny_wheel_matches_oracle(
        ops in vec(any_op().prop_map(Op::tame), 1..120)
    ) {
        for mut pair in [Pair::<2, 4>::new(), Pair::deferring()] {
            ops.iter().for_each(|op| pair.apply(op.clone()));
        }
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

#[test]
fn to_register_and_deregister_takes_no_more_memory() {
    let mut wheel: Wheel<u64> = Wheel::new(Tick(0));
    for value in 0..slab::CHUNK as u64 - 1 {
        wheel.register(Tick(value + 1), value);
    }
    // Fewer than would use up the generations of a node, of which a test has few.
    for value in 0..10 {
        let key = wheel.register(Tick(1_000_000 - value), value);
        wheel.deregister(key);
    }
    assert_eq!(wheel.capacity(), slab::CHUNK);
}

/// One entry stays in each chunk of a peak, and keeps its chunk. What comes next goes into these.
#[test]
fn who_stays_keeps_no_more_than_the_peak_had() {
    const CHUNKS: usize = 100;
    let mut wheel: Wheel<usize> = Wheel::new(Tick(0));
    let keys: Vec<_> = (0..CHUNKS * slab::CHUNK)
        .map(|value| wheel.register(Tick(9), value))
        .collect();
    let peak = wheel.capacity();
    for (n, key) in keys.iter().enumerate() {
        if n % slab::CHUNK != 0 {
            wheel.deregister(*key);
        }
    }
    assert_eq!((wheel.len(), wheel.capacity()), (CHUNKS, peak));
    for value in 0..CHUNKS * (slab::CHUNK - 1) {
        wheel.register(Tick(9), value);
    }
    assert_eq!(wheel.capacity(), peak);
}
