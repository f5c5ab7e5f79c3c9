//! User code that panics harms no other task, and the handle of its own task returns the right result.

use super::*;

/// Schedules ten hostile tasks and ninety others for one time. The others must run, and the driver must continue.
fn the_others_run<T: Send + 'static>(
    hostile: impl Fn(&Scheduler, Duration) -> ScheduledTask<T> + Send + 'static,
    and_then: impl Fn(ScheduledTask<T>) + Send + 'static,
) {
    does_not_hang(move || {
        paused().block_on(async {
            let scheduler = limited(200);
            let runs = Count::default();
            let mut hostiles = Vec::new();
            for n in 0..100 {
                if n % 10 == 0 {
                    hostiles.push(hostile(&scheduler, ms(5)));
                } else {
                    let runs = runs.clone();
                    let run = async move { runs.add() };
                    drop(scheduler.schedule(ms(5), run).unwrap());
                }
            }
            sleep(ms(50)).await;
            assert_eq!(runs.get(), 90);
            hostiles.into_iter().for_each(&and_then);
            assert_eq!(limit::room(&scheduler), 200);
            assert_eq!(
                output(scheduler.schedule(ms(5), async { 7 }).unwrap()).await,
                7
            );
            assert!(!scheduler.is_shutdown());
            assert_eq!(alive(), 1, "the driver");
        });
    });
}

fn ended<T: 'static>(mut task: ScheduledTask<T>) -> Result<T, TaskError> {
    assert!(task.is_finished());
    assert_ready!(poll(&mut task, Waker::noop()))
}

fn is_panic<T: 'static>(task: ScheduledTask<T>) {
    assert!(ended(task).err().unwrap().is_panic());
}

#[test]
fn when_a_run_panics() {
    let hostile = |scheduler: &Scheduler, delay| {
        let task = scheduler.schedule(delay, async { quiet_panic() });
        task.unwrap()
    };
    the_others_run(hostile, is_panic);
}

/// The payload of the panic also panics when the handle or the error drops it. A `CancelHandle` does not keep it.
#[test]
fn when_a_panics_payload_panics() {
    let hostile = |scheduler: &Scheduler, delay| {
        let run: Run = Box::pin(async { resume_unwind(Box::new(PanicsOnDrop)) });
        scheduler.schedule(delay, run).unwrap()
    };
    the_others_run(hostile, |task| {
        let error = ended(task).err().unwrap();
        assert!(error.is_panic());
        assert!(catch_unwind(AssertUnwindSafe(|| drop(error))).is_err());
    });
    the_others_run(hostile, |task| {
        assert!(catch_unwind(AssertUnwindSafe(|| drop(task))).is_err());
    });
    the_others_run(detached(hostile), drop);
}

/// Drops the handle of each hostile task, apart from its `CancelHandle`. Returns another task.
fn detached<T>(
    hostile: impl Fn(&Scheduler, Duration) -> ScheduledTask<T> + Send + 'static,
) -> impl Fn(&Scheduler, Duration) -> ScheduledTask<()> + Send + 'static {
    move |scheduler, delay| {
        let handle = hostile(scheduler, delay).cancel_handle();
        let task = scheduler.schedule(delay, async move { drop(handle) });
        task.unwrap()
    }
}

#[test]
fn when_a_future_panics_as_it_is_dropped_after_its_run() {
    let hostile = |scheduler: &Scheduler, delay| {
        let held = PanicsOnDrop;
        let run = std::future::poll_fn(move |_| {
            let _future_holds = &held;
            Poll::Ready(7)
        });
        scheduler.schedule(delay, run).unwrap()
    };
    the_others_run(hostile, is_panic);
}

/// The run is ready, its future panics as it is dropped, and then the output does.
#[test]
fn when_a_future_and_its_output_panic_as_they_are_dropped() {
    let hostile = |scheduler: &Scheduler, delay| {
        let on_drop = PanicsOnDrop;
        let run = std::future::poll_fn(move |_| {
            let _owned = &on_drop;
            Poll::Ready(PanicsOnDrop)
        });
        scheduler.schedule(delay, run).unwrap()
    };
    the_others_run(hostile, is_panic);
}

/// The output panics in the caller that drops the handle. Without a handle it panics in the run.
#[test]
fn when_an_output_panics_as_it_is_dropped() {
    let hostile =
        |scheduler: &Scheduler, delay| scheduler.schedule(delay, async { PanicsOnDrop }).unwrap();
    the_others_run(hostile, |task| {
        assert!(catch_unwind(AssertUnwindSafe(|| drop(task))).is_err());
    });
    the_others_run(detached(hostile), drop);
}

#[test]
fn when_a_closure_panics_as_it_is_dropped() {
    let hostile = |scheduler: &Scheduler, delay| {
        let held = PanicsOnDrop;
        let make = move || {
            let _closure_holds = &held;
            async { ControlFlow::Break(()) }
        };
        let task = scheduler.schedule_at_fixed_rate(delay, ms(1), make);
        task.unwrap()
    };
    the_others_run(hostile, is_panic);
}

/// A periodic task that is canceled during a run drops its closure after the run.
#[test]
fn when_a_cancelled_periodic_task_panics_as_it_is_dropped() {
    let hostile = |scheduler: &Scheduler, delay| {
        let handle = Arc::new(OnceLock::<ScheduledTask<_>>::new());
        let held = PanicsOnDrop;
        let make = {
            let handle = handle.clone();
            move || {
                let _closure_holds = &held;
                assert!(handle.get().unwrap().cancel());
                async {}
            }
        };
        let task = scheduler.schedule_at_fixed_rate(delay, ms(1), make);
        handle.set(task.unwrap()).ok();
        let waits = scheduler.schedule(delay, async move {
            while !handle.get().unwrap().is_finished() {
                yield_now().await;
            }
        });
        waits.unwrap()
    };
    the_others_run(hostile, drop);
}

/// Every end of a task catches a waker that panics. `ground::waker` tests a waker that panics when it is cloned or dropped.
#[test]
fn when_a_waker_panics_as_it_is_woken() {
    for end in ["its run", "cancel", "shutdown", "end of the runtime"] {
        does_not_hang(move || {
            let (runtime, (wakes, waker)) = (paused(), Wakes::new());
            let (scheduler, mut tasks) = runtime.block_on(async {
                let scheduler = Scheduler::new();
                let tasks = [(); 2].map(|()| scheduler.schedule(ms(5), async {}).unwrap());
                (scheduler, tasks)
            });
            let hostile = Hook::on_wake(quiet_panic);
            assert_pending!(poll(&mut tasks[0], &hostile.waker()));
            assert_pending!(poll(&mut tasks[1], &waker));
            match end {
                "its run" => runtime.block_on(async { sleep(ms(10)).await }),
                "cancel" => assert!(tasks.iter().all(ScheduledTask::cancel)),
                "shutdown" => assert_eq!(scheduler.shutdown().len(), 2),
                _ => drop(runtime),
            }
            assert!(hostile.has_run() && wakes.count() == 1, "{end}");
            for task in tasks {
                match (end, ended(task)) {
                    ("its run", result) => result.unwrap(),
                    ("cancel", result) => assert!(result.unwrap_err().is_cancelled()),
                    (_, result) => assert!(result.unwrap_err().is_shutdown()),
                }
            }
        });
    }
}

/// The run panics, and then its future as it is dropped.
#[tokio::test(start_paused = true)]
async fn of_two_panics_the_first_is_the_cause() {
    let held = PanicsOnDrop;
    let run = std::future::poll_fn(move |_| -> Poll<()> {
        let _future_holds = &held;
        std::panic::resume_unwind(Box::new("poll"))
    });
    let error = Scheduler::new().schedule(ms(5), run).unwrap().await;
    let cause = error.unwrap_err().into_panic();
    assert_eq!(cause.downcast_ref(), Some(&"poll"));
}
