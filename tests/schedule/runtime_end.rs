//! The end of a runtime, and the end of a timer without handles.

use super::*;

/// Returns a runtime of each kind.
fn runtimes() -> [tokio::runtime::Runtime; 2] {
    [current_thread(), multi_thread(2)]
}

#[test]
fn tasks_that_wait_are_dropped_with_the_runtime() {
    for runtime in runtimes() {
        does_not_hang(move || {
            let timer = runtime.block_on(async { built() });
            let (runs, drops) = (Count::default(), Count::default());
            let (wakes, waker) = Wakes::new();
            let mut tasks = Vec::new();
            for n in 0..100 {
                let (runs, held) = (runs.clone(), drops.on_drop());
                let mut task = if n % 2 == 0 {
                    let run = async move {
                        runs.add();
                        drop(held);
                    };
                    timer.schedule(secs(60), run).unwrap()
                } else {
                    let make = move || {
                        runs.add();
                        let _closure_holds = &held;
                        async { ControlFlow::<()>::Continue(()) }
                    };
                    let task = timer.schedule_at_fixed_rate(secs(60), secs(1), make);
                    task.unwrap()
                };
                assert_pending!(poll(&mut task, &waker));
                tasks.push(task);
            }
            drop(runtime);
            assert_eq!((runs.get(), drops.get(), wakes.count()), (0, 100, 100));
            for task in tasks {
                assert!(task.is_finished() && !task.is_started() && !task.cancel());
                let error = tokio_test::block_on(task).unwrap_err();
                assert!(error.is_shutdown(), "{error}");
            }
            assert_eq!(timer.metrics().pending(), 0);
        });
    }
}

#[test]
fn tasks_that_run_are_dropped_with_the_runtime() {
    for runtime in runtimes() {
        does_not_hang(move || {
            let timer = runtime.block_on(async { built() });
            let (started, mut start) = tokio::sync::mpsc::unbounded_channel();
            let drops = Count::default();
            let (wakes, waker) = Wakes::new();
            let mut tasks = Vec::new();
            for n in 0..20 {
                let (started, held) = (started.clone(), drops.on_drop());
                let mut task = if n % 2 == 0 {
                    let run = async move {
                        started.send(()).unwrap();
                        pending::<()>().await;
                        drop(held);
                    };
                    timer.schedule(Duration::ZERO, run).unwrap()
                } else {
                    let make = move || {
                        started.send(()).unwrap();
                        let _closure_holds = &held;
                        pending::<ControlFlow<()>>()
                    };
                    let task = timer.schedule_with_fixed_delay(Duration::ZERO, ms(1), make);
                    task.unwrap()
                };
                assert_pending!(poll(&mut task, &waker));
                tasks.push(task);
            }
            runtime.block_on(async {
                for _ in 0..20 {
                    start.recv().await.unwrap();
                }
            });
            drop(runtime);
            assert_eq!((drops.get(), wakes.count()), (20, 20));
            for task in tasks {
                assert!(task.is_finished() && task.is_started());
                let error = tokio_test::block_on(task).unwrap_err();
                assert!(error.is_shutdown(), "{error}");
            }
        });
    }
}

/// Deadlines expire while the runtime shuts down. Each task either runs or ends with the runtime.
#[test]
fn tasks_that_are_due_during_the_shutdown_are_not_lost() {
    does_not_hang(|| {
        for n in 0..200 {
            let runtime = multi_thread(2);
            let timer = runtime.block_on(async { built() });
            let tasks: Vec<_> = (0..50)
                .map(|n| timer.schedule(Duration::from_micros(n * 5), async { 7 }))
                .collect();
            dawdle(n);
            runtime.shutdown_background();
            for task in tasks {
                match tokio_test::block_on(task.unwrap()) {
                    Ok(output) => assert_eq!(output, 7),
                    Err(error) => assert!(error.is_shutdown(), "{error}"),
                }
            }
        }
    });
}

/// A periodic task runs until its runtime shuts down.
#[test]
fn a_periodic_task_ends_with_the_runtime() {
    does_not_hang(|| {
        for n in 0..100 {
            let runtime = multi_thread(2);
            let timer = runtime.block_on(async { built() });
            let drops = Count::default();
            let held = drops.on_drop();
            let make = move || {
                let _closure_holds = &held;
                yield_now()
            };
            let nanosecond = Duration::from_nanos(1);
            let task = timer.schedule_at_fixed_rate(Duration::ZERO, nanosecond, make);
            dawdle(n);
            runtime.shutdown_background();
            let error = tokio_test::block_on(task.unwrap()).unwrap_err();
            assert!(error.is_shutdown(), "{error}");
            wait_until(|| drops.get() > 0);
        }
    });
}

/// The runtime shuts down while its only worker is in a run. After it the task cannot wait for the next run.
#[test]
fn a_run_that_is_under_way_at_the_end_finds_one() {
    does_not_hang(|| {
        let runtime = multi_thread(1);
        let timer = runtime.block_on(async { built() });
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
        let task = timer.schedule_at_fixed_rate(Duration::ZERO, ms(1), make);
        let task = task.unwrap();
        start.recv().unwrap();
        runtime.shutdown_background();
        drop((start, goes_on));
        let error = tokio_test::block_on(task).unwrap_err();
        assert!(error.is_shutdown(), "{error}");
        wait_until(|| drops.get() > 0);
        assert!(timer.is_shutdown());
    });
}

#[tokio::test(start_paused = true)]
async fn tasks_keep_a_timer_without_handles_going() {
    let before = alive();
    let start = Instant::now();
    let timer = built();
    let task = timer.schedule(ms(5), async move { start.elapsed() });
    let (task, ran) = (task.unwrap(), Count::default());
    let detached = ran.clone();
    drop(timer.schedule(ms(9), async move { detached.add() }));
    drop(timer);
    assert_eq!(output(task).await, ms(5));
    assert_eq!((alive(), ran.get()), (before + 1, 0));
    sleep(ms(9)).await;
    assert_eq!((alive(), ran.get()), (before, 1), "the driver has ended");
}

/// A timer without handles ends with its last task.
#[tokio::test(start_paused = true)]
async fn a_timer_ends_with_its_last_task() {
    let before = alive();
    drop(built().schedule(ms(5), sleep(ms(10))));
    sleep(ms(7)).await;
    assert_eq!(alive(), before + 2, "the driver and the run");
    sleep(ms(10)).await;
    assert_eq!(alive(), before);

    let task = built().schedule(secs(60), async {}).unwrap();
    settle().await;
    assert_eq!(alive(), before + 1);
    task.cancel();
    drop(task);
    settle().await;
    assert_eq!(alive(), before);
}

/// The handle of a task that has ended keeps the result, but no timer.
#[tokio::test(start_paused = true)]
async fn the_handle_of_a_task_that_has_ended_keeps_no_timer_alive() {
    let before = alive();
    let once = built().schedule(ms(5), async { 7 }).unwrap();
    let panics = built().schedule(ms(5), async { quiet_panic() }).unwrap();
    let periodic = built().schedule_at_fixed_rate(ms(5), ms(5), || async { ControlFlow::Break(7) });
    let in_its_run = built().schedule_with_fixed_delay(ms(5), ms(5), || sleep(ms(3)));
    let (periodic, in_its_run) = (periodic.unwrap(), in_its_run.unwrap());
    let waits = built().schedule(ms(9), async { 7 }).unwrap();
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

/// A handle returns the result after the timer and the runtime have been dropped.
#[test]
fn a_result_outlives_the_runtime() {
    let runtime = paused();
    let entered = runtime.enter();
    let task = built().schedule(ms(1), async { 7 }).unwrap();
    drop(entered);
    runtime.block_on(async { sleep(ms(2)).await });
    drop(runtime);
    assert_eq!(tokio_test::block_on(task).unwrap(), 7);
}

/// A value whose drop waits for a thread.
struct Joins(Option<thread::JoinHandle<()>>);

impl Drop for Joins {
    fn drop(&mut self) {
        // The thread panics, because its timer has shut down.
        let _ = self.0.take().unwrap().join();
    }
}

/// The end of the runtime drops tasks after it has woken all sleeps. So a drop may wait for such a sleep.
#[test]
fn what_a_task_held_may_wait_for_a_sleep_of_the_same_timer() {
    const EACH: usize = 8;
    for runtime in runtimes() {
        does_not_hang(move || {
            let build = async { Timer::builder().shards(4).build().unwrap() };
            let timer = runtime.block_on(build);
            for _ in 0..EACH {
                let sleep = timer.sleep(secs(3_600));
                let waits = Joins(Some(thread::spawn(|| tokio_test::block_on(sleep))));
                let task = timer.schedule(secs(60), async move { drop(waits) });
                drop(task.unwrap());
            }
            wait_until(|| timer.metrics().pending() == 2 * EACH as u64);
            drop(runtime);
            assert_eq!(timer.metrics().pending(), 0);
        });
    }
}

/// The handle shows the end after the task has dropped everything that it held.
#[test]
fn what_a_task_held_is_gone_when_its_end_is_known() {
    for runtime in runtimes() {
        let timer = runtime.block_on(async { built() });
        let drops = Count::default();
        let held = drops.on_drop();
        let run = async move { drop(held) };
        let mut task = timer.schedule(secs(60), run).unwrap();
        let (wakes, after) = (Count::default(), Count::default());
        let on_wake = {
            let (wakes, after, drops) = (wakes.clone(), after.clone(), drops.clone());
            move || {
                wakes.add();
                if drops.get() == 1 {
                    after.add();
                }
            }
        };
        assert_pending!(poll(&mut task, &Hook::on_wake(on_wake).waker()));
        drop(runtime);
        assert_eq!((wakes.get(), after.get()), (1, 1));
    }
}
