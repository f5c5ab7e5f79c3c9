//! Promise 8, a panicking waker harms no other timer: the other timers of its batch still fire, and
//! the driver continues.

use super::*;

fn the_others_fire(panics: fn() -> Arc<Hook>, drive: fn(&Runtime)) {
    does_not_hang(move || {
        let runtime = paused();
        let (wakes, waker) = Wakes::new();
        let deadline = runtime.block_on(async { Instant::now() }) + ms(5);
        let mut hooks = Vec::new();
        let mut sleeps: Vec<_> = (0..1_000).map(|_| sleep_until(deadline)).collect();
        let entered = runtime.enter();
        for (n, sleep) in sleeps.iter_mut().enumerate() {
            if n % 10 == 0 {
                let hook = panics();
                assert_pending!(poll(sleep, &hook.waker()));
                hooks.push(hook);
            } else {
                assert_pending!(poll(sleep, &waker));
            }
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
        let mut sleeps: Vec<_> = (0..100).map(|_| sleep(secs(60))).collect();
        let timer = runtime.block_on(async {
            for (n, sleep) in sleeps.iter_mut().enumerate() {
                let hostile = Hook::on_wake(|| panic!("hostile")).waker();
                let waker = if n % 2 == 0 { &hostile } else { &waker };
                assert_pending!(poll(sleep, waker));
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

/// A task polls a sleep while its runtime shuts down. The poll is pending, and tokio wakes the waker when it shuts
/// down its own timer.
#[test]
fn when_wake_panics_at_the_end_of_the_runtime() {
    struct PollsOnDrop(Sleep, Arc<Hook>, std::sync::mpsc::Sender<Sleep>);

    impl Drop for PollsOnDrop {
        fn drop(&mut self) {
            let mut sleep = std::mem::replace(&mut self.0, sleep(secs(60)));
            assert_pending!(poll(&mut sleep, &self.1.waker()));
            self.2.send(sleep).unwrap();
        }
    }

    does_not_hang(|| {
        let runtime = multi_thread(1);
        let hook = Hook::on_wake(|| panic!("hostile"));
        let (sender, kept) = std::sync::mpsc::channel();
        let polls = PollsOnDrop(sleep(secs(60)), hook.clone(), sender);
        runtime.spawn(async move {
            let _polls = polls;
            std::future::pending::<()>().await;
        });
        drop(runtime);
        assert_eq!(kept.iter().count(), 1);
        assert!(hook.has_run());
    });
}
