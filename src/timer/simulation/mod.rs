//! A simulation of a timer. A program controls the timer's clock, alarm and driver by hand.
//!
//! A random program does the following, in any order:
//!
//! * It makes, polls, resets and drops futures, on several shards, on a worker and on other threads.
//! * It lets time pass, by ticks or by years.
//! * It lets the alarm go off early, late, twice, or not at all.
//! * It polls the driver after a wake, polls it without a wake, or does not poll it for a long time.
//! * It drops the driver at any moment, as the end of the runtime does.
//!
//! Wakers act when they are woken, cloned or dropped. They panic, act on the timer, or block until another thread
//! has acted. Only one thread runs at a time, so all runs of a program are equal. `loom_tests` models threads that
//! run at the same time.
//!
//! # The rules that hold after every step
//!
//! Each number is the number of a promise in `tests/promises/`.
//!
//! * 1: The driver has woken no waker before its deadline, and no future was ready before its deadline.
//! * 2: Each registration waits, was woken exactly once, or was given up. While an entry is pending, either the
//!   driver is woken, or the alarm is set for the earliest deadline or an earlier instant. After the driver has
//!   parked, no entry is due, unless the alarm is late.
//! * 3: With an exact alarm, every waker is woken in the tick of its deadline.
//! * 4, 6: A poll of the driver fires at most the entries of one turn. The number of polls until the driver parks
//!   depends on the number of entries, and not on the time that has passed.
//! * 5: Dropping, resetting to a later deadline and reading the counters neither wake the driver nor set the
//!   alarm. If an alarm goes off and no entry fires, the alarm was set for a cascade or for a canceled entry. In
//!   one program, such an alarm goes off at most once per level for each registration and reset.
//! * 7, 8: Whatever a waker does, the step ends, and all other wakers are woken.
//! * 9: A registration that was woken or given up is never woken again.
//! * 10: After the driver was dropped, all wakers have been woken and the timer keeps none of them. A poll before
//!   the deadline panics, and the message names the shutdown of the timer. On a worker, the poll is pending
//!   instead, and the end of the runtime wakes its waker. The timer is freed when its last handle is dropped.
//! * 14: The rules of promises 1 and 5 also check this promise.
//! * The counters of `metrics` agree with the oracle.
//!
//! One check is weaker. If a waker drops the driver in the middle of a batch, the program cannot know which
//! entries of the batch had fired. The oracle then only knows the sum of fired and canceled entries.
//!
//! # More programs
//!
//! A program that fails is shrunk and printed, with one step on each line. The line that begins with `cc` contains
//! its seed. The first command runs more programs. The second command chooses its programs by a fixed seed, so
//! they are the same in every run:
//!
//! ```sh
//! PROPTEST_CASES=100000 cargo test --release --all-features --lib timer::simulation
//! PROPTEST_RNG_SEED=7 cargo test --all-features --lib timer::simulation
//! ```

mod guest;
mod ledger;
mod program;
mod run;
mod threads;
mod world;

use std::{collections::BTreeSet, sync::atomic::Ordering::SeqCst, time::Duration};

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};

use super::harness::programs;
use program::{Act, Does, Guest, Moment, Program, Span, Step, Thread, When, Which, program};
use threads::Progress;

proptest! {
    #![proptest_config(programs(400))]

    #[test]
    fn all_promises_hold_after_every_step(program in program()) {
        run::run(&program, &Progress::default()).map_err(TestCaseError::fail)?;
    }
}

/// Each of these events must occur in at least one program. Otherwise, the programs test less than they seem to
/// test.
const OUTCOMES: &[&str] = &[
    "a deadline beyond the clock's reach",
    "a driver dropped",
    "a driver dropped during a batch",
    "a driver that is late",
    "a driver that yields",
    "a drop during a batch",
    "a future that is ready at once",
    "a future that waits for the end of its runtime",
    "a future that was woken and is ready",
    "a leap of years",
    "a poll that panics after the end",
    "a registration during a batch",
    "a registration during a batch that is due with it",
    "a registration between two batches",
    "a reset during a batch",
    "a reset that fires",
    "a reset to a later deadline",
    "a reset to an earlier deadline",
    "a sleep that has fired and is not woken yet",
    "a waker that acts as it is cloned",
    "a waker that acts as it is dropped",
    "a waker that acts as it is woken",
    "a waker that blocks",
    "a waker that panics as it is cloned",
    "a waker that panics as it is dropped",
    "a waker that panics as it is woken",
    "an alarm at which nothing fires",
    "an alarm that has forgotten and is set again",
    "an alarm that is early",
    "an interval that ticked",
    "another waker",
    "the same waker again",
];

#[test]
fn programs_come_to_every_outcome() {
    let mut runner = TestRunner::deterministic();
    let mut missing: BTreeSet<_> = OUTCOMES.iter().copied().collect();
    for _ in 0..3_000 {
        let program = program().new_tree(&mut runner).unwrap().current();
        let outcomes = run::run(&program, &Progress::default())
            .unwrap_or_else(|why| panic!("{why}\n{program:?}"));
        missing.retain(|outcome| !outcomes.contains(outcome));
        if missing.is_empty() {
            return;
        }
    }
    panic!("these events occur in no program: {missing:?}");
}

/// The end of the timer wakes a storm, and each waker of the storm polls the whole storm. All these polls would be
/// 160,000 panics.
#[test]
fn wakers_stop_acting_after_many_steps() {
    let polls = vec![Act::Poll(Which::Storm(1), Some(Guest::default()))];
    let guest = Guest {
        on: When::Wake,
        does: Does::Acts(polls),
    };
    let storm = Act::Storm(400, Moment::In(Span::Ticks(5)), 1, guest);
    let program = Program {
        is_busy: false,
        shards: 1,
        tick: Duration::from_millis(1),
        is_real: true,
        steps: vec![Step::Do(Thread::Worker, storm)],
        end: Some(Thread::Other(0)),
    };
    let progress = Progress::default();
    run::run(&program, &progress).unwrap();
    let steps = progress.load(SeqCst);
    assert!(
        (world::ACTS..world::ACTS + 2_000).contains(&steps),
        "{steps} steps"
    );
}
