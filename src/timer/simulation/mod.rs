//! A simulation of a timer, whose clock, alarm and driver are driven by hand.
//!
//! A random program makes, polls, resets and drops futures and scheduled tasks on some shards, on a
//! worker and on other threads; lets time pass by ticks or by years; has the alarm ring early, late,
//! twice, or not at all; polls the driver when it is woken, when it is not, or not for long; and ends
//! the timer at any moment. Wakers panic, act on the same timer, or block until another thread has,
//! as they are woken, cloned or dropped. Only one thread runs at a time, so a program always does the
//! same: what threads do at the same time is for `loom_tests`.
//!
//! | file         | holds                                                            |
//! |--------------|------------------------------------------------------------------|
//! | `program.rs` | what a program is, and how it is chosen                          |
//! | `world.rs`   | what it acts on                                                  |
//! | `guest.rs`   | the wakers                                                       |
//! | `ledger.rs`  | the oracle: what must have become of each registration           |
//! | `run.rs`     | the steps, the polls of the driver, and the checks after each    |
//! | `threads.rs` | threads of known shards, and how long they are waited for        |
//!
//! # What holds after every step
//!
//! By the numbers of the promises that `tests/promises/` shows one by one:
//!
//! * 1: nobody was woken by the driver, and nothing was ready, before its deadline. Each task ran at
//!   its deadline or later.
//! * 2: each registration has waited for its waker, or was woken exactly once, or was given up. If
//!   anything is pending, the driver is woken or the alarm is set for when that is due, or earlier;
//!   and when the driver has parked, nothing is due, unless the alarm is late. Each task is in exactly
//!   one place: it waits, ran, was cancelled, or was given back, and what it held was dropped once.
//! * 3: under an exact alarm everybody is woken in the tick of the deadline.
//! * 4, 6: a poll of the driver fires no more than a batch, and the polls until it parks are bounded
//!   by the entries, whatever time has passed.
//! * 5: dropping, cancelling, resetting to a later deadline and reading the counts neither wake the
//!   driver nor set the alarm. An alarm that rings and nothing fires was set for a cascade, or for what
//!   was cancelled: in a program, no oftener than there are levels for each registration and reset.
//! * 7, 8: whatever a waker does, the step ends, and all others are woken.
//! * 9: what was woken or given up is never woken again.
//! * 10: after the end all were woken, a poll before the deadline panics with its message, no waker
//!   is kept, and neither is the timer when the last handle is gone.
//! * 14: see 5, and 1.
//! * The counts of `metrics` are the oracle's, and a limit refuses exactly what is beyond it.
//!
//! What may be off: a program that closes the timer amid a batch cannot know what of the batch had
//! fired; there the oracle knows the sum of fired and cancelled alone.
//!
//! # More programs
//!
//! A program that fails is shrunk and printed, a step a line, with a line `cc …` that has its seed. To
//! run more programs, or the same ones again:
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

/// What programs have to come to, or they show less than they seem to.
const OUTCOMES: &[&str] = &[
    "a deadline beyond the clock's reach",
    "a driver dropped",
    "a driver that is late",
    "a driver that yields",
    "a drop amid a batch",
    "a future that is ready at once",
    "a future that was woken and is ready",
    "a leap of years",
    "a poll that panics after the end",
    "a registration amid a batch",
    "a registration amid a batch that is due with it",
    "a registration between two batches",
    "a reset amid a batch",
    "a reset that fires",
    "a reset to a later deadline",
    "a reset to an earlier deadline",
    "a shutdown",
    "a shutdown amid a batch",
    "a sleep that has fired and is not woken yet",
    "a task after the end",
    "a task cancelled",
    "a task cancelled that was about to start",
    "a task given back",
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
    "an alarm that has forgotten, made good for by a poll",
    "an alarm that has forgotten, set anew",
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
    panic!("no program comes to {missing:?}");
}
