//! Tests of `Sleep` under the paused clock, poll by poll.

#![cfg(feature = "test-util")]

mod support;

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use futures_core::FusedFuture;
use support::{Wakes, does_not_hang, ms, paused, poll, secs, settle};
use tokio::task::coop;
use tokio_test::{assert_pending, assert_ready, task};
use tokio_wheel::{Duration, Instant, Timer, advance, sleep, sleep_until};

const DEFAULT_TICK: Duration = Duration::from_nanos(15_625);

#[tokio::test(start_paused = true)]
async fn a_sleep_is_woken_and_ready_at_its_deadline() {
    let start = Instant::now();
    let mut sleep = task::spawn(sleep(ms(10)));
    assert_eq!(sleep.deadline(), start + ms(10));
    assert_pending!(sleep.poll());
    assert!(!sleep.is_woken() && !sleep.is_elapsed());

    advance(ms(9)).await;
    assert!(!sleep.is_woken() && !sleep.is_elapsed());
    assert_pending!(sleep.poll());

    advance(ms(1)).await;
    assert!(sleep.is_woken() && sleep.is_elapsed());
    assert_ready!(sleep.poll());
    assert!(sleep.is_elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_sleep_of_zero_is_ready_at_the_first_poll() {
    let mut sleep = task::spawn(sleep(Duration::ZERO));
    assert!(!sleep.is_elapsed(), "before the first poll");
    assert_ready!(sleep.poll());
    assert!(sleep.is_elapsed());
    assert_eq!(Timer::current().metrics().registered(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_in_the_past_is_ready_at_the_first_poll() {
    let start = Instant::now();
    advance(ms(100)).await;
    assert_ready!(task::spawn(sleep_until(start)).poll());
    assert_ready!(task::spawn(sleep_until(start + ms(100))).poll());
    assert_eq!(Timer::current().metrics().registered(), 0);
}

/// A late driver may have to fire the sleep first. No time passes until then.
#[tokio::test(start_paused = true)]
async fn a_deadline_in_the_past_is_ready_without_waiting_while_the_driver_is_late() {
    let start = Instant::now();
    let mut earlier = task::spawn(sleep(ms(10)));
    assert_pending!(earlier.poll());
    settle().await;
    // The clock moves. The runtime looks at its timers only after this task has waited.
    assert_pending!(task::spawn(tokio::time::advance(ms(50))).poll());
    assert_eq!(start.elapsed(), ms(50));

    sleep_until(start + ms(20)).await;
    assert_eq!(start.elapsed(), ms(50));
}

#[tokio::test(start_paused = true)]
async fn a_sleep_that_was_never_polled_is_not_registered() {
    let idle = sleep(ms(1));
    settle().await;
    assert_eq!(Timer::current().metrics().registered(), 0);
    assert!(!idle.is_elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_duration_counts_from_the_call_not_from_the_first_poll() {
    let mut sleep = task::spawn(sleep(ms(10)));
    advance(ms(6)).await;
    assert_pending!(sleep.poll());
    advance(ms(4)).await;
    assert_ready!(sleep.poll());
}

#[tokio::test(start_paused = true)]
async fn a_drop_deregisters() {
    let (wakes, waker) = Wakes::new();
    let mut sleep = sleep(ms(10));
    assert_pending!(poll(&mut sleep, &waker));
    assert_eq!(Timer::current().metrics().pending(), 1);

    drop(sleep);
    let metrics = Timer::current().metrics();
    assert_eq!((metrics.pending(), metrics.cancelled()), (0, 1));
    advance(secs(1)).await;
    assert_eq!(wakes.count(), 0);
    assert_eq!(Timer::current().metrics().fired(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_drop_after_firing_cancels_nothing() {
    let mut sleep = task::spawn(sleep(ms(1)));
    assert_pending!(sleep.poll());
    advance(ms(1)).await;
    drop(sleep);
    let metrics = Timer::current().metrics();
    assert_eq!((metrics.fired(), metrics.cancelled()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn only_the_waker_of_the_last_poll_is_woken() {
    let ((first, first_waker), (second, second_waker)) = (Wakes::new(), Wakes::new());
    let mut sleep = sleep(ms(10));
    assert_pending!(poll(&mut sleep, &first_waker));
    assert_pending!(poll(&mut sleep, &second_waker));
    advance(ms(10)).await;
    assert_eq!((first.count(), second.count()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn polling_again_with_the_same_waker_registers_once() {
    let mut sleep = task::spawn(sleep(ms(10)));
    for _ in 0..10 {
        assert_pending!(sleep.poll());
    }
    assert_eq!(Timer::current().metrics().registered(), 1);
    // One reference belongs to the test's task, one to the entry.
    assert_eq!(sleep.waker_ref_count(), 2);
}

#[tokio::test(start_paused = true)]
async fn reset_to_an_earlier_deadline_wakes_then() {
    let start = Instant::now();
    let mut sleep = task::spawn(sleep(secs(10)));
    assert_pending!(sleep.poll());
    settle().await;

    sleep.enter(|_, sleep| sleep.reset(start + ms(5)));
    assert_eq!(sleep.deadline(), start + ms(5));
    advance(ms(5)).await;
    assert!(sleep.is_woken(), "without another poll");
    assert_ready!(sleep.poll());
}

/// As in the test above, but here the driver itself must wake earlier.
#[tokio::test(start_paused = true)]
async fn reset_to_an_earlier_deadline_wakes_the_driver() {
    let start = Instant::now();
    let mut sleep = task::spawn(sleep(secs(10)));
    assert_pending!(sleep.poll());
    settle().await;

    sleep.enter(|_, sleep| sleep.reset(start + ms(5)));
    tokio::time::sleep(ms(6)).await;
    assert!(sleep.is_woken());
    assert_ready!(sleep.poll());
}

#[tokio::test(start_paused = true)]
async fn reset_to_a_later_deadline_wakes_then_and_not_before() {
    let start = Instant::now();
    let mut sleep = task::spawn(sleep(ms(5)));
    assert_pending!(sleep.poll());
    sleep.enter(|_, sleep| sleep.reset(start + secs(10)));

    advance(secs(10) - ms(1)).await;
    assert!(!sleep.is_woken() && !sleep.is_elapsed());
    assert_pending!(sleep.poll());
    advance(ms(1)).await;
    assert!(sleep.is_woken() && sleep.is_elapsed());
    assert_eq!(Timer::current().metrics().registered(), 1);
}

#[tokio::test(start_paused = true)]
async fn reset_back_and_forth_ends_at_the_last_deadline() {
    let start = Instant::now();
    let mut sleep = task::spawn(sleep(ms(50)));
    assert_pending!(sleep.poll());
    for millis in [500, 20, 5_000, 30, 300_000, 70, 40] {
        sleep.enter(|_, sleep| sleep.reset(start + ms(millis)));
    }
    advance(ms(39)).await;
    assert!(!sleep.is_woken());
    advance(ms(1)).await;
    assert!(sleep.is_woken());
}

#[tokio::test(start_paused = true)]
async fn reset_to_the_past_wakes_at_once() {
    let start = Instant::now();
    advance(ms(10)).await;
    let mut sleep = task::spawn(sleep(secs(10)));
    assert_pending!(sleep.poll());
    settle().await;
    sleep.enter(|_, sleep| sleep.reset(start));
    settle().await;
    assert!(sleep.is_woken());
    assert_ready!(sleep.poll());
    assert_eq!(start.elapsed(), ms(10));
}

#[tokio::test(start_paused = true)]
async fn reset_before_the_first_poll_only_moves_the_deadline() {
    let start = Instant::now();
    let mut sleep = task::spawn(sleep(ms(1)));
    sleep.enter(|_, sleep| sleep.reset(start + ms(20)));
    advance(ms(10)).await;
    assert_pending!(sleep.poll());
    advance(ms(10)).await;
    assert_ready!(sleep.poll());
}

#[tokio::test(start_paused = true)]
async fn reset_after_firing_waits_again() {
    let mut sleep = task::spawn(sleep(ms(1)));
    assert_pending!(sleep.poll());
    advance(ms(1)).await;
    assert!(sleep.is_elapsed());

    // The first turn resets a fired sleep, the second turn resets a terminated sleep.
    for _ in 0..2 {
        let deadline = Instant::now() + ms(7);
        sleep.enter(|_, sleep| sleep.reset(deadline));
        assert!(!sleep.is_elapsed());
        assert_pending!(sleep.poll());
        advance(ms(7)).await;
        assert!(sleep.is_elapsed());
        assert_ready!(sleep.poll());
    }
}

#[tokio::test(start_paused = true)]
async fn an_elapsed_sleep_stays_ready() {
    let mut sleep = task::spawn(sleep(ms(1)));
    assert_pending!(sleep.poll());
    advance(ms(1)).await;
    for _ in 0..3 {
        assert_ready!(sleep.poll());
    }
}

#[tokio::test(start_paused = true)]
async fn a_moved_sleep_still_wakes() {
    let (wakes, waker) = Wakes::new();
    let mut here = sleep(ms(10));
    assert_pending!(poll(&mut here, &waker));
    let mut there = Box::new(here);
    advance(ms(10)).await;
    assert_eq!(wakes.count(), 1);
    assert_ready!(poll(&mut *there, &waker));
}

/// Tests deadlines around the span of each level, from several positions in the level below.
#[test]
fn the_edges_of_every_level_fire_to_the_tick() {
    for tick in [DEFAULT_TICK, ms(1)] {
        for level in 0..=6_u32 {
            for offset in [0, 1, 62, 63, 64, 4_095] {
                for around in [-2, -1, 0, 1, 2] {
                    edge(
                        tick,
                        64_u64.pow(level).saturating_add_signed(around),
                        offset,
                    );
                }
            }
        }
    }
}

/// Asserts that a sleep of `distance` ticks wakes at its last tick and not before. The sleep registers
/// `offset` ticks after the origin of the wheel.
fn edge(tick: Duration, distance: u64, offset: u64) {
    support::paused().block_on(async {
        let timer = Timer::builder().tick(tick).install().unwrap();
        let ticks = |n: u64| Duration::from_nanos(tick.as_nanos() as u64 * n);
        advance(ticks(offset)).await;

        let mut sleep = task::spawn(sleep(ticks(distance)));
        if distance == 0 {
            assert_ready!(sleep.poll());
            return;
        }
        assert_pending!(sleep.poll());
        // A stop halfway makes the entry cascade once in each level.
        advance(ticks(distance / 2)).await;
        advance(ticks(distance - distance / 2 - 1)).await;
        assert!(!sleep.is_woken(), "{distance} ticks of {tick:?}, {offset}");
        advance(tick).await;
        assert!(sleep.is_woken(), "{distance} ticks of {tick:?}, {offset}");
        assert_ready!(sleep.poll());
        assert_eq!(timer.metrics().fired(), 1);
    });
}

#[test]
fn reset_between_the_levels_fires_to_the_tick() {
    for from in 0..=6 {
        for to in 0..=6 {
            support::paused().block_on(async {
                Timer::builder().tick(ms(1)).install().unwrap();
                let start = Instant::now();
                let mut sleep = task::spawn(sleep(ms(64_u64.pow(from))));
                assert_pending!(sleep.poll());
                settle().await;
                let deadline = start + ms(64_u64.pow(to));
                sleep.enter(|_, sleep| sleep.reset(deadline));
                advance(ms(64_u64.pow(to) - 1)).await;
                assert!(!sleep.is_woken(), "from level {from} to {to}");
                advance(ms(1)).await;
                assert!(sleep.is_woken(), "from level {from} to {to}");
            });
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_longest_duration_saturates_and_waits() {
    let mut longest = task::spawn(sleep(Duration::MAX));
    assert!(longest.deadline() > Instant::now() + secs(30 * 365 * 86_400));
    assert_pending!(longest.poll());
    advance(secs(30 * 365 * 86_400)).await;
    assert!(!longest.is_woken());
    assert_pending!(longest.poll());
}

/// Two of tokio's own tests await such sleeps.
#[test]
fn a_paused_clock_moves_to_the_end_of_the_longest_sleep() {
    does_not_hang(|| {
        paused().block_on(async {
            sleep(Duration::MAX).await;
            Timer::current().sleep(Duration::MAX - ms(1)).await;
        });
        paused().block_on(async {
            let mut sleep = sleep(ms(5));
            Pin::new(&mut sleep).reset_after(Duration::MAX);
            sleep.await;
        });
    });
}

#[tokio::test(start_paused = true)]
async fn reset_takes_the_longest_deadline_and_comes_back() {
    let start = Instant::now();
    let far = sleep(Duration::MAX).deadline();
    let mut sleep = task::spawn(sleep(ms(5)));
    assert_pending!(sleep.poll());
    sleep.enter(|_, sleep| sleep.reset(far));
    advance(secs(86_400)).await;
    assert!(!sleep.is_woken());
    sleep.enter(|_, sleep| sleep.reset(start + secs(86_401)));
    advance(secs(1)).await;
    assert!(sleep.is_woken());
}

/// tokio's `sleep` panics there.
#[test]
fn a_sleep_is_created_and_reset_outside_of_a_runtime() {
    does_not_hang(|| {
        let mut sleep = sleep(secs(30));
        let deadline = Instant::now();
        Pin::new(&mut sleep).reset(deadline);
        assert!(!sleep.is_elapsed());
        support::current_thread().block_on(sleep);
        assert!(Instant::now() >= deadline);
    });
}

/// A log line that shows a connection must not lock and show the whole wheel.
#[tokio::test(start_paused = true)]
async fn debug_of_a_registered_sleep_shows_its_deadline_alone() {
    let mut sleep = task::spawn(tokio_wheel::sleep(secs(60)));
    assert_pending!(sleep.poll());
    let shown = format!("{:?}", &*sleep);
    assert!(shown.starts_with("Sleep { deadline: "), "{shown}");
    assert!(shown.len() < 200, "{shown}");
}

/// The test resets a pending sleep to a deadline that has passed. It does so at several fractions of a
/// tick and of a millisecond, both before and after the driver has parked.
#[test]
fn reset_to_now_or_the_past_wakes_and_is_ready_at_the_next_poll() {
    for offset in [0, 1, 7_812, 15_625, 300_000, 999_999] {
        for has_parked in [false, true] {
            for ago in [Duration::ZERO, Duration::from_nanos(1), ms(3), ms(10)] {
                for wait in [ms(1), ms(100), secs(10), secs(600)] {
                    support::paused().block_on(async {
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
    assert!(sleep.is_elapsed() && !sleep.is_terminated(), "fired");
    for _ in 0..2 {
        assert_ready!(sleep.poll());
        assert!(sleep.is_terminated());
    }

    let deadline = Instant::now() + ms(10);
    sleep.enter(|_, sleep| sleep.reset(deadline));
    assert!(!sleep.is_terminated(), "reset");
    assert_pending!(sleep.poll());
    let now = Instant::now();
    sleep.enter(|_, sleep| sleep.reset(now));
    assert!(sleep.is_elapsed() && !sleep.is_terminated(), "reset to now");
    assert_ready!(sleep.poll());
    assert!(sleep.is_terminated());

    sleep.enter(|_, sleep| sleep.reset(now));
    assert!(!sleep.is_terminated(), "reset after the ready poll");
    assert_ready!(sleep.poll());
    assert!(sleep.is_terminated(), "ready without an entry");
}

/// Runs `poll` in a task that has used up its budget, and again in the next turn of the task.
async fn without_and_with_budget(mut poll: impl FnMut(&mut Context<'_>) -> Poll<()>) {
    tokio::task::yield_now().await;
    poll_fn(|cx| {
        while pin!(coop::consume_budget()).poll(cx).is_ready() {}
        assert_pending!(poll(cx));
        Poll::Ready(())
    })
    .await;
    tokio::task::yield_now().await;
    poll_fn(|cx| {
        assert_ready!(poll(cx));
        Poll::Ready(())
    })
    .await;
}

/// Such a sleep has returned pending. `select!` of the `futures` crate skips a terminated future, so it
/// would never poll the sleep again.
#[tokio::test(start_paused = true)]
async fn a_sleep_without_budget_is_not_terminated() {
    tokio::spawn(async {
        let due = sleep(Duration::ZERO);

        let mut fired = sleep(ms(10));
        assert_pending!(poll(&mut fired, Waker::noop()));
        advance(ms(10)).await;
        assert!(fired.is_elapsed());

        let mut reset = sleep(ms(10));
        assert_pending!(poll(&mut reset, Waker::noop()));
        Pin::new(&mut reset).reset(Instant::now());
        assert!(reset.is_elapsed());

        for mut sleep in [due, fired, reset] {
            without_and_with_budget(|cx| {
                let polled = Pin::new(&mut sleep).poll(cx);
                assert_eq!(sleep.is_terminated(), polled.is_ready());
                polled
            })
            .await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test(start_paused = true)]
async fn select_of_the_futures_crate_polls_sleeps_in_a_loop() {
    let start = Instant::now();
    let mut turn = sleep(ms(30));
    let mut limit = sleep(ms(100));
    let mut log = Vec::new();
    loop {
        futures_util::select! {
            () = turn => {
                log.push(("turn", start.elapsed()));
                if log.len() < 5 {
                    Pin::new(&mut turn).reset_after(ms(30));
                }
            }
            () = limit => log.push(("limit", start.elapsed())),
            complete => break,
        }
    }
    let expected = [
        ("turn", ms(30)),
        ("turn", ms(60)),
        ("turn", ms(90)),
        ("limit", ms(100)),
        ("turn", ms(120)),
    ];
    assert_eq!(log, expected);
}
