//! The memory of a queue, and the drops of its values.

use super::*;

/// The elements of two chunks. One chunk always stays, and one is being filled.
const LITTLE: usize = 512;

#[test]
fn memory_goes_back_when_elements_are_removed() {
    let mut queue = DelayQueue::new();
    let keys: Vec<_> = (0..20_000).map(|n| queue.insert(n, secs(1))).collect();
    for key in &keys {
        queue.remove(key);
    }
    assert!(queue.capacity() <= LITTLE);
    for n in 0..20_000 {
        queue.insert(n, secs(1));
    }
    queue.clear();
    assert!(queue.capacity() <= LITTLE);
    queue.shrink_to_fit();
    assert_eq!(queue.capacity(), 0);
    queue.insert(0, secs(1));
    assert_eq!(queue.len(), 1);
}

#[test]
fn what_was_reserved_stays() {
    let mut queue = DelayQueue::with_capacity(10_000);
    let reserved = queue.capacity();
    assert!(reserved >= 10_000);
    let keys: Vec<_> = (0..10_000).map(|n| queue.insert(n, secs(1))).collect();
    assert_eq!(queue.capacity(), reserved, "nothing more was needed");
    for key in &keys {
        queue.remove(key);
    }
    assert_eq!(queue.capacity(), reserved);
    queue.insert(0, secs(1));
    queue.clear();
    assert_eq!(queue.capacity(), reserved);

    queue.insert(0, secs(1));
    queue.reserve(20_000);
    assert!(queue.capacity() > 20_000);
    queue.reserve(5);
    assert!(queue.capacity() > 20_000, "it is reserved");
    queue.compact();
    assert!(queue.capacity() <= LITTLE, "the reservation has ended");
    assert_eq!(queue.len(), 1);
}

fn clear<T>(queue: &mut DelayQueue<T>) -> std::thread::Result<()> {
    catch_unwind(AssertUnwindSafe(|| queue.clear()))
}

/// The keys still name the remaining elements.
#[test]
fn a_panic_while_clearing_leaves_a_queue_that_works() {
    let mut queue = DelayQueue::new();
    let panics = |n| (n == 400).then(|| PanicsOnDrop);
    let keys: Vec<_> = (0..2_000)
        .map(|n| queue.insert(panics(n), secs(1)))
        .collect();
    assert!(clear(&mut queue).is_err());
    let left = queue.len();
    assert!((1..2_000).contains(&left), "{left}");
    let found = keys.iter().filter_map(|key| queue.try_remove(key));
    assert_eq!(found.count(), left);
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_last_element_cleared_wakes_who_waits() {
    let mut queue = task::spawn(DelayQueue::new());
    queue.insert(PanicsOnDrop, secs(1));
    assert!(queue.poll_next().is_pending());
    assert!(clear(&mut queue).is_err());
    assert!(queue.is_woken());
    assert!(matches!(queue.poll_next(), Poll::Ready(None)));
}
