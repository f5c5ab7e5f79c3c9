//! What `differential` does not show of `Interval`: the extremes of its period, and the polls that follow a reset.

#![cfg(feature = "test-util")]

use std::{future::poll_fn, task::Poll};

use tokio::task::unconstrained;
use tokio_test::task;
use tokio_wheel::{Duration, Instant, Interval, MissedTickBehavior, advance, interval};

use crate::support::{ms, secs, settle, wait_until};

/// Polls once, and returns the tick in milliseconds since `start` if it is ready.
fn tick(interval: &mut task::Spawn<Interval>, start: Instant) -> Option<u128> {
    match interval.enter(|cx, mut interval| interval.poll_tick(cx)) {
        Poll::Ready(due) => Some((due - start).as_millis()),
        Poll::Pending => None,
    }
}

/// Returns all ticks that are ready now.
fn ticks(interval: &mut task::Spawn<Interval>, start: Instant) -> Vec<u128> {
    std::iter::from_fn(|| tick(interval, start)).collect()
}

#[tokio::test(start_paused = true)]
async fn the_longest_period_ticks_once() {
    let start = Instant::now();
    let mut interval = task::spawn(interval(Duration::MAX));
    assert_eq!(interval.period(), Duration::MAX);
    interval.enter(|_, mut interval| interval.set_missed_tick_behavior(MissedTickBehavior::Skip));
    assert_eq!(interval.missed_tick_behavior(), MissedTickBehavior::Skip);
    assert_eq!(ticks(&mut interval, start), [0]);
    advance(secs(86_400 * 365)).await;
    assert_eq!(ticks(&mut interval, start), []);
}

#[tokio::test(start_paused = true)]
async fn the_shortest_period_catches_up() {
    let start = Instant::now();
    let mut interval = interval(Duration::from_nanos(1));
    for n in 0..1_000 {
        assert_eq!(interval.tick().await, start + Duration::from_nanos(n));
    }
}

/// The test resets a pending interval to now or to the past. The reset wakes the task, and the next
/// poll returns the tick.
#[test]
fn resets_to_now_or_the_past_wake_and_tick_at_the_next_poll() {
    type Reset = fn(&mut Interval, Instant);
    let resets: [(&str, Reset, u128); 4] = [
        ("reset_immediately", |i, _| i.reset_immediately(), 60),
        ("reset_after", |i, _| i.reset_after(Duration::ZERO), 60),
        ("reset_at now", |i, start| i.reset_at(start + ms(60)), 60),
        (
            "reset_at the past",
            |i, start| i.reset_at(start + ms(20)),
            20,
        ),
    ];
    for (name, reset, due) in resets {
        for has_parked in [false, true] {
            crate::support::paused().block_on(async {
                let start = Instant::now();
                let mut interval = task::spawn(interval(ms(100)));
                assert_eq!(ticks(&mut interval, start), [0]);
                tokio::time::advance(ms(60)).await;
                if has_parked {
                    settle().await;
                }
                assert_eq!(tick(&mut interval, start), None);
                interval.enter(|_, mut interval| reset(&mut interval, start));
                assert!(interval.is_woken(), "not woken by {name}");
                assert_eq!(tick(&mut interval, start), Some(due), "{name}");
                assert_eq!(start.elapsed(), ms(60));
            });
        }
    }
}

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
