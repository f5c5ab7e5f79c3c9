//! Tests the methods of `FutureExt`. They call `timeout` and `timeout_at`, which other files test.

#![cfg(feature = "test-util")]

use std::{
    future::{Future, pending, ready},
    pin::Pin,
};

use static_assertions::assert_impl_all;
use tokio_wheel::{FutureExt, Instant};

use crate::support::ms;

#[test]
fn a_timeout_can_be_created_outside_a_runtime() {
    let limited = pending::<()>().timeout(ms(10));
    let limited_at = pending::<()>().timeout_at(Instant::now());
    crate::support::paused().block_on(async {
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
    let deadline = Instant::now() + ms(11);
    assert_eq!((&mut slow).timeout_at(deadline).await, Ok(()));
}

assert_impl_all!(dyn Future<Output = u8>: FutureExt);
