//! Promise 7, no user code under a lock: no waker is cloned, woken or dropped while a lock is held. The simulation of
//! `src/timer` has wakers that do anything at all, and at the end of the timer too.

use super::*;

/// Does everything that a user can do to the shard of `victim`. Under its lock, the test would hang.
fn touch(victim: Sleep) {
    use_shard(victim, &Timer::current());
    let _ = poll(&mut sleep(secs(7)), &Wakes::new().1);
}

/// Runs a body under the paused clock, and asserts that the hook it returns has run.
fn hooked<F: Future<Output = Arc<Hook>>>(body: impl FnOnce() -> F + Send + 'static) {
    does_not_hang(|| paused().block_on(async { assert!(body().await.has_run()) }));
}

#[test]
fn wake_may_drop_a_sleep_of_the_same_batch() {
    hooked(|| async {
        let (same, later) = (pending_sleep(sleep(ms(5))), pending_sleep(sleep(ms(50))));
        let hook = Hook::on_wake(|| [same, later].into_iter().for_each(touch));
        let _sleep = registered(sleep(ms(5)), &hook.waker());
        // First the driver fires the sleep, then the test clock does.
        tokio::time::sleep(ms(10)).await;
        hook
    });
}

#[test]
fn a_dropped_sleep_may_take_down_another_with_its_waker() {
    hooked(|| async {
        let other = pending_sleep(sleep(ms(5)));
        let hook = Hook::on_drop(|| touch(other));
        // The entry holds the only waker.
        let sleep = registered(sleep(ms(5)), &hook.waker());
        assert!(!hook.has_run());
        drop(sleep);
        assert_eq!(Timer::current().metrics().pending(), 0);
        hook
    });
}

#[test]
fn clone_may_touch_the_shard_at_registration() {
    hooked(|| async {
        let other = pending_sleep(sleep(ms(5)));
        let hook = Hook::on_clone(|| touch(other));
        let _sleep = registered(sleep(ms(5)), &hook.waker());
        hook
    });
}

/// Cloning the waker drops nothing, but fires the entry that is being polled.
#[test]
fn clone_may_fire_the_entry_whose_waker_it_is_to_replace() {
    hooked(|| async {
        let mut sleep = pending_sleep(sleep(ms(5)));
        let hook = Hook::on_clone(|| {
            assert_pending!(task::spawn(tokio::time::advance(ms(5))).poll());
            assert!(task::spawn(advance(Duration::ZERO)).poll().is_pending());
        });
        let _ = poll(&mut sleep, &hook.waker());
        settle().await;
        assert_ready!(poll(&mut sleep, Waker::noop()));
        hook
    });
}
