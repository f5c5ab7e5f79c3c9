//! User code that panics harms no other task, and the handle of its own task returns the right result.

use super::*;

/// Checks a hostile task after its time.
type Check = Box<dyn FnOnce() + Send>;
/// Schedules a hostile task.
type Hostile = fn(&Scheduler, Duration) -> Check;

fn ended<T: 'static>(mut task: ScheduledTask<T>) -> Result<T, TaskError> {
    assert!(task.is_finished());
    assert_ready!(poll(&mut task, Waker::noop()))
}

fn is_panic<T: Send + 'static>(task: ScheduledTask<T>) -> Check {
    Box::new(|| assert!(ended(task).err().unwrap().is_panic()))
}

fn panics_as_it_is_dropped<T: Send + 'static>(task: ScheduledTask<T>) -> Check {
    Box::new(|| assert!(catch_unwind(AssertUnwindSafe(|| drop(task))).is_err()))
}

/// Drops the handle, apart from its `CancelHandle`. Without a handle, an output or a payload panics in the run.
fn detached<T: Send + 'static>(task: ScheduledTask<T>) -> Check {
    let handle = task.cancel_handle();
    Box::new(move || assert!(handle.is_finished()))
}

/// A run that is ready with an output. Its future panics as it is dropped.
fn panics_after_its_run<T>(output: fn() -> T) -> impl Future<Output = T> {
    let held = PanicsOnDrop;
    std::future::poll_fn(move |_| {
        let _future_holds = &held;
        Poll::Ready(output())
    })
}

/// The payload of this panic also panics when it is dropped.
async fn payload() {
    resume_unwind(Box::new(PanicsOnDrop));
}

const HOSTILE: [(&str, Hostile); 10] = [
    ("a run panics", |scheduler, delay| {
        is_panic(scheduler.schedule(delay, async { quiet_panic() }).unwrap())
    }),
    ("the payload panics in the error", |scheduler, delay| {
        let task = scheduler.schedule(delay, payload()).unwrap();
        Box::new(|| {
            let error = ended(task).unwrap_err();
            assert!(error.is_panic());
            assert!(catch_unwind(AssertUnwindSafe(|| drop(error))).is_err());
        })
    }),
    ("the payload panics in the handle", |scheduler, delay| {
        panics_as_it_is_dropped(scheduler.schedule(delay, payload()).unwrap())
    }),
    ("the payload panics in the run", |scheduler, delay| {
        detached(scheduler.schedule(delay, payload()).unwrap())
    }),
    ("the future panics after its run", |scheduler, delay| {
        is_panic(
            scheduler
                .schedule(delay, panics_after_its_run(|| 7))
                .unwrap(),
        )
    }),
    (
        "the future panics, and then the output",
        |scheduler, delay| {
            let run = panics_after_its_run(|| PanicsOnDrop);
            is_panic(scheduler.schedule(delay, run).unwrap())
        },
    ),
    ("the output panics in the handle", |scheduler, delay| {
        panics_as_it_is_dropped(scheduler.schedule(delay, async { PanicsOnDrop }).unwrap())
    }),
    ("the output panics in the run", |scheduler, delay| {
        detached(scheduler.schedule(delay, async { PanicsOnDrop }).unwrap())
    }),
    ("a closure panics as it is dropped", |scheduler, delay| {
        let held = PanicsOnDrop;
        let make = move || {
            let _closure_holds = &held;
            async { ControlFlow::Break(()) }
        };
        is_panic(
            scheduler
                .schedule_at_fixed_rate(delay, ms(1), make)
                .unwrap(),
        )
    }),
    // Canceled during a run, a periodic task drops its closure after the run.
    ("a canceled periodic task panics", |scheduler, delay| {
        let handle = Arc::new(OnceLock::<ScheduledTask<_>>::new());
        let (own, held) = (handle.clone(), PanicsOnDrop);
        let make = move || {
            let _closure_holds = &held;
            assert!(own.get().unwrap().cancel());
            async {}
        };
        let task = scheduler.schedule_at_fixed_rate(delay, ms(1), make);
        handle.set(task.unwrap()).ok();
        Box::new(move || assert!(handle.get().unwrap().is_finished()))
    }),
];

/// Ten hostile tasks and ninety others have one deadline. The others run, and the driver goes on.
#[test]
fn the_others_run() {
    for (name, hostile) in HOSTILE {
        does_not_hang(move || {
            println!("{name}");
            paused().block_on(async {
                let scheduler = limited(200);
                let runs = Count::default();
                let mut checks = Vec::new();
                for n in 0..100 {
                    if n % 10 == 0 {
                        checks.push(hostile(&scheduler, ms(5)));
                    } else {
                        let runs = runs.clone();
                        let run = async move { runs.add() };
                        drop(scheduler.schedule(ms(5), run).unwrap());
                    }
                }
                sleep(ms(50)).await;
                assert_eq!(runs.get(), 90);
                checks.into_iter().for_each(|check| check());
                assert_eq!(limit::room(&scheduler), 200);
                let next = scheduler.schedule(ms(5), async { 7 }).unwrap();
                assert_eq!(output(next).await, 7);
                assert!(!scheduler.is_shutdown());
                assert_eq!(alive(), 1, "the driver");
            });
        });
    }
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

/// The output of a detached task that ends while a shutdown collects the tasks panics as it is dropped.
#[test]
fn a_task_that_ends_during_a_shutdown_leaves_the_others() {
    let runtime = multi_thread(1);
    let _entered = runtime.enter();
    let scheduler = Scheduler::new();
    let mut first = scheduler.schedule(secs(100), async {}).unwrap();
    let second = scheduler.schedule(ms(50), async { PanicsOnDrop }).unwrap();
    let _last = scheduler.schedule(secs(100), async {}).unwrap();
    let handle = second.cancel_handle();
    drop(second);
    let hook = Hook::on_wake(move || wait_until(|| handle.is_finished()));
    assert!(poll(&mut first, &hook.waker()).is_pending());
    assert_eq!(scheduler.shutdown().len(), 2);
}

/// A waker of `wait_idle` panics after the last run, whose output panics as it is dropped. Others wait as well.
#[test]
fn a_panicking_waker_harms_no_other_that_waits_for_the_last_run() {
    let hooks: [fn() -> Arc<Hook>; 2] =
        [|| Hook::on_wake(quiet_panic), || Hook::on_drop(quiet_panic)];
    for (output_panics, hook) in [false, true]
        .into_iter()
        .flat_map(|it| hooks.map(|hook| (it, hook)))
    {
        does_not_hang(move || {
            paused().block_on(async {
                let scheduler = Scheduler::new();
                let output = output_panics.then(|| PanicsOnDrop);
                drop(scheduler.schedule(ms(5), async move {
                    sleep(ms(5)).await;
                    output
                }));
                sleep(ms(7)).await;
                let hostile = hook();
                let mut first = Box::pin(scheduler.wait_idle());
                assert_pending!(poll(&mut first, &hostile.waker()));
                let (wakes, waker) = Wakes::new();
                let mut second = Box::pin(scheduler.wait_idle());
                assert_pending!(poll(&mut second, &waker));
                sleep(ms(10)).await;
                assert!(hostile.has_run() && wakes.count() == 1);
            });
        });
    }
}
