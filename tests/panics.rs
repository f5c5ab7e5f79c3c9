//! Tests that a panic has a clear message and the location of the caller, as in tokio's `tests/time_panic.rs`.

#![cfg(feature = "test-util")]

mod support;

use support::{
    Wakes, current_thread, ms,
    panics::{Panicked, assert_panics, panic_of},
    poll, without_time,
};
use tokio_wheel::{Duration, Instant, Timer, interval, interval_at, sleep, timeout};

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

#[test]
fn current_outside_of_a_runtime_panics_in_the_callers_frame() {
    assert_panics(|| drop(Timer::current()), &["outside of a tokio runtime"]);
}

/// Every task can call `current`, and all tasks of the runtime need the default timer.
#[test]
fn a_handle_of_current_cannot_shut_the_timer_down() {
    let runtime = current_thread();
    runtime.block_on(async {
        let installed = Timer::builder().install().unwrap();
        let handles = [
            Timer::current(),
            Timer::try_current().unwrap(),
            Timer::current().clone(),
        ];
        let expected = &["`shutdown` was called on a handle of `Timer::current`"];
        for handle in handles {
            assert_panics(|| drop(handle.shutdown()), expected);
        }
        assert!(!installed.is_shutdown());
        drop(installed.clone().shutdown());
        assert!(installed.is_shutdown());
    });
    // No handle can shut down a default timer that was not installed.
    let timer = current_thread().block_on(async { Timer::current() });
    assert_panics(|| drop(timer.shutdown()), &["`Timer::current`"]);
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
        assert!(
            message.contains("polled outside of a tokio runtime"),
            "{message}"
        );
        assert!(message.contains("a `tokio_wheel::Timer`"), "{message}");
        assert!(
            !file.contains("core/src"),
            "the location {file} is not the caller's"
        );
    }
}

#[test]
fn a_poll_without_time_says_so() {
    let runtime = without_time();
    let Panicked { file, message } = panic_of(|| runtime.block_on(sleep(ms(1))));
    assert!(message.contains("timers are disabled"), "{message}");
    assert!(message.contains("enable_time"), "{message}");
    assert!(
        !file.contains("core/src"),
        "the location {file} is not the caller's"
    );
}
