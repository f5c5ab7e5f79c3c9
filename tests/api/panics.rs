//! Tests that a panic has a clear message and the location of the caller, as in tokio's `tests/time_panic.rs`.

#![cfg(feature = "test-util")]

use std::{
    future::pending,
    task::{Context, Waker},
};

use tokio_wheel::{Duration, Instant, Sleep, Timer, interval, interval_at, sleep, timeout};

use crate::support::{
    Wakes, current_thread, ms, multi_thread,
    panics::{Panicked, assert_panics, panic_of},
    pending as pending_sleep, poll, secs, without_time,
};

#[test]
fn a_period_of_zero_panics_in_the_callers_frame() {
    let expected = &["`period` must be non-zero."];
    assert_panics(|| drop(interval(Duration::ZERO)), expected);
    assert_panics(
        || drop(interval_at(Instant::now(), Duration::ZERO)),
        expected,
    );
    let runtime = current_thread();
    let timer = runtime.block_on(async { Timer::current() });
    assert_panics(|| drop(timer.interval(Duration::ZERO)), expected);
    let zero = || drop(timer.interval_at(Instant::now(), Duration::ZERO));
    assert_panics(zero, expected);
}

/// A program that moves to the wheel may have tests that expect tokio's words.
#[test]
fn each_text_contains_the_words_of_tokio() {
    #[track_caller]
    fn same(tokios: impl FnOnce(), ours: impl FnOnce()) {
        let (tokios, ours) = (panic_of(tokios).message, panic_of(ours).message);
        assert!(ours.contains(&tokios), "{ours:?} lacks {tokios:?}");
    }
    fn first_poll(sleep: Sleep) {
        let mut sleep = sleep;
        let _ = poll(&mut sleep, Waker::noop());
    }

    let later = Instant::now() + secs(60);
    // Outside of a runtime, in a runtime without time, and in a runtime that has shut down.
    same(
        || drop(tokio::time::sleep(ms(1))),
        || first_poll(sleep(ms(1))),
    );
    same(
        || drop(tokio::time::timeout(ms(1), pending::<()>())),
        || {
            let _ = poll(&mut timeout(ms(1), pending::<()>()), Waker::noop());
        },
    );
    same(
        || drop(tokio::time::interval_at(later, ms(1))),
        || {
            let mut later = interval_at(later, ms(1));
            let _ = later.poll_tick(&mut Context::from_waker(Waker::noop()));
        },
    );
    {
        let runtime = without_time();
        let _entered = runtime.enter();
        same(
            || drop(tokio::time::sleep(ms(1))),
            || first_poll(sleep(ms(1))),
        );
    }
    for runtime in [current_thread(), multi_thread(1)] {
        let handle = runtime.handle().clone();
        let _entered = handle.enter();
        let (tokios, ours) = (tokio::time::sleep(secs(60)), sleep(secs(60)));
        let registered = pending_sleep(sleep(secs(60)));
        runtime.shutdown_background();
        same(|| handle.block_on(tokios), || handle.block_on(ours));
        same(
            || handle.block_on(tokio::time::sleep(secs(60))),
            || handle.block_on(registered),
        );
        same(
            || handle.block_on(tokio::time::sleep(secs(60))),
            || handle.block_on(sleep(secs(60))),
        );
    }

    same(
        || drop(tokio::time::interval(Duration::ZERO)),
        || drop(interval(Duration::ZERO)),
    );
    same(tokio::time::resume, tokio_wheel_resume);
}

#[test]
fn current_outside_of_a_runtime_panics_in_the_callers_frame() {
    assert_panics(|| drop(Timer::current()), &["outside of a tokio runtime"]);
}

#[test]
fn a_runtime_without_time_panics_in_the_callers_frame() {
    let expected = &["timers are disabled"];
    let runtime = without_time();
    let _entered = runtime.enter();
    assert_panics(|| drop(Timer::builder().build()), expected);
    assert_panics(|| drop(Timer::builder().install()), expected);
    assert_panics(|| drop(Timer::current()), expected);
    assert_panics(|| drop(Timer::try_current()), expected);
}

#[test]
fn pause_and_resume_panic_in_the_callers_frame() {
    let runtime = current_thread();
    let _entered = runtime.enter();
    assert_panics(tokio_wheel_resume, &["time is not frozen"]);
    tokio_wheel::pause();
    assert_panics(tokio_wheel_pause, &["time is already frozen"]);
}

fn tokio_wheel_pause() {
    tokio_wheel::pause();
}

fn tokio_wheel_resume() {
    tokio_wheel::resume();
}

/// The location of a poll says little, because the compiler or a combinator calls it. So the message must be clear.
#[test]
fn a_poll_outside_of_a_runtime_names_the_remedy() {
    let (_, waker) = Wakes::new();
    let never = std::future::pending::<()>;
    let polls: [&dyn Fn(); 3] = [
        &|| assert!(poll(&mut sleep(ms(1)), &waker).is_pending()),
        &|| drop(poll(&mut timeout(ms(1), never()), &waker)),
        &|| {
            let mut later = interval_at(Instant::now() + ms(9), ms(1));
            assert!(poll(&mut Box::pin(later.tick()), &waker).is_pending());
        },
    ];
    for body in polls {
        let Panicked { file, message } = panic_of(body);
        for part in [
            "a sleep, timeout or interval was polled outside of a tokio runtime",
            "poll it within a runtime",
            "after `Handle::enter`",
            "a `tokio_wheel::Timer`",
        ] {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
        assert!(
            !file.contains("core/src"),
            "the location {file} is not the caller's"
        );
    }
}
