//! Promise 5, no tick without a reason: the driver parks until the next expiration. Canceling never wakes it.

use super::*;
use crate::support::parks_when_settled;

/// Neither later registrations nor 200,000 timers that wait nor cancellations wake the driver, alone on its worker.
#[test]
fn pending_far_timers_cost_nothing_while_idle() {
    does_not_hang(|| {
        let runtime = multi_thread(1);
        let _entered = runtime.enter();
        let first = pending_sleep(sleep(secs(1_800)));
        let now = || {
            let parks = parks_when_settled(&runtime);
            (parks, Timer::current().metrics().driver_wakeups())
        };
        let before = now();
        let (_, waker) = Wakes::new();
        let later = (0..200_000).map(|n| {
            let mut later = registered(sleep(secs(1_801) + ms(n)), &waker);
            if n % 3 == 0 {
                let deadline = later.deadline() + secs(60);
                Pin::new(&mut later).reset(deadline);
            }
            later
        });
        let later: Vec<_> = later.collect();
        assert_eq!((now(), now()), (before, before), "parks and wake-ups");
        // Even a cancellation of the earliest timer does not wake the driver.
        drop((first, later));
        assert_eq!(now(), before);
    });
}
