//! Tests of `Builder::coarse`: long durations count from the coarse clock, and short durations from the exact clock.

use std::{pin::Pin, sync::mpsc, time::Instant};

use rustix::time::{ClockId, Timespec, clock_gettime};
use tokio_test::assert_pending;
#[cfg(feature = "idle")]
use tokio_wheel::idle::IdleSet;
use tokio_wheel::{DelayQueue, Duration, Timer, sleep, timeout};

use crate::support::{ms, multi_thread, secs};

fn to_duration(time: Timespec) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The shortest duration that counts from the coarse clock.
const LONG: Duration = secs(2);

/// The margin of [`LONG`], and the margin of every duration of 3.2 s and more.
const LEAST_MARGIN: Duration = Duration::from_micros(62_500);
const MAX_MARGIN: Duration = ms(100);

/// A span that is longer than a tick and shorter than the rest of a margin.
const SLACK: Duration = ms(1);

/// Reads the coarse clock.
pub(crate) fn reading() -> Duration {
    to_duration(clock_gettime(ClockId::MonotonicCoarse))
}

/// Returns whether the coarse clock lagged by less than the margin at that reading. It lags more after the machine was
/// stopped for a while.
pub(crate) fn kernel_keeps_up(reading: Duration) -> bool {
    to_duration(clock_gettime(ClockId::Monotonic)) - reading < LEAST_MARGIN
}

/// Returns whether the deadline that `make` returns for a long duration counts from the coarse clock.
///
/// Such a deadline includes the margin, so it is later than now plus the duration.
fn counts_from_coarse(mut make: impl FnMut(Duration) -> Instant) -> bool {
    // If the thread is interrupted, a coarse deadline may look exact.
    [LONG, secs(60)].into_iter().all(|duration| {
        (0..100).any(|_| {
            let deadline = make(duration);
            let now = Instant::now();
            assert!(deadline < now + duration + MAX_MARGIN + SLACK);
            deadline > now + duration + SLACK
        })
    })
}

/// Asserts that short durations count from the exact clock.
fn assert_exact_if_short(mut make: impl FnMut(Duration) -> Instant) {
    for duration in [Duration::ZERO, ms(10), LONG - Duration::from_nanos(1)] {
        let before = Instant::now();
        let deadline = make(duration);
        assert!(deadline >= before + duration, "{duration:?} is early");
        assert!(deadline < Instant::now() + duration + SLACK, "{duration:?}");
    }
}

/// Lets the thread learn that it is a worker of the runtime. That takes two registrations.
async fn know_the_timer() {
    for _ in 0..3 {
        sleep(ms(1)).await;
    }
}

/// Runs `body` on a worker that has learned its runtime's timer.
fn on_a_worker<T: Send + 'static>(
    install: impl FnOnce() + Send + 'static,
    body: impl FnOnce() -> T + Send + 'static,
) -> T {
    let runtime = multi_thread(1);
    let task = runtime.spawn(async move {
        install();
        know_the_timer().await;
        body()
    });
    runtime.block_on(task).unwrap()
}

fn install_coarse() {
    Timer::builder().coarse().install().unwrap();
}

fn free(duration: Duration) -> Instant {
    sleep(duration).deadline().into_std()
}

/// Returns a coarse timer, and the runtime that drives it.
fn coarse() -> (tokio::runtime::Runtime, Timer) {
    let runtime = multi_thread(1);
    let timer = runtime.block_on(async { Timer::builder().coarse().build().unwrap() });
    (runtime, timer)
}

#[test]
fn sleeps_count_by_distance() {
    let (_runtime, timer) = coarse();
    let of_timer = |duration| timer.sleep(duration).deadline().into_std();
    assert!(counts_from_coarse(of_timer));
    assert_exact_if_short(of_timer);
    let reset = |duration| {
        let mut sleep = timer.sleep(ms(1));
        Pin::new(&mut sleep).reset_after(duration);
        sleep.deadline().into_std()
    };
    assert!(counts_from_coarse(reset));
    assert_exact_if_short(reset);
    let decades = secs(30 * 365 * 86_400);
    assert!(of_timer(Duration::MAX) > Instant::now() + decades);
    assert!(reset(Duration::MAX) > Instant::now() + decades);
    assert!(
        !counts_from_coarse(free),
        "the free functions do not use the timer"
    );
}

#[test]
fn elements_of_a_queue_count_by_distance() {
    let (_runtime, timer) = coarse();
    let inserted = |duration| {
        let mut queue = DelayQueue::with_timer(&timer);
        let key = queue.insert((), duration);
        queue.remove(&key).deadline().into_std()
    };
    assert!(counts_from_coarse(inserted));
    assert_exact_if_short(inserted);
    let reset = |duration| {
        let mut queue = DelayQueue::with_timer(&timer);
        let key = queue.insert((), secs(1));
        queue.reset(&key, duration);
        queue.remove(&key).deadline().into_std()
    };
    assert!(counts_from_coarse(reset));
    assert_exact_if_short(reset);
}

/// The timeout of the key decides which clock counts, not the timeout of the set.
#[cfg(feature = "idle")]
#[test]
fn keys_that_idle_count_by_distance() {
    let (_runtime, timer) = coarse();
    for of_set in [secs(1), secs(60)] {
        let (set, _reaper) = IdleSet::with_timer(of_set, &timer);
        let inserted = |duration| {
            set.remove(&0);
            set.touch_with_timeout(&0, duration);
            set.deadline(&0).unwrap().into_std()
        };
        assert!(counts_from_coarse(inserted));
        assert_exact_if_short(inserted);
        let touched_again = |duration| {
            inserted(duration);
            set.touch(&0);
            set.deadline(&0).unwrap().into_std()
        };
        assert!(counts_from_coarse(touched_again));
        assert_exact_if_short(touched_again);
    }
    let touched = |duration| {
        let (set, _reaper) = IdleSet::with_timer(duration, &timer);
        set.touch(&0);
        set.deadline(&0).unwrap().into_std()
    };
    assert!(counts_from_coarse(touched));
    assert_exact_if_short(touched);
}

#[test]
fn the_free_functions_count_by_distance_on_workers() {
    let by_distance = || {
        assert_exact_if_short(free);
        counts_from_coarse(free)
    };
    assert!(on_a_worker(install_coarse, by_distance));
    assert!(!on_a_worker(|| {}, by_distance));
    // The coarse timer is not the default timer here.
    let build = || drop(Timer::builder().coarse().build().unwrap());
    assert!(!on_a_worker(build, by_distance));
    let reset = |duration| {
        let mut sleep = sleep(ms(1));
        Pin::new(&mut sleep).reset_after(duration);
        sleep.deadline().into_std()
    };
    assert!(on_a_worker(install_coarse, move || {
        assert_exact_if_short(reset);
        counts_from_coarse(reset)
    }));
}

/// A pending sleep is reset like a sleep that was never polled.
#[test]
fn a_pending_sleep_is_reset_by_distance() {
    let runtime = multi_thread(1);
    let task = runtime.spawn(async {
        install_coarse();
        know_the_timer().await;
        let mut sleep = sleep(secs(60));
        assert!(timeout(ms(1), &mut sleep).await.is_err(), "it is pending");
        let mut reset = |duration| {
            Pin::new(&mut sleep).reset_after(duration);
            sleep.deadline().into_std()
        };
        assert!(counts_from_coarse(&mut reset));
        assert_exact_if_short(&mut reset);
        Pin::new(&mut sleep).reset_after(Duration::ZERO);
        sleep.await;
    });
    runtime.block_on(task).unwrap();
}

#[test]
fn a_thread_stops_using_the_coarse_clock_after_the_shutdown() {
    let (owner, owned) = mpsc::channel();
    let install = move || {
        let installed = Timer::builder().coarse().install();
        owner.send(installed.unwrap()).unwrap();
    };
    let shut_down = move || {
        assert!(counts_from_coarse(free));
        drop(owned.recv().unwrap().shutdown());
        let next = Timer::current();
        let mut sleep = tokio_test::task::spawn(sleep(secs(1)));
        assert_pending!(sleep.poll());
        assert_eq!(next.metrics().pending(), 1);
        counts_from_coarse(free)
    };
    assert!(!on_a_worker(install, shut_down));
}

/// The clock of such a runtime can be paused at any time, and the kernel's clock cannot.
#[cfg(feature = "test-util")]
#[tokio::test]
async fn a_current_thread_runtime_keeps_to_its_own_clock() {
    let timer = Timer::builder().coarse().install().unwrap();
    assert!(!counts_from_coarse(|duration| timer
        .sleep(duration)
        .deadline()
        .into_std()));
    tokio_wheel::pause();
    let start = tokio_wheel::Instant::now();
    tokio_wheel::advance(secs(3_600)).await;
    for sleep in [sleep(ms(5)), timer.sleep(ms(5))] {
        assert_eq!(sleep.deadline() - start, secs(3_600) + ms(5));
    }
    timer.sleep(ms(5)).await;
    assert!(start.elapsed() >= secs(3_600) + ms(5));
    assert!(start.elapsed() <= secs(3_600) + ms(5 + 1));
}

/// Long durations count from the coarse clock with any tick.
#[test]
fn any_tick_can_be_given() {
    let runtime = multi_thread(1);
    for tick in [Duration::from_nanos(1), Duration::from_micros(100), ms(1)] {
        let build = async { Timer::builder().tick(tick).coarse().build().unwrap() };
        let timer = runtime.block_on(build);
        let of_timer = |duration| timer.sleep(duration).deadline().into_std();
        assert!(counts_from_coarse(of_timer));
        assert_exact_if_short(of_timer);
    }
}
