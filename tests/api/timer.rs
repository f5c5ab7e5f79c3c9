//! Tests of `Timer`, `Builder` and the default timer. The file `metrics.rs` tests the histogram of `Metrics`.

#![cfg(feature = "test-util")]

use std::{pin::Pin, task::Waker};

use tokio_wheel::{Duration, Instant, Timer, advance, error::BuildError, sleep};

use crate::support::{
    assert_message, current_thread, ms, multi_thread, panics::panic_of, paused, pending, poll, secs,
};

/// The examples in the documentation show that they do as the functions.
#[tokio::test(start_paused = true)]
async fn the_methods_use_their_timer() {
    let timer = Timer::builder().build().unwrap();
    let (wait, never) = (ms(5), std::future::pending::<()>);
    let soon = || Instant::now() + wait;
    timer.sleep(wait).await;
    timer.sleep_until(soon()).await;
    assert!(timer.timeout(wait, never()).await.is_err());
    assert!(timer.timeout_at(soon(), never()).await.is_err());
    let mut interval = timer.interval(wait);
    interval.tick().await;
    interval.tick().await;
    timer.interval_at(soon(), wait).tick().await;
    assert_eq!(timer.metrics().fired(), 6);
    assert_eq!(Timer::current().metrics().registered(), 0);
}

#[tokio::test]
async fn errors_name_the_given_and_the_allowed_values() {
    let over = secs(3_600) + Duration::from_nanos(1);
    for wrong in [Duration::ZERO, over, secs(7_200), Duration::MAX] {
        let error = Timer::builder().tick(wrong).build().unwrap_err();
        let message = format!("tick must be between 1ns and 3600s, got {wrong:?}");
        assert_eq!(error.to_string(), message);
        assert!(matches!(error, BuildError::Tick { given, .. } if given == wrong));
    }
    for wrong in [0, 1_025, usize::MAX] {
        let error = Timer::builder().shards(wrong).build().unwrap_err();
        let message = format!("shards must be between 1 and 1024, got {wrong}");
        assert_eq!(error.to_string(), message);
        assert!(matches!(error, BuildError::Shards { given, max: 1_024, .. } if given == wrong));
    }
    // `install` checks the same things.
    let installed = Timer::builder().shards(0).install().unwrap_err();
    assert!(matches!(installed, BuildError::Shards { given: 0, .. }));
    // The limits themselves are allowed.
    for (tick, shards) in [(Duration::from_nanos(1), 1), (secs(3_600), 1_024)] {
        drop(Timer::builder().tick(tick).shards(shards).build().unwrap());
    }
}

#[test]
fn an_error_says_what_is_wrong_with_the_runtime() {
    let built = || [Timer::builder().build(), Timer::builder().install()];
    for outside in built() {
        assert!(matches!(outside, Err(BuildError::NoRuntime)));
        let message = "a timer was built outside of a tokio runtime; build it within a runtime, or after \
                       `Handle::enter`";
        assert_eq!(outside.unwrap_err().to_string(), message);
    }
    let outside = Timer::try_current().unwrap_err();
    let message = "the default timer was requested outside of a tokio runtime; request it within a \
                   runtime, or after `Handle::enter`";
    assert_eq!(outside.to_string(), message);
    // A wrong value is found there too.
    let wrong = Timer::builder().tick(Duration::ZERO).build();
    assert!(matches!(wrong, Err(BuildError::Tick { .. })));

    let runtime = multi_thread(1);
    let handle = runtime.handle().clone();
    let _entered = handle.enter();
    runtime.block_on(sleep(ms(1)));
    let late = Timer::builder().install().unwrap_err();
    assert!(matches!(late, BuildError::AlreadyInstalled));
    let parts = ["already has a default timer", "`install`", "first sleep"];
    assert_message(&late, &parts);
    drop(runtime);
    for ended in built() {
        assert!(matches!(ended, Err(BuildError::RuntimeShutdown)));
    }
}

#[test]
fn a_timer_is_built_on_the_runtime_that_is_entered() {
    let (built_on, current) = (multi_thread(3), current_thread());
    let timer = current.block_on(async {
        let _entered = built_on.enter();
        Timer::builder().build()
    });
    let timer = timer.unwrap();
    let debug = format!("{timer:?}");
    assert!(
        debug.contains("shards: 3"),
        "its workers count, not {debug}"
    );
    assert!(debug.contains("shutdown: false"), "{debug}");
    drop(current);
    built_on.block_on(timer.sleep(ms(1)));
    assert_eq!(timer.metrics().fired(), 1);
    drop(built_on);
    assert!(timer.is_shutdown());
}

/// The timer also reads the clock of the entered runtime, which is paused here.
#[test]
fn a_timer_is_installed_before_its_runtime_runs() {
    let (runtime, current) = (paused(), current_thread());
    let timer = {
        let _entered = runtime.enter();
        let timer = Timer::builder().tick(ms(100)).install().unwrap();
        let _another = current.enter();
        let installed = Timer::builder().install();
        assert!(installed.is_ok(), "the other runtime had no timer");
        timer
    };
    runtime.block_on(async {
        let start = Instant::now();
        sleep(ms(10)).await;
        assert_eq!(start.elapsed(), ms(100));
    });
    let of_default = runtime.block_on(async { Timer::current() });
    assert_eq!(
        (timer.metrics().fired(), of_default.metrics().fired()),
        (1, 1)
    );
}

/// Rounded up to a tick, the deadline would be at the next tick. The sleep that is pending shares that tick.
#[tokio::test(start_paused = true)]
async fn a_deadline_that_has_passed_waits_for_no_long_tick() {
    let timer = Timer::builder().tick(secs(2)).build().unwrap();
    let start = Instant::now();
    let mut later = pending(timer.sleep(ms(1_500)));
    advance(secs(1)).await;
    for passed in [start, start + ms(500), start + secs(1)] {
        timer.sleep_until(passed).await;
        Pin::new(&mut later).reset(passed);
        assert!(poll(&mut later, Waker::noop()).is_ready());
        later = pending(timer.sleep(ms(500)));
    }
    assert_eq!(start.elapsed(), secs(1));
    later.await;
    assert_eq!(start.elapsed(), secs(2));
}

/// Without the feature, the compiler would say that the field is private. It must say that there is no such method.
#[test]
fn no_private_field_has_the_name_of_a_method() {
    let fields = format!("{:?}", Timer::builder());
    assert!(!fields.contains("high_resolution"), "{fields}");
}

/// A future that outlives its timer does not start a default timer, so `install` still works.
#[test]
fn a_future_whose_timer_has_shut_down_starts_no_default_timer() {
    let ended = paused();
    let timer = ended.block_on(async { Timer::builder().build().unwrap() });
    let was_pending = pending(timer.sleep(secs(1)));
    drop(ended);
    for mut orphan in [was_pending, timer.sleep(secs(1))] {
        paused().block_on(async {
            let polled = panic_of(|| poll(&mut orphan, Waker::noop()));
            assert!(polled.message.contains("after its timer has shut down"));
            // An advance starts none either.
            advance(ms(1)).await;
            drop(Timer::builder().install().unwrap());
        });
    }
}
