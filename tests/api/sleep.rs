//! What `differential` and the simulation of `src/timer` do not show of `Sleep`.

#![cfg(feature = "test-util")]

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::Poll,
};

use futures_core::FusedFuture;
use tokio::task::coop;
use tokio_test::{assert_pending, assert_ready, task};
use tokio_wheel::{Duration, Instant, advance, sleep};

use crate::support::{current_thread, does_not_hang, ms, paused, pending, secs, settle};

/// tokio's `sleep` panics there.
#[test]
fn a_sleep_is_created_and_reset_outside_of_a_runtime() {
    does_not_hang(|| {
        let mut sleep = sleep(secs(30));
        let deadline = Instant::now();
        Pin::new(&mut sleep).reset(deadline);
        assert!(sleep.is_elapsed());
        current_thread().block_on(sleep);
        assert!(Instant::now() >= deadline);
    });
}

/// A log line that shows a connection must not lock and show the whole wheel.
#[tokio::test(start_paused = true)]
async fn debug_of_a_registered_sleep_shows_its_deadline_alone() {
    let shown = format!("{:?}", pending(sleep(secs(60))));
    assert!(shown.starts_with("Sleep { deadline: "), "{shown}");
    assert!(shown.len() < 200, "{shown}");
}

/// At several fractions of a tick and of a millisecond, before and after the driver has parked.
#[test]
fn reset_to_now_or_the_past_wakes_and_is_ready_at_the_next_poll() {
    for offset in [0, 1, 7_812, 15_625, 300_001, 999_999] {
        for has_parked in [false, true] {
            for ago in [Duration::ZERO, Duration::from_nanos(1), ms(3), ms(10)] {
                for wait in [ms(1), ms(100), secs(10), secs(600)] {
                    paused().block_on(async {
                        tokio::time::advance(ms(10) + Duration::from_nanos(offset)).await;
                        let now = Instant::now();
                        let mut sleep = task::spawn(sleep(wait));
                        assert_pending!(sleep.poll());
                        if has_parked {
                            settle().await;
                        }
                        sleep.enter(|_, sleep| sleep.reset(now - ago));
                        let case = format!("{wait:?} at {offset} ns, reset to {ago:?} ago");
                        assert!(sleep.is_woken(), "not woken: {case}");
                        assert!(sleep.poll().is_ready(), "not ready: {case}");
                        assert_eq!(Instant::now(), now);
                    });
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_sleep_is_terminated_from_the_ready_poll_to_the_next_reset() {
    let mut sleep = task::spawn(sleep(ms(10)));
    assert!(!sleep.is_terminated(), "before the first poll");
    assert_pending!(sleep.poll());
    assert!(!sleep.is_terminated(), "pending");
    advance(ms(10)).await;
    let now = Instant::now();
    for case in [
        "elapsed",
        "reset while pending",
        "reset after the ready poll",
    ] {
        if case == "reset while pending" {
            sleep.enter(|_, sleep| sleep.reset(now + ms(10)));
            assert!(!sleep.is_terminated(), "reset");
            assert_pending!(sleep.poll());
        }
        if case != "elapsed" {
            sleep.enter(|_, sleep| sleep.reset(now));
        }
        assert!(!sleep.is_terminated(), "{case}");
        for _ in 0..2 {
            assert_ready!(sleep.poll());
            assert!(sleep.is_terminated(), "{case}");
        }
    }
}

/// `select!` of the `futures` crate never polls a terminated future again.
#[tokio::test(start_paused = true)]
async fn a_sleep_without_budget_is_not_terminated() {
    tokio::spawn(async {
        let due = sleep(Duration::ZERO);

        let fired = pending(sleep(ms(10)));
        advance(ms(10)).await;
        assert!(fired.is_elapsed());

        let mut reset = pending(sleep(ms(10)));
        Pin::new(&mut reset).reset(Instant::now());
        assert!(reset.is_elapsed());

        for mut sleep in [due, fired, reset] {
            for has_budget in [false, true] {
                tokio::task::yield_now().await;
                poll_fn(|cx| {
                    while !has_budget && pin!(coop::consume_budget()).poll(cx).is_ready() {}
                    let polled = Pin::new(&mut sleep).poll(cx);
                    assert_eq!(polled.is_ready(), has_budget);
                    assert_eq!(sleep.is_terminated(), has_budget);
                    Poll::Ready(())
                })
                .await;
            }
        }
    })
    .await
    .unwrap();
}
