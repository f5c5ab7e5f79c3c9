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

/// An element expires when a sleep of the same timer does, and keeps its own deadline.
#[tokio::test(start_paused = true)]
async fn a_queue_of_a_coarse_timer_is_late_by_one_tick_at_most() {
    for tick in [10, 100, 1_000] {
        let timer = Timer::builder().tick(ms(tick)).build().unwrap();
        for tenths in 0..20 {
            tokio::time::advance(ms(tick / 10)).await;
            let mut queue = DelayQueue::with_timer(&timer);
            let deadline = Instant::now() + ms(tick * (25 + tenths) / 10);
            let key = queue.insert_at((), deadline);
            assert_eq!(queue.deadline(&key), deadline);
            let expired = async {
                assert!(queue.expired().await.is_some());
                Instant::now()
            };
            let slept = async {
                timer.sleep_until(deadline).await;
                Instant::now()
            };
            let (expired, slept) = tokio::join!(expired, slept);
            assert_eq!(expired, slept, "tick {tick} ms, {tenths}");
            assert!(deadline <= expired && expired < deadline + ms(tick));
        }
        assert!(timer.metrics().fired() >= 20 && timer.metrics().pending() == 0);
    }
    assert_eq!(Timer::current().metrics().registered(), 0);
}
