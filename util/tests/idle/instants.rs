//! The exact times at which keys expire.

use super::*;

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
