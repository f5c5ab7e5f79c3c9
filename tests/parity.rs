//! Each test runs the same body on `tokio::time` and on this crate, under the paused clock. The events,
//! their order and their virtual times must be equal.
//!
//! `tests/differential` compares random programs. Here are values that such a program seldom hits.

#![cfg(feature = "test-util")]

mod support;

use support::{log::side_by_side, poll_once};

side_by_side! {
    (tokio::time) (tokio_wheel)

    async fn sleep_takes_as_long(time, log) {
        for nanos in [
            0, 1, 999, 15_624, 15_625, 15_626, 999_999, 1_000_000, 1_000_001, 1_500_000,
            63_999_999, 64_000_000, 64_000_001, 4_096_000_000, 262_144_000_001, 1_073_741_824_000_000,
        ] {
            time::sleep(time::Duration::from_nanos(nanos)).await;
            log.note(nanos);
        }
    }

    async fn timeout_as_long_as_its_future(time, log) {
        let answer = time::sleep(time::Duration::from_millis(20));
        log.note(time::timeout(time::Duration::from_millis(20), answer).await);
    }

    async fn interval_with_missed_ticks(time, log) {
        let behaviors = [
            time::MissedTickBehavior::Burst,
            time::MissedTickBehavior::Delay,
            time::MissedTickBehavior::Skip,
        ];
        // These are below the tolerance of 5 ms, equal to it, above it, and several periods.
        for late in [1_u64, 4, 5, 6, 10, 35, 40, 41, 1_000] {
            for behavior in behaviors {
                let start = time::Instant::now();
                let mut interval = time::interval(time::Duration::from_millis(10));
                interval.set_missed_tick_behavior(behavior);
                log.note(interval.tick().await - start);
                time::sleep(time::Duration::from_millis(10 + late)).await;
                for _ in 0..6 {
                    log.note((late, behavior, interval.tick().await - start));
                }
            }
        }
    }

    async fn advance_by_less_than_a_millisecond(time, log) {
        let sleep = time::sleep(time::Duration::from_millis(2));
        tokio::pin!(sleep);
        for _ in 0..3 {
            log.note(poll_once(&mut sleep).await.is_ready());
            time::advance(time::Duration::from_micros(600)).await;
        }
        sleep.as_mut().await;
        log.note("slept");
    }
}
