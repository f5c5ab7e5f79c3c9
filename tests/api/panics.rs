//! Tests that a panic has a clear message and the location of the caller, as in tokio's `tests/time_panic.rs`.

#![cfg(feature = "test-util")]

use std::{
    future::{Future, pending, poll_fn},
    task::Waker,
};

use tokio_wheel::{Duration, Instant, Timer, interval, interval_at, sleep, timeout};

use crate::support::{
    current_thread, ms, multi_thread,
    panics::{Panicked, assert_panics, panic_of},
    pending as pending_sleep, poll, secs, without_time,
};

#[test]
fn a_panic_has_the_callers_frame() {
    let zero = Duration::ZERO;
    let period = &panic_of(|| tokio::time::interval(zero)).message;
    let runtime = current_thread();
    let timer = runtime.block_on(async { Timer::current() });
    let now = Instant::now();
    assert_panics(|| drop(interval(zero)), &[period]);
    assert_panics(|| drop(interval_at(now, zero)), &[period]);
    assert_panics(|| drop(timer.interval(zero)), &[period]);
    assert_panics(|| drop(timer.interval_at(now, zero)), &[period]);

    let remedy = "request it within a runtime, or after `Handle::enter`";
    let outside = &["outside of a tokio runtime", remedy];
    assert_panics(|| drop(Timer::current()), outside);

    let _entered = runtime.enter();
    let resume = &panic_of(|| tokio::time::resume()).message;
    assert_panics(|| tokio_wheel::resume(), &[resume]);
    tokio_wheel::pause();
    assert_panics(|| tokio_wheel::pause(), &["time is already frozen"]);
}

/// A task awaits the future, as programs do. tokio's words name the remedy.
#[test]
#[expect(
    clippy::redundant_async_block,
    reason = "the location is that of the `await`"
)]
fn a_runtime_without_time_is_told_in_the_callers_frame() {
    let orphan = {
        let runtime = current_thread();
        let _entered = runtime.enter();
        pending_sleep(sleep(secs(60)))
    };
    let runtime = without_time();
    let _entered = runtime.enter();
    let disabled = &[&*panic_of(|| tokio::time::sleep(ms(1))).message];
    assert_panics(|| drop(Timer::builder().build()), disabled);
    assert_panics(|| drop(Timer::builder().install()), disabled);
    assert_panics(|| drop(Timer::current()), disabled);
    assert_panics(|| drop(Timer::try_current()), disabled);

    assert_panics(|| runtime.block_on(async { sleep(ms(1)).await }), disabled);
    assert_panics(|| runtime.block_on(async { orphan.await }), disabled);
    let limited = timeout(ms(1), pending::<()>());
    assert_panics(|| runtime.block_on(async { limited.await }), disabled);
    // A timeout of a ready future needs no timer.
    runtime.block_on(async { timeout(ms(1), async {}).await.unwrap() });
    let mut ticks = interval(ms(1));
    assert_panics(|| runtime.block_on(async { ticks.tick().await }), disabled);
    let ticks = poll_fn(|cx| ticks.poll_tick(cx));
    assert_panics(|| runtime.block_on(ticks), disabled);
}

/// With the shortest tick, a clock has the fewest years.
#[tokio::test(start_paused = true)]
async fn a_deadline_beyond_the_clock_panics_if_the_clock_is_there_too() {
    const YEAR: Duration = secs(365 * 86_400);
    let timer = Timer::builder().tick(Duration::from_nanos(1));
    let timer = timer.build().unwrap();
    let mut far = pending_sleep(timer.sleep(600 * YEAR));
    let mut near = pending_sleep(timer.sleep(580 * YEAR));
    tokio_wheel::advance(581 * YEAR).await;
    assert!(poll(&mut near, Waker::noop()).is_ready());
    timer.sleep(ms(1)).await;
    tokio_wheel::advance(10 * YEAR).await;
    assert!(poll(&mut far, Waker::noop()).is_pending());
    let Panicked { message, .. } = panic_of(|| first_poll(timer.sleep(ms(1))));
    assert!(message.contains("584 years"), "{message}");
}

fn first_poll(mut future: impl Future + Unpin) {
    assert!(poll(&mut future, Waker::noop()).is_pending());
}

/// A program that moves to the wheel may have tests that expect tokio's words.
#[track_caller]
fn assert_contains_tokios(tokios: impl FnOnce(), ours: impl FnOnce()) -> Panicked {
    let (tokios, ours) = (panic_of(tokios), panic_of(ours));
    let is_contained = ours.message.contains(&tokios.message);
    assert!(
        is_contained,
        "{:?} lacks {:?}",
        ours.message, tokios.message
    );
    ours
}

#[test]
fn the_text_after_the_end_of_a_runtime_contains_tokios() {
    for runtime in [current_thread(), multi_thread(1)] {
        let handle = runtime.handle().clone();
        let _entered = handle.enter();
        let ours = [sleep(secs(60)), pending_sleep(sleep(secs(60)))];
        runtime.shutdown_background();
        for ours in ours.into_iter().chain([sleep(secs(60))]) {
            let tokios = || handle.block_on(tokio::time::sleep(secs(60)));
            assert_contains_tokios(tokios, || handle.block_on(ours));
        }
    }
}

/// The location is that of the `await`. It says little where a combinator polls, so the message must be clear.
#[test]
fn a_poll_outside_of_a_runtime_names_the_remedy() {
    let at = Instant::now() + ms(9);
    let never = pending::<()>;
    let polls: [[&dyn Fn(); 2]; 3] = [
        [&|| drop(tokio::time::sleep(ms(1))), &|| {
            first_poll(Box::pin(async { sleep(ms(1)).await }))
        }],
        [&|| drop(tokio::time::timeout(ms(1), never())), &|| {
            first_poll(Box::pin(async { timeout(ms(1), never()).await }))
        }],
        [&|| drop(tokio::time::interval_at(at, ms(1))), &|| {
            first_poll(Box::pin(async { interval_at(at, ms(1)).tick().await }))
        }],
    ];
    for [tokios, ours] in polls {
        let Panicked { file, message } = assert_contains_tokios(tokios, ours);
        for part in [
            "a sleep, timeout or interval was polled outside of a tokio runtime",
            "poll it within a runtime",
            "after `Handle::enter`",
            "a `tokio_wheel::Timer`",
        ] {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
        assert_eq!(file, file!(), "{message:?}");
    }
}
