//! Tests the methods of `FutureExt`.
//!
//! The first tests run the same code with tokio-util's trait and with ours. The module `ours` tests what only our trait
//! does. A scope cannot import both traits, because their methods have the same names.

#![cfg(feature = "test-util")]

mod support;

use std::{
    future::{Future, Ready, pending, ready},
    pin::Pin,
    time::Duration,
};

use static_assertions::assert_impl_all;
use support::{log::side_by_side, ms, secs};
use tokio_wheel::Instant;

side_by_side! {
    (tokio::time, tokio_util::time::FutureExt) (tokio_wheel, tokio_wheel::FutureExt)

    async fn timeout_in_time_and_too_late(time, log) {
        for limit in [0, 1, 19, 20, 21, 1_000] {
            let answer = async {
                time::sleep(ms(20)).await;
                7
            };
            log.note((limit, answer.timeout(ms(limit)).await));
        }
        log.note(ready(7).timeout(Duration::ZERO).await);
        log.note(time::sleep(ms(400 * 86_400_000)).timeout(Duration::MAX).await);
    }

    async fn timeout_at_in_time_and_too_late(time, log) {
        let start = time::Instant::now();
        time::sleep(ms(100)).await;
        for deadline in [0, 99, 100, 119, 139, 140, 141, 9_000] {
            let late = time::sleep(ms(20));
            log.note((deadline, late.timeout_at(start + ms(deadline)).await));
        }
        log.note(ready(7).timeout_at(start).await);
    }

    /// The timeout counts from the call, not from the first poll.
    async fn timeout_polled_later(time, log) {
        let limited = pending::<()>().timeout(ms(20));
        time::sleep(ms(15)).await;
        log.note(limited.await);
        let limited = pending::<()>().timeout(ms(20));
        time::sleep(ms(25)).await;
        log.note(limited.await);
    }

    async fn timeouts_of_timeouts(time, log) {
        let late = || time::sleep(ms(50));
        log.note(late().timeout(ms(10)).timeout(ms(20)).await);
        log.note(late().timeout(ms(20)).timeout(ms(10)).await);
        log.note(late().timeout(ms(60)).timeout(ms(70)).await);
        late().timeout(ms(20)).into_inner().await;
        log.note("unlimited");
        let mut limited = ready(7).timeout(ms(20));
        *limited.get_mut() = ready(8);
        log.note((limited.get_ref().clone().into_inner(), limited.await));
    }
}

mod ours {
    use tokio_wheel::{FutureExt, Timeout, Timer};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_future_that_is_ready_at_once_registers_nothing() {
        assert_eq!(ready(7).timeout(secs(1)).await, Ok(7));
        assert_eq!(ready(7).timeout_at(Instant::now()).await, Ok(7));
        assert_eq!(Timer::current().metrics().registered(), 0);
    }

    #[test]
    fn a_timeout_can_be_created_outside_a_runtime() {
        let limited = pending::<()>().timeout(ms(10));
        let limited_at = pending::<()>().timeout_at(Instant::now());
        support::paused().block_on(async {
            assert!(limited.await.is_err());
            assert!(limited_at.await.is_err());
        });
    }

    #[tokio::test(start_paused = true)]
    async fn boxed_and_borrowed_futures_can_be_limited() {
        let boxed: Pin<Box<dyn Future<Output = u8>>> = Box::pin(ready(7));
        assert_eq!(boxed.timeout(ms(1)).await, Ok(7));
        let mut slow = tokio_wheel::sleep(ms(20));
        let borrowed = (&mut slow).timeout(ms(10)).await;
        assert!(borrowed.is_err());
        assert_eq!((&mut slow).timeout(ms(11)).await, Ok(()));
    }

    assert_impl_all!(dyn Future<Output = u8>: FutureExt);

    #[test]
    fn signatures_are_the_same_as_in_tokio_util() {
        type Inner = Ready<u8>;
        let _: fn(Inner, Duration) -> Timeout<Inner> = FutureExt::timeout;
        let _: fn(Inner, Instant) -> Timeout<Inner> = FutureExt::timeout_at;
    }
}
