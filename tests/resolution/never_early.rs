//! Tests on real clocks that no sleep is early.
//!
//! Each kind of timer makes 100,000 sleeps of up to 20 ms, and the standard library's clock measures them. A coarse timer
//! also makes 4,000 sleeps of 2 s to 2.5 s.

use std::{ops::Range, time::Instant};

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};
use tokio_wheel::{Builder, Duration, Sleep, Timer, sleep};

#[cfg(all(feature = "coarse", target_os = "linux"))]
use crate::coarse;
use crate::support::multi_thread;

const TASKS: usize = 2_000;

/// The number of sleeps that a task makes in a row, and the range of their durations in nanoseconds.
type Sleeps = (usize, Range<u64>);

const SHORT: Sleeps = (50, 0..20_000_000);

#[cfg(all(feature = "coarse", target_os = "linux"))]
const LONG: Sleeps = (2, 2_000_000_000..2_500_000_000);

/// A function that is called before a sleep is made. It returns a second function, which is called after that and says
/// whether the clock kept up in the meantime.
type Judge = fn() -> Box<dyn FnOnce() -> bool + Send>;

/// Asserts that no sleep is ready before its deadline, or before its duration if the clock kept up. Returns the number
/// of sleeps for which the clock kept up.
async fn sleeps(
    durations: Vec<Duration>,
    make: fn(&Timer, Duration) -> Sleep,
    judge: Judge,
) -> usize {
    let timer = Timer::current();
    let mut counted = 0;
    for duration in durations {
        let start = Instant::now();
        let judge = judge();
        let sleep = make(&timer, duration);
        let counts = judge();
        let deadline = sleep.deadline().into_std();
        sleep.await;
        let end = Instant::now();
        assert!(end >= deadline, "early by {:?}", deadline - end);
        if counts {
            counted += 1;
            assert!(
                end - start >= duration,
                "{:?} instead of {duration:?}",
                end - start
            );
        }
    }
    counted
}

fn never_early(builder: Builder, (sleeps_of_a_task, nanos): Sleeps, judge: Judge) {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
    let nanos = prop::collection::vec(nanos, sleeps_of_a_task);
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
            runtime.spawn(sleeps(durations, make, judge))
        })
        .collect();
    let mut counted = 0;
    for task in tasks {
        counted += runtime.block_on(task).unwrap();
    }
    assert!(counted > TASKS * sleeps_of_a_task * 9 / 10, "{counted}");
}

#[test]
fn the_ordinary_timer() {
    never_early(Timer::builder(), SHORT, || Box::new(|| true));
}

#[cfg(all(feature = "high-resolution", target_os = "linux"))]
#[test]
fn a_timer_of_high_resolution() {
    never_early(Timer::builder().high_resolution(), SHORT, || {
        Box::new(|| true)
    });
}

#[cfg(all(feature = "coarse", target_os = "linux"))]
#[test]
fn short_sleeps_of_a_coarse_timer() {
    never_early(Timer::builder().coarse(), SHORT, || Box::new(|| true));
}

#[cfg(all(feature = "coarse", target_os = "linux"))]
#[test]
fn long_sleeps_of_a_coarse_timer() {
    never_early(Timer::builder().coarse(), LONG, || {
        let reading = coarse::reading();
        Box::new(move || coarse::kernel_keeps_up(reading))
    });
}
