//! What a timer tells of its pending timers and of its lateness: `TimeLeft`, and the worst lateness
//! of `Metrics`, whose counts are in `timer.rs`.

#![cfg(feature = "test-util")]

mod support;

use std::{
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use support::{does_not_hang, ms, multi_thread, paused, pending, secs, settle};
use tokio_test::{assert_pending, task};
use tokio_wheel::{Duration, Instant, Sleep, TimeLeft, Timer, advance, sleep, sleep_until};

/// A tick of a timer that names none.
const TICK: Duration = Duration::from_nanos(15_625);

/// Pending sleeps until these deadlines, registered by as many threads as will do for every shard
/// of `timer` to have some.
fn spread(timer: &Timer, deadlines: &[Instant]) -> Vec<Sleep> {
    const THREADS: usize = 16;
    let runtime = tokio::runtime::Handle::current();
    thread::scope(|scope| {
        let share = |deadlines: Vec<Instant>| {
            let runtime = runtime.clone();
            scope.spawn(move || {
                let _entered = runtime.enter();
                let sleeps = deadlines.into_iter().map(|at| timer.sleep_until(at));
                sleeps.map(pending).collect::<Vec<_>>()
            })
        };
        let shares = deadlines.chunks(deadlines.len().div_ceil(THREADS));
        let threads: Vec<_> = shares.map(|deadlines| share(deadlines.to_vec())).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    })
}

/// Moves the clock, and lets the driver catch up only then.
async fn leap(duration: Duration) {
    tokio::time::advance(duration).await;
    settle().await;
}

fn counts(time_left: &TimeLeft) -> Vec<u64> {
    time_left.buckets().map(|(_, count)| count).collect()
}

#[tokio::test(start_paused = true)]
async fn the_worst_lateness_is_that_of_the_latest_timer() {
    let timer = Timer::current();
    assert_eq!(timer.metrics().worst_lateness(), Duration::ZERO);
    let mut sleeps: Vec<_> = [30, 10, 20].map(|n| pending(sleep(ms(n)))).into();
    settle().await;
    leap(secs(1)).await;
    assert_eq!(timer.metrics().worst_lateness(), ms(990));

    // One that is in time does not take the place of one that is late.
    sleeps.push(pending(sleep(ms(5))));
    leap(ms(12)).await;
    sleep(ms(1)).await;
    assert_eq!(timer.metrics().worst_lateness(), ms(7));
    assert!(sleeps.iter().all(Sleep::is_elapsed));
}

#[tokio::test(start_paused = true)]
async fn a_reading_of_the_worst_lateness_starts_it_anew() {
    let timer = Timer::current();
    let sleeping = pending(sleep(ms(1)));
    settle().await;
    leap(ms(5)).await;
    assert!(sleeping.is_elapsed());
    assert_eq!(timer.clone().metrics().worst_lateness(), ms(4));
    assert_eq!(timer.metrics().worst_lateness(), Duration::ZERO);
    sleep(ms(1)).await;
    assert_eq!(timer.metrics().worst_lateness(), Duration::ZERO);
}

/// Many batches and many shards: the latest timer is in the first batch of one of them.
#[tokio::test(start_paused = true)]
async fn the_worst_lateness_is_that_of_all_batches_and_shards() {
    let timer = Timer::builder().shards(4).build().unwrap();
    let start = Instant::now();
    let mut deadlines = vec![start + ms(50); 2_000];
    deadlines[777] = start + ms(40);
    let sleeps = spread(&timer, &deadlines);
    settle().await;
    tokio::time::advance(ms(100)).await;
    for _ in 0..deadlines.len() {
        tokio::task::yield_now().await;
    }
    assert!(sleeps.iter().all(Sleep::is_elapsed));
    let metrics = timer.metrics();
    assert_eq!(metrics.worst_lateness(), ms(60));
    assert_eq!(metrics.fired(), 2_000);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fire_is_not_late() {
    let timer = Timer::current();
    let cancelled = pending(sleep(ms(10)));
    let far = pending(sleep(secs(60)));
    settle().await;
    assert_pending!(task::spawn(tokio::time::advance(ms(20))).poll());
    drop(cancelled);
    settle().await;
    assert_eq!(timer.metrics().worst_lateness(), Duration::ZERO);
    drop(far);
}

#[tokio::test(start_paused = true)]
async fn lateness_is_in_whole_ticks() {
    let timer = Timer::builder().tick(ms(100)).build().unwrap();
    let sleeping = pending(timer.sleep(ms(10)));
    settle().await;
    leap(ms(250)).await;
    assert!(sleeping.is_elapsed());
    // From the tick at 100 ms to the one at 200 ms; the truth is 240 ms.
    assert_eq!(timer.metrics().worst_lateness(), ms(100));
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
        assert_eq!(metrics.worst_lateness(), Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn each_bucket_has_those_up_to_its_bound() {
    let timer = Timer::current();
    assert_eq!(timer.time_left().total(), 0);
    let bounds: Vec<_> = timer
        .time_left()
        .buckets()
        .map(|(bound, _)| bound)
        .collect();
    assert_eq!(
        bounds,
        [
            Duration::ZERO,
            ms(1),
            ms(10),
            ms(100),
            secs(1),
            secs(10),
            secs(60),
            secs(600),
            secs(3_600),
            secs(86_400),
            Duration::MAX,
        ]
    );

    let mut sleeps = Vec::new();
    let mut expected = vec![0; bounds.len()];
    for (n, bound) in bounds.iter().enumerate().skip(1) {
        // As many more in each bucket: one that is mistaken for another shows.
        for _ in 0..n {
            sleeps.push(pending(sleep(*bound)));
        }
        sleeps.push(pending(sleep(bounds[n - 1] + TICK)));
        expected[n] = n as u64 + 1;
    }
    assert_eq!(counts(&timer.time_left()), expected);

    // Not yet fired: the driver has had no turn.
    settle().await;
    assert_pending!(task::spawn(tokio::time::advance(ms(1))).poll());
    expected[0] = std::mem::take(&mut expected[1]);
    // What was barely beyond a bound is within it, after a millisecond.
    for n in 2..bounds.len() {
        (expected[n - 1], expected[n]) = (expected[n - 1] + 1, expected[n] - 1);
    }
    assert_eq!(counts(&timer.time_left()), expected);
    settle().await;
    expected[0] = 0;
    assert_eq!(counts(&timer.time_left()), expected);
    assert_eq!(timer.time_left().total(), timer.metrics().pending());
}

#[tokio::test(start_paused = true)]
async fn the_time_left_is_that_to_the_tick_at_which_a_timer_fires() {
    let timer = Timer::builder().tick(ms(40)).build().unwrap();
    let sleeping = pending(timer.sleep(ms(5)));
    assert_eq!(counts(&timer.time_left())[..4], [0, 0, 0, 1]);
    settle().await;
    assert_pending!(task::spawn(tokio::time::advance(ms(39))).poll());
    assert_eq!(counts(&timer.time_left())[..4], [0, 1, 0, 0]);
    assert_pending!(task::spawn(tokio::time::advance(ms(1))).poll());
    assert_eq!(counts(&timer.time_left())[..4], [1, 0, 0, 0]);
    drop(sleeping);
}

/// More than a chunk of each shard's memory, with vacant places.
#[tokio::test(start_paused = true)]
async fn every_timer_of_every_shard_is_counted_once() {
    let timer = Timer::builder().shards(4).build().unwrap();
    let start = Instant::now();
    let deadlines: Vec<_> = (0..6_000)
        .map(|n| start + [ms(7), secs(7), secs(70)][n % 3])
        .collect();
    let mut sleeps = spread(&timer, &deadlines);
    assert_eq!(
        counts(&timer.time_left()),
        [0, 0, 2_000, 0, 0, 2_000, 0, 2_000, 0, 0, 0]
    );

    sleeps.retain(|sleep| sleep.deadline() != start + secs(7));
    assert_eq!(timer.time_left().total(), timer.metrics().pending());
    assert_eq!(
        counts(&timer.time_left()),
        [0, 0, 2_000, 0, 0, 0, 0, 2_000, 0, 0, 0]
    );

    // Much memory goes back, and some is left to others.
    sleeps.truncate(100);
    assert_eq!(timer.time_left().total(), 100);
    sleeps.extend(spread(&timer, &vec![start + secs(7); 500]));
    assert_eq!(timer.time_left().total(), 600);
    assert_eq!(counts(&timer.time_left())[5], 500);
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_was_put_off_is_counted_by_its_new_deadline() {
    let start = Instant::now();
    let mut sleeps: Vec<_> = (0..1_000).map(|_| pending(sleep(ms(5)))).collect();
    for (n, sleep) in sleeps.iter_mut().enumerate() {
        let later = [secs(5), secs(500)][n % 2];
        Pin::new(sleep).reset(start + later);
    }
    let time_left = || counts(&Timer::current().time_left());
    assert_eq!(time_left(), [0, 0, 0, 0, 0, 500, 0, 500, 0, 0, 0]);
    advance(secs(1)).await;
    assert_eq!(time_left(), [0, 0, 0, 0, 0, 500, 0, 500, 0, 0, 0]);
    for sleep in &mut sleeps {
        Pin::new(sleep).reset(start + secs(1) + ms(10));
    }
    assert_eq!(time_left(), [0, 0, 1_000, 0, 0, 0, 0, 0, 0, 0, 0]);
}

/// What stays is counted once, whatever others do to the same shard meanwhile.
#[test]
fn a_timer_that_stays_is_counted_once_while_others_come_and_go() {
    const STAY: usize = 5_000;
    does_not_hang(|| {
        let runtime = multi_thread(1);
        let timer = runtime.block_on(async { Timer::builder().shards(1).build().unwrap() });
        let far = Instant::now() + secs(30 * 86_400);
        let over = AtomicBool::new(false);
        let churn = || {
            let mut passing = Vec::new();
            while !over.load(Ordering::Relaxed) {
                passing.extend((0..500).map(|_| pending(timer.sleep(secs(30)))));
                passing.truncate(passing.len() % 700);
            }
        };
        thread::scope(|scope| {
            scope.spawn(churn);
            scope.spawn(churn);
            let mut staying = Vec::new();
            for n in 0..500 {
                staying.extend((0..STAY / 500).map(|_| pending(timer.sleep_until(far))));
                let time_left = timer.time_left();
                let (_, stayed) = time_left.buckets().last().unwrap();
                if stayed != staying.len() as u64 {
                    over.store(true, Ordering::Relaxed);
                    panic!("{stayed} of {} in round {n}", staying.len());
                }
            }
            over.store(true, Ordering::Relaxed);
        });
        assert_eq!(timer.time_left().total(), 0);
    });
}

#[test]
fn a_timer_that_is_shut_down_has_none_left() {
    let runtime = paused();
    let (timer, sleeping) = runtime.block_on(async { (Timer::current(), pending(sleep(ms(5)))) });
    assert_eq!(timer.time_left().total(), 1);
    drop(runtime);
    assert_eq!(timer.time_left().total(), 0);
    drop(sleeping);
}

#[tokio::test(start_paused = true)]
async fn time_left_prints_readably() {
    let start = Instant::now();
    let sleeps: Vec<_> = (0..12)
        .map(|_| pending(sleep_until(start + ms(2))))
        .collect();
    let time_left = Timer::current().time_left();
    let expected = [
        "      due  0",
        "  <= 1 ms  0",
        " <= 10 ms  12",
        "<= 100 ms  0",
        "   <= 1 s  0",
        "  <= 10 s  0",
        " <= 1 min  0",
        "<= 10 min  0",
        "   <= 1 h  0",
        " <= 1 day  0",
        "     more  0",
    ];
    let expected = expected.join("\n");
    assert_eq!(time_left.to_string(), expected);
    let expected = "TimeLeft {due: 0, <= 1 ms: 0, <= 10 ms: 12, <= 100 ms: 0, <= 1 s: 0, \
                    <= 10 s: 0, <= 1 min: 0, <= 10 min: 0, <= 1 h: 0, <= 1 day: 0, more: 0}";
    assert_eq!(format!("{time_left:?}"), expected);
    drop(sleeps);
    assert_ne!(Timer::current().time_left(), time_left);
}

#[tokio::test(start_paused = true)]
async fn a_task_scheduled_in_the_past_is_late_from_then_on() {
    let timer = Timer::current();
    let start = Instant::now();
    settle().await;
    leap(secs(30)).await;
    timer.schedule_at(start, async {}).unwrap().await.unwrap();
    assert_eq!(timer.metrics().worst_lateness(), Duration::ZERO);
}
