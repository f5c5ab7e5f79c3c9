//! Runs each timer for a short time, and checks what the report says.

use std::time::Duration;

use clap::CommandFactory as _;

use crate::{
    Args, block,
    load::Plan,
    report::{self, Run},
    run::run,
    server::Limits,
    timers::{Timers, Tokio, Wheel},
};

/// A short run. Its idle limit is long enough for a client that talks on a busy machine.
const PLAN: Plan = Plan {
    connections: 300,
    sessions: 2_000,
    calm: Duration::from_millis(2_000),
    think: Duration::from_millis(20),
    limits: Limits {
        read: Duration::from_millis(1_050),
        idle: Duration::from_millis(1_500),
    },
};

/// Asserts that nothing fires early and that all idle clients and sessions expire.
/// Also asserts that no client that talks loses its connection.
fn keeps_promises<T: Timers>() -> Run {
    let report = run::<T>(&PLAN).expect("the run starts");
    assert_eq!(PLAN.idle(), 150);
    assert_eq!(
        (report.early, report.forgotten(&PLAN), report.dropped),
        (0, 0, 0)
    );
    assert_eq!(report.idle.len(), 150);
    assert_eq!((report.closed, report.sessions.len()), (150, 2_000));
    assert!(!report.calm.is_empty() && !report.storm.is_empty() && report.sound(&PLAN));
    report
}

#[test]
fn the_wheel_keeps_its_promises() {
    let report = keeps_promises::<Wheel>();
    report::print(&PLAN, [("tokio_wheel", &[report]), ("tokio::time", &[])]);
}

#[test]
fn tokio_keeps_its_promises() {
    keeps_promises::<Tokio>();
}

/// The runs end, and the report names what the timer has seen.
#[test]
fn a_task_blocks_beside_both_timers() {
    let (with, without) = (
        block::run::<Wheel>().unwrap(),
        block::run::<Tokio>().unwrap(),
    );
    assert!(!with.round_trips.is_empty() && !without.round_trips.is_empty());
    assert!(with.blocks.is_some() && without.blocks.is_none());
    report::print_blocked([("tokio_wheel", &[with]), ("tokio::time", &[without])]);
}

#[test]
fn the_command_line_is_sound() {
    Args::command().debug_assert();
}
