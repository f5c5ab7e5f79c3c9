//! Tests `tokio_wheel_util::io` under the paused clock.

#![cfg(feature = "io")]

mod script;

mod bookkeeping;
mod idle;
mod oracle;
mod rate;
mod same;
mod timeouts;

use std::io;

use tokio_wheel_util::io::LimitExceeded;

/// Returns the limit that an operation has exceeded.
#[track_caller]
fn exceeded<T: std::fmt::Debug>(result: io::Result<T>) -> LimitExceeded {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    error.downcast().unwrap()
}
