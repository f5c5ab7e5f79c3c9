//! The handle as a future, and its methods.

use super::*;
use crate::support::{panics::assert_panics, until_another_task_runs};

#[tokio::test(start_paused = true)]
async fn a_handle_tells_how_far_its_task_is() {
    let told = |task: &ScheduledTask<_>| {
        let told = (task.is_started(), task.is_finished(), task.is_cancelled());
        let handle = task.cancel_handle();
        assert_eq!(handle.is_finished(), told.1);
        for debug in [format!("{task:?}"), format!("{handle:?}")] {
            assert!(debug.contains(&format!("is_started: {}", told.0)));
            assert!(debug.contains(&format!("is_cancelled: {}", told.2)));
        }
        told
    };
    let scheduler = Scheduler::new();
    let deadline = Instant::now() + ms(5);
    let mut task = scheduler.schedule_at(deadline, sleep(ms(10))).unwrap();
    assert_eq!(told(&task), (false, false, false));
    sleep(ms(6)).await;
    assert!(!task.cancel(), "it runs");
    assert_eq!(told(&task), (true, false, false), "it runs");
    sleep(ms(6)).await;
    assert!(!task.cancel(), "it has ended");
    assert_eq!(told(&task), (true, true, false), "it has ended");
    let (_, waker) = Wakes::new();
    assert_ready!(poll(&mut task, &waker)).unwrap();
    assert_eq!(told(&task), (true, true, false), "its result is taken");
    assert_eq!(task.deadline(), deadline);

    let task = scheduler.schedule(ms(5), sleep(ms(10))).unwrap();
    task.cancel();
    assert_eq!(told(&task), (false, true, true));

    let task = scheduler.schedule(ms(5), sleep(ms(10))).unwrap();
    drop(scheduler.shutdown());
    assert_eq!(told(&task), (false, true, false));
    assert!(task.deadline() > Instant::now());
}

/// The run and the closure of a periodic task are dropped before the handle shows the end.
#[tokio::test(start_paused = true)]
async fn whoever_awaits_finds_nothing_left_of_a_run() {
    let scheduler = Scheduler::new();
    for panics in [false, true] {
        let drops = Count::default();
        let end = move || {
            if panics {
                quiet_panic();
            }
        };
        let held = drops.on_drop();
        let once = async move {
            let _held = held;
            end();
        };
        let mut once = scheduler.schedule(ms(5), once).unwrap();
        let finds = looks(&mut once, &drops);
        sleep(ms(10)).await;
        assert_eq!(finds.try_recv(), Ok(1));

        let held = drops.on_drop();
        let make = move || {
            let _closure_holds = &held;
            async move {
                end();
                ControlFlow::Break(())
            }
        };
        let mut periodic = scheduler
            .schedule_at_fixed_rate(ms(5), ms(5), make)
            .unwrap();
        let finds = looks(&mut periodic, &drops);
        sleep(ms(10)).await;
        assert_eq!(finds.try_recv(), Ok(2));
    }
}

#[tokio::test(start_paused = true)]
async fn a_poll_after_the_result_panics_in_the_callers_frame() {
    let mut task = Scheduler::new().schedule(ms(1), async {}).unwrap();
    (&mut task).await.unwrap();
    let (_, waker) = Wakes::new();
    let mut cx = Context::from_waker(&waker);
    let expected = ["a `ScheduledTask` was polled after it was ready"];
    assert_panics(|| Pin::new(&mut task).poll(&mut cx), &expected);
    assert_panics(|| Pin::new(&mut task).poll(&mut cx), &expected);
    assert!(!task.cancel() && task.is_finished());
}

#[tokio::test(start_paused = true)]
async fn ready_handles_in_a_loop_let_others_run() {
    let scheduler = Scheduler::new();
    let task = |_| scheduler.schedule(ms(1), async {}).unwrap();
    let mut tasks: Vec<_> = (0..10_000).map(task).collect();
    sleep(ms(2)).await;
    until_another_task_runs(async || tasks.pop().unwrap().await.unwrap()).await;
}
