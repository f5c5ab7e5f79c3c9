//! What `differential` and the simulation of `src/timer` do not show of `Timeout`.

#![cfg(feature = "test-util")]

use std::{
    future::{Ready, ready},
    io,
};

use tokio::sync::oneshot;
use tokio_test::{assert_pending, assert_ready, assert_ready_ok, task};
use tokio_wheel::{Duration, Instant, Timer, advance, error::Elapsed, sleep, timeout, timeout_at};

use crate::support::{ms, secs};

#[tokio::test(start_paused = true)]
async fn a_future_that_is_ready_at_once_registers_nothing() {
    for limit in [Duration::ZERO, ms(1), Duration::MAX] {
        let mut timeout = task::spawn(timeout(limit, ready(7)));
        assert_eq!(assert_ready_ok!(timeout.poll()), 7);
    }
    assert_eq!(Timer::current().metrics().registered(), 0);
}

/// Each poll polls the inner future first, so a result wins however late the poll is.
#[tokio::test(start_paused = true)]
async fn a_result_wins_over_an_expired_limit() {
    let (sender, receiver) = oneshot::channel();
    let mut timeout = task::spawn(timeout(ms(10), receiver));
    assert_pending!(timeout.poll());
    advance(secs(10)).await;
    sender.send(7).unwrap();
    assert_eq!(assert_ready_ok!(timeout.poll()), Ok(7));
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
async fn the_inner_future_can_be_seen_changed_and_kept() {
    let mut timeout = timeout(ms(10), ready(7));
    assert_eq!(timeout.get_ref().clone().into_inner(), 7);
    *timeout.get_mut() = ready(8);
    let kept: Ready<i32> = timeout.into_inner();
    assert_eq!(kept.await, 8);
}

#[tokio::test(start_paused = true)]
async fn into_inner_cancels_the_limit_and_keeps_the_progress() {
    let (sender, receiver) = oneshot::channel();
    let mut timeout = Box::new(timeout(ms(10), receiver));
    let (_, waker) = crate::support::Wakes::new();
    assert_pending!(crate::support::poll(&mut timeout, &waker));
    let receiver = timeout.into_inner();
    assert_eq!(Timer::current().metrics().pending(), 0);
    sender.send(7).unwrap();
    assert_eq!(receiver.await, Ok(7));
}

#[tokio::test(start_paused = true)]
async fn anything_that_becomes_a_future_can_be_limited() {
    struct Answer;
    impl IntoFuture for Answer {
        type Output = u8;
        type IntoFuture = Ready<u8>;
        fn into_future(self) -> Ready<u8> {
            ready(42)
        }
    }
    assert_eq!(timeout(ms(1), Answer).await, Ok(42));
    assert_eq!(timeout_at(Instant::now(), Answer).await, Ok(42));
}

#[tokio::test(start_paused = true)]
async fn elapsed_becomes_an_io_error() {
    async fn limited() -> io::Result<()> {
        timeout(ms(1), std::future::pending::<()>()).await?;
        Ok(())
    }
    let error = limited().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);

    let elapsed: Elapsed = timeout(ms(1), std::future::pending::<()>())
        .await
        .unwrap_err();
    assert_eq!(elapsed.to_string(), "deadline has elapsed");
}

#[tokio::test(start_paused = true)]
async fn a_finished_limit_stays_elapsed() {
    let mut timeout = task::spawn(timeout(ms(1), std::future::pending::<()>()));
    assert_pending!(timeout.poll());
    advance(ms(1)).await;
    for _ in 0..3 {
        assert!(assert_ready!(timeout.poll()).is_err());
    }
}
