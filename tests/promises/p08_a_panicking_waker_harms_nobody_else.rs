//! Promise 8, a panicking waker harms no other timer. The simulation of `src/timer` has wakers that panic when they are
//! cloned, and at the end of the timer.

use super::*;

/// Fires a storm with some panicking wakers, by the driver or by `advance`.
fn the_others_fire(panics: fn() -> Arc<Hook>, by_advance: bool) {
    does_not_hang(move || {
        let runtime = paused();
        let (wakes, waker) = Wakes::new();
        let entered = runtime.enter();
        let deadline = Instant::now() + ms(5);
        let mut hooks = Vec::new();
        let mut sleeps = Vec::new();
        for n in 0..1_000 {
            let hook = (n % 10 == 0).then(panics);
            let waker = hook.as_ref().map_or(waker.clone(), |hook| hook.waker());
            sleeps.push(registered(sleep_until(deadline), &waker));
            hooks.extend(hook);
        }
        let timer = Timer::current();
        drop(entered);
        match by_advance {
            false => runtime.block_on(async { tokio::time::sleep(ms(20)).await }),
            true => runtime.block_on(advance(ms(20))),
        }
        assert!(hooks.iter().all(|hook| hook.has_run()));
        assert_eq!(wakes.count(), 900);
        // The sleeps have fired. They were not woken by the end of the timer.
        assert!(!timer.is_shutdown());
        assert_eq!(timer.metrics().fired(), 1_000);
        // The driver still fires timers.
        runtime.block_on(async {
            let start = Instant::now();
            sleep(ms(7)).await;
            assert_eq!(start.elapsed(), ms(7));
        });
        assert_eq!(timer.metrics().fired(), 1_001);
    });
}

#[test]
fn when_wake_panics() {
    for by_advance in [false, true] {
        the_others_fire(|| Hook::on_wake(|| panic!("hostile")), by_advance);
    }
}

#[test]
fn when_the_payload_panics_in_turn() {
    let panics = || Hook::on_wake(|| std::panic::panic_any(PanicsOnDrop));
    the_others_fire(panics, false);
}

#[test]
fn when_the_drop_of_a_woken_waker_panics() {
    the_others_fire(|| Hook::on_drop(|| panic!("hostile")), false);
}
