//! Promise 14, a reset to a later deadline moves nothing. The entry moves when its old slot is due.

use super::*;

/// Returns the number of driver wake-ups in 2.5 s.
fn wakeups(has_other: bool, is_reset: bool) -> u64 {
    paused().block_on(async {
        let mut first = task::spawn(sleep(ms(100)));
        assert_pending!(first.poll());
        let mut other = task::spawn(sleep(secs(2)));
        if has_other {
            assert_pending!(other.poll());
        }
        if is_reset {
            other.enter(|_, other| other.reset(Instant::now() + YEAR));
        }
        tokio::time::sleep(ms(2_500)).await;
        assert!(first.is_woken());
        assert_eq!(other.is_woken(), has_other && !is_reset);
        Timer::current().metrics().driver_wakeups()
    })
}

/// The slot of a deadline in a year would not be due for days.
#[test]
fn the_entry_stays_in_its_old_slot_until_that_is_due() {
    let moved = wakeups(true, true);
    assert!(moved > wakeups(false, false), "the reset moved the entry");
    assert!(moved <= wakeups(true, false) + 1);
}

#[tokio::test(start_paused = true)]
async fn however_often_it_is_reset_it_is_visited_once_for_a_level() {
    let mut sleep = task::spawn(sleep(secs(2)));
    assert_pending!(sleep.poll());
    settle().await;
    let before = Timer::current().metrics().driver_wakeups();
    for _ in 0..10_000 {
        let deadline = sleep.deadline() + ms(1);
        sleep.enter(|_, sleep| sleep.reset(deadline));
    }
    settle().await;
    assert_eq!(Timer::current().metrics().driver_wakeups(), before);
    (&mut *sleep).await;
    let wakeups = Timer::current().metrics().driver_wakeups() - before;
    assert!(wakeups <= 12, "{wakeups} wake-ups");
    assert_eq!(Timer::current().metrics().registered(), 1);
}
