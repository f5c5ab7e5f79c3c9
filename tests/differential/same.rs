//! Programs on whole milliseconds: both crates show equal events at equal instants.
//!
//! The clock starts on a millisecond of both timers. It moves by whole milliseconds, whether the
//! runtime or the program advances it. Both timers then round every deadline to the same instant.
//! Tokio's timer is ready at the first millisecond that is not before the deadline. This crate's
//! timer rounds up to 1/64 ms first. This tick divides a millisecond, so the result does not pass
//! that millisecond.

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use tokio::runtime::Runtime;

use super::{ours, program::program, programs, theirs};
use crate::support::{current_thread, multi_thread, paused};

/// The number of programs, which take a few seconds without optimization.
const PROGRAMS: u32 = 500;

proptest! {
    #![proptest_config(programs(PROGRAMS))]

    #[test]
    fn the_same_events_at_the_same_instants(program in program()) {
        let ours = ours::run::run(&program).map_err(TestCaseError::fail)?;
        let theirs = theirs::run::run(&program).map_err(TestCaseError::fail)?;
        prop_assert_eq!(ours, theirs, "left: tokio_wheel, right: tokio::time");
    }
}

/// The programs must reach these events. Otherwise, there would be nothing to compare.
#[test]
fn programs_come_to_every_outcome() {
    let outcomes = [
        ("Poll(", ": false false false"),
        ("Poll(", ": false true true"),
        ("Poll(", ": true true true"),
        ("Reset(", "s"),
        ("Await(", ": true"),
        ("Select(", "Dropped): 0 won"),
        ("Select(", "Dropped): 1 won"),
        ("Select(", "Stays): 0 won"),
        ("Select(", "Stays): 1 won"),
        ("Timeout(", ": None"),
        ("Timeout(", ": Some([])"),
        ("Timeout(", ": Some([false])"),
        ("TimeoutAt(", ": None"),
        ("TimeoutAt(", ": Some([])"),
        ("Tick(", "s 0ns"),
        ("TickWithin(", "s 0ns"),
        ("TickWithin(", ": timeout"),
        ("ResetInterval(", ": "),
        ("Advance(", ": "),
        ("Leap(", ": "),
    ];
    let mut missing = outcomes.to_vec();
    let mut runner = TestRunner::deterministic();
    for _ in 0..1_000 {
        let program = program().new_tree(&mut runner).unwrap().current();
        let log = ours::run::run(&program).unwrap();
        for (_, what) in log.values().flatten() {
            let (_, what) = what.split_once(": ").unwrap_or_default();
            missing.retain(|(step, outcome)| !what.starts_with(step) || !what.ends_with(outcome));
        }
        if missing.is_empty() {
            break;
        }
    }
    assert_eq!(missing, []);
}

/// If the system takes the processor away for a millisecond, the timer comes first, in tokio as well. So the test asks
/// whether the usual order occurs at all.
#[test]
fn a_sleep_of_zero_gives_way() {
    let one_worker: fn() -> Runtime = || multi_thread(1);
    for runtime in [current_thread, one_worker] {
        for run in [theirs::first_poll::run, ours::first_poll::run] {
            let mut occurs = [false; 4];
            for _ in 0..1_000 {
                for (occurs, first) in occurs.iter_mut().zip(run(runtime)) {
                    *occurs |= first == "task";
                }
                if occurs == [true; 4] {
                    break;
                }
            }
            assert_eq!(occurs, [true; 4]);
        }
    }
}

#[test]
fn on_a_paused_clock_a_sleep_of_zero_is_ready() {
    assert_eq!(
        ours::first_poll::run(paused),
        theirs::first_poll::run(paused)
    );
}
