//! Tests of `Timer`, `Builder` and the default timer. The file `metrics.rs` tests the histogram of `Metrics`.

#![cfg(feature = "test-util")]

use std::task::Waker;

use tokio_test::{assert_pending, assert_ready, task};
use tokio_wheel::{
    Duration, Instant, MissedTickBehavior, Timer, advance,
    error::{BuildError, TryCurrentError},
    sleep, timeout,
};

use crate::support::{
    Wakes, current_thread, ms, multi_thread, panics::panic_of, paused, pending, poll, secs, settle,
};

#[tokio::test(start_paused = true)]
async fn the_methods_do_as_the_functions() {
    let timer = Timer::builder().build().unwrap();
    let start = Instant::now();
    timer.sleep(ms(5)).await;
    assert_eq!(start.elapsed(), ms(5));
    timer.sleep_until(start + ms(10)).await;
    assert_eq!(start.elapsed(), ms(10));

    let never = std::future::pending::<()>;
    assert!(timer.timeout(ms(5), never()).await.is_err());
    assert!(timer.timeout_at(start + ms(20), never()).await.is_err());
    assert_eq!(start.elapsed(), ms(20));
    assert_eq!(timer.timeout(Duration::ZERO, async { 7 }).await, Ok(7));
    assert_eq!(timer.timeout_at(start, async { 7 }).await, Ok(7));

    let mut interval = timer.interval(ms(5));
    assert_eq!(interval.missed_tick_behavior(), MissedTickBehavior::Burst);
    assert_eq!(interval.tick().await, start + ms(20));
    assert_eq!(interval.tick().await, start + ms(25));
    let mut interval = timer.interval_at(start + ms(40), ms(5));
    assert_eq!(interval.tick().await, start + ms(40));
    assert_eq!(interval.tick().await, start + ms(45));

    assert_eq!(
        Timer::current().metrics().registered(),
        0,
        "the default timer is not used"
    );
}

#[tokio::test(start_paused = true)]
async fn an_installed_timer_is_the_default_timer() {
    let timer = Timer::builder().tick(ms(100)).shards(3).install().unwrap();
    let start = Instant::now();
    sleep(ms(10)).await;
    assert_eq!(
        start.elapsed(),
        ms(100),
        "the tick of the installed timer counts"
    );
    timeout(ms(10), sleep(ms(500))).await.unwrap_err();
    let metrics = timer.metrics();
    assert_eq!((metrics.fired(), metrics.cancelled()), (2, 1));
    assert_eq!(Timer::current().metrics().fired(), 2);
}

#[tokio::test(start_paused = true)]
async fn install_after_the_first_use_is_too_late() {
    sleep(ms(1)).await;
    let late = Timer::builder().install().unwrap_err();
    assert!(matches!(late, BuildError::AlreadyInstalled));
    let message = late.to_string();
    for part in ["already has a default timer", "`install`", "first sleep"] {
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test]
async fn errors_name_the_given_and_the_allowed_values() {
    let tick = |tick| Timer::builder().tick(tick).build().unwrap_err();
    let over = secs(3_600) + Duration::from_nanos(1);
    for wrong in [Duration::ZERO, over, secs(7_200), Duration::MAX] {
        let error = tick(wrong);
        let message = format!("tick must be between 1ns and 3600s, got {wrong:?}");
        assert_eq!(error.to_string(), message);
        let BuildError::Tick {
            given, min, max, ..
        } = error
        else {
            panic!("{error:?}");
        };
        let range = (Duration::from_nanos(1), secs(3_600));
        assert_eq!((given, (min, max)), (wrong, range));
    }

    let shards = |shards| Timer::builder().shards(shards).build().unwrap_err();
    for wrong in [0, 1_025, usize::MAX] {
        let error = shards(wrong);
        let message = format!("shards must be between 1 and 1024, got {wrong}");
        assert_eq!(error.to_string(), message);
        let BuildError::Shards { given, max, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!((given, max), (wrong, 1_024));
    }
    // `install` checks the same things.
    let installed = Timer::builder().shards(0).install().unwrap_err();
    assert!(matches!(installed, BuildError::Shards { given: 0, .. }));
}

#[tokio::test(start_paused = true)]
async fn the_limits_themselves_are_allowed() {
    for tick in [Duration::from_nanos(1), secs(3_600)] {
        for shards in [1, 1_024] {
            let timer = Timer::builder().tick(tick).shards(shards).build().unwrap();
            let deadline = Instant::now() + ms(1);
            timer.sleep_until(deadline).await;
            assert!(Instant::now() >= deadline);
            assert!(deadline.elapsed() <= tick + ms(1));
        }
    }
}

#[test]
fn a_bad_description_is_found_outside_of_a_runtime_too() {
    let error = Timer::builder().tick(Duration::ZERO).build().unwrap_err();
    assert!(matches!(error, BuildError::Tick { .. }));
}

#[test]
fn building_outside_of_a_runtime_is_an_error() {
    for built in [Timer::builder().build(), Timer::builder().install()] {
        let error = built.unwrap_err();
        assert!(matches!(error, BuildError::NoRuntime));
        assert_eq!(
            error.to_string(),
            "a timer was built outside of a tokio runtime"
        );
    }
}

#[test]
fn building_on_a_runtime_that_has_shut_down_is_an_error() {
    let runtime = multi_thread(1);
    let handle = runtime.handle().clone();
    drop(runtime);
    let _entered = handle.enter();
    for built in [Timer::builder().build(), Timer::builder().install()] {
        assert!(matches!(built, Err(BuildError::RuntimeShutdown)));
    }
}

/// A sleep that was reset to the past is ready outside a runtime too, even if its timer has shut down since.
#[test]
fn a_sleep_that_has_elapsed_is_ready_after_its_timer_has_shut_down() {
    let runtime = current_thread();
    let mut pending = Box::pin(sleep(secs(60)));
    runtime.block_on(async {
        let (_wakes, waker) = Wakes::new();
        assert_pending!(poll(&mut pending, &waker));
        pending.as_mut().reset(Instant::now());
    });
    drop(runtime);
    let (_wakes, waker) = Wakes::new();
    assert_ready!(poll(&mut pending, &waker));
}

#[test]
fn a_timer_is_built_on_the_runtime_that_is_entered() {
    let (built_on, current) = (multi_thread(3), current_thread());
    let timer = current.block_on(async {
        let _entered = built_on.enter();
        Timer::builder().build()
    });
    let timer = timer.unwrap();
    assert!(
        format!("{timer:?}").contains("shards: 3"),
        "the timer counts the workers of the given runtime"
    );
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
        let again = Timer::builder().install();
        assert!(matches!(again, Err(BuildError::AlreadyInstalled)));
        let _another = current.enter();
        assert!(
            Timer::builder().install().is_ok(),
            "the other runtime had no timer"
        );
        timer
    };
    runtime.block_on(async {
        let start = Instant::now();
        sleep(ms(10)).await;
        assert_eq!(start.elapsed(), ms(100));
    });
    assert_eq!(timer.metrics().fired(), 1);
}

#[test]
fn try_current_outside_of_a_runtime_is_an_error() {
    let error: TryCurrentError = Timer::try_current().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the default timer was requested outside of a tokio runtime"
    );
}

#[tokio::test(start_paused = true)]
async fn debug_says_shards_and_shutdown() {
    let timer = Timer::builder().shards(7).build().unwrap();
    let debug = format!("{timer:?}");
    assert!(
        debug.contains("shards: 7") && debug.contains("shutdown: false"),
        "{debug}"
    );
    assert!(format!("{:?}", Timer::builder()).contains("Builder"));
}

/// Without the feature, the compiler would say that the field is private. It must say that there is no such method.
#[test]
fn no_private_field_has_the_name_of_a_method() {
    let fields = format!("{:?}", Timer::builder());
    assert!(!fields.contains("high_resolution"), "{fields}");
}

#[tokio::test(start_paused = true)]
async fn metrics_count_what_happens() {
    let timer = Timer::current();
    let counts = || {
        let metrics = timer.metrics();
        let (fired, cancelled) = (metrics.fired(), metrics.cancelled());
        assert_eq!(metrics.registered(), metrics.pending() + fired + cancelled);
        (metrics.pending(), fired, cancelled)
    };
    assert_eq!(counts(), (0, 0, 0));
    let mut sleeps: Vec<_> = (1..=10).map(|n| task::spawn(sleep(ms(n)))).collect();
    assert_eq!(counts(), (0, 0, 0));
    for sleep in &mut sleeps {
        assert_pending!(sleep.poll());
    }
    assert_eq!(counts(), (10, 0, 0));
    advance(ms(4)).await;
    assert_eq!(counts(), (6, 4, 0));
    sleeps.truncate(7);
    assert_eq!(counts(), (3, 4, 3));
    drop(sleeps);
    assert_eq!(counts(), (0, 4, 6));
}

#[tokio::test(start_paused = true)]
async fn metrics_count_the_drivers_wake_ups() {
    let timer = Timer::current();
    let before = timer.metrics().driver_wakeups();
    for n in 1..=10 {
        sleep(ms(1)).await;
        assert!(timer.metrics().driver_wakeups() >= before + n);
    }
    assert!(format!("{:?}", timer.metrics()).contains("driver_wakeups"));
}

/// The task of the driver ends too.
#[tokio::test(start_paused = true)]
async fn an_abandoned_timer_ends() {
    let runtime = tokio::runtime::Handle::current();
    let before = runtime.metrics().num_alive_tasks();
    let timer = Timer::builder().build().unwrap();
    let mut sleep = task::spawn(timer.sleep(secs(60)));
    assert_pending!(sleep.poll());
    settle().await;
    assert_eq!(runtime.metrics().num_alive_tasks(), before + 1);
    drop(timer);
    settle().await;
    assert_eq!(
        runtime.metrics().num_alive_tasks(),
        before + 1,
        "a future keeps the driver"
    );
    drop(sleep);
    settle().await;
    assert_eq!(runtime.metrics().num_alive_tasks(), before);
}

/// A future that outlives its timer does not start a default timer, so `install` still works.
#[test]
fn a_future_whose_timer_has_shut_down_starts_no_default_timer() {
    let ended = paused();
    let (timer, was_pending) = ended.block_on(async {
        let timer = Timer::builder().build().unwrap();
        let sleep = pending(timer.sleep(secs(1)));
        (timer, sleep)
    });
    drop(ended);
    for mut orphan in [was_pending, timer.sleep(secs(1))] {
        paused().block_on(async {
            let polled = panic_of(|| poll(&mut orphan, Waker::noop()));
            assert!(polled.message.contains("after its timer has shut down"));
            drop(Timer::builder().install().unwrap());
        });
    }
}

#[tokio::test(start_paused = true)]
async fn advancing_the_clock_starts_no_default_timer() {
    advance(ms(1)).await;
    drop(Timer::builder().install().unwrap());
}
