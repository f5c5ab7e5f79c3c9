//! `cancel` works once, and only before the start. `accounting` tests it on threads.

use tokio_wheel_util::schedule::CancelHandle;

use super::*;

/// The handle shows the cancellation after the task has dropped everything. A drop that panics changes nothing.
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
        let scheduler = limited(1);
        let mut task = scheduler
            .schedule(ms(5), async move { drop(held) })
            .unwrap();
        let finds = looks(&mut task, &drops);
        handle.set(task).unwrap();
        let task = handle.get().unwrap();
        let cancelled = catch_unwind(AssertUnwindSafe(|| task.cancel()));
        assert_eq!(cancelled.ok(), (!panics).then_some(true));
        assert_eq!((drops.get(), finds.try_recv()), (1, Ok(1)));
        assert!(task.is_cancelled() && task.is_finished());
        assert!(!task.is_started() && !task.cancel());
        assert_eq!((scheduler.pending(), limit::room(&scheduler)), (0, 1));
    }
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

/// A task can be canceled after its deadline, until the timer has fired it. A task without a delay starts at once.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_due_is_cancelled_in_time() {
    let scheduler = Scheduler::new();
    let task = scheduler.schedule(ms(5), async {}).unwrap();
    assert_pending!(task::spawn(tokio::time::advance(ms(50))).poll());
    assert!(task.cancel());
    settle().await;
    assert!(result(task).await.unwrap_err().is_cancelled());
    let at_once = scheduler.schedule(Duration::ZERO, async {}).unwrap();
    assert!(at_once.is_started() && !at_once.cancel());
    assert!(result(at_once).await.is_ok());
}

/// The drop of the task's handle drops the output. Without a handle, the run drops its output before it ends.
#[tokio::test(start_paused = true)]
async fn a_cancel_handle_keeps_no_output() {
    for detached in [true, false] {
        let drops = Count::default();
        let returned = drops.on_drop();
        let task = Scheduler::new()
            .schedule(ms(5), async move { returned })
            .unwrap();
        let handle = task.cancel_handle();
        let kept = (!detached).then_some(task);
        sleep(ms(10)).await;
        assert!(handle.is_finished());
        assert_eq!(drops.get(), usize::from(detached));
        drop(kept);
        assert_eq!(drops.get(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_handle_keeps_no_future_closure_or_timer() {
    let before = alive();
    let scheduler = Scheduler::new();
    let drops = Count::default();
    let once = |delay| {
        let held = drops.on_drop();
        let run = async move { drop(held) };
        scheduler.schedule(delay, run).unwrap().cancel_handle()
    };
    let handles = [once(ms(5)), once(secs(60))];
    sleep(ms(10)).await;
    assert_eq!(drops.get(), 1, "it has run");
    assert!(handles[1].cancel());
    assert_eq!(drops.get(), 2, "it was canceled");

    let (make, _, closures) = counted(yield_now);
    let task = scheduler
        .schedule_with_fixed_delay(ms(5), ms(5), make)
        .unwrap();
    let beat = task.cancel_handle();
    drop(task);
    sleep(ms(22)).await;
    assert!(beat.cancel() && !beat.cancel());
    assert_eq!(closures.get(), 1, "it waited");

    drop(scheduler);
    settle().await;
    assert_eq!(alive(), before, "the driver has ended");
    assert!(handles.iter().all(CancelHandle::is_finished));
}
