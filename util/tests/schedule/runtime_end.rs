//! The end of a runtime, and the end of a scheduler without handles.

use super::*;

/// Each handle shows the end after its task has dropped everything that it held.
#[test]
fn tasks_are_dropped_with_the_runtime() {
    for runtime in [current_thread(), multi_thread(2)] {
        does_not_hang(move || {
            let scheduler = runtime.block_on(async { Scheduler::new() });
            let (started, mut start) = tokio::sync::mpsc::unbounded_channel();
            let mut tasks = Vec::new();
            for n in 0..80 {
                // Half of the tasks wait, and the others run.
                let delay = if n % 4 < 2 { secs(60) } else { Duration::ZERO };
                // Some tasks panic when they are dropped.
                let drops = Count::default();
                let bomb = (n % 8 < 4).then(|| PanicsOnDrop);
                let (started, held) = (started.clone(), (drops.on_drop(), bomb));
                let mut task = if n % 2 == 0 {
                    let run = async move {
                        started.send(()).unwrap();
                        pending::<()>().await;
                        drop(held);
                    };
                    scheduler.schedule(delay, run).unwrap()
                } else {
                    let make = move || {
                        started.send(()).unwrap();
                        let _closure_holds = &held;
                        pending::<ControlFlow<()>>()
                    };
                    let task = scheduler.schedule_at_fixed_rate(delay, secs(1), make);
                    task.unwrap()
                };
                let finds = looks(&mut task, &drops);
                tasks.push((task, finds));
            }
            for _ in 0..40 {
                runtime.block_on(start.recv()).unwrap();
            }
            drop(runtime);
            assert!(start.try_recv().is_err(), "no other task has started");
            for (n, (task, finds)) in tasks.into_iter().enumerate() {
                assert_eq!(finds.try_iter().collect::<Vec<_>>(), [1]);
                assert_eq!(task.is_started(), n % 4 >= 2);
                assert!(task.is_finished() && !task.cancel());
                assert!(tokio_test::block_on(task).unwrap_err().is_shutdown());
            }
            assert_eq!(scheduler.pending(), 0);
        });
    }
}

/// The runtime shuts down while its only worker is in a run. After it the task cannot wait for the next run.
#[test]
fn a_run_that_is_under_way_at_the_end_finds_one() {
    does_not_hang(|| {
        let runtime = multi_thread(1);
        let scheduler = runtime.block_on(async { Scheduler::new() });
        let (started, start) = mpsc::channel();
        let (goes_on, go_on) = mpsc::channel::<()>();
        let drops = Count::default();
        let held = drops.on_drop();
        let make = move || {
            let _closure_holds = &held;
            // The test receives only the first message.
            let _ = started.send(());
            let _ = go_on.recv();
            async {}
        };
        let task = scheduler.schedule_at_fixed_rate(Duration::ZERO, ms(1), make);
        let task = task.unwrap();
        start.recv().unwrap();
        runtime.shutdown_background();
        drop((start, goes_on));
        let error = tokio_test::block_on(task).unwrap_err();
        assert!(error.is_shutdown(), "{error}");
        wait_until(|| drops.get() > 0);
        assert!(scheduler.is_shutdown());
    });
}

/// The scheduler's runtime has ended, or that of its timer. A task may still wait, so the scheduler is also full.
#[test]
fn a_scheduler_on_the_timer_of_another_runtime_refuses_tasks_after_either_end() {
    for timers_runtime_ends in [false, true] {
        let (home, other) = (current_thread(), current_thread());
        let timer = other.block_on(async { Timer::current() });
        let builder = Scheduler::builder().timer(&timer).max_pending(1);
        let scheduler = home.block_on(async { builder.build() });
        assert!(!scheduler.is_shutdown());
        drop(scheduler.schedule(secs(60), async {}).unwrap());
        let kept = match timers_runtime_ends {
            true => (home, drop(other)).0,
            false => (other, drop(home)).0,
        };
        assert!(scheduler.is_shutdown());
        for delay in [Duration::ZERO, secs(60)] {
            let refused = scheduler.schedule(delay, async {}).unwrap_err();
            assert!(refused.is_shutdown());
        }
        drop(kept);
        assert_eq!(scheduler.pending(), 0);
    }
}

/// The handle of a task that has ended keeps the result, but no scheduler.
#[tokio::test(start_paused = true)]
async fn the_handle_of_a_task_that_has_ended_keeps_no_timer_alive() {
    let before = alive();
    let once = Scheduler::new().schedule(ms(5), async { 7 }).unwrap();
    let panics = Scheduler::new()
        .schedule(ms(5), async { quiet_panic() })
        .unwrap();
    let periodic =
        Scheduler::new().schedule_at_fixed_rate(ms(5), ms(5), || async { ControlFlow::Break(7) });
    let in_its_run = Scheduler::new().schedule_with_fixed_delay(ms(5), ms(5), || sleep(ms(3)));
    let (periodic, in_its_run) = (periodic.unwrap(), in_its_run.unwrap());
    let waits = Scheduler::new().schedule(ms(9), async { 7 }).unwrap();
    settle().await;
    assert_eq!(alive(), before + 5, "the drivers");
    sleep(ms(6)).await;
    assert!(in_its_run.cancel() && waits.cancel());
    settle().await;
    assert_eq!(alive(), before + 2, "the last run, and its driver");
    sleep(ms(3)).await;
    assert_eq!(alive(), before);

    assert_eq!(output(once).await, 7);
    assert!(result(panics).await.unwrap_err().is_panic());
    assert_eq!(output(periodic).await, 7);
    assert!(result(in_its_run).await.unwrap_err().is_cancelled());
    assert!(result(waits).await.unwrap_err().is_cancelled());
}
