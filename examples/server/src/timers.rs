//! Lets `server.rs` compile against `tokio_wheel` and against `tokio::time`.
//!
//! The two implementations differ in a path.

use std::{error::Error, io, pin::Pin, time::Duration};

use tokio::time::Instant;

/// The functions of a timer that the server uses.
pub(crate) trait Timers: 'static {
    type Sleep: Sleep;
    type Elapsed: Error + Into<io::Error> + Send;

    fn sleep_until(deadline: Instant) -> Self::Sleep;

    fn timeout<F: Future + Send>(
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send;

    /// Returns how many blocks the current runtime's timer has seen, and the longest.
    fn blocks() -> Option<(u64, Duration)> {
        None
    }
}

/// A sleep that can be reset while it is polled.
pub(crate) trait Sleep: Future<Output = ()> + Send {
    fn reset(self: Pin<&mut Self>, deadline: Instant);
}

/// `tokio_wheel`.
pub(crate) enum Wheel {}

impl Timers for Wheel {
    type Sleep = tokio_wheel::Sleep;
    type Elapsed = tokio_wheel::error::Elapsed;

    fn sleep_until(deadline: Instant) -> Self::Sleep {
        tokio_wheel::sleep_until(deadline)
    }

    fn timeout<F: Future + Send>(
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send {
        tokio_wheel::timeout(limit, future)
    }

    fn blocks() -> Option<(u64, Duration)> {
        let metrics = tokio_wheel::Timer::current().metrics();
        Some((metrics.blocks(), metrics.longest_block()))
    }
}

impl Sleep for tokio_wheel::Sleep {
    fn reset(self: Pin<&mut Self>, deadline: Instant) {
        tokio_wheel::Sleep::reset(self, deadline);
    }
}

/// `tokio::time`.
pub(crate) enum Tokio {}

impl Timers for Tokio {
    type Sleep = tokio::time::Sleep;
    type Elapsed = tokio::time::error::Elapsed;

    fn sleep_until(deadline: Instant) -> Self::Sleep {
        tokio::time::sleep_until(deadline)
    }

    fn timeout<F: Future + Send>(
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send {
        tokio::time::timeout(limit, future)
    }
}

impl Sleep for tokio::time::Sleep {
    fn reset(self: Pin<&mut Self>, deadline: Instant) {
        tokio::time::Sleep::reset(self, deadline);
    }
}
