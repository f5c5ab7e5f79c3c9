//! A million waiting tasks are entries of the wheel, and nothing else.

use super::*;
use crate::support::parks_when_settled;

const TASKS: u64 = 1_000_000;

/// No tokio task is alive for them, and the driver does not wake. The worker runs only the driver, so it
/// would park again after each wake.
#[test]
fn a_million_tasks_cost_nothing_while_they_wait() {
    does_not_hang(|| {
        let runtime = multi_thread(1);
        let timer = runtime.block_on(async { built() });
        let metrics = runtime.metrics();
        for n in 0..TASKS {
            drop(timer.schedule(secs(1_800 + n % 1_800), async {}).unwrap());
        }
        assert_eq!(timer.metrics().pending(), TASKS);
        assert_eq!(metrics.num_alive_tasks(), 1, "the driver");
        let parks = parks_when_settled(&runtime);
        let wakeups = timer.metrics().driver_wakeups();
        thread::sleep(ms(200));
        assert_eq!(metrics.worker_park_count(0), parks);
        assert_eq!(timer.metrics().driver_wakeups(), wakeups);
        let left = timer.shutdown();
        assert_eq!(left.len() as u64, TASKS);
        assert!(left.is_sorted_by_key(Unstarted::deadline));
    });
}

/// A million tasks are due in some months, and one task is due tomorrow. The driver wakes only for the one task.
#[tokio::test(start_paused = true)]
async fn the_driver_wakes_only_for_the_next_task() {
    const DAY: Duration = secs(86_400);
    let timer = built();
    for n in 0..1_000_000 {
        drop(timer.schedule(DAY * 300 + ms(n), async {}).unwrap());
    }
    settle().await;
    let before = timer.metrics().driver_wakeups();
    assert!(before <= 1, "{before} wake-ups for the first one");
    sleep(DAY).await;
    assert_eq!(timer.metrics().driver_wakeups(), before, "an idle day");

    let start = Instant::now();
    let purgatory = timer.schedule(DAY, async move { start.elapsed() });
    assert_eq!(output(purgatory.unwrap()).await, DAY);
    // Its deadline becomes the earliest, and the driver wakes for some levels of the wheel.
    let wakeups = timer.metrics().driver_wakeups() - before;
    assert!(wakeups <= 8, "{wakeups} wake-ups for one task in a day");
    assert_eq!(timer.metrics().pending(), 1_000_000);
}
