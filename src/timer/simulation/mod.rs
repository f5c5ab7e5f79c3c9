//! A simulation of a timer. The program controls its clock, its alarm and its driver by hand.
//!
//! A random program does the following, in any order:
//!
//! * It makes, polls, resets and drops futures and scheduled tasks, on several shards, on a worker
//!   and on other threads.
//! * It lets time pass, by ticks or by years.
//! * It lets the alarm go off early, late, twice, or not at all.
//! * It polls the driver when it is woken, when it is not, or not for a long time.
//! * It ends the timer at any moment.
//!
//! Wakers act when they are woken, cloned or dropped. They panic, act on the timer, or block until
//! another thread has acted. Only one thread runs at a time, so all runs of a program are equal.
//! `loom_tests` models threads that run at the same time.
//!
//! | file         | contents                                                         |
//! |--------------|------------------------------------------------------------------|
//! | `program.rs` | the type of a program, and how a random program is chosen        |
//! | `world.rs`   | the futures, tasks and timer that a program acts on              |
//! | `guest.rs`   | the wakers                                                       |
//! | `ledger.rs`  | the oracle: the expected state of each registration              |
//! | `run.rs`     | the steps, the polls of the driver, and the checks after each    |
//! | `threads.rs` | threads of known shards, and the limit for waiting on them       |
//!
//! # The rules that hold after every step
//!
//! The numbers are the numbers of the promises in `tests/promises/`.
//!
//! * 1: The driver has woken no waker before its deadline, and no future was ready before its
//!   deadline. Each task ran at its deadline or later.
//! * 2: Each registration waits, was woken exactly once, or was given up. While anything is
//!   pending, the driver is woken, or the alarm is set for the earliest deadline or an earlier
//!   instant. After the driver has parked, nothing is due, unless the alarm is late. Each task
//!   waits, ran, was canceled, or was returned. Its value was dropped once.
//! * 3: With an exact alarm, every waker is woken in the tick of its deadline.
//! * 4, 6: A poll of the driver fires at most one batch. The number of polls until it parks is
//!   bounded by the number of entries, however much time has passed.
//! * 5: Dropping, canceling, resetting to a later deadline and reading the counters neither wake
//!   the driver nor set the alarm. An alarm at which nothing fires was set for a cascade or for a
//!   canceled entry. In one program, this happens at most once per level for each registration and
//!   reset.
//! * 7, 8: Whatever a waker does, the step ends, and all other wakers are woken.
//! * 9: A registration that was woken or given up is never woken again.
//! * 10: After the end, all wakers were woken and none is kept. A poll before the deadline panics
//!   with its message. The timer is freed when its last handle is dropped.
//! * 14: The rules for 1 and 5 check this promise.
//! * The counters of `metrics` agree with the oracle. A limit refuses exactly the registrations
//!   beyond it.
//!
//! One check is weaker. A program that closes the timer in the middle of a batch cannot know which
//! entries of the batch had fired. For such a program, the oracle only knows the sum of fired and
//! canceled entries.
//!
//! # More programs
//!
//! A program that fails is shrunk and printed, one step a line. A line `cc …` has its seed. These
//! commands run more programs, or the same programs again:
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

use std::collections::BTreeSet;

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};

use super::harness::programs;
use program::program;

proptest! {
    #![proptest_config(programs(400))]

    #[test]
    fn all_promises_hold_after_every_step(program in program()) {
        run::run(&program).map_err(TestCaseError::fail)?;
    }
}

/// The events that must occur in at least one program. Otherwise, the programs test less than they
/// seem to.
const OUTCOMES: &[&str] = &[
    "a deadline beyond the clock's reach",
    "a driver dropped",
    "a driver that is late",
    "a driver that yields",
    "a drop during a batch",
    "a future that is ready at once",
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
    "a shutdown",
    "a shutdown during a batch",
    "a sleep that has fired and is not woken yet",
    "a task after the end",
    "a task canceled",
    "a task canceled that was about to start",
    "a task returned",
    "a task that ran",
    "a task that ran again",
    "a timer that is full",
    "a waker that acts as it is cloned",
    "a waker that acts as it is dropped",
    "a waker that acts as it is woken",
    "a waker that blocks",
    "a waker that panics as it is cloned",
    "a waker that panics as it is dropped",
    "a waker that panics as it is woken",
    "an alarm at which nothing fires",
    "an alarm that has forgotten while the driver was polled",
    "an alarm that has forgotten and is set again",
    "an alarm that is early",
    "an alarm that is late to notice",
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
        let outcomes = run::run(&program).unwrap_or_else(|why| panic!("{why}\n{program:?}"));
        missing.retain(|outcome| !outcomes.contains(outcome));
        if missing.is_empty() {
            return;
        }
    }
    panic!("these events occur in no program: {missing:?}");
}
