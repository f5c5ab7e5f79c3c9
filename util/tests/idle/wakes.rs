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

/// Many touches cause only one wake-up, at the old deadline.
#[tokio::test(start_paused = true)]
async fn not_for_a_key_that_is_put_off_again_and_again() {
    let (wakes, waker) = Wakes::new();
    let (set, mut reaper) = IdleSet::new(ms(50));
    set.touch(&7);
    assert_pending!(poll(&mut reaper, &waker));
    for _ in 0..1_000 {
        sleep(ms(1)).await;
        for _ in 0..100 {
            set.touch(&7);
        }
        if wakes.count() > 0 {
            assert_pending!(poll(&mut reaper, &waker));
        }
    }
    settle().await;
    let count = wakes.count();
    assert!(count <= 1_000 / 50 * 3, "{count} for 1,000 ms");
    assert_eq!(set.remove(&7), Some(7));
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
