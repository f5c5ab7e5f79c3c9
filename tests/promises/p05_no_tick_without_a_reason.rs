//! Promise 5, no tick without a reason: the driver parks until the next expiration. Canceling never wakes it.

use super::*;
use crate::support::parks_when_settled;

/// Gives `body` a function which asserts that the driver, alone on its worker, has not woken since the last call.
fn on_an_idle_worker(body: impl FnOnce(&mut dyn FnMut()) + Send + 'static) {
    does_not_hang(|| {
        let runtime = multi_thread(1);
        let _entered = runtime.enter();
        let mut before = None;
        body(&mut || {
            let parks = parks_when_settled(&runtime);
            let now = (parks, Timer::current().metrics().driver_wakeups());
            assert_eq!(*before.get_or_insert(now), now, "parks and wake-ups");
        });
    });
}

#[test]
fn later_registrations_and_cancellations_do_not_wake_the_driver() {
    on_an_idle_worker(|driver_sleeps| {
        let first = pending_sleep(sleep(secs(1_800)));
        driver_sleeps();
        let (_, waker) = Wakes::new();
        for n in 0..100_000 {
            let mut later = registered(sleep(secs(1_800) + ms(n)), &waker);
            if n % 3 == 0 {
                let deadline = later.deadline() + secs(60);
                Pin::new(&mut later).reset(deadline);
            }
        }
        driver_sleeps();
        // Even a cancellation of the earliest timer does not wake the driver.
        drop(first);
        driver_sleeps();
    });
}

#[test]
fn pending_far_timers_cost_nothing_while_idle() {
    on_an_idle_worker(|driver_sleeps| {
        let (_, waker) = Wakes::new();
        let sleeps = (0..200_000).map(|n| registered(sleep(secs(1_800 + n)), &waker));
        let _sleeps: Vec<_> = sleeps.collect();
        driver_sleeps();
        driver_sleeps();
    });
}
