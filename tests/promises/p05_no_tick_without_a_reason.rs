//! Promise 5, no tick without a reason: the driver parks until the next expiration.
//!
//! Far timers cost no CPU time and no context switches while the server is idle. Canceling never
//! wakes the driver.

use super::*;
use crate::support::parks_when_settled;

/// The worker runs nothing but the driver. So it would park once more after each wake of the
/// driver.
#[test]
fn later_registrations_and_cancellations_do_not_wake_the_driver() {
    does_not_hang(|| {
        let runtime = multi_thread(1);
        let _entered = runtime.enter();
        let (_, waker) = Wakes::new();
        let mut first = sleep(secs(1_800));
        assert_pending!(poll(&mut first, &waker));
        let parks = parks_when_settled(&runtime);
        let wakeups = Timer::current().metrics().driver_wakeups();

        for n in 0..100_000 {
            let mut later = sleep(secs(1_800) + ms(n));
            assert_pending!(poll(&mut later, &waker));
            if n % 3 == 0 {
                let deadline = later.deadline() + secs(60);
                Pin::new(&mut later).reset(deadline);
            }
            drop(later);
        }
        assert_eq!(parks_when_settled(&runtime), parks);
        assert_eq!(Timer::current().metrics().driver_wakeups(), wakeups);

        // Even a cancellation of the earliest timer does not wake the driver.
        drop(first);
        assert_eq!(parks_when_settled(&runtime), parks);
    });
}

#[test]
fn pending_far_timers_cost_nothing_while_idle() {
    does_not_hang(|| {
        let runtime = multi_thread(1);
        let _entered = runtime.enter();
        let (_, waker) = Wakes::new();
        let mut sleeps: Vec<_> = (0..200_000).map(|n| sleep(secs(1_800 + n))).collect();
        for sleep in &mut sleeps {
            assert_pending!(poll(sleep, &waker));
        }
        let parks = parks_when_settled(&runtime);
        let wakeups = Timer::current().metrics().driver_wakeups();
        thread::sleep(ms(200));
        assert_eq!(runtime.metrics().worker_park_count(0), parks);
        assert_eq!(Timer::current().metrics().driver_wakeups(), wakeups);
    });
}

/// Each timer of a burst is earlier than the timer before it, and all are canceled. The burst costs
/// one wake-up, when the earliest timer would have expired.
#[test]
fn cancelled_timers_cost_one_wake_up_at_most() {
    paused().block_on(async {
        let mut sleeps: Vec<_> = (10..1_000)
            .rev()
            .map(|n| task::spawn(sleep(ms(n))))
            .collect();
        for sleep in &mut sleeps {
            assert_pending!(sleep.poll());
        }
        settle().await;
        drop(sleeps);
        let before = Timer::current().metrics().driver_wakeups();
        tokio::time::sleep(secs(3_600)).await;
        let wakeups = Timer::current().metrics().driver_wakeups() - before;
        assert!(wakeups <= 1, "{wakeups} wake-ups without a timer to fire");
    });
}
