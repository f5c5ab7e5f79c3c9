//! Tests on real clocks that no sleep is early.
//!
//! Each kind of timer makes 100,000 sleeps of up to 20 ms, and the standard library's clock measures them.

use std::time::Instant;

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};
use tokio_wheel::{Builder, Duration, Sleep, Timer, sleep};

use crate::support::multi_thread;

const TASKS: usize = 2_000;

/// The number of sleeps that a task makes in a row.
const SLEEPS: usize = 50;

/// Asserts that no sleep is ready before its duration has elapsed, or before its deadline.
async fn sleeps(durations: Vec<Duration>, make: fn(&Timer, Duration) -> Sleep) {
    let timer = Timer::current();
    for duration in durations {
        let start = Instant::now();
        let sleep = make(&timer, duration);
        let deadline = sleep.deadline().into_std();
        sleep.await;
        let end = Instant::now();
        assert!(end >= deadline, "early by {:?}", deadline - end);
        let took = end - start;
        assert!(took >= duration, "{took:?} instead of {duration:?}");
    }
}

fn never_early(builder: Builder) {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
    let nanos = prop::collection::vec(0..20_000_000_u64, SLEEPS);
    let runtime = multi_thread(2);
    runtime.block_on(async {
        builder.install().unwrap();
    });
    let tasks: Vec<_> = (0..TASKS)
        .map(|n| {
            let nanos = nanos.new_tree(&mut runner).unwrap().current();
            let durations = nanos.into_iter().map(Duration::from_nanos).collect();
            let make = match n % 2 {
                0 => |_: &Timer, duration| sleep(duration),
                _ => |timer: &Timer, duration| timer.sleep(duration),
            };
            runtime.spawn(sleeps(durations, make))
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn the_ordinary_timer() {
    never_early(Timer::builder());
}

#[cfg(all(feature = "high-resolution", target_os = "linux"))]
#[test]
fn a_timer_of_high_resolution() {
    never_early(Timer::builder().high_resolution());
}
