//! The counts of a timer, its histogram of lateness, and readers that do not disturb each other.

#![cfg(feature = "test-util")]

use std::{pin::Pin, task::Waker};

use tokio_wheel::{Duration, Histogram, Instant, Sleep, Timer, sleep};

use crate::support::{elsewhere, leap, ms, panics::panic_of, pending, secs, settle};

fn buckets(lateness: &Histogram) -> Vec<(Duration, u64)> {
    let buckets = lateness.buckets();
    buckets.filter(|(_, count)| *count > 0).collect()
}

/// Fires sleeps that are late by these milliseconds, on a timer whose tick is 1 ms.
async fn fire_late_by(timer: &Timer, late: &[u64]) {
    let most = late.iter().max().unwrap() + 1;
    let sleeps = late
        .iter()
        .map(|late| pending(timer.sleep(ms(most - late))));
    let sleeps: Vec<_> = sleeps.collect();
    settle().await;
    leap(ms(most)).await;
    assert!(sleeps.iter().all(Sleep::is_elapsed));
}

fn of_milliseconds() -> Timer {
    Timer::builder().tick(ms(1)).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_buckets_and_the_sum_are_exact() {
    let timer = of_milliseconds();
    assert_eq!(buckets(timer.metrics().lateness()), []);
    fire_late_by(&timer, &[0, 1, 2, 3, 4, 5, 8, 9, 990]).await;
    let metrics = timer.metrics();
    let lateness = metrics.lateness();
    let expected = [(0, 1), (1, 1), (2, 1), (4, 2), (8, 2), (16, 1), (1_024, 1)];
    assert_eq!(buckets(lateness), expected.map(|(bound, n)| (ms(bound), n)));
    assert_eq!(lateness.sum(), ms(1 + 2 + 3 + 4 + 5 + 8 + 9 + 990));
    assert_eq!((lateness.count(), metrics.fired()), (9, 9));
    assert_eq!(lateness.max(), ms(1_024));
    assert_eq!(
        format!("{lateness:?}"),
        "Histogram {<= 0ns: 1, <= 1ms: 1, <= 2ms: 1, <= 4ms: 2, <= 8ms: 2, <= 16ms: 1, \
         <= 1.024s: 1}"
    );
}

#[tokio::test(start_paused = true)]
async fn two_readers_do_not_disturb_each_other() {
    let timer = of_milliseconds();
    let start = timer.metrics();
    fire_late_by(&timer, &[3]).await;
    let first = timer.metrics();
    fire_late_by(&timer, &[0, 6]).await;

    // One reader subtracts its first reading, and the other reader subtracts a later reading.
    let now = timer.metrics();
    let all = now.lateness().since(start.lateness());
    assert_eq!(buckets(&all), [(ms(0), 1), (ms(4), 1), (ms(8), 1)]);
    assert_eq!(all.sum(), ms(9));
    let new = now.lateness().since(first.lateness());
    assert_eq!(buckets(&new), [(ms(0), 1), (ms(8), 1)]);
    assert_eq!((new.sum(), new.count()), (ms(6), 2));

    // A reading of another timer leaves no negative counts.
    let other = of_milliseconds();
    fire_late_by(&other, &[1, 7, 7, 7]).await;
    let others = other.metrics();
    let difference = now.lateness().since(others.lateness());
    assert_eq!(buckets(&difference), [(ms(0), 1), (ms(4), 1)]);
    assert_eq!(difference.sum(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_quantile_is_the_bound_of_its_bucket() {
    let timer = of_milliseconds();
    let quantile = |quantile| timer.metrics().lateness().quantile(quantile);
    assert_eq!(quantile(0.5), Duration::ZERO);
    assert_eq!(timer.metrics().lateness().max(), Duration::ZERO);
    // Of 100 entries, 90 are late by 1 ms, nine by 10 and one by 100.
    let late = [vec![1; 90], vec![10; 9], vec![100]].concat();
    fire_late_by(&timer, &late).await;
    let low = [(0.0, 1), (0.5, 1), (0.9, 1)];
    let high = [(0.91, 16), (0.99, 16), (0.995, 128), (1.0, 128)];
    for (share, expected) in low.into_iter().chain(high) {
        assert_eq!(quantile(share), ms(expected), "{share}");
    }
    let in_percent = panic_of(|| quantile(99.0)).message;
    assert_eq!(in_percent, "quantile must be between 0 and 1, got 99");
}

/// The bounds of the longest tick are thousands of years.
#[tokio::test]
async fn the_bounds_rise() {
    for tick in [Duration::from_nanos(1), ms(1), secs(3_600)] {
        let timer = Timer::builder().tick(tick).build().unwrap();
        let metrics = timer.metrics();
        let buckets = metrics.lateness().buckets();
        let bounds: Vec<_> = buckets.map(|(bound, _)| bound).collect();
        assert!(bounds.is_sorted_by(|a, b| a < b), "{bounds:?}");
        assert_eq!(bounds[..4], [0, 1, 2, 4].map(|ticks| tick * ticks));
        assert_eq!(bounds.last(), Some(&Duration::MAX));
    }
}

/// The driver fires the sleeps of four shards in many batches.
#[tokio::test(start_paused = true)]
async fn all_batches_and_shards_count() {
    let timer = Timer::builder().shards(4).build().unwrap();
    let start = Instant::now();
    let mut deadlines = vec![start + ms(50); 2_000];
    deadlines[777] = start + ms(40);
    let threads = deadlines.chunks(125);
    let sleeps = threads.flat_map(|deadlines| elsewhere(&timer, deadlines, Waker::noop()));
    let sleeps: Vec<_> = sleeps.collect();
    settle().await;
    tokio::time::advance(ms(100)).await;
    for _ in 0..deadlines.len() {
        tokio::task::yield_now().await;
    }
    assert!(sleeps.iter().all(Sleep::is_elapsed));
    let metrics = timer.metrics();
    assert_eq!(metrics.lateness().sum(), 1_999 * ms(50) + ms(60));
    assert_eq!(metrics.fired(), 2_000);
}

#[tokio::test(start_paused = true)]
async fn lateness_is_in_whole_ticks() {
    let timer = Timer::builder().tick(ms(100)).build().unwrap();
    let sleeping = pending(timer.sleep(ms(10)));
    settle().await;
    leap(ms(250)).await;
    assert!(sleeping.is_elapsed());
    // From the tick at 100 ms to the tick at 200 ms. The true lateness is 240 ms.
    assert_eq!(timer.metrics().lateness().sum(), ms(100));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_set_in_the_past_is_not_late() {
    let timer = Timer::current();
    let start = Instant::now();
    leap(secs(30)).await;
    for deadline in [start, start + ms(1)] {
        let mut sleeping = pending(sleep(secs(60)));
        let fired = timer.metrics().fired();
        Pin::new(&mut sleeping).reset(deadline);
        assert!(sleeping.is_elapsed());
        leap(ms(3)).await;
        let metrics = timer.metrics();
        assert_eq!(metrics.fired(), fired + 1);
        assert_eq!(metrics.lateness().sum(), Duration::ZERO);
    }
}
