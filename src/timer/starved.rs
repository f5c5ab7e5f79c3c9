//! Random programs in which the driver gets few turns while many sleeps are idle.
//!
//! The clock moves by some milliseconds between two turns of the driver, as on a saturated runtime. The oracle
//! counts the turns from the deadline of a sleep until the sleep fires. The allowed number of turns depends on
//! the number of expired sleeps:
//!
//! * A *short* sleep is registered less than 63 ms before its deadline, so it goes to a fine slot. A short
//!   sleep may wait only for other expired sleeps. Each turn wakes at least [`LITTLE`] tasks, whatever others do. If
//!   others keep the queue full for longer than [`PATIENCE`], the turns wake everything that is late.
//! * A *long* sleep may be on the backlog when it expires. Such a sleep may also wait for the other entries
//!   of the backlog. A quarter of the steps of a turn belongs to the backlog.
//!
//! Short sleeps also fire in the order of their deadlines, except for deadlines that are close together.

use std::{collections::VecDeque, future::Future, pin::Pin, sync::Arc, time::Duration};

use proptest::{collection::vec, prelude::*};
use tokio::time::Instant;
use tokio_test::{assert_pending, task};

use super::harness::{Harness, ms, programs};
use crate::{
    driver::{
        room::{LATE, LITTLE, PATIENCE, ROOM, tests::Others},
        turn::STEPS,
    },
    futures::Sleep,
};

/// Short sleeps that are registered together.
#[derive(Clone, Debug)]
struct Burst {
    /// The turn before which the sleeps are registered.
    turn: usize,
    number: usize,
    micros: u64,
    /// Whether all sleeps belong to one task.
    one_task: bool,
}

#[derive(Clone, Debug)]
struct Program {
    idle: usize,
    /// The first and the last deadline of the idle sleeps, in milliseconds.
    span: (u64, u64),
    /// The time between two turns, in milliseconds.
    gap: u64,
    bursts: Vec<Burst>,
    /// Before each turn, again and again: the number of tasks in the shared queue, and whether a worker has parked.
    /// Empty on a current-thread runtime.
    loads: Vec<(usize, bool)>,
}

/// The number of turns of a program.
const TURNS: usize = 120;

/// The time at which the driver begins to starve, in milliseconds. Soon afterwards, the driver reaches a slot
/// of level 3. This slot starts at 4,096 ms and ends at 8,192 ms.
const START: u64 = 4_000;

fn program() -> impl Strategy<Value = Program> {
    let burst = (
        0..TURNS - 20,
        prop_oneof![6 => 1..20_usize, 2 => 20..400_usize, 1 => 400..3_000_usize],
        0..62_000_u64,
        any::<bool>(),
    );
    let burst = burst.prop_map(|(turn, number, micros, one_task)| Burst {
        turn,
        number,
        micros,
        one_task,
    });
    let idle = prop_oneof![Just(0), 0..2_000_usize, 20_000..60_000_usize];
    let span = prop_oneof![
        3 => Just((4_097, 8_191)),
        1 => Just((4_250, 4_251)),
        1 => Just((4_150, 4_400)),
        1 => Just((5_000, 30_000)),
    ];
    let bursts = vec(burst, 1..25);
    let depth = prop_oneof![
        3 => ROOM..100_000_usize,
        2 => ROOM - LITTLE - 4..ROOM + 1,
        1 => 0..ROOM,
    ];
    let always_full = vec((Just(ROOM), any::<bool>()), 1..12);
    let any_load = vec((depth, any::<bool>()), 1..12);
    let loads = prop_oneof![Just(vec![]), always_full, any_load];
    (idle, span, 1..14_u64, bursts, loads).prop_map(|(idle, span, gap, bursts, loads)| Program {
        idle,
        span,
        gap,
        bursts,
        loads,
    })
}

/// A short sleep may fire before another short sleep only if its deadline is later by at most this number of
/// milliseconds: the span of the fine slots. Nearly always, it is later by less than a millisecond. But if a
/// turn is interrupted, entries of a slot of level 1 go through the backlog.
const OVERTAKEN: u64 = 64;

/// A sleep, and the number of turns since its deadline.
struct Waiting {
    sleep: tokio_test::task::Spawn<Sleep>,
    deadline: Instant,
    is_short: bool,
    turns: usize,
    /// The highest number of expired sleeps in any turn since the deadline.
    due: usize,
}

impl Waiting {
    fn new(harness: &Harness, deadline: Instant, is_short: bool) -> Self {
        Self {
            sleep: task::spawn(harness.timer.sleep_until(deadline)),
            deadline,
            is_short,
            turns: 0,
            due: 0,
        }
    }

    fn has_fired(&self) -> bool {
        self.sleep.is_elapsed()
    }
}

fn run(program: &Program) -> Result<(), TestCaseError> {
    let load = Arc::new(Others::default());
    let mut harness = Harness::with(1, (!program.loads.is_empty()).then(|| load.clone()));
    // The registering thread is in the timer's runtime.
    let runtime = harness.runtime.take().unwrap();
    let _entered = runtime.enter();
    let (from, to) = program.span;
    let mut idle = VecDeque::new();
    for n in 0..program.idle as u64 {
        let after = from + n * (to - from) / program.idle as u64;
        let mut sleep = Waiting::new(&harness, harness.start + ms(after), false);
        assert_pending!(sleep.sleep.poll());
        idle.push_back(sleep);
    }
    harness.run_to(harness.start + ms(START));
    harness.drive();
    let mut waiting = Vec::new();
    let turns_in =
        |duration: Duration| duration.as_millis().div_ceil(program.gap.into()) as usize + 1;
    let is_full = |(depth, _): &(usize, bool)| *depth > ROOM - LITTLE;
    let is_always_full = !program.loads.is_empty() && program.loads.iter().all(is_full);
    for turn in 0..TURNS {
        for burst in program.bursts.iter().filter(|burst| burst.turn == turn) {
            let deadline = harness.clock.now() + Duration::from_micros(burst.micros);
            let mut one_task = task::spawn(());
            for _ in 0..burst.number {
                let mut short = Waiting::new(&harness, deadline, true);
                let polled = match burst.one_task {
                    true => one_task.enter(|cx, _| Pin::new(&mut *short.sleep).poll(cx)),
                    false => short.sleep.poll(),
                };
                if polled.is_pending() {
                    waiting.push(short);
                }
            }
        }
        if let Some((depth, parks)) = program.loads.iter().cycle().nth(turn) {
            load.set_depth(*depth);
            if *parks {
                load.park();
            }
        }
        harness.clock.advance(ms(program.gap));
        harness.alarm.ring();
        assert_pending!(harness.driver.poll());

        let now = harness.clock.now();
        let due = idle.partition_point(|idle| idle.deadline <= now);
        waiting.extend(idle.drain(..due));
        let (fired, left): (Vec<_>, Vec<_>) = waiting.into_iter().partition(Waiting::has_fired);
        waiting = left;
        let short = |waiting: &&Waiting| waiting.is_short;
        let last = fired.iter().filter(short).map(|fired| fired.deadline).max();
        let first = waiting.iter().filter(short).map(|late| late.deadline).min();
        if let (Some(last), Some(first)) = (last, first) {
            let overtaken = last.saturating_duration_since(first);
            prop_assert!(overtaken <= ms(OVERTAKEN), "overtaken by {overtaken:?}");
        }
        let due = waiting.iter().filter(|waiting| waiting.deadline <= now);
        let due = due.count();
        for late in waiting.iter_mut().filter(|late| late.deadline <= now) {
            late.turns += 1;
            late.due = late.due.max(due);
            // The bound is doubled, because later sleeps may fire first.
            let mut bound = 2 + 2 * late.due / LITTLE;
            if is_always_full {
                bound = bound.min(2 + turns_in(PATIENCE) + turns_in(LATE) + 2 * late.due / STEPS);
            }
            if !late.is_short {
                bound += program.idle * 4 / STEPS;
            }
            prop_assert!(
                late.turns <= bound,
                "late by {} turns, with {} expired sleeps",
                late.turns,
                late.due
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(programs(100))]

    #[test]
    fn turns_to_wait_depend_on_what_is_due(program in program()) {
        run(&program)?;
    }
}
