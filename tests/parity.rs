//! Each test runs the same body on `tokio::time` and on this crate, under the paused clock. The events,
//! their order and their virtual times must be equal.

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

    async fn sleep_until_takes_as_long(time, log) {
        let start = time::Instant::now();
        for micros in [0_u64, 10, 1_000, 1_001, 999, 70_000, 69_000, 5_000_000] {
            time::sleep_until(start + time::Duration::from_micros(micros)).await;
            log.note(micros);
        }
    }

    async fn reset_to_an_earlier_deadline(time, log) {
        let start = time::Instant::now();
        let sleep = time::sleep(time::Duration::from_secs(3_600));
        tokio::pin!(sleep);
        log.note(poll_once(&mut sleep).await.is_ready());
        sleep.as_mut().reset(start + time::Duration::from_millis(7));
        log.note(sleep.deadline() - start);
        sleep.as_mut().await;
        log.note(sleep.is_elapsed());
    }

    async fn reset_to_a_later_deadline(time, log) {
        let start = time::Instant::now();
        let sleep = time::sleep(time::Duration::from_millis(5));
        tokio::pin!(sleep);
        log.note(poll_once(&mut sleep).await.is_ready());
        sleep.as_mut().reset(start + time::Duration::from_secs(100));
        log.note(sleep.is_elapsed());
        sleep.as_mut().await;
        log.note(sleep.is_elapsed());
    }

    async fn reset_after_completion(time, log) {
        let sleep = time::sleep(time::Duration::from_millis(5));
        tokio::pin!(sleep);
        sleep.as_mut().await;
        log.note(sleep.is_elapsed());
        sleep.as_mut().reset(time::Instant::now() + time::Duration::from_millis(9));
        log.note(sleep.is_elapsed());
        sleep.as_mut().await;
        log.note(sleep.is_elapsed());
    }

    async fn reset_to_the_past(time, log) {
        let start = time::Instant::now();
        time::sleep(time::Duration::from_millis(50)).await;
        let sleep = time::sleep(time::Duration::from_secs(1));
        tokio::pin!(sleep);
        log.note(poll_once(&mut sleep).await.is_ready());
        sleep.as_mut().reset(start);
        sleep.as_mut().await;
        log.note(sleep.deadline() - start);
    }

    async fn timeout_in_time(time, log) {
        let answer = async {
            time::sleep(time::Duration::from_millis(20)).await;
            7
        };
        log.note(time::timeout(time::Duration::from_millis(21), answer).await);
    }

    async fn timeout_too_late(time, log) {
        let answer = async {
            time::sleep(time::Duration::from_millis(20)).await;
            7
        };
        let outcome = time::timeout(time::Duration::from_millis(19), answer).await;
        log.note(outcome.unwrap_err().to_string());
    }

    async fn timeout_as_long_as_its_future(time, log) {
        let answer = time::sleep(time::Duration::from_millis(20));
        log.note(time::timeout(time::Duration::from_millis(20), answer).await);
    }

    async fn timeout_of_zero(time, log) {
        log.note(time::timeout(time::Duration::ZERO, std::future::ready(7)).await);
        let never = std::future::pending::<()>();
        log.note(time::timeout(time::Duration::ZERO, never).await.is_err());
    }

    async fn timeout_of_the_longest_duration(time, log) {
        let answer = time::sleep(time::Duration::from_secs(86_400 * 400));
        log.note(time::timeout(time::Duration::MAX, answer).await);
    }

    async fn timeout_at_an_instant(time, log) {
        let start = time::Instant::now();
        let deadline = start + time::Duration::from_millis(8);
        let never = std::future::pending::<()>();
        log.note(time::timeout_at(deadline, never).await.is_err());
        let late = time::sleep(time::Duration::from_millis(1));
        log.note(time::timeout_at(start, late).await.is_err());
        log.note(time::timeout_at(start, std::future::ready(7)).await);
    }

    async fn interval_in_time(time, log) {
        let start = time::Instant::now();
        let mut interval = time::interval(time::Duration::from_micros(2_500));
        for _ in 0..10 {
            log.note(interval.tick().await - start);
        }
    }

    async fn interval_that_starts_later(time, log) {
        let start = time::Instant::now();
        let first = start + time::Duration::from_millis(70);
        let mut interval = time::interval_at(first, time::Duration::from_millis(10));
        for _ in 0..3 {
            log.note(interval.tick().await - start);
        }
        log.note((interval.period(), interval.missed_tick_behavior()));
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

    async fn interval_resets(time, log) {
        let start = time::Instant::now();
        let mut interval = time::interval(time::Duration::from_millis(10));
        log.note(interval.tick().await - start);
        time::sleep(time::Duration::from_millis(4)).await;
        interval.reset();
        log.note(interval.tick().await - start);
        interval.reset_immediately();
        log.note(interval.tick().await - start);
        interval.reset_after(time::Duration::from_millis(33));
        log.note(interval.tick().await - start);
        interval.reset_at(start);
        for _ in 0..8 {
            log.note(interval.tick().await - start);
        }
    }

    async fn select_takes_the_first(time, log) {
        let limit = time::sleep(time::Duration::from_millis(100));
        tokio::pin!(limit);
        loop {
            tokio::select! {
                biased;
                () = &mut limit => break,
                () = time::sleep(time::Duration::from_millis(30)) => log.note("turn"),
            }
        }
        log.note("limit");
    }

    async fn join_takes_the_longest(time, log) {
        tokio::join!(
            time::sleep(time::Duration::from_millis(3)),
            time::sleep(time::Duration::from_millis(300)),
            time::sleep(time::Duration::from_micros(30)),
        );
        log.note("joined");
    }

    /// There are many tasks, and each has a different deadline.
    async fn tasks_wake_in_the_order_of_their_deadlines(time, log) {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        for n in 0..1_000_u64 {
            let sender = sender.clone();
            tokio::spawn(async move {
                let micros = n * 7_919 % 1_000 * 3_000;
                time::sleep(time::Duration::from_micros(micros)).await;
                sender.send(micros).unwrap();
            });
        }
        drop(sender);
        while let Some(micros) = receiver.recv().await {
            log.note(micros);
        }
    }

    /// A dropped sleep delays no other sleep and does not move the clock.
    async fn dropped_sleeps_do_not_move_the_clock(time, log) {
        for n in 1..200_u64 {
            let sleep = time::sleep(time::Duration::from_millis(n));
            tokio::pin!(sleep);
            log.note(poll_once(&mut sleep).await.is_ready());
        }
        time::sleep(time::Duration::from_millis(500)).await;
        log.note("slept");
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
