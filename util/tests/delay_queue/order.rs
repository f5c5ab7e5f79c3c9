//! The times and the order in which elements are returned.

use super::*;

const YEAR: Duration = secs(365 * 86_400);

/// Returns all elements that have expired.
async fn due<T>(queue: &mut DelayQueue<T>) -> Vec<T> {
    poll_fn(|cx| {
        let mut due = Vec::new();
        while let Poll::Ready(Some(expired)) = queue.poll_expired(cx) {
            due.push(expired.into_inner());
        }
        Poll::Ready(due)
    })
    .await
}

/// The default timer has ticks of 1/64 ms.
#[tokio::test(start_paused = true)]
async fn order_within_a_millisecond() {
    let mut queue = DelayQueue::with_timer(&Timer::current());
    for n in [50, 3, 64, 9, 33, 1, 2, 63] {
        queue.insert(n, Duration::from_nanos(15_625 * n));
    }
    tokio::time::sleep(ms(1)).await;
    assert_eq!(due(&mut queue).await, [1, 2, 3, 9, 33, 50, 63, 64]);
}

/// Elements whose deadline had passed at their insertion have no certain order. `peek` and the next poll agree
/// on it.
#[tokio::test(start_paused = true)]
async fn peek_names_what_a_poll_returns_of_what_has_passed() {
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
}

/// The other expired elements are in a slot of a coarser level than the element that is inserted now.
#[tokio::test(start_paused = true)]
async fn peek_names_what_a_poll_returns_next() {
    let mut queue = DelayQueue::new();
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

/// The paused clock is between two milliseconds when the queue is created and filled.
#[tokio::test(start_paused = true)]
async fn the_first_millisecond_that_is_not_early() {
    tokio::time::advance(Duration::from_micros(500)).await;
    let mut queue = DelayQueue::with_timer(&Timer::current());
    tokio::time::advance(Duration::from_micros(333)).await;
    for micros in [1_200_u64, 600, 100, 1_000, 63_500, 64_250, 1, 0] {
        let deadline = Instant::now() + Duration::from_micros(micros);
        queue.insert_at(micros, deadline);
        let expired = queue.next().await.unwrap();
        assert!(expired.deadline() >= deadline);
        assert!(expired.deadline() < deadline + Duration::from_nanos(15_625));
        let now = Instant::now();
        assert!(now >= deadline, "early by {:?}", deadline - now);
        // tokio's timer rounds up to a millisecond, and a paused clock moves by whole milliseconds.
        let late = now - deadline;
        assert!(late < ms(2), "late by {late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn far_deadlines_saturate() {
    let start = Instant::now();
    let mut queue = DelayQueue::new();
    let never = queue.insert("never", Duration::MAX);
    let key = queue.insert("later never", ms(1));
    queue.reset(&key, Duration::MAX);
    queue.insert("in a century", 100 * YEAR);
    assert!(queue.deadline(&never) > start + 1_000 * YEAR);
    assert!(queue.deadline(&key) > start + 1_000 * YEAR);

    let expired = queue.next().await.unwrap();
    assert_eq!(expired.into_inner(), "in a century");
    assert!(start.elapsed() >= 100 * YEAR);
    // A paused clock does not advance to the last instant.
    let turn = tokio::time::timeout(YEAR, queue.next()).await;
    assert!(turn.is_err());
    queue.reset(&key, ms(5));
    assert_eq!(queue.next().await.unwrap().key(), key);
    assert_eq!(queue.remove(&never).into_inner(), "never");
}
