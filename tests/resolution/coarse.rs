//! `Builder::coarse`.

use std::time::Instant;

use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};
use tokio_test::assert_pending;
use tokio_wheel::{DelayQueue, Duration, Timer, error::BuildError, sleep};

use crate::support::{ms, multi_thread, secs};

fn to_duration(time: Timespec) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What a coarse deadline has added.
fn margin() -> Duration {
    2 * to_duration(clock_getres(ClockId::MonotonicCoarse))
}

/// What the coarse clock says.
pub(crate) fn reading() -> Duration {
    to_duration(clock_gettime(ClockId::MonotonicCoarse))
}

/// Whether the coarse clock is behind that reading of it by no more than what is added, as it is
/// unless the machine is kept from running.
pub(crate) fn kernel_keeps_up(reading: Duration) -> bool {
    to_duration(clock_gettime(ClockId::Monotonic)) - reading < margin()
}

/// Whether a deadline counts from the coarse clock and its margin, by what `make` says it is for a
/// duration: by the exact clock, it would not be after the duration from now.
fn counts_from_coarse(make: impl Fn(Duration) -> Instant) -> bool {
    // Of several, since the kernel may not keep up.
    (0..100).any(|_| {
        let deadline = make(secs(1));
        deadline > Instant::now() + secs(1)
    })
}

/// The second registration of a thread lets it look whose worker it is.
async fn know_the_timer() {
    for _ in 0..3 {
        sleep(ms(1)).await;
    }
}

/// On a worker that has come to know its runtime's timer.
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

#[test]
fn deadlines_count_from_the_coarse_clock() {
    let runtime = multi_thread(1);
    let timer = runtime.block_on(async { Timer::builder().coarse().build().unwrap() });
    let of_timer = |duration| timer.sleep(duration).deadline().into_std();
    assert!(counts_from_coarse(of_timer));
    let deadline = of_timer(secs(1));
    let bound = Instant::now() + secs(1) + margin();
    assert!(deadline <= bound + ms(1), "by the margin and no more");
    assert!(of_timer(Duration::ZERO) <= Instant::now(), "by nothing");

    let of_queue = |duration| {
        let mut queue = DelayQueue::with_timer(&timer);
        let key = queue.insert((), duration);
        queue.remove(&key).deadline().into_std()
    };
    assert!(counts_from_coarse(of_queue));
    assert!(!counts_from_coarse(free), "these are of no timer yet");
}

#[test]
fn the_free_functions_do_on_the_workers_of_its_runtime() {
    assert!(on_a_worker(install_coarse, || counts_from_coarse(free)));
    assert!(!on_a_worker(|| {}, || counts_from_coarse(free)));
    // Where the coarse timer is not the ambient one.
    let build = || drop(Timer::builder().coarse().build().unwrap());
    assert!(!on_a_worker(build, || counts_from_coarse(free)));
}

#[test]
fn no_longer_than_it_is_the_ambient_timer() {
    let shut_down = || {
        assert!(counts_from_coarse(free));
        drop(Timer::current().shutdown());
        let next = Timer::current();
        let mut sleep = tokio_test::task::spawn(sleep(secs(1)));
        assert_pending!(sleep.poll());
        assert_eq!(next.metrics().pending(), 1);
        counts_from_coarse(free)
    };
    assert!(!on_a_worker(install_coarse, shut_down));
}

/// Its clock can be paused at any time, which the kernel's would not know of.
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
    assert!(start.elapsed() <= secs(3_600) + ms(5 + 4 + 1));
}

#[tokio::test]
async fn its_tick_is_4_ms_and_more() {
    assert!(Timer::builder().coarse().tick(ms(4)).build().is_ok());
    assert!(Timer::builder().tick(secs(1)).coarse().build().is_ok());
    let given = ms(4) - Duration::from_nanos(1);
    let error = Timer::builder().tick(given).coarse().build().unwrap_err();
    assert_eq!(
        error,
        BuildError::TickTooShort {
            given,
            least: ms(4)
        }
    );
    assert!(error.to_string().contains("3.999999ms") && error.to_string().contains("4ms"));
    let zero = Timer::builder().coarse().tick(Duration::ZERO).build();
    assert_eq!(zero.unwrap_err(), BuildError::ZeroTick);
}
