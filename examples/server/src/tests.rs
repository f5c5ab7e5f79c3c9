//! Runs each timer for a short time, and checks what the report says.

use std::time::Duration;

use clap::{CommandFactory as _, Parser as _};
use tokio::sync::watch;

use crate::{
    Args,
    plan::Plan,
    report::{self, Report, Runs},
    run::run,
    server::Limits,
    timers::{Timers, Tokio, Wheel},
};

/// A short run. Its idle limit is long enough for a client that talks on a busy machine.
const PLAN: Plan = Plan {
    connections: 300,
    active: 100,
    sessions: 2_000,
    calm: Duration::from_millis(2_000),
    think: Duration::from_millis(20),
    limits: Limits {
        read: Duration::from_millis(1_050),
        idle: Duration::from_millis(1_500),
    },
};

fn run_on<T: Timers>(plan: &Plan) -> Report {
    let (_keep, never) = watch::channel(false);
    let report = run::<T>(plan, "", never).expect("the run starts");
    report.expect("no test interrupts the run")
}

/// Asserts that nothing fires early and that all silent clients, idle clients and sessions expire.
/// Also asserts that no client that talks loses its connection.
fn keeps_promises(report: &Report) {
    assert_eq!((PLAN.silent(), PLAN.idle()), (40, 160));
    assert_eq!(report.early(), 0);
    assert_eq!(report.forgotten(&PLAN), 0);
    assert_eq!(report.dropped, 0);
    assert_eq!(report.closed, PLAN.silent() + PLAN.idle());
    assert_eq!(report.silent.by.len() + report.idle.by.len(), 200);
    assert_eq!(report.sessions.by.len(), PLAN.sessions as u64);
    assert!(report.sound(&PLAN));
    assert!(!report.calm.micros.is_empty() && !report.storm.micros.is_empty());
}

#[test]
fn the_wheel_keeps_its_promises() {
    let report = run_on::<Wheel>(&PLAN);
    keeps_promises(&report);
    // At least one limit for each closed connection, and one for each session.
    let counts = report.counts.expect("the wheel counts its timers");
    assert!(counts.fired >= 2_200, "{}", counts.fired);
    assert!(counts.registered >= counts.cancelled + counts.fired);
}

#[test]
fn tokio_keeps_its_promises() {
    keeps_promises(&run_on::<Tokio>(&PLAN));
}

/// An interrupt before the start leaves nothing to report.
#[test]
fn an_interrupt_ends_the_run() {
    let (_keep, interrupted) = watch::channel(true);
    assert!(run::<Wheel>(&PLAN, "", interrupted).unwrap().is_none());
}

/// The help has at most 100 columns. Arguments that do not fit together fail with an error that
/// says what is allowed.
#[test]
fn the_arguments_explain_themselves() {
    let mut command = Args::command();
    for help in [command.render_help(), command.render_long_help()] {
        for line in help.to_string().lines() {
            assert!(line.chars().count() <= 100, "too long: {line}");
        }
    }
    let refused = |arguments: &[&str]| {
        let args = Args::try_parse_from([&["echo-server"], arguments].concat());
        match args.map_err(|error| error.to_string()) {
            Ok(args) => crate::plan(&args).err(),
            Err(error) => Some(error),
        }
        .expect("they are refused")
    };
    assert!(refused(&["--idle", "5", "--seconds", "2"]).contains("use --idle 1.6 or less"));
    assert!(refused(&["--think", "900"]).contains("use --think 300 or less"));
    assert!(refused(&["--active", "2"]).contains("from 0 to 1"));
    assert!(refused(&["--sessions", "-1"]).contains("from 0 to 10000000"));
    assert!(refused(&["--rounds", "0"]).contains("from 1 up"));
    assert!(refused(&["--seconds", "inf"]).contains("from 0.1 to 86400"));
    assert!(refused(&["nonsense"]).contains("unexpected argument 'nonsense'"));
}

/// The report has at most 100 columns. It says when a figure means little and when a promise is
/// broken.
#[test]
fn the_report_fits() {
    let plan = Plan {
        calm: Duration::from_millis(300),
        limits: Limits {
            read: Duration::from_millis(70),
            idle: Duration::from_millis(100),
        },
        ..PLAN
    };
    let runs = |name, reports| Runs { name, reports };
    let mut timers = [
        runs(
            "tokio_wheel",
            vec![run_on::<Wheel>(&plan), run_on::<Wheel>(&plan)],
        ),
        runs("tokio::time", vec![run_on::<Tokio>(&plan)]),
    ];
    for timers in [&timers[..], &timers[..1], &timers[1..]] {
        let text = report::text(&plan, timers);
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "too long: {line}");
        }
        assert!(text.contains("2,000 sessions"), "{text}");
        assert!(!text.contains("broke a promise"), "{text}");
    }

    let [run, ..] = timers[0].reports.as_mut_slice() else {
        panic!("there are two")
    };
    run.used.share = Some(0.9);
    run.sessions.early = 1;
    assert!(!run.sound(&plan));
    let text = report::text(&plan, &timers).replace('\n', " ");
    assert!(text.contains("The processors were saturated in"), "{text}");
    assert!(text.contains("This program used at most 90%."), "{text}");
    let broken = "tokio_wheel broke a promise. Timers that fired early: 1. Timers that";
    assert!(text.contains(broken), "{text}");
}
