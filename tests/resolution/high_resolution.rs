//! Tests of `Builder::high_resolution`.

use std::{fs, time::Instant};

use tokio::task::JoinSet;
use tokio_wheel::{Duration, Timer, sleep};

use crate::support::{current_thread, does_not_hang, ms, panics::assert_panics, pending, secs};

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Asserts that of many sleeps one is late by less than half a millisecond. On a busy machine most sleeps are late.
async fn assert_it_is_exact() {
    let mut best = Duration::MAX;
    for n in 0..10_000 {
        let start = Instant::now();
        let duration = micros(300 + n % 100);
        sleep(duration).await;
        best = best.min(start.elapsed() - duration);
        if best < micros(500) {
            return;
        }
    }
    panic!("{best:?}");
}

/// On tokio's alarm, a timer with a tick of 10 µs would be as late as an ordinary timer.
#[tokio::test]
async fn it_is_exact_to_less_than_a_millisecond() {
    Timer::builder().high_resolution().install().unwrap();
    assert_it_is_exact().await;
}

/// Timers of other tests in this process have descriptors too, but not thousands.
fn assert_few_timer_fds() {
    let fds = fs::read_dir("/proc/self/fd").unwrap();
    let targets = fds.filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
    let timers = targets.filter(|target| target.to_string_lossy().contains("[timerfd]"));
    let timers = timers.count();
    assert!((1..50).contains(&timers), "{timers}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_descriptor_serves_all_sleeps() {
    let timer = Timer::builder().high_resolution().install().unwrap();
    let far = (0..5_000).map(|n| pending(sleep(secs(3_600) + micros(n))));
    let _far: Vec<_> = far.collect();
    assert_few_timer_fds();
    let near: JoinSet<_> = (0..5_000).map(|n| sleep(micros(n))).collect();
    near.join_all().await;
    assert_few_timer_fds();
    assert_eq!(timer.metrics().pending(), 5_000);
}

#[tokio::test]
async fn a_long_sleep_does_not_wake_it() {
    let timer = Timer::builder().high_resolution().build().unwrap();
    let _far = pending(timer.sleep(secs(100 * 365 * 86_400)));
    let _farther = pending(timer.sleep(Duration::MAX));
    timer.sleep(ms(30)).await;
    // The registrations and the sleep of 30 ms wake the driver.
    assert!(timer.metrics().driver_wakeups() <= 3);
}

/// The kernel's clock goes on while tokio's clock is paused.
#[cfg(feature = "test-util")]
#[test]
fn a_sleep_outlives_a_pause() {
    for resumes in [false, true] {
        does_not_hang(move || {
            current_thread().block_on(async {
                let timer = Timer::builder().high_resolution().build().unwrap();
                let start = tokio_wheel::Instant::now();
                let hour = tokio::spawn(timer.sleep(secs(3_600)));
                let short = tokio::spawn(timer.sleep(ms(100)));
                timer.sleep(ms(5)).await;
                tokio_wheel::pause();
                std::thread::sleep(ms(20));
                if resumes {
                    // From now on tokio's clock is behind the kernel's clock.
                    tokio_wheel::resume();
                    short.await.unwrap();
                    assert!(start.elapsed() >= ms(100));
                } else {
                    short.await.unwrap();
                    hour.await.unwrap();
                    assert!(start.elapsed() >= secs(3_600));
                }
            });
        });
    }
}

/// A sleep on a paused clock does not wait for the kernel's clock, which goes on.
#[cfg(feature = "test-util")]
#[tokio::test]
async fn a_paused_clock_is_obeyed() {
    let timer = Timer::builder().high_resolution().install().unwrap();
    timer.sleep(micros(200)).await;
    tokio_wheel::pause();
    let start = tokio_wheel::Instant::now();
    let real = Instant::now();
    for _ in 0..10 {
        timer.sleep(secs(3_600)).await;
    }
    assert!(start.elapsed() >= secs(36_000));
    assert!(start.elapsed() < secs(36_001));
    assert!(real.elapsed() < secs(3_600));
    // From now on tokio's clock is ahead of the kernel's clock. The timer is as exact as before.
    tokio_wheel::resume();
    assert_it_is_exact().await;
}

#[tokio::test]
async fn its_tick_is_10_us_and_more() {
    let builder = Timer::builder().high_resolution();
    assert!(builder.clone().tick(micros(10)).build().is_ok());
    assert!(builder.clone().tick(secs(1)).build().is_ok());
    let error = builder.tick(Duration::from_nanos(9_999)).build();
    let error = error.unwrap_err();
    let message = "tick must be between 10µs and 3600s, got 9.999µs";
    assert_eq!(error.to_string(), message);
}

/// The message is tokio's, and the location is the call of `build`.
#[test]
fn a_runtime_without_io_fails_at_the_caller() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _guard = runtime.enter();
    assert_panics(
        || Timer::builder().high_resolution().build(),
        &["enable_io"],
    );
}
