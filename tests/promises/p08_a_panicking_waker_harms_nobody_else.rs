//! Promise 8, a panicking waker harms no other timer: the other timers of its batch still fire, and
//! the driver continues.

use super::*;

fn the_others_fire(panics: fn() -> Arc<Hook>, drive: fn(&Runtime)) {
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
        drive(&runtime);
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

fn by_the_driver(runtime: &Runtime) {
    runtime.block_on(async { tokio::time::sleep(ms(20)).await });
}

fn by_advance(runtime: &Runtime) {
    runtime.block_on(advance(ms(20)));
}

#[test]
fn when_wake_panics() {
    the_others_fire(|| Hook::on_wake(|| panic!("hostile")), by_the_driver);
    the_others_fire(|| Hook::on_wake(|| panic!("hostile")), by_advance);
}

#[test]
fn when_the_payload_panics_in_turn() {
    let panics = || Hook::on_wake(|| std::panic::panic_any(PanicsOnDrop));
    the_others_fire(panics, by_the_driver);
}

#[test]
fn when_the_drop_of_a_woken_waker_panics() {
    the_others_fire(|| Hook::on_drop(|| panic!("hostile")), by_the_driver);
}

#[test]
fn when_a_waker_panics_at_the_end_of_the_runtime() {
    does_not_hang(|| {
        let (wakes, waker) = Wakes::new();
        let runtime = current_thread();
        let mut sleeps = Vec::new();
        let timer = runtime.block_on(async {
            for _ in 0..50 {
                let hostile = Hook::on_wake(|| panic!("hostile")).waker();
                sleeps.push(registered(sleep(secs(60)), &hostile));
                sleeps.push(registered(sleep(secs(60)), &waker));
            }
            Timer::current()
        });
        drop(runtime);
        assert_eq!(wakes.count(), 50);
        assert!(timer.is_shutdown());
    });
}

/// A waker that panics in the caller's frame panics to the caller, but breaks nothing.
#[test]
fn when_clone_panics_at_registration_the_sleep_can_be_polled_again() {
    does_not_hang(|| {
        let runtime = current_thread();
        let timer = runtime.block_on(async { Timer::builder().build().unwrap() });
        let mut sleep = timer.sleep(secs(60));
        let waker = Hook::on_clone(|| panic!("hostile")).waker();
        let poll_hostile = AssertUnwindSafe(|| poll(&mut sleep, &waker));
        assert!(catch_unwind(poll_hostile).is_err());
        // This poll happens outside any runtime. The sleep still belongs to its timer.
        let (_, waker) = Wakes::new();
        assert_pending!(poll(&mut sleep, &waker));
        assert_eq!(timer.metrics().pending(), 1);
    });
}
