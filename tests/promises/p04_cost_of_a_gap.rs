//! Promise 4, O(1): advancing over a long gap costs the slots that the wheel visits, not the ticks
//! that pass.

use super::*;

/// Ten years are 2 * 10^13 ticks.
#[test]
fn ten_years_cost_slots_visited() {
    does_not_hang(|| {
        paused().block_on(async {
            let waits = [ms(1), secs(1), secs(3_600), secs(86_400), YEAR, 10 * YEAR];
            let mut sleeps = JoinSet::new();
            for wait in waits {
                sleeps.spawn(sleep(wait));
            }
            let start = Instant::now();
            while sleeps.join_next().await.is_some() {}
            assert_eq!(start.elapsed(), 10 * YEAR);

            // Each of the six entries cascades at most once per level. The wheel has 11 levels.
            let wakeups = Timer::current().metrics().driver_wakeups();
            assert!(wakeups <= 6 * 11, "{wakeups} wake-ups");
        });
    });
}

#[test]
fn one_leap_over_ten_years_fires_all_that_lies_between() {
    does_not_hang(|| {
        paused().block_on(async {
            let mut sleeps: Vec<_> = (1..=1_000)
                .map(|n| task::spawn(sleep(10 * YEAR / n)))
                .collect();
            for sleep in &mut sleeps {
                assert_pending!(sleep.poll());
            }
            let before = Timer::current().metrics().driver_wakeups();
            advance(10 * YEAR).await;
            assert!(sleeps.iter().all(|sleep| sleep.is_woken()));
            settle().await;
            let wakeups = Timer::current().metrics().driver_wakeups() - before;
            assert!(wakeups <= 2, "{wakeups} wake-ups for one leap");
        });
    });
}
