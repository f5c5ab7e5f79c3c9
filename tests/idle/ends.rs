//! The end of a set: all handles or the reaper are dropped.

use futures_core::FusedStream;

use super::*;

#[tokio::test(start_paused = true)]
async fn what_is_left_comes_out_when_it_is_due() {
    let start = Instant::now();
    let (set, mut reaper) = IdleSet::new(secs(10));
    let other = set.clone();
    set.touch(&1);
    drop(set);
    sleep(secs(1)).await;
    other.touch(&2);
    drop(other);
    assert_eq!(reaper.reap().await, Some(1));
    assert_eq!(start.elapsed(), secs(10));
    assert_eq!(reaper.reap().await, Some(2));
    assert_eq!(start.elapsed(), secs(11));
    for _ in 0..3 {
        assert_eq!(reaper.reap().await, None);
    }
    assert_eq!(start.elapsed(), secs(11), "the stream ends at once");
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_wakes_a_reaper_that_waits() {
    let (set, reaper) = IdleSet::<u32>::new(secs(10));
    let mut reaper = task::spawn(reaper);
    let other = set.clone();
    assert_pending!(reaper.poll_next());
    drop(set);
    assert!(!reaper.is_woken(), "one handle is left");
    drop(other);
    assert!(reaper.is_woken());
    assert_ready_eq!(reaper.poll_next(), None);
}

/// The alarm for a removed key does not delay the end of the stream.
#[tokio::test(start_paused = true)]
async fn the_end_does_not_wait_for_what_is_gone() {
    let start = Instant::now();
    let (set, reaper) = IdleSet::new(secs(10));
    let mut reaper = task::spawn(reaper);
    set.touch(&1);
    assert_pending!(reaper.poll_next());
    set.remove(&1);
    drop(set);
    assert!(reaper.is_woken());
    assert_ready_eq!(reaper.poll_next(), None);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_never_due_keeps_the_stream_from_ending() {
    let (set, reaper) = IdleSet::new(Duration::MAX);
    let mut reaper = task::spawn(reaper);
    set.touch(&1);
    set.touch_with_timeout(&2, secs(1));
    drop(set);
    assert_pending!(reaper.poll_next());
    sleep(secs(1)).await;
    assert_ready_eq!(reaper.poll_next(), Some(2));
    sleep(secs(1_000_000)).await;
    assert_pending!(reaper.poll_next());
}

#[tokio::test(start_paused = true)]
async fn an_empty_set_is_pending_while_there_is_a_handle() {
    let (set, reaper) = IdleSet::new(secs(1));
    let mut reaper = task::spawn(reaper);
    assert_pending!(reaper.poll_next());
    sleep(secs(1_000)).await;
    assert!(!reaper.is_woken());
    assert_pending!(reaper.poll_next());
    set.touch(&1);
    sleep(secs(1)).await;
    assert_ready_eq!(reaper.poll_next(), Some(1));
    assert_pending!(reaper.poll_next());
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
    assert_eq!(Arc::strong_count(&wakes), 1);
    drop(set);
    assert_eq!(wakes.count(), 0);
}

/// When the task of the reaper is aborted, the set is closed and its keys are dropped.
#[tokio::test(start_paused = true)]
async fn a_reaper_whose_task_is_aborted_is_dropped() {
    let (set, mut reaper) = IdleSet::new(secs(1));
    let task = tokio::spawn(async move { while reaper.reap().await.is_some() {} });
    set.touch(&1);
    settle().await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert!(set.is_closed() && set.is_empty());
}

#[tokio::test(start_paused = true)]
async fn keys_are_dropped_once() {
    let (set, mut reaper) = IdleSet::new(secs(1));
    let token = Arc::new(());
    for n in 0..3_000 {
        set.touch(&(n, token.clone()));
    }
    assert_eq!(Arc::strong_count(&token), 3_001);
    for n in 0..1_000 {
        set.remove(&(n, token.clone()));
    }
    assert_eq!(Arc::strong_count(&token), 2_001);
    for n in 0..1_000 {
        drop(reaper.reap().await);
        assert_eq!(Arc::strong_count(&token), 2_000 - n);
    }
    drop(set);
    assert_eq!(Arc::strong_count(&token), 1_001);
    drop(reaper);
    assert_eq!(Arc::strong_count(&token), 1);
}

/// A fused stream reports its end after it has returned `None`.
#[tokio::test(start_paused = true)]
async fn a_reaper_is_terminated_after_its_end() {
    let (set, mut reaper) = IdleSet::new(secs(1));
    set.touch(&1);
    drop(set);
    assert_eq!(reaper.next().await, Some(1));
    assert!(!reaper.is_terminated());
    assert_eq!(reaper.next().await, None);
    assert!(reaper.is_terminated());
    assert_eq!(reaper.next().await, None);
}
