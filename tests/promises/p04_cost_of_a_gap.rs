//! Promise 4, O(1): advancing over a long gap costs the slots that the wheel visits, not the ticks that pass.

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
