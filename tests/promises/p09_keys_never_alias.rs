//! Promise 9, keys never alias: a key has an index and a stamp, and a stale key names no entry.

use super::*;

/// New sleeps use the places of old sleeps, whose futures still hold their keys.
#[test]
fn stale_futures_do_not_touch_the_entries_in_their_places() {
    paused().block_on(coop::unconstrained(async {
        let thousand = |wait, waker: &Waker| -> Vec<_> {
            let sleeps = (0..1_000).map(|_| registered(sleep(wait), waker));
            sleeps.collect()
        };
        let stale = thousand(ms(1), &Wakes::new().1);
        advance(ms(1)).await;

        let (wakes, waker) = Wakes::new();
        let _fresh = thousand(ms(10), &waker);
        for (n, mut stale) in stale.into_iter().enumerate() {
            assert!(stale.is_elapsed());
            match n % 3 {
                0 => assert_ready!(poll(&mut stale, &waker)),
                1 => Pin::new(&mut stale).reset(Instant::now() + secs(5)),
                _ => {}
            }
        }
        assert_eq!(Timer::current().metrics().pending(), 1_000);
        advance(ms(10)).await;
        assert_eq!(wakes.count(), 1_000);
    }));
}

/// The entries of both timers have equal keys. The panic of a waker's clone ends the move halfway.
#[test]
fn a_future_that_has_not_moved_to_the_next_timer_does_not_touch_its_entries() {
    let (_, waker) = Wakes::new();
    let mut stale = sleep(secs(1_000));
    paused().block_on(async { assert_pending!(poll(&mut stale, &waker)) });
    paused().block_on(async {
        let mut fresh = registered(sleep(secs(500)), &waker);
        let hostile = Hook::on_clone(quiet_panic).waker();
        let moved = catch_unwind(AssertUnwindSafe(|| poll(&mut stale, &hostile)));
        assert!(moved.is_err());
        drop(stale);
        assert_pending!(poll(&mut fresh, &waker));
    });
}
