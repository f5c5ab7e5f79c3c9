//! No user code runs under a lock. Futures, destructors, outputs and wakers use the timer, other tasks and
//! their own task. If a lock were held, the test would hang, and the watchdog would report it.

use super::*;

type Own = Arc<OnceLock<ScheduledTask<()>>>;
type Touch = Box<dyn FnOnce() + Send>;

/// Calls everything that a user can call on a timer and its tasks.
fn touch(timer: &Timer, own: &Own, others: Vec<ScheduledTask<()>>, shut_down: bool) {
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
    let _ = timer.metrics();
    let mut sleep = timer.sleep(ms(5));
    let _ = catch_unwind(AssertUnwindSafe(|| poll(&mut sleep, Waker::noop())));
    drop(timer.schedule(Duration::ZERO, async {}));
    let another = timer.schedule(secs(1), pending::<()>());
    another.into_iter().for_each(|task| assert!(task.cancel()));
    drop(timer.schedule_at_fixed_rate(ms(5), ms(5), || async { ControlFlow::Break(()) }));
    if shut_down {
        drop(timer.shutdown());
    }
}

/// Runs a body under the paused clock, once without and once with a shutdown. The body makes user code
/// touch the timer, and may store its task for that.
fn touched<F: Future<Output = ()>>(body: impl Fn(Timer, Own, Touch) -> F + Copy + Send + 'static) {
    for shut_down in [false, true] {
        does_not_hang(move || {
            paused().block_on(async {
                let timer = Timer::builder().install().unwrap();
                let own = Own::default();
                let others = [5, 5, 50].map(|n| timer.schedule(ms(n), async {}).unwrap());
                let has_run = Arc::new(AtomicBool::new(false));
                let touch = {
                    let (timer, own, has_run) = (timer.clone(), own.clone(), has_run.clone());
                    move || {
                        touch(&timer, &own, others.into(), shut_down);
                        has_run.store(true, Ordering::Relaxed);
                    }
                };
                body(timer, own, Box::new(touch)).await;
                assert!(has_run.load(Ordering::Relaxed));
            });
        });
    }
}

/// Schedules a task for 5 ms from now, and stores its handle for the touch.
fn schedule(timer: &Timer, own: &Own, run: impl Future<Output = ()> + Send + 'static) {
    own.set(timer.schedule(ms(5), run).unwrap()).unwrap();
}

async fn wait() {
    sleep(ms(20)).await;
}

#[test]
fn a_run_and_a_closure_may_touch() {
    touched(|timer, own, touch| async move {
        schedule(&timer, &own, async { touch() });
        wait().await;
        assert!(!own.get().unwrap().is_cancelled());
    });
    for in_run in [false, true] {
        touched(move |timer, own, touch| async move {
            let mut touch = Some(touch);
            let task = timer.schedule_at_fixed_rate(ms(5), ms(5), move || {
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
    touched(|timer, own, touch| async move {
        let held = OnDrop::new(touch);
        schedule(&timer, &own, async move {
            let _held = held;
        });
        wait().await;
    });
    touched(|timer, own, touch| async move {
        let held = OnDrop::new(touch);
        schedule(&timer, &own, async move { drop(held) });
        assert!(own.get().unwrap().cancel());
    });
    touched(|timer, own, touch| async move {
        let held = OnDrop::new(touch);
        schedule(&timer, &own, async move { drop(held) });
        drop(timer.shutdown());
    });
    // A timer that has shut down refuses it.
    touched(|timer, _, touch| async move {
        drop(timer.shutdown());
        let held = OnDrop::new(touch);
        drop(timer.schedule(ms(5), async move { drop(held) }));
    });
}

#[test]
fn the_drop_of_a_closure_may_touch() {
    // The task is canceled before its run, and during its run.
    for wait_before in [1, 7] {
        touched(move |timer, own, touch| async move {
            let held = OnDrop::new(touch);
            let task = timer.schedule_with_fixed_delay(ms(5), ms(5), move || {
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
        touched(move |timer, _, touch| async move {
            let held = OnDrop::new(touch);
            let task = timer.schedule(ms(5), async move { held }).unwrap();
            let kept = (!detached).then_some(task);
            wait().await;
            drop(kept);
        });
    }
}

/// Every end of a task wakes this waker.
#[test]
fn the_wake_of_who_awaits_may_touch() {
    let awaited = |timer: &Timer, own: &Own, touch: Touch| {
        let hook = Hook::on_wake(touch);
        let mut task = timer.schedule(ms(5), async {}).unwrap();
        assert_pending!(poll(&mut task, &hook.waker()));
        own.set(task).unwrap();
    };
    touched(move |timer, own, touch| async move {
        awaited(&timer, &own, touch);
        wait().await;
    });
    touched(move |timer, own, touch| async move {
        awaited(&timer, &own, touch);
        assert!(own.get().unwrap().cancel());
    });
    touched(move |timer, own, touch| async move {
        awaited(&timer, &own, touch);
        drop(timer.shutdown());
    });
}

/// The first poll clones this waker, and a later poll replaces another waker by it.
#[test]
fn the_clone_of_a_waker_may_touch() {
    for polled_before in [false, true] {
        touched(move |timer, _, touch| async move {
            let mut task = timer.schedule(ms(5), async {}).unwrap();
            if polled_before {
                assert_pending!(poll(&mut task, &Wakes::new().1));
            }
            let _ = poll(&mut task, &Hook::on_clone(touch).waker());
        });
    }
}

/// The waker is dropped when it is replaced, with the handle, and after its wake.
#[test]
fn the_drop_of_a_waker_may_touch() {
    let awaited = |timer: &Timer, touch: Touch| {
        let mut task = timer.schedule(ms(5), async {}).unwrap();
        assert_pending!(poll(&mut task, &Hook::on_drop(touch).waker()));
        task
    };
    touched(move |timer, _, touch| async move {
        let mut task = awaited(&timer, touch);
        let _ = poll(&mut task, &Wakes::new().1);
    });
    touched(move |timer, _, touch| async move { drop(awaited(&timer, touch)) });
    touched(move |timer, own, touch| async move {
        own.set(awaited(&timer, touch)).unwrap();
        wait().await;
    });
}

/// The end of a runtime drops waiting and running tasks, and wakes the awaiting task.
#[test]
fn the_end_of_a_runtime_may_touch() {
    for shut_down in [false, true] {
        for n in 0..4 {
            does_not_hang(move || {
                let runtime = paused();
                let has_run = Arc::new(AtomicBool::new(false));
                let own = Own::default();
                runtime.block_on(async {
                    let timer = built();
                    let others = [5, 50].map(|n| timer.schedule(ms(n), async {}).unwrap());
                    let touch = {
                        let (timer, own, has_run) = (timer.clone(), own.clone(), has_run.clone());
                        move || {
                            touch(&timer, &own, others.into(), shut_down);
                            has_run.store(true, Ordering::Relaxed);
                        }
                    };
                    let delay = if n % 2 == 0 { secs(60) } else { ms(1) };
                    if n < 2 {
                        let held = OnDrop::new(touch);
                        let run = async move {
                            let _held = held;
                            pending().await
                        };
                        own.set(timer.schedule(delay, run).unwrap()).unwrap();
                    } else {
                        let mut task = timer.schedule(delay, pending()).unwrap();
                        assert_pending!(poll(&mut task, &Hook::on_wake(touch).waker()));
                        own.set(task).unwrap();
                    }
                    sleep(ms(2)).await;
                });
                drop(runtime);
                assert!(has_run.load(Ordering::Relaxed));
                assert!(own.get().unwrap().is_finished());
            });
        }
    }
}
