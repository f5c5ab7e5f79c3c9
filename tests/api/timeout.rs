//! What `differential` and the simulation of `src/timer` do not show of `Timeout`.

#![cfg(feature = "test-util")]

use std::future::{pending, ready};

use tokio::sync::oneshot;
use tokio_test::{assert_pending, assert_ready, assert_ready_ok, task};
use tokio_wheel::{Duration, Timer, advance, sleep, timeout};

use crate::support::{Wakes, ms, poll};

#[tokio::test(start_paused = true)]
async fn a_future_that_is_ready_at_once_registers_nothing() {
    for limit in [Duration::ZERO, ms(1), Duration::MAX] {
        let mut timeout = task::spawn(timeout(limit, ready(7)));
        assert_eq!(assert_ready_ok!(timeout.poll()), 7);
    }
    assert_eq!(Timer::current().metrics().registered(), 0);
}

/// A paused clock moves to the end of the longest sleep, but not to the end of the longest timeout.
#[tokio::test(start_paused = true)]
async fn the_longest_limit_outlasts_the_longest_sleep() {
    let timer = Timer::current();
    let limit = timeout(Duration::MAX, sleep(Duration::MAX));
    assert_eq!(limit.await, Ok(()));
    let limit = timer.timeout(Duration::MAX, timer.sleep(Duration::MAX));
    assert_eq!(limit.await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_future_that_leaves_its_limit_keeps_its_progress() {
    let (sender, receiver) = oneshot::channel();
    let mut kept = timeout(ms(10), receiver);
    assert_pending!(poll(&mut kept, &Wakes::new().1));
    let receiver = kept.into_inner();
    assert_eq!(Timer::current().metrics().pending(), 0);
    sender.send(7).unwrap();
    assert_eq!(receiver.await, Ok(7));
}

#[tokio::test(start_paused = true)]
async fn a_finished_limit_stays_elapsed() {
    let mut timeout = task::spawn(timeout(ms(1), pending::<()>()));
    assert_pending!(timeout.poll());
    advance(ms(1)).await;
    for _ in 0..3 {
        let elapsed = assert_ready!(timeout.poll()).unwrap_err();
        assert_eq!(elapsed.to_string(), "deadline has elapsed");
    }
}
