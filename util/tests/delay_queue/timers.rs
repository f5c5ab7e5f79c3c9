//! The timer that a queue uses, on several executors.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_ambient_timer_is_used_when_it_is_needed() {
    let ambient = Timer::current();
    let mut queue = task::spawn(DelayQueue::new());
    assert!(assert_ready!(queue.poll_next()).is_none());
    queue.insert(0, Duration::ZERO);
    let key = queue.insert(1, ms(10));
    queue.reset(&key, ms(20));
    assert!(assert_ready!(queue.poll_next()).is_some());
    assert_eq!(ambient.metrics().registered(), 0, "no task had to wait");
    assert_pending!(queue.poll_next());
    queue.insert(2, ms(5));
    assert_pending!(queue.poll_next());
    queue.insert(3, ms(30));
    assert_pending!(queue.poll_next());
    let registered = ambient.metrics().registered();
    assert_eq!(registered, 1, "all elements share one sleep");
    let mut queue = queue.into_inner();
    for n in [2, 1, 3] {
        assert_eq!(queue.next().await.unwrap().into_inner(), n);
    }
    assert_eq!(ambient.metrics().pending(), 0);
}
