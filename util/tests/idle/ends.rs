//! The end of a set: all handles or the reaper are dropped. Keys that never end.

use super::*;

/// The alarm for a removed key does not delay the end.
#[tokio::test(start_paused = true)]
async fn the_end_does_not_wait_for_what_is_gone() {
    let start = Instant::now();
    let (set, reaper) = IdleSet::new(secs(10));
    let mut reaper = task::spawn(reaper);
    set.touch(&1);
    assert_pending!(reaper.poll_next());
    let other = set.clone();
    assert_eq!(other.remove(&1), Some(1));
    drop(set);
    assert!(!reaper.is_woken(), "one handle is left");
    drop(other);
    assert!(reaper.is_woken());
    assert_ready_eq!(reaper.poll_next(), None);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_set_without_reaper_is_empty_and_stays_so() {
    let (set, reaper) = IdleSet::new(secs(1));
    let token = Arc::new(7);
    for n in 0..1_000 {
        set.touch(&(n, token.clone()));
    }
    assert!(!set.is_closed());
    drop(reaper);
    assert!(set.is_closed());
    assert_eq!(Arc::strong_count(&token), 1, "the keys are dropped");
    for n in 0..1_000 {
        let key = (n, token.clone());
        assert_eq!(set.touch(&key), Closed);
        assert_eq!(set.touch_with_timeout(&key, secs(5)), Closed);
        assert_eq!(set.touch_existing(&key), Closed);
        assert!(!set.contains(&key));
        assert_eq!((set.deadline(&key), set.remove(&key)), (None, None));
    }
    assert!(set.is_empty());
    assert_eq!(Arc::strong_count(&token), 1);
}

#[tokio::test(start_paused = true)]
async fn a_reaper_leaves_neither_its_waker_nor_its_alarm() {
    let ambient = Timer::current();
    let (set, mut reaper) = IdleSet::new(secs(1));
    set.touch(&1);
    let (wakes, waker) = Wakes::new();
    assert_pending!(reaper.poll_reap(&mut Context::from_waker(&waker)));
    assert_eq!(ambient.metrics().pending(), 1);
    drop((reaper, waker));
    assert_eq!(ambient.metrics().pending(), 0);
    assert!(wakes.is_dropped());
    drop(set);
    assert_eq!(wakes.count(), 0);
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
    drop(set);
    assert_pending!(reaper.poll_next(), "two keys are left");
}
