//! `cancel` works once, and only before the start.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_cancelled_task_never_runs() {
    let scheduler = Scheduler::new();
    let (runs, drops) = (Count::default(), Count::default());
    let (run, held) = (runs.clone(), drops.on_drop());
    let task = scheduler.schedule(ms(5), async move {
        run.add();
        drop(held);
    });
    let task = task.unwrap();
    assert!(task.cancel());
    assert_eq!(drops.get(), 1, "it is dropped when cancel returns");
    assert_eq!(scheduler.pending(), 0);
    assert!(!task.cancel(), "only once");
    assert!(task.is_cancelled() && !task.is_started());
    sleep(ms(10)).await;
    assert!(result(task).await.unwrap_err().is_cancelled());
    assert_eq!((runs.get(), drops.get()), (0, 1));
}

/// The handle shows the cancellation, and wakes the awaiting task, after the task has dropped everything
/// that it held. A drop that panics changes nothing.
#[tokio::test(start_paused = true)]
async fn whoever_learns_of_it_finds_nothing_left_of_the_task() {
    for panics in [false, true] {
        let handle = Arc::new(OnceLock::<ScheduledTask<()>>::new());
        let drops = Count::default();
        let held = OnDrop::new({
            let (handle, drops) = (handle.clone(), drops.clone());
            move || {
                let task = handle.get().unwrap();
                assert!(!task.is_cancelled() && !task.is_finished());
                assert!(!task.cancel(), "another call cancels it");
                drops.add();
                if panics {
                    quiet_panic();
                }
            }
        });
        let mut task = Scheduler::new()
            .schedule(ms(5), async move { drop(held) })
            .unwrap();
        let (found, finds) = mpsc::channel();
        let looks = drops.clone();
        let hook = Hook::on_wake(move || found.send(looks.get()).unwrap());
        assert_pending!(poll(&mut task, &hook.waker()));
        handle.set(task).unwrap();
        let task = handle.get().unwrap();
        let cancelled = catch_unwind(AssertUnwindSafe(|| task.cancel()));
        assert_eq!(cancelled.ok(), (!panics).then_some(true));
        assert_eq!((drops.get(), finds.try_recv()), (1, Ok(1)));
        assert!(task.is_cancelled() && task.is_finished());
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_has_started_is_not_cancelled() {
    let task = Scheduler::new().schedule(ms(5), sleep(ms(10))).unwrap();
    sleep(ms(6)).await;
    assert!(!task.cancel(), "it runs");
    assert!(!task.is_cancelled());
    sleep(ms(10)).await;
    assert!(!task.cancel(), "it has ended");
    assert!(!task.is_cancelled());
    output(task).await;
}

/// A run counts as started when the driver has spawned it, even before its first poll.
#[tokio::test(start_paused = true)]
async fn a_task_that_was_spawned_has_started() {
    let scheduler = Scheduler::new();
    let second = Arc::new(OnceLock::new());
    let seen = second.clone();
    let first = scheduler.schedule(ms(5), async move {
        let second: &ScheduledTask<u32> = seen.get().unwrap();
        (second.is_started(), second.is_finished(), second.cancel())
    });
    let task = scheduler.schedule(ms(5), async { 7 }).unwrap();
    second.set(task).unwrap();
    assert_eq!(output(first.unwrap()).await, (true, false, false));
}

/// A task can be canceled after its deadline, until the driver has fired it.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_due_is_cancelled_in_time() {
    let scheduler = Scheduler::new();
    let task = scheduler.schedule(ms(5), async {}).unwrap();
    assert_pending!(task::spawn(tokio::time::advance(ms(50))).poll());
    assert!(task.cancel());
    settle().await;
    assert!(result(task).await.unwrap_err().is_cancelled());
    let at_once = scheduler.schedule(Duration::ZERO, async {}).unwrap();
    assert!(at_once.cancel());
    settle().await;
    assert!(!at_once.is_started());
}
