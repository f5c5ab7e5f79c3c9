//! What `differential` and the simulation of `src/timer` do not show of `Interval`.

#![cfg(feature = "test-util")]

use std::{future::poll_fn, task::Poll};

use tokio::task::unconstrained;
use tokio_wheel::{Duration, Instant, interval};

use crate::support::{ms, wait_until};

/// On the system's clock, a sleep whose deadline has just passed waits for the next millisecond. A missed tick does not.
#[tokio::test]
async fn a_missed_tick_is_ready() {
    let period = Duration::from_micros(100);
    let mut interval = interval(period);
    let mut last = interval.tick().await;
    wait_until(|| Instant::now() >= last + ms(3));
    let (mut before, mut next) = (last, Instant::now());
    // The interval is polled without a budget, because the system may take the processor away for many periods.
    unconstrained(poll_fn(|cx| {
        while let Poll::Ready(tick) = interval.poll_tick(cx) {
            (last, before, next) = (tick, next, Instant::now());
        }
        Poll::Ready(())
    }))
    .await;
    // A tick that had passed before the last poll is not missing.
    assert!(last + period > before, "a missed tick is pending");
}
