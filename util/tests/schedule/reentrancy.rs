//! No user code runs under a lock, so it may use the scheduler and all tasks. Otherwise a test would hang.

use super::*;

type Own = Arc<OnceLock<ScheduledTask<()>>>;
type Touch = Box<dyn FnOnce() + Send>;

/// Calls everything that a user can call on a scheduler and its tasks.
fn touch(scheduler: &Scheduler, own: &Own, others: Vec<ScheduledTask<()>>, shut_down: bool) {
    if let Some(own) = own.get() {
        own.cancel();
        let _ = format!("{own:?} {:?} {}", own.deadline(), own.is_finished());
    }
    for mut task in others {
        if poll(&mut task, &Wakes::new().1).is_pending() {
            task.cancel();
            let _ = poll(&mut task, &Wakes::new().1);
        }
    }
    let _ = (scheduler.pending(), scheduler.is_shutdown());
    drop(scheduler.schedule(Duration::ZERO, async {}));
    let another = scheduler.schedule(secs(1), pending::<()>());
    another.into_iter().for_each(|task| assert!(task.cancel()));
    drop(scheduler.schedule_at_fixed_rate(ms(5), ms(5), || async { ControlFlow::Break(()) }));
    if shut_down {
        drop(scheduler.shutdown());
    }
}

/// Runs a body without and with a shutdown. It makes user code touch the scheduler, and may store its task for that.
fn touched<F: Future<Output = ()>>(
    body: impl Fn(Scheduler, Own, Touch) -> F + Copy + Send + 'static,
) {
    touched_until(false, body);
}

/// Does the same. The code touches the scheduler when the runtime ends, if `runtime_ends`.
fn touched_until<F: Future<Output = ()>>(
    runtime_ends: bool,
    body: impl Fn(Scheduler, Own, Touch) -> F + Copy + Send + 'static,
) {
    for shut_down in [false, true] {
        does_not_hang(move || {
            let (runtime, has_run) = (paused(), Arc::new(AtomicBool::new(false)));
            runtime.block_on(async {
                let (scheduler, own) = (Scheduler::new(), Own::default());
                let others = [5, 5, 50].map(|n| scheduler.schedule(ms(n), async {}).unwrap());
                let touch = {
                    let (scheduler, own, run) = (scheduler.clone(), own.clone(), has_run.clone());
                    move || {
                        touch(&scheduler, &own, others.into(), shut_down);
                        run.store(true, Ordering::Relaxed);
                    }
                };
                body(scheduler, own, Box::new(touch)).await;
                assert_ne!(has_run.load(Ordering::Relaxed), runtime_ends);
            });
            drop(runtime);
            assert!(has_run.load(Ordering::Relaxed));
        });
    }
}

/// Schedules a task for 5 ms from now, and stores its handle for the touch.
fn schedule(scheduler: &Scheduler, own: &Own, run: impl Future<Output = ()> + Send + 'static) {
    own.set(scheduler.schedule(ms(5), run).unwrap()).unwrap();
}

async fn wait() {
    sleep(ms(20)).await;
}

#[test]
fn a_run_and_a_closure_may_touch() {
    touched(|scheduler, own, touch| async move {
        schedule(&scheduler, &own, async { touch() });
        wait().await;
        assert!(!own.get().unwrap().is_cancelled());
    });
    for in_run in [false, true] {
        touched(move |scheduler, own, touch| async move {
            let mut touch = Some(touch);
            let task = scheduler.schedule_at_fixed_rate(ms(5), ms(5), move || {
                let mut touch = touch.take();
                if !in_run {
                    touch.take().into_iter().for_each(|touch| touch());
                }
                async move {
                    touch.into_iter().for_each(|touch| touch());
                    ControlFlow::Continue(())
                }
            });
            own.set(task.unwrap()).unwrap();
            wait().await;
            assert!(own.get().unwrap().is_cancelled());
        });
    }
}

#[test]
fn the_drop_of_a_future_may_touch() {
    // After its run.
    touched(|scheduler, own, touch| async move {
        let held = OnDrop::new(touch);
        schedule(&scheduler, &own, async move {
            let _held = held;
        });
        wait().await;
    });
    touched(|scheduler, own, touch| async move {
        let held = OnDrop::new(touch);
        schedule(&scheduler, &own, async move { drop(held) });
        assert!(own.get().unwrap().cancel());
    });
    touched(|scheduler, own, touch| async move {
        let held = OnDrop::new(touch);
        schedule(&scheduler, &own, async move { drop(held) });
        drop(scheduler.shutdown());
    });
    // A scheduler that has shut down refuses it.
    touched(|scheduler, _, touch| async move {
        drop(scheduler.shutdown());
        let held = OnDrop::new(touch);
        drop(scheduler.schedule(ms(5), async move { drop(held) }));
    });
}

#[test]
fn the_drop_of_a_closure_may_touch() {
    // The task is canceled before its run, and during its run.
    for wait_before in [1, 7] {
        touched(move |scheduler, own, touch| async move {
            let held = OnDrop::new(touch);
            let task = scheduler.schedule_with_fixed_delay(ms(5), ms(5), move || {
                let _closure_holds = &held;
                async {
                    sleep(ms(3)).await;
                    ControlFlow::Continue(())
                }
            });
            own.set(task.unwrap()).unwrap();
            sleep(ms(wait_before)).await;
            assert!(own.get().unwrap().cancel());
            wait().await;
        });
    }
}

#[test]
fn the_drop_of_an_output_may_touch() {
    // No code takes the output, so the run or the handle drops it.
    for detached in [true, false] {
        touched(move |scheduler, _, touch| async move {
            let held = OnDrop::new(touch);
            let task = scheduler.schedule(ms(5), async move { held }).unwrap();
            let kept = (!detached).then_some(task);
            wait().await;
            drop(kept);
        });
    }
}

/// Every end of a task wakes this waker.
#[test]
fn the_wake_of_who_awaits_may_touch() {
    let awaited = |scheduler: &Scheduler, own: &Own, touch: Touch| {
        let hook = Hook::on_wake(touch);
        let mut task = scheduler.schedule(ms(5), async {}).unwrap();
        assert_pending!(poll(&mut task, &hook.waker()));
        own.set(task).unwrap();
    };
    touched(move |scheduler, own, touch| async move {
        awaited(&scheduler, &own, touch);
        wait().await;
    });
    touched(move |scheduler, own, touch| async move {
        awaited(&scheduler, &own, touch);
        assert!(own.get().unwrap().cancel());
    });
    touched(move |scheduler, own, touch| async move {
        awaited(&scheduler, &own, touch);
        drop(scheduler.shutdown());
    });
}

/// The waker is dropped with the handle, and after its wake. `ground::waker` tests a waker that is cloned or replaced.
#[test]
fn the_drop_of_a_waker_may_touch() {
    let awaited = |scheduler: &Scheduler, touch: Touch| {
        let mut task = scheduler.schedule(ms(5), async {}).unwrap();
        assert_pending!(poll(&mut task, &Hook::on_drop(touch).waker()));
        task
    };
    touched(move |scheduler, _, touch| async move { drop(awaited(&scheduler, touch)) });
    touched(move |scheduler, own, touch| async move {
        own.set(awaited(&scheduler, touch)).unwrap();
        wait().await;
    });
}

/// The end of a runtime drops waiting and running tasks, and wakes the awaiting task.
#[test]
fn the_end_of_a_runtime_may_touch() {
    for delay in [secs(60), ms(1)] {
        touched_until(true, move |scheduler, own, touch| async move {
            let held = OnDrop::new(touch);
            let run = async move {
                let _held = held;
                pending().await
            };
            own.set(scheduler.schedule(delay, run).unwrap()).unwrap();
            sleep(ms(2)).await;
        });
        touched_until(true, move |scheduler, own, touch| async move {
            let mut task = scheduler.schedule(delay, pending()).unwrap();
            assert_pending!(poll(&mut task, &Hook::on_wake(touch).waker()));
            own.set(task).unwrap();
            sleep(ms(2)).await;
        });
    }
}
