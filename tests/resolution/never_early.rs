//! Tests that no sleep is early by the standard library's clock.

use std::time::Instant;

use tokio_wheel::{Builder, Duration, Sleep, Timer, sleep};

use crate::support::{Random, does_not_hang, multi_thread};

const TASKS: u64 = 2_000;

/// The number of sleeps that a task makes in a row.
const SLEEPS: usize = 50;

/// Asserts that no sleep is ready before its duration has elapsed, or before its deadline.
async fn sleeps(mut random: Random, make: fn(&Timer, Duration) -> Sleep) {
    let timer = Timer::current();
    for _ in 0..SLEEPS {
        let duration = Duration::from_nanos(random.below(20_000_000));
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
    let runtime = multi_thread(2);
    runtime.block_on(async {
        builder.install().unwrap();
    });
    let tasks: Vec<_> = (0..TASKS)
        .map(|n| {
            let make = match n % 2 {
                0 => |_: &Timer, duration| sleep(duration),
                _ => |timer: &Timer, duration| timer.sleep(duration),
            };
            runtime.spawn(sleeps(Random(n), make))
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn the_ordinary_timer() {
    does_not_hang(|| never_early(Timer::builder()));
}

#[cfg(all(feature = "high-resolution", target_os = "linux"))]
#[test]
fn a_timer_of_high_resolution() {
    does_not_hang(|| never_early(Timer::builder().high_resolution()));
}
