//! The key of an element that has left names nothing, even if another element took its place.

use super::*;

#[track_caller]
pub(crate) fn assert_absent(queue: &mut DelayQueue<usize>, key: &delay_queue::Key) {
    assert_eq!(queue.try_deadline(key), None);
    assert!(!queue.try_reset(key, Duration::ZERO));
    assert!(!queue.try_reset_at(key, Instant::now()));
    assert!(queue.try_remove(key).is_none());
}

/// The keys of removed elements name nothing after a call of `compact` and new insertions.
#[test]
fn keys_of_moved_elements_stay_absent_once_they_are_gone() {
    let mut queue = DelayQueue::new();
    let mut stale = Vec::new();
    for round in 0..6 {
        let keys: Vec<_> = (0..2_000).map(|n| queue.insert(n, secs(3_600))).collect();
        let (stay, go): (Vec<_>, Vec<_>) =
            (keys.iter().enumerate()).partition(|(n, _)| n % 50 == 0);
        for (n, key) in go {
            assert_eq!(queue.remove(key).into_inner(), n);
            stale.push(*key);
        }
        queue.compact();
        for key in &stale {
            assert_absent(&mut queue, key);
        }
        for (n, key) in stay {
            assert!(queue.deadline(key) > Instant::now());
            assert_eq!(queue.remove(key).into_inner(), n, "in round {round}");
            stale.push(*key);
        }
        for key in &stale {
            assert_absent(&mut queue, key);
        }
    }
    assert!(queue.is_empty());
}

/// An element keeps its key in `peek` and `Expired` while other elements come and go.
#[tokio::test(start_paused = true)]
async fn an_element_keeps_its_key() {
    let mut queue = DelayQueue::new();
    let keys: Vec<_> = (0..40_000).map(|n| queue.insert(n, ms(n))).collect();
    for step in [10, 100, 1_000] {
        for (_, key) in (0..).zip(&keys).filter(|(n, _)| n % step != 7) {
            queue.try_remove(key);
        }
        queue.compact();
        assert_eq!(queue.peek(), Some(keys[7]));
    }
    for n in (7..40_000).step_by(1_000) {
        assert_eq!(queue.peek(), Some(keys[n as usize]));
        let expired = queue.next().await.unwrap();
        assert_eq!((expired.key(), expired.into_inner()), (keys[n as usize], n));
    }
    assert_eq!(queue.peek(), None);
}

#[tokio::test(start_paused = true)]
async fn debug_of_a_key_names_its_type_once() {
    let mut queue = DelayQueue::new();
    let key = queue.insert((), ms(1));
    let debug = format!("{key:?}");
    assert_eq!(debug.matches("Key").count(), 1, "{debug}");
}
