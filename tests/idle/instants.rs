//! The exact times at which keys expire.

use super::*;

/// Returns the next `count` keys, each with the milliseconds since `start`.
async fn reaped(reaper: &mut Reaper<u64>, start: Instant, count: usize) -> Vec<(u64, u128)> {
    let mut all = Vec::new();
    while all.len() < count {
        let key = reaper.reap().await.unwrap();
        all.push((key, start.elapsed().as_millis()));
    }
    all
}

/// The delays reach over all levels of the wheel.
#[tokio::test(start_paused = true)]
async fn a_key_comes_out_in_its_millisecond() {
    let start = Instant::now();
    let (set, mut reaper) = IdleSet::new(secs(1));
    let delays = [
        0,
        1,
        2,
        63,
        64,
        65,
        999,
        4_095,
        4_096,
        4_097,
        300_000,
        20_000_000_000,
    ];
    for delay in delays {
        set.touch_with_timeout(&delay, ms(delay));
    }
    let expected = delays.map(|delay| (delay, u128::from(delay)));
    assert_eq!(reaped(&mut reaper, start, delays.len()).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_touch_counts_from_when_it_is_made() {
    let start = Instant::now();
    let (set, mut reaper) = IdleSet::new(ms(100));
    for at in [0, 3, 60, 99, 101, 150] {
        tokio::time::sleep_until(start + ms(at)).await;
        set.touch(&1);
        if at == 60 {
            set.touch(&2);
        }
    }
    assert_eq!(reaped(&mut reaper, start, 2).await, [(2, 160), (1, 250)]);
}

/// The deadline lies between two milliseconds, as deadlines usually do.
#[tokio::test(start_paused = true)]
async fn a_deadline_rounds_up() {
    let start = Instant::now();
    let (set, reaper) = IdleSet::new(Duration::from_micros(1_500));
    let mut reaper = task::spawn(reaper);
    set.touch(&1);
    assert_eq!(set.deadline(&1), Some(start + ms(2)));
    assert_pending!(reaper.poll_next());
    advance(ms(1)).await;
    assert_pending!(reaper.poll_next());
    advance(Duration::from_micros(999)).await;
    assert_pending!(reaper.poll_next());
    advance(Duration::from_micros(1)).await;
    assert_ready_eq!(reaper.poll_next(), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_timers_tick_counts() {
    let timer = Timer::builder().tick(ms(250)).build().unwrap();
    sleep(ms(1_100)).await;
    let start = Instant::now();
    let (set, mut reaper) = IdleSet::with_timer(secs(1), &timer);
    set.touch(&1);
    set.touch_with_timeout(&2, ms(150));
    assert_eq!(set.deadline(&1), Some(start + ms(1_150)));
    assert_eq!(reaped(&mut reaper, start, 2).await, [(2, 150), (1, 1_150)]);
}

#[tokio::test(start_paused = true)]
async fn no_timeout_at_all_is_due_at_once() {
    let start = Instant::now();
    let (set, mut reaper) = IdleSet::new(Duration::ZERO);
    sleep(Duration::from_micros(300)).await;
    for key in 0..50 {
        set.touch(&key);
    }
    let (first, rest) = (reaper.reap().await.unwrap(), start.elapsed());
    assert!(!set.contains(&first) && rest <= ms(1));
    assert_eq!(reaped(&mut reaper, start, 49).await.len(), 49);
    assert!(start.elapsed() <= ms(1));
}

#[tokio::test(start_paused = true)]
async fn what_never_comes_does_not_come() {
    let (set, reaper) = IdleSet::new(Duration::MAX);
    let mut reaper = task::spawn(reaper);
    set.touch(&1);
    set.touch_with_timeout(&2, Duration::from_nanos(u64::MAX));
    set.touch_with_timeout(&3, secs(10));
    set.touch_with_timeout(&3, Duration::MAX);
    assert!(set.deadline(&1).unwrap() > Instant::now() + secs(20 * 365 * 86_400));
    assert_pending!(reaper.poll_next());
    sleep(secs(1_000_000_000)).await;
    assert_pending!(reaper.poll_next());
    assert_eq!(set.len(), 3);

    // Such a key can get another deadline, and then expires.
    set.touch_with_timeout(&1, ms(5));
    assert!(reaper.is_woken());
    sleep(ms(5)).await;
    assert_ready_eq!(reaper.poll_next(), Some(1));
    assert_eq!(set.remove(&2), Some(2));
}

/// If the reaper is late, it still returns the expired keys in the order of their deadlines.
#[tokio::test(start_paused = true)]
async fn a_late_reaper_keeps_the_order() {
    let start = Instant::now();
    let (set, mut reaper) = IdleSet::new(secs(1));
    for key in (0..1_000).rev() {
        set.touch_with_timeout(&key, ms(key * 7));
    }
    sleep(secs(60)).await;
    set.touch_with_timeout(&5_000, ms(1));
    let keys = reaped(&mut reaper, start, 1_001).await;
    let expected = (0..1_000).chain([5_000]);
    assert!(keys.iter().map(|(key, _)| *key).eq(expected), "{keys:?}");
    assert_eq!(keys[999], (999, 60_000));
    assert_eq!(keys[1_000], (5_000, 60_001));
}
