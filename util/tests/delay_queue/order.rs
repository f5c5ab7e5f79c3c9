//! The order in which elements are returned, and what tokio-util's queue does not have: `expired`.

use super::*;

/// Elements whose deadline had passed at their insertion have no certain order. `peek` and the next poll agree on it.
#[tokio::test(start_paused = true)]
async fn peek_names_what_a_poll_returns_next() {
    let mut queue = DelayQueue::new();
    queue.insert(0, ms(100));
    assert_eq!(queue.next().await.unwrap().into_inner(), 0);
    let now = Instant::now();
    for (n, millis) in [(1, 50), (2, 70), (3, 10), (4, 0), (5, 60)] {
        queue.insert_at(n, now - ms(millis));
    }
    while let Some(first) = queue.peek() {
        assert_eq!(queue.next().await.unwrap().key(), first);
    }
    // These elements are in a slot of a coarser level than the element that is inserted after them.
    for n in 0..3 {
        queue.insert(n, ms(64));
    }
    queue.next().await.unwrap();
    queue.insert(3, Duration::ZERO);
    queue.insert(4, ms(1));
    while let Some(first) = queue.peek() {
        assert_eq!(queue.next().await.unwrap().key(), first);
    }
}

/// Dropping the future before or after a poll loses no element.
#[tokio::test(start_paused = true)]
async fn expired_is_cancel_safe() {
    let mut queue = DelayQueue::new();
    queue.insert(7, ms(10));
    drop(queue.expired());
    for _ in 0..3 {
        let in_time = tokio::time::timeout(ms(2), queue.expired()).await;
        assert!(in_time.is_err());
        assert_eq!(queue.len(), 1);
    }
    tokio::time::sleep(ms(10)).await;
    drop(queue.expired());
    assert_eq!(queue.len(), 1, "it has expired and is in the queue");
    assert_eq!(queue.expired().await.unwrap().into_inner(), 7);
}
