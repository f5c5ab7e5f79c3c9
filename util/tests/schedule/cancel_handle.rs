//! `CancelHandle`, which cancels a task of any output.

use std::collections::HashMap;

use tokio_wheel_util::schedule::CancelHandle;

use super::*;

#[tokio::test(start_paused = true)]
async fn tasks_of_different_outputs_share_a_map() {
    let scheduler = Scheduler::new();
    let number = scheduler.schedule(ms(10), async { 7 }).unwrap();
    let text = scheduler.schedule(ms(10), async { "seven" }).unwrap();
    let (make, runs, drops) = counted(yield_now);
    let beat = scheduler
        .schedule_at_fixed_rate(ms(10), ms(10), make)
        .unwrap();
    let handles: HashMap<&str, CancelHandle> = HashMap::from([
        ("number", number.cancel_handle()),
        ("text", text.cancel_handle()),
        ("beat", beat.cancel_handle()),
    ]);
    assert!(handles["text"].cancel());
    assert!(!handles["text"].clone().cancel() && !text.cancel());
    assert!(result(text).await.unwrap_err().is_cancelled());

    assert_eq!(output(number).await, 7);
    assert!(!handles["number"].cancel(), "it has ended");

    sleep(ms(25)).await;
    assert!(handles["beat"].cancel());
    assert!(result(beat).await.unwrap_err().is_cancelled());
    assert_eq!((runs.get(), drops.get()), (3, 1));
}

/// The drop of the task's handle drops the output. Without a handle, the run drops its output before it ends.
#[tokio::test(start_paused = true)]
async fn it_keeps_no_output() {
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

/// A payload that panics as it is dropped harms no other task.
#[tokio::test(start_paused = true)]
async fn it_keeps_no_payload_of_a_panic() {
    let scheduler = Scheduler::new();
    let run = async { resume_unwind(Box::new(PanicsOnDrop)) };
    let run: Run = Box::pin(run);
    let handle = scheduler.schedule(ms(5), run).unwrap().cancel_handle();
    sleep(ms(10)).await;
    assert!(handle.is_finished() && !scheduler.is_shutdown());
    assert_eq!(
        output(scheduler.schedule(ms(5), async { 7 }).unwrap()).await,
        7
    );
}

#[tokio::test(start_paused = true)]
async fn it_keeps_no_future_closure_or_timer() {
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
    sleep(ms(20)).await;
    assert!(beat.cancel());
    sleep(ms(20)).await;
    assert_eq!(closures.get(), 1);

    drop(scheduler);
    settle().await;
    assert_eq!(alive(), before, "the driver has ended");
    assert!(handles.iter().all(CancelHandle::is_finished));
}
