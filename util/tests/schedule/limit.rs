//! `Builder::max_pending`: which tasks are refused, and which entries count. `accounting` tests races.

use super::*;

/// Returns how many more tasks `scheduler` accepts. Cancels the tasks that it has scheduled to find out.
pub(super) fn room(scheduler: &Scheduler) -> usize {
    let taken = std::iter::from_fn(|| scheduler.schedule(secs(3_600), async {}).ok());
    let taken: Vec<_> = taken.take(10_000).collect();
    for task in &taken {
        assert!(task.cancel());
    }
    taken.len()
}

#[tokio::test(start_paused = true)]
async fn what_is_beyond_the_limit_is_refused() {
    let scheduler = limited(10);
    assert_eq!(room(&scheduler), 10);
    let tasks = [(); 10].map(|()| scheduler.schedule(secs(1), async {}).unwrap());
    let now = Instant::now();
    let refusals = [
        scheduler.schedule(secs(1), async {}).is_err(),
        scheduler.schedule(Duration::ZERO, async {}).is_err(),
        scheduler.schedule_at(now, async {}).is_err(),
        scheduler
            .schedule_at_fixed_rate(secs(1), secs(1), || async {})
            .is_err(),
        scheduler
            .schedule_with_fixed_delay(secs(1), secs(1), || async {})
            .is_err(),
    ];
    assert_eq!(refusals, [true; 5]);
    // Neither call was counted.
    assert_eq!(scheduler.pending(), 10);
    assert_eq!(room(&scheduler), 0);
    drop(tasks);
    assert_eq!(room(&scheduler), 0, "they are detached");
}

/// A refused task leaves nothing behind except in the error.
#[tokio::test(start_paused = true)]
async fn a_refused_task_is_not_kept() {
    let scheduler = limited(1);
    let _first = scheduler.schedule(secs(1), async {}).unwrap();
    let drops = Count::default();
    let held = drops.on_drop();
    let refused = scheduler
        .schedule(secs(1), async move { held })
        .unwrap_err();
    assert_eq!((refused.is_full(), refused.is_shutdown()), (true, false));
    assert_message(&refused, &["max_pending is 1"]);
    assert_eq!(drops.get(), 0);
    drop(refused.into_inner());
    assert_eq!(drops.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn cancelling_and_firing_make_room() {
    let scheduler = limited(10);
    let tasks: [_; 10] = std::array::from_fn(|n| {
        scheduler
            .schedule(ms(10 * (n as u64 + 1)), sleep(secs(1)))
            .unwrap()
    });
    assert_eq!(room(&scheduler), 0);
    assert!(tasks[9].cancel());
    assert_eq!(room(&scheduler), 1);
    assert!(!tasks[9].cancel());
    assert_eq!(room(&scheduler), 1);
    sleep(ms(35)).await;
    assert_eq!(room(&scheduler), 4, "running tasks do not count");
    sleep(secs(2)).await;
    assert_eq!(room(&scheduler), 10);
    drop(tasks);
    assert_eq!(room(&scheduler), 10);
}

/// A periodic task counts while it waits, but later runs are not refused. So the count may exceed the limit.
#[tokio::test(start_paused = true)]
async fn the_next_run_of_a_periodic_task_is_never_refused() {
    let scheduler = limited(2);
    let beat = scheduler.schedule_at_fixed_rate(ms(10), ms(10), || sleep(ms(4)));
    let beat = beat.unwrap();
    assert_eq!(room(&scheduler), 1);
    sleep(ms(12)).await;
    assert_eq!(room(&scheduler), 2, "while it runs");
    let others = [(); 2].map(|()| scheduler.schedule(secs(1), async {}).unwrap());
    sleep(ms(5)).await;
    assert_eq!(scheduler.pending(), 3);
    assert_eq!(room(&scheduler), 0);
    assert!(others[0].cancel());
    assert_eq!(room(&scheduler), 0);
    assert!(others[1].cancel());
    assert_eq!(room(&scheduler), 1);
    assert!(beat.cancel());
    assert_eq!(room(&scheduler), 2);
}
