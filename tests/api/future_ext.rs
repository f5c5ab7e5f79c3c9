//! Tests the methods of `FutureExt`. They call `timeout` and `timeout_at`, which other files test.

#![cfg(feature = "test-util")]

use std::future::{Future, pending};

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

assert_impl_all!(dyn Future<Output = u8>: FutureExt);
