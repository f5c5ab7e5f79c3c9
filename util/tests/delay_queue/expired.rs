//! `DelayQueue::expired` and `FusedStream`, which tokio-util's queue does not have.

use futures_core::FusedStream;

use super::*;

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

/// An insertion after the end makes the queue a live stream again.
#[tokio::test(start_paused = true)]
async fn an_empty_queue_is_terminated_until_the_next_insertion() {
    let mut queue = DelayQueue::new();
    for _ in 0..2 {
        assert!(queue.is_terminated());
        let key = queue.insert(7, ms(10));
        assert!(!queue.is_terminated());
        queue.remove(&key);
        assert!(queue.is_terminated());
        queue.insert(8, ms(10));
        assert_eq!(queue.next().await.unwrap().into_inner(), 8);
        assert!(queue.next().await.is_none());
    }
}
