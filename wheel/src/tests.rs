//! Property tests of the wheel against an oracle, and tests of single rules.

use std::ops::ControlFlow;

use proptest::{collection::vec, prelude::*};

use crate::{
    oracle::{Op, Pair},
    rings::COARSE,
    *,
};

/// Chooses a distance in ticks. Near distances, distances at the edges of levels, and far distances
/// are likely.
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
        3 => (distance(), 1..9_usize).prop_map(|(by, steps)| Op::AdvanceOnce(by, steps)),
        1 => Just(Op::Leap),
        1 => distance().prop_map(Op::CatchUp),
        1 => (0..20_usize).prop_map(Op::Reserve),
        1 => Just(Op::ShrinkToFit),
        1 => Just(Op::Clear),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn wheel_matches_oracle(ops in vec(any_op(), 1..120)) {
        for mut pair in Pair::<12, 64>::all() {
            ops.iter().for_each(|op| pair.apply(op.clone()));
        }
    }

    #[test]
    fn tiny_wheel_matches_oracle(
        ops in vec(any_op().prop_map(Op::tame), 1..120)
    ) {
        for mut pair in Pair::<3, 4>::all() {
            ops.iter().for_each(|op| pair.apply(op.clone()));
        }
    }
}

/// Advances to `to`, and returns the values of the entries in the order in which they fire.
fn drain<const ROWS: usize, const SLOTS: usize>(
    wheel: &mut Wheel<u64, ROWS, SLOTS>,
    to: u64,
) -> Vec<u64> {
    let mut fired = Vec::new();
    let advance = wheel.advance(to, Order::Strict, &mut { usize::MAX }, |expired| {
        fired.push(expired.value);
        ControlFlow::Continue(())
    });
    assert_eq!(advance, ControlFlow::Continue(()));
    fired
}

#[test]
fn fires_in_order_at_the_edges_of_every_level() {
    let mut wheel: Wheel<u64> = Wheel::new(0);
    let mut deadlines: Vec<u64> = (0..=63)
        .flat_map(|bit: u32| [-1, 0, 1].map(|off| (1_u64 << bit).saturating_add_signed(off)))
        .chain([u64::MAX, u64::MAX - 1])
        .collect();
    for deadline in deadlines.iter().rev() {
        wheel.insert(*deadline, *deadline);
    }
    wheel.assert_invariants();
    deadlines.sort_unstable();
    assert_eq!(drain(&mut wheel, u64::MAX), deadlines);
}

proptest! {
    /// The order must hold on every level. It must also hold if an advance runs out of steps at any
    /// entry.
    #[test]
    fn equal_deadlines_fire_in_the_order_of_insertion(
        entries in vec((distance(), 0..200_u64), 1..200),
        budget in 1..50_usize,
    ) {
        let mut wheel: Wheel<(u64, usize)> = Wheel::new(0);
        let mut fired = Vec::new();
        let mut advance = |wheel: &mut Wheel<(u64, usize)>, to, mut calls: usize| {
            while calls > 0 {
                calls -= 1;
                let advance = wheel.advance(to, Order::Strict, &mut { budget }, |expired| {
                    fired.push(expired.value);
                    ControlFlow::Continue(())
                });
                if advance == ControlFlow::Continue(()) {
                    break;
                }
            }
        };
        for (n, (ahead, pass)) in entries.into_iter().enumerate() {
            // Many entries share few deadlines.
            let now = wheel.now();
            let deadline = (now.saturating_add(ahead % 100_000) / 5_000 + 1) * 5_000;
            wheel.insert(deadline, (deadline, n));
            advance(&mut wheel, now + pass * 20, 1);
        }
        advance(&mut wheel, u64::MAX, usize::MAX);
        prop_assert!(fired.is_sorted(), "{:?}", fired);
    }
}

/// The rule must hold wherever `now` lies within its slot.
#[test]
fn a_short_timer_is_in_a_fine_slot() {
    for now in (0..20_000).step_by(7).chain([262_143, 262_144, 262_145]) {
        let mut wheel: Wheel<u64> = Wheel::new(now);
        for (span, level) in [(63, 0), (63 * 64, 1), (63 * 4_096, 2)] {
            for ahead in [1, span / 2, span] {
                let found = wheel.place(now + ahead);
                assert!(found.row <= level, "{ahead} ticks ahead of {now}");
                assert_eq!(found.number, (now + ahead) as usize >> (6 * found.row) & 63);
            }
            let beyond = wheel.place(now + span + span / 63);
            assert!(beyond.row > level, "{span} ticks ahead of {now}");
        }
        wheel.insert(now + 64, 0);
        wheel.assert_invariants();
    }
}

/// The driver does not advance a wheel in which nothing is due. Such a wheel catches up later.
#[test]
fn a_wheel_catches_up_and_passes_no_slot() {
    let mut wheel: Wheel<u64> = Wheel::new(0);
    wheel.catch_up(100_000);
    assert_eq!(wheel.now(), 100_000);
    wheel.insert(120_000, 1);
    let slot = 120_000 / 4_096 * 4_096;
    assert_eq!(wheel.next_expiration(), Some(slot));
    wheel.catch_up(119_000);
    assert_eq!(wheel.now(), slot, "the wheel must not pass the slot");
    assert!(wheel.place(120_100).row < COARSE);
    wheel.assert_invariants();
    assert_eq!(drain(&mut wheel, 120_000), [1]);
    wheel.catch_up(1);
    assert_eq!(wheel.now(), 120_000);
}

#[test]
fn what_is_coarse_for_sure() {
    for now in 0..10_000 {
        let wheel: Wheel<u64> = Wheel::new(now);
        assert!(wheel.place(now + COARSE_FROM).row >= COARSE);
        assert!(wheel.place(now + FINE_TO - 1).row < COARSE);
    }
}

/// One advance reaches a coarse slot and fine slots.
#[test]
fn a_storm_that_cascades_keeps_nothing_waiting_that_is_due() {
    let mut wheel: Wheel<u64> = Wheel::new(0);
    for value in 0..10_000 {
        wheel.insert(300_000 + value, value);
    }
    drain(&mut wheel, 262_100);
    for value in 0..50 {
        wheel.insert(262_150 + value, 0);
    }
    let mut fired = 0;
    let mut fire = |_| {
        fired += 1;
        ControlFlow::Continue(())
    };
    // These steps suffice for the 50 due entries and for the slots.
    let mut steps = 120;
    let advance = wheel.advance(262_200, Order::DueFirst, &mut steps, &mut fire);
    assert_eq!(advance, ControlFlow::Continue(()));
    assert!(wheel.has_backlog());
    assert_eq!(wheel.next_expiration(), Some(262_200));
    wheel.assert_invariants();
    while wheel.cascade_backlog(&mut 100) == ControlFlow::Break(()) {
        wheel.assert_invariants();
    }
    let slot = 300_000 / 4_096 * 4_096;
    assert_eq!(wheel.next_expiration(), Some(slot));
    assert_eq!(fired, 50);
}

#[test]
fn an_advance_whose_steps_end_within_the_last_slot_is_not_done() {
    for order in [Order::Strict, Order::DueFirst] {
        let mut wheel: Wheel<u64> = Wheel::new(0);
        for value in 0..10 {
            wheel.insert(7, value);
        }
        let mut fired = 0;
        let mut advance = || {
            wheel.advance(7, order, &mut 4, |_| {
                fired += 1;
                ControlFlow::Continue(())
            })
        };
        while advance().is_break() {}
        assert_eq!(fired, 10);
    }
}

/// More entries are due than an advance may fire. In the meantime, entries with later deadlines become due.
/// The late entries fire first.
#[test]
fn late_entries_fire_in_the_order_of_their_deadlines() {
    for spread in [0, 20] {
        let mut wheel: Wheel<u64> = Wheel::new(0);
        for value in 0..1_000 {
            wheel.insert(10 + value * spread / 400, value);
        }
        wheel.insert(100, 1_000);
        let mut fired = Vec::new();
        for now in 70..=170 {
            let before = fired.len();
            let _ = wheel.advance(now, Order::DueFirst, &mut 100, |expired| {
                fired.push(expired.value);
                match fired.len() - before {
                    10 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            });
            wheel.assert_invariants();
            assert_eq!(wheel.cascade_backlog(&mut 100), ControlFlow::Continue(()));
        }
        assert!(fired.into_iter().eq(0..=1_000));
    }
}

/// A storm is late. An entry in a coarse slot cascades all the same, and fires after the storm.
#[test]
fn a_late_storm_does_not_stop_the_cascades() {
    let mut wheel: Wheel<u64> = Wheel::new(0);
    for value in 0..1_000 {
        wheel.insert(8_192, value);
    }
    wheel.insert(12_300, 1_000);
    let mut turn = |now| {
        let mut fired = Vec::new();
        let mut fire = |expired: Removed<u64>| {
            fired.push(expired.value);
            match fired.len() {
                10 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        };
        let _ = wheel.advance(now, Order::DueFirst, &mut 100, &mut fire);
        let cascaded = wheel.cascade_backlog(&mut 1_000);
        assert_eq!(cascaded, ControlFlow::Continue(()));
        wheel.assert_invariants();
        fired
    };
    // The advance to 8,200 moves the storm to the backlog. The next advances fire 10 entries of the
    // storm each.
    assert_eq!(turn(8_191), []);
    assert_eq!(turn(8_200), []);
    assert!(turn(8_201).into_iter().eq(0..10));
    assert!(turn(12_289).into_iter().eq(10..20));
    for now in 0..98 {
        assert!(turn(12_300).into_iter().eq(20 + now * 10..30 + now * 10));
    }
    assert_eq!(turn(12_300), [1_000]);
}

/// The coarsest level of the backlog gets its share of steps, even if many entries of finer levels
/// wait too.
#[test]
fn no_backlog_waits_forever() {
    let mut wheel: Wheel<u64> = Wheel::new(0);
    for value in 0..1_000 {
        wheel.insert(262_144 * 2 + value * 250, 0);
        wheel.insert(4_096 * 2 + value, 1);
    }
    let mut left = [1_000, 1_000];
    for turn in 1..=4 {
        let _ = wheel.advance(
            262_144 * 3,
            Order::DueFirst,
            &mut { usize::MAX },
            |expired| {
                left[expired.value as usize] -= 1;
                ControlFlow::Continue(())
            },
        );
        assert_eq!(left, [1_000 - (turn - 1) * 25, 1_000 - (turn - 1) * 75]);
        assert_eq!(wheel.cascade_backlog(&mut 100), ControlFlow::Break(()));
    }
}

#[test]
fn a_long_gap_costs_slots_visited() {
    // Ten years are 2 * 10^13 ticks of 1/64 ms.
    let ten_years = 10 * 365 * 86_400 * 64_000_u64;
    let mut wheel: Wheel<u64> = Wheel::new(0);
    wheel.insert(ten_years, 0);
    let mut fired = 0;
    let advance = wheel.advance(ten_years, Order::Strict, &mut 30, |_| {
        fired += 1;
        ControlFlow::Continue(())
    });
    assert_eq!((advance, fired), (ControlFlow::Continue(()), 1));
}

#[test]
fn a_later_reset_stores_and_an_earlier_one_moves() {
    let mut wheel: Wheel<u64> = Wheel::new(0);
    let key = wheel.insert(10, 0);
    assert!(wheel.reset(key, 1_000_000));
    assert_eq!(wheel.next_expiration(), Some(10), "the entry must not move");
    assert_eq!(drain(&mut wheel, 10), []);
    assert!(wheel.next_expiration() > Some(10), "the entry must move on");
    assert!(wheel.reset(key, 20));
    assert_eq!(wheel.next_expiration(), Some(20));
    assert_eq!(drain(&mut wheel, 20), [0]);
    assert!(!wheel.reset(key, 30), "the entry has fired");
}

#[test]
fn a_slot_of_few_is_due_when_the_first_of_them_is() {
    let mut wheel: Wheel<u64> = Wheel::new(0);
    // All deadlines lie within the slot of level 1 that spans the ticks 128 to 191.
    let deadlines = [150, 140, 180, 191, 170, 169, 141, 160];
    assert_eq!(deadlines.len(), super::advance::FEW);
    let mut keys = Vec::new();
    for (n, deadline) in deadlines.into_iter().enumerate() {
        keys.push(wheel.insert(deadline, 0));
        let first = deadlines[..=n].iter().min();
        assert_eq!(wheel.next_expiration(), first.copied());
    }
    let one_more = wheel.insert(180, 0);
    assert_eq!(
        wheel.next_expiration(),
        Some(128),
        "too many entries to look at"
    );
    wheel.remove(one_more);
    assert_eq!(wheel.next_expiration(), Some(140));
    wheel.catch_up(139);
    assert_eq!((wheel.now(), wheel.next_expiration()), (128, Some(140)));
    // If all entries are reset to deadlines beyond the slot, the slot expires at its end.
    for key in keys {
        wheel.reset(key, 1_000_000);
    }
    assert_eq!(wheel.next_expiration(), Some(192));
}

/// The entries of a coarse slot must not all cascade at the tick at which the first entry is due.
#[test]
fn a_coarse_slot_is_due_at_its_start() {
    let mut wheel: Wheel<u64> = Wheel::new(0);
    wheel.insert(12_000, 0);
    assert_eq!(wheel.next_expiration(), Some(8_192));
    assert_eq!(wheel.next_deadline(), Some(12_000));
    wheel.insert(900_000, 0);
    assert_eq!(drain(&mut wheel, 12_000), [0]);
    assert_eq!(wheel.next_expiration(), Some(786_432));
}

#[test]
fn an_interrupted_slot_is_the_next_expiration() {
    let mut wheel: Wheel<u64> = Wheel::new(0);
    for value in 0..100 {
        wheel.insert(5_000, value);
    }
    let mut fired = 0;
    let mut calls = 1;
    let mut count = |_| {
        fired += 1;
        ControlFlow::Continue(())
    };
    while wheel.advance(5_000, Order::Strict, &mut 10, &mut count) == ControlFlow::Break(()) {
        assert!(wheel.next_expiration() <= Some(5_000));
        wheel.assert_invariants();
        calls += 1;
    }
    assert_eq!(fired, 100);
    // Each of the 100 entries fires once and cascades twice: 300 steps.
    assert!((20..40).contains(&calls), "{calls} calls");
}

#[test]
fn a_deadline_in_the_past_is_due_at_once() {
    let mut wheel: Wheel<u64> = Wheel::new(0);
    drain(&mut wheel, 1_000);
    wheel.insert(3, 3);
    wheel.assert_invariants();
    assert_eq!(wheel.next_expiration(), Some(1_000));
    assert_eq!(drain(&mut wheel, 1_000), [3]);
}

#[test]
fn take_returns_every_entry() {
    let mut wheel: Wheel<u64> = Wheel::new(0);
    for value in 0..100 {
        wheel.insert(value * value * value, value);
    }
    let mut values: Vec<u64> = wheel.take().into_values().collect();
    values.sort_unstable();
    assert!(values.into_iter().eq(0..100));
    wheel.assert_invariants();
    assert_eq!((wheel.len(), wheel.next_expiration()), (0, None));
}

#[test]
fn memory_goes_back_when_a_peak_drains() {
    let mut wheel: Wheel<u64> = Wheel::new(0);
    for value in 0..10_000 {
        wheel.insert(value, value);
    }
    let peak = wheel.nodes.capacity();
    drain(&mut wheel, 5_000);
    wheel.free_unused(0);
    assert!(wheel.nodes.capacity() <= peak / 2 + 2 * CHUNK);
    drain(&mut wheel, 10_000);
    wheel.free_unused(0);
    assert_eq!(wheel.nodes.capacity(), CHUNK);
}

#[test]
fn to_insert_and_remove_takes_no_more_memory() {
    let mut wheel: Wheel<u64> = Wheel::new(0);
    for value in 0..CHUNK as u64 - 1 {
        wheel.insert(value + 1, value);
    }
    // The loop makes fewer insertions than a chunk has stamps.
    for value in 0..10 {
        let key = wheel.insert(1_000_000 - value, value);
        wheel.remove(key);
    }
    assert_eq!(wheel.nodes.capacity(), CHUNK);
}

/// After a peak, one entry stays in each chunk, so the chunk keeps its memory. New entries go into
/// these chunks.
#[test]
fn who_stays_keeps_no_more_than_the_peak_had() {
    const CHUNKS: usize = 100;
    let mut wheel: Wheel<usize> = Wheel::new(0);
    let keys: Vec<_> = (0..CHUNKS * CHUNK)
        .map(|value| wheel.insert(9, value))
        .collect();
    let peak = wheel.nodes.capacity();
    for (n, key) in keys.iter().enumerate() {
        if n % CHUNK != 0 {
            wheel.remove(*key);
        }
    }
    assert_eq!((wheel.len(), wheel.nodes.capacity()), (CHUNKS, peak));
    for value in 0..CHUNKS * (CHUNK - 1) {
        wheel.insert(9, value);
    }
    assert_eq!(wheel.nodes.capacity(), peak);
}
