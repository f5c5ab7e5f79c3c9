//! Keys that are handed out before they are due.

use std::{panic, thread};

use super::*;

/// A key for each second of age: key 0 was touched first.
async fn aged(keys: u64) -> (IdleSet<u64>, Reaper<u64>) {
    let (set, reaper) = IdleSet::new(secs(60));
    for key in 0..keys {
        set.touch(&key);
        sleep(secs(1)).await;
    }
    (set, reaper)
}

#[tokio::test(start_paused = true)]
async fn the_keys_that_are_silent_for_longest_go_first() {
    let (set, mut reaper) = aged(10).await;
    set.touch(&0);
    set.touch_with_timeout(&9, secs(1));
    assert_eq!(reaper.shed(4).collect::<Vec<_>>(), [9, 1, 2, 3]);
    assert_eq!(set.len(), 6);
    assert!(reaper.shed(0).next().is_none());
    assert!(reaper.shed(usize::MAX).eq([4, 5, 6, 7, 8, 0]));
    assert!(set.is_empty() && reaper.shed(1).next().is_none());
}

/// A shed returns keys in the order in which the reaper would have returned them.
#[tokio::test(start_paused = true)]
async fn the_order_is_that_of_the_deadlines() {
    let mut random = Random(7);
    for pressure in [0.0, 0.5, 1.0] {
        let builder = IdleSet::builder(secs(60)).min_timeout(secs(10));
        let (set, mut reaper) = builder.shards(4).build().unwrap();
        for key in 0..1_000_u64 {
            set.touch_with_timeout(&key, ms(random.below(300_000)));
        }
        set.set_pressure(pressure);
        let mut expected: Vec<_> = (0..1_000).map(|key| set.deadline(&key).unwrap()).collect();
        let deadlines = expected.clone();
        expected.sort_unstable();
        let shed = reaper.shed(usize::MAX).map(|key| deadlines[key as usize]);
        assert!(shed.eq(expected), "at {pressure}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_key_is_early_after_a_shed() {
    let (set, mut reaper) = aged(10).await;
    let start = Instant::now();
    // All of one tick but one: the shed ends in the middle of a round.
    for key in 100..200 {
        set.touch_with_timeout(&key, secs(2));
    }
    assert_eq!(reaper.shed(99).count(), 99);
    for expected in [(2, None), (50, Some(0)), (51, Some(1)), (52, Some(2))] {
        let key = reaper.reap().await.unwrap();
        assert_eq!(start.elapsed(), secs(expected.0));
        assert_eq!(expected.1.unwrap_or(key), key);
    }
    set.touch(&3);
    assert!(reaper.shed(1).eq([4]));
    assert_eq!(reaper.reap().await, Some(5));
    assert_eq!(start.elapsed(), secs(55));
}

/// A new key has a shorter timeout than the keys that stay, and is due long before them. One that is due at once comes out at
/// once, and a reaper that waits is woken.
#[tokio::test(start_paused = true)]
async fn what_is_inserted_behind_a_shed_is_in_time() {
    let (set, mut reaper) = aged(10).await;
    let start = Instant::now();
    assert_eq!(reaper.shed(5).count(), 5);
    let (wakes, waker) = Wakes::new();
    let cx = &mut Context::from_waker(&waker);
    assert_pending!(reaper.poll_reap(cx));
    for (n, timeout) in [30, 20, 3].into_iter().enumerate() {
        set.touch_with_timeout(&(100 + timeout), secs(timeout));
        assert_eq!(wakes.count(), n + 1);
        assert_pending!(reaper.poll_reap(cx));
    }
    set.touch_existing_with_timeout(&9, secs(4));
    for (key, after) in [(103, 3), (9, 4), (120, 20), (130, 30), (5, 55)] {
        assert_eq!(reaper.reap().await, Some(key));
        assert_eq!(start.elapsed(), secs(after));
    }
}

/// Slots that the wheels look at although their keys have moved on.
#[tokio::test(start_paused = true)]
async fn keys_that_were_touched_are_not_shed() {
    const TOUCHED: u64 = 10_000;
    let (set, mut reaper) = IdleSet::new(secs(60));
    for key in 0..TOUCHED + 10 {
        set.touch(&key);
    }
    sleep(secs(30)).await;
    for key in 0..TOUCHED {
        assert!(set.touch_existing(&key));
    }
    let mut shed: Vec<_> = reaper.shed(10).collect();
    shed.sort_unstable();
    assert!(shed.into_iter().eq(TOUCHED..TOUCHED + 10));
    assert_eq!(set.len(), TOUCHED as usize);
    let start = Instant::now();
    assert!(reaper.reap().await.is_some());
    assert_eq!(start.elapsed(), secs(60));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_never_ends_stays() {
    let (set, mut reaper) = IdleSet::new(Duration::MAX);
    set.touch(&0);
    set.touch_with_timeout(&1, secs(1_000_000_000));
    set.touch_with_timeout(&2, Duration::MAX);
    assert!(reaper.shed(usize::MAX).eq([1]));
    assert_eq!(set.len(), 2);
    // However often.
    for _ in 0..10 {
        assert!(reaper.shed(3).next().is_none());
    }
    let start = Instant::now();
    set.touch_with_timeout(&3, secs(1));
    assert_eq!(reaper.reap().await, Some(3));
    assert_eq!(start.elapsed(), secs(1));
}

/// Each takes its turn when the iterator gets there.
#[tokio::test(start_paused = true)]
async fn what_is_touched_in_between_gets_a_new_turn() {
    let (set, mut reaper) = aged(6).await;
    let mut shed = Vec::new();
    for key in reaper.shed(4) {
        shed.push(key);
        set.touch_existing(&(key + 1));
        set.remove(&3);
    }
    assert_eq!(shed, [0, 2, 4, 1]);
    assert_eq!(set.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_asked_for_stays() {
    let (set, mut reaper) = aged(10).await;
    let mut shed = reaper.shed(5);
    assert_eq!(shed.size_hint(), (0, Some(5)));
    assert_eq!(shed.next(), Some(0));
    assert_eq!(format!("{shed:?}"), "Shed { left: 4, .. }");
    drop(shed);
    let panicked = panic::catch_unwind(panic::AssertUnwindSafe(|| {
        for key in reaper.shed(5) {
            assert_eq!(key, 1, "stop");
        }
    }));
    assert!(panicked.is_err());
    let start = Instant::now();
    for key in 3..10 {
        assert_eq!(reaper.reap().await, Some(key));
        assert_eq!(start.elapsed(), secs(50 + key));
    }
    assert!(set.is_empty());
}

/// The keys of all shards, of which there are many.
#[tokio::test(start_paused = true)]
async fn keys_of_shards_that_split_go_in_order() {
    let builder = IdleSet::builder(secs(600)).shards(64);
    let (set, mut reaper) = builder.build().unwrap();
    for key in 0..10_000_u64 {
        set.touch(&key);
        sleep(ms(1)).await;
        if key % 2_000 == 1_999 {
            // New shards split from ones that a shed has advanced.
            let expected = key / 2_000 * 100;
            assert!(reaper.shed(100).eq(expected..expected + 100));
        }
    }
    let start = Instant::now();
    assert_eq!(reaper.reap().await, Some(500));
    assert_eq!(start.elapsed(), secs(600) - ms(9_500));
}

/// Each key comes out once, and a key that is touched all the time never does.
#[test]
fn touches_race_a_shed() {
    const KEYS: u64 = 20_000;
    does_not_hang(|| {
        let runtime = multi_thread(1);
        let _guard = runtime.enter();
        let (set, mut reaper) = IdleSet::builder(secs(600)).shards(8).build().unwrap();
        let threads = [0, 1].map(|seed| {
            let set = set.clone();
            thread::spawn(move || {
                let mut random = Random(seed);
                for key in (0..KEYS).filter(|key| key % 2 == seed) {
                    assert!(set.touch(&key));
                    let timeout = secs(1_000 + random.below(1_000));
                    set.touch_existing_with_timeout(&random.below(KEYS), timeout);
                }
            })
        });
        let mut shed = Vec::new();
        while !(threads.iter().all(thread::JoinHandle::is_finished) && set.is_empty()) {
            shed.extend(reaper.shed(100));
        }
        shed.sort_unstable();
        assert!(shed.into_iter().eq(0..KEYS));
        for thread in threads {
            thread.join().unwrap();
        }
    });
}
