//! "**No tick without a reason.** The driver parks until the next expiration. 1,000,000 pending
//! far timers cost no CPU and no context switches while idle. Cancelling never wakes the driver."

use super::*;
use crate::support::parks_when_settled;

/// The worker has nothing to do but the driver: it would have to park once more whenever the
/// driver was woken, for whatever reason.
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

        // Not even the cancellation of the very timer that the driver is armed for.
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

/// A burst of ever earlier timers, cancelled, costs one wake-up when the earliest would have
/// been due, and none after that.
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
        assert!(wakeups <= 1, "{wakeups} wake-ups for nothing");
    });
}
