//! The number of wakes of a waiting task.

use super::*;

/// Polls with a counting waker. Returns whether an element has expired.
fn is_ready<T>(queue: &mut DelayQueue<T>, waker: &Waker) -> bool {
    queue
        .poll_expired(&mut Context::from_waker(waker))
        .is_ready()
}

#[tokio::test(start_paused = true)]
async fn once_for_many_earlier_deadlines() {
    let (wakes, waker) = Wakes::new();
    let mut queue = DelayQueue::new();
    let key = queue.insert(0, secs(1_000));
    assert!(!is_ready(&mut queue, &waker));
    for n in (1..500).rev() {
        queue.insert(n, secs(n));
    }
    queue.reset(&key, Duration::ZERO);
    assert_eq!(wakes.count(), 1);
}

/// The poll that returns the last element keeps its waker for the next insertion.
#[tokio::test(start_paused = true)]
async fn not_while_the_task_takes_elements_out() {
    let (wakes, waker) = Wakes::new();
    let mut queue = DelayQueue::new();
    for n in 0..10 {
        queue.insert(n, ms(10));
    }
    queue.insert(10, secs(10));
    assert!(!is_ready(&mut queue, &waker));
    tokio::time::sleep(ms(10)).await;
    settle().await;
    assert_eq!(wakes.count(), 1);
    for n in 0..10 {
        assert!(is_ready(&mut queue, &waker));
        queue.insert(100 + n, ms(100));
    }
    assert_eq!(wakes.count(), 1);
}

/// Polls in a mock task. Returns the expired element, if there is one.
fn polled(queue: &mut task::Spawn<DelayQueue<&'static str>>) -> Poll<Option<&'static str>> {
    (queue.poll_next()).map(|expired| expired.map(delay_queue::Expired::into_inner))
}

#[tokio::test(start_paused = true)]
async fn for_what_becomes_the_first_and_for_nothing_else() {
    let start = Instant::now();
    let mut queue = task::spawn(DelayQueue::new());
    let first = queue.insert("first", ms(1_000));
    assert_pending!(polled(&mut queue));
    let later = queue.insert("later", ms(2_000));
    let same = queue.insert("same", ms(1_000));
    queue.remove(&same);
    queue.try_remove(&later);
    assert!(!queue.is_woken());
    let earlier = queue.insert("earlier", ms(500));
    assert!(queue.is_woken());
    assert_pending!(polled(&mut queue));
    queue.remove(&earlier);
    assert!(!queue.is_woken(), "no deadline became earlier");
    queue.reset_at(&first, start - ms(1));
    assert!(queue.is_woken());
    assert_eq!(assert_ready!(polled(&mut queue)), Some("first"));
    assert!(!queue.is_woken());
}

/// A stream that waits ends with the last removal. Code that does not poll an empty queue waits for an insertion.
#[tokio::test(start_paused = true)]
async fn for_the_first_insertion_and_the_last_removal() {
    let mut queue = task::spawn(DelayQueue::new());
    assert_eq!(assert_ready!(polled(&mut queue)), None);
    queue.clear();
    assert!(!queue.is_woken(), "it was empty");
    let removals: [fn(&mut DelayQueue<_>, delay_queue::Key); 3] = [
        |queue, key| _ = queue.remove(&key),
        |queue, key| _ = queue.try_remove(&key),
        |queue, _| queue.clear(),
    ];
    for remove in removals {
        let key = queue.insert("removed", secs(1_000));
        assert!(queue.is_woken());
        assert_pending!(polled(&mut queue));
        remove(&mut queue, key);
        assert!(queue.is_woken());
        assert_eq!(assert_ready!(polled(&mut queue)), None);
    }
    queue.insert("due", Duration::ZERO);
    assert_eq!(assert_ready!(polled(&mut queue)), Some("due"));
    assert!(!queue.is_woken());
    queue.insert("after the last", ms(10));
    assert!(queue.is_woken());
}
