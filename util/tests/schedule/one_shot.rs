//! Tasks that run once: their times, their runtime, and their entries.

use super::*;

const TICKS: [Duration; 5] = [
    Duration::from_nanos(1),
    Duration::from_nanos(15_625),
    ms(1),
    ms(70),
    secs(3_600),
];

/// A deadline that has passed is not rounded, so the task runs at once with every tick.
#[tokio::test(start_paused = true)]
async fn a_deadline_that_has_passed_is_due_at_once() {
    for tick in TICKS {
        let scheduler = with_tick(tick);
        // The time is not the start of a tick.
        sleep(ms(1) + tick / 3).await;
        // The driver is armed for this task.
        let later = scheduler.schedule(tick / 4, pending::<()>()).unwrap();
        settle().await;
        let now = Instant::now();
        let passed = [now, now - ms(1), now - secs(1), now - secs(100_000_000)];
        let tasks = passed.map(|deadline| {
            let task = scheduler.schedule_at(deadline, async { Instant::now() });
            let task = task.unwrap();
            assert_eq!(task.deadline(), deadline);
            task
        });
        let at_once = scheduler.schedule(Duration::ZERO, async { Instant::now() });
        let in_the_callers_frame = tasks.iter().any(ScheduledTask::is_finished);
        assert!(!in_the_callers_frame);
        for task in tasks.into_iter().chain([at_once.unwrap()]) {
            assert_eq!(output(task).await, now, "with a tick of {tick:?}");
        }
        drop(later);
    }
}

#[test]
fn a_task_runs_on_the_timers_runtime_wherever_it_is_scheduled() {
    does_not_hang(|| {
        let (home, other) = (multi_thread(1), multi_thread(1));
        let scheduler = home.block_on(async { Scheduler::new() });
        let id = home.handle().id();
        let runs_at_home = move || {
            let run = async { (Handle::current().id(), Instant::now()) };
            let task = scheduler.schedule(ms(2), run).unwrap();
            async move {
                let deadline = task.deadline();
                let (runtime, started) = task.await.unwrap();
                assert_eq!(runtime, id);
                assert!(started >= deadline);
            }
        };
        let on_a_plain_thread = runs_at_home.clone();
        let plain = thread::spawn(move || tokio_test::block_on(on_a_plain_thread()));
        plain.join().unwrap();
        let on_another_runtime = async move { runs_at_home().await };
        other.block_on(other.spawn(on_another_runtime)).unwrap();
    });
}

/// A task is an entry until its deadline, then a tokio task, and then it is freed.
#[tokio::test(start_paused = true)]
async fn a_tokio_task_exists_for_the_run_alone() {
    let scheduler = Scheduler::new();
    let driver = alive();
    for n in 0..100 {
        drop(scheduler.schedule(ms(10 + n % 2), sleep(ms(50))));
    }
    sleep(ms(9)).await;
    assert_eq!(alive(), driver);
    assert_eq!(scheduler.pending(), 100);
    sleep(ms(1)).await;
    settle().await;
    assert_eq!(alive(), driver + 50);
    sleep(ms(1)).await;
    settle().await;
    assert_eq!(alive(), driver + 100);
    assert_eq!(scheduler.pending(), 0);
    sleep(ms(55)).await;
    assert_eq!(alive(), driver);
}
