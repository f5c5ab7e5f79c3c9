//! Design, promise 1, on real clocks: 100,000 sleeps in each mode, of random lengths up to 20 ms,
//! against the clock of the standard library.

use std::time::Instant;

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
const SLEEPS_OF_A_TASK: usize = 50;

/// Is called before a sleep is made; what it returns, after, says whether the clock kept up meanwhile.
type Judge = fn() -> Box<dyn FnOnce() -> bool + Send>;

/// A sleep is not ready before its deadline, nor after less than its duration, where its clock can be
/// held to that.
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

fn never_early(builder: Builder, judge: Judge) {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
    let nanos = prop::collection::vec(0..20_000_000_u64, SLEEPS_OF_A_TASK);
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
    assert!(counted > TASKS * SLEEPS_OF_A_TASK * 9 / 10, "{counted}");
}

#[test]
fn the_ordinary_timer() {
    never_early(Timer::builder(), || Box::new(|| true));
}

#[cfg(all(feature = "high-resolution", target_os = "linux"))]
#[test]
fn a_timer_of_high_resolution() {
    never_early(Timer::builder().high_resolution(), || Box::new(|| true));
}

#[cfg(all(feature = "coarse", target_os = "linux"))]
#[test]
fn a_coarse_timer() {
    never_early(Timer::builder().coarse(), || {
        let reading = coarse::reading();
        Box::new(move || coarse::kernel_keeps_up(reading))
    });
}
