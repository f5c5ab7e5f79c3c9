//! On whole milliseconds, the same events at the same instants.
//!
//! The clock starts on a millisecond of both timers, and moves by whole ones: the runtime's does so
//! by itself, and programs advance it so. Here the two round to the same instant, whatever the
//! deadline: tokio's timer is ready at the first millisecond that is not before it. Ours rounds up
//! to 1/64 ms first, which divides a millisecond, and so does not pass that.

use proptest::prelude::*;

use crate::{
    program::program,
    programs,
    run::run,
    time::{Ours, Theirs},
};

/// How many programs are run, in about 10 s without optimization.
const PROGRAMS: u32 = 4_000;

proptest! {
    #![proptest_config(programs(PROGRAMS))]

    #[test]
    fn the_same_events_at_the_same_instants(program in program()) {
        let ours = run::<Ours>(&program).map_err(TestCaseError::fail)?;
        let theirs = run::<Theirs>(&program).map_err(TestCaseError::fail)?;
        prop_assert_eq!(ours, theirs, "left: tokio_wheel, right: tokio::time");
    }
}
