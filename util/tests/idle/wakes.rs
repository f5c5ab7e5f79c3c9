//! The number of wake-ups of the reaper's task.

use super::*;

#[tokio::test(start_paused = true)]
async fn once_for_a_burst_of_touches() {
    let (wakes, waker) = Wakes::new();
    let (set, mut reaper) = IdleSet::new(secs(10));
    assert_pending!(poll(&mut reaper, &waker));
    for key in 0..500 {
        set.touch_with_timeout(&key, secs(1_000 - key));
    }
    assert_eq!(wakes.count(), 1);
    assert_pending!(poll(&mut reaper, &waker));
    set.touch_with_timeout(&0, Duration::ZERO);
    set.touch_with_timeout(&1, Duration::ZERO);
    assert_eq!(wakes.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn never_for_a_later_deadline() {
    let (wakes, waker) = Wakes::new();
    let (set, mut reaper) = IdleSet::new(secs(10));
    set.touch(&0);
    assert_pending!(poll(&mut reaper, &waker));
    for key in 0..500 {
        set.touch(&key);
        set.touch(&0);
        set.touch_with_timeout(&key, secs(11));
        set.remove(&(key / 2));
    }
    assert_eq!(wakes.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn not_while_it_works() {
    let (wakes, waker) = Wakes::new();
    let (set, mut reaper) = IdleSet::new(ms(10));
    for key in 0..10 {
        set.touch(&key);
    }
    assert_pending!(poll(&mut reaper, &waker));
    sleep(ms(10)).await;
    settle().await;
    assert_eq!(wakes.count(), 1);
    for key in 0..10 {
        assert!(poll(&mut reaper, &waker).is_ready());
        set.touch(&(100 + key));
    }
    assert_eq!(wakes.count(), 1);
    assert_pending!(poll(&mut reaper, &waker));
    sleep(ms(10)).await;
    settle().await;
    assert_eq!(wakes.count(), 2);
}
