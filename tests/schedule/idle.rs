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

/// Each of them runs as a tokio task, and is freed.
#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_tasks_of_a_second_run() {
    let timer = built();
    let runs = Count::default();
    let start = Instant::now();
    for n in 0..100_000 {
        let runs = runs.clone();
        let deadline = start + ms(n % 1_000);
        let run = async move {
            assert!(Instant::now() >= deadline);
            runs.add();
        };
        drop(timer.schedule_at(deadline, run).unwrap());
    }
    sleep(secs(2)).await;
    assert_eq!(runs.get(), 100_000);
    assert_eq!((timer.metrics().fired(), alive()), (100_000, 1));
}
