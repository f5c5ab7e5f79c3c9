//! `Timer::shutdown`.

use super::*;
use crate::support::panics::panic_of;

#[tokio::test(start_paused = true)]
async fn what_is_given_back_may_be_spawned_or_dropped() {
    let timer = built();
    let (runs, drops) = (Count::default(), Count::default());
    for _ in 0..2 {
        let (runs, held) = (runs.clone(), drops.on_drop());
        let task = timer.schedule(secs(1), async move {
            runs.add();
            held
        });
        drop(task.unwrap());
    }
    let mut left = timer.shutdown();
    assert_eq!(drops.get(), 0, "it is in the list");
    tokio::spawn(left.pop().unwrap()).await.unwrap();
    assert_eq!((runs.get(), drops.get()), (1, 1));
    drop(left);
    assert_eq!((runs.get(), drops.get()), (1, 2));
}

/// The shutdown returns the next run of a periodic task, which is the last run.
#[tokio::test(start_paused = true)]
async fn of_a_periodic_task_one_run_is_given_back() {
    for ran in [0, 2] {
        let timer = built();
        let (make, runs, drops) = counted(yield_now);
        let start = Instant::now();
        let task = timer.schedule_at_fixed_rate(ms(10), ms(10), make);
        let task = task.unwrap();
        sleep(ms(5 + 10 * ran)).await;
        let mut left = timer.shutdown();
        assert_eq!(left.len(), 1);
        assert!(result(task).await.unwrap_err().is_shutdown());
        let left = left.pop().unwrap();
        assert_eq!(left.deadline(), start + ms(10 * (ran + 1)));
        assert_eq!((runs.get() as u64, drops.get()), (ran, 0));
        left.await;
        assert_eq!((runs.get() as u64, drops.get()), (ran + 1, 1));
        sleep(ms(50)).await;
        assert_eq!(runs.get() as u64, ran + 1);
        assert_eq!(timer.metrics().pending(), 0);
    }
}

/// A returned task tells its deadline and its kind. A program that must recognize its tasks keeps a key in
/// each future.
#[tokio::test(start_paused = true)]
async fn what_is_given_back_tells_its_deadline_and_kind() {
    let timer = built();
    let once = timer.schedule(secs(60), async {}).unwrap();
    let rate = timer.schedule_at_fixed_rate(ms(5), ms(5), || async {});
    let delay = timer.schedule_with_fixed_delay(ms(7), ms(7), || async {});
    let (rate, delay) = (rate.unwrap(), delay.unwrap());
    sleep(ms(51)).await;
    let handles = [
        (rate.deadline(), true),
        (delay.deadline(), true),
        (once.deadline(), false),
    ];
    let returned = timer.shutdown();
    let told: Vec<_> = (returned.iter())
        .map(|task| (task.deadline(), task.is_periodic()))
        .collect();
    assert_eq!(told, handles);
    for task in returned {
        let debug = format!("{task:?}");
        assert!(debug.contains(&format!("is_periodic: {}", task.is_periodic())));
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_given_back_panics_when_it_is_run() {
    let timer = built();
    let task = timer.schedule(secs(1), async { quiet_panic() }).unwrap();
    let left = timer.shutdown().pop().unwrap();
    let end = tokio::spawn(left).await.unwrap_err();
    assert!(end.is_panic());
    assert!(result(task).await.unwrap_err().is_shutdown());
}

/// Tasks that have started complete. The current run of a periodic task is its last run.
#[tokio::test(start_paused = true)]
async fn what_has_started_goes_on() {
    for at_a_fixed_rate in [true, false] {
        let timer = built();
        let once = timer.schedule(ms(5), async {
            sleep(ms(10)).await;
            7
        });
        let (make, runs, drops) = counted(|| sleep(ms(10)));
        let periodic = match at_a_fixed_rate {
            true => timer.schedule_at_fixed_rate(ms(5), ms(20), make),
            false => timer.schedule_with_fixed_delay(ms(5), ms(20), make),
        };
        let periodic = periodic.unwrap();
        sleep(ms(6)).await;
        assert!(timer.shutdown().is_empty());
        assert!(!periodic.is_finished(), "it runs");
        assert_eq!(output(once.unwrap()).await, 7);
        assert!(result(periodic).await.unwrap_err().is_shutdown());
        assert_eq!((runs.get(), drops.get()), (1, 1));
        sleep(secs(1)).await;
        assert_eq!(runs.get(), 1);
    }
}

/// The last run may return `Break`, and may be canceled. Then the task does not end with the shutdown.
#[tokio::test(start_paused = true)]
async fn a_periodic_task_may_end_or_be_cancelled_in_its_last_run() {
    for cancels in [false, true] {
        let timer = built();
        let make = || async {
            sleep(ms(10)).await;
            ControlFlow::Break(7)
        };
        let task = timer.schedule_at_fixed_rate(ms(5), ms(5), make).unwrap();
        sleep(ms(6)).await;
        assert!(timer.shutdown().is_empty());
        assert_eq!(cancels && task.cancel(), cancels);
        match result(task).await {
            Ok(output) => assert_eq!((output, cancels), (7, false)),
            Err(error) => assert!(error.is_cancelled() && cancels),
        }
    }
}

#[test]
fn after_a_shutdown_or_the_end_of_the_runtime_it_does_nothing() {
    for shut_down in [true, false] {
        let runtime = current_thread();
        let timer = runtime.block_on(async { built() });
        let task = timer.schedule(secs(1), async {}).unwrap();
        let clone = timer.clone();
        assert!(!timer.is_shutdown());
        match shut_down {
            true => assert_eq!(clone.shutdown().len(), 1),
            false => drop(runtime),
        }
        for timer in [timer, clone] {
            assert!(timer.is_shutdown());
            assert!(timer.shutdown().is_empty());
            assert!(timer.schedule(secs(1), async {}).unwrap_err().is_shutdown());
            assert!(timer.shutdown().is_empty());
        }
        assert!(tokio_test::block_on(task).unwrap_err().is_shutdown());
    }
}

/// A thread outside of the runtime shuts the timer down, while the runtime is idle.
#[test]
fn it_may_be_called_outside_of_the_runtime() {
    does_not_hang(|| {
        let runtime = multi_thread(1);
        let timer = runtime.block_on(async { built() });
        let task = timer.schedule(secs(60), async { 7 }).unwrap();
        let waits = runtime.spawn(task);
        let left = thread::spawn(move || timer.shutdown()).join().unwrap();
        assert!(runtime.block_on(waits).unwrap().unwrap_err().is_shutdown());
        assert_eq!(left.len(), 1);
        // The returned tasks themselves need no runtime.
        left.into_iter().for_each(tokio_test::block_on);
        wait_until(|| runtime.metrics().num_alive_tasks() == 0);
    });
}

/// A shutdown wakes the pending futures of the timer, as the end of a runtime does. A poll before the
/// deadline panics.
#[tokio::test(start_paused = true)]
async fn pending_sleeps_are_woken_and_panic() {
    let timer = built();
    let (wakes, waker) = Wakes::new();
    let mut pending = timer.sleep(ms(50));
    let mut on_time = timer.sleep(ms(50));
    let mut unpolled = timer.sleep(ms(50));
    assert_pending!(poll(&mut pending, &waker));
    assert_pending!(poll(&mut on_time, &waker));
    drop(timer.shutdown());
    assert_eq!(wakes.count(), 2);
    assert!(!pending.is_elapsed());
    for sleep in [&mut pending, &mut unpolled] {
        let told = panic_of(|| poll(&mut *sleep, &waker)).message;
        assert!(told.contains("after its timer has shut down"), "{told}");
    }
    sleep(ms(50)).await;
    for sleep in [&mut pending, &mut on_time, &mut unpolled] {
        assert_ready!(poll(sleep, &waker));
    }
    assert_ready!(poll(&mut timer.sleep(Duration::ZERO), &waker));
}

/// The same holds on a worker thread. There a poll during the end of the runtime would not panic.
#[test]
fn pending_sleeps_panic_on_a_worker_too() {
    does_not_hang(|| {
        for default in [false, true] {
            let runtime = multi_thread(2);
            let end = runtime.block_on(runtime.spawn(async move {
                let timer = match default {
                    true => Timer::builder().install().unwrap(),
                    false => built(),
                };
                let mut sleep = timer.sleep(secs(60));
                poll_fn(|cx| {
                    assert_pending!(Pin::new(&mut sleep).poll(cx));
                    Poll::Ready(())
                })
                .await;
                drop(timer.shutdown());
                // Without the panic, it would be pending forever.
                let again = AssertUnwindSafe(|| poll(&mut sleep, Waker::noop()));
                assert!(catch_unwind(again).is_err());
            }));
            end.unwrap();
        }
    });
}

/// Futures of the free functions move to the next default timer. None is lost or late.
#[tokio::test(start_paused = true)]
async fn what_the_free_functions_made_goes_on() {
    let start = Instant::now();
    let mut sleeping = tokio_test::task::spawn(tokio_wheel::sleep(ms(50)));
    let mut limited = tokio_test::task::spawn(timeout(ms(70), pending::<()>()));
    let mut ticks = tokio_wheel::interval_at(start + ms(90), ms(100));
    let mut ticking = tokio_test::task::spawn(ticks.tick());
    for _ in 0..3 {
        let timer = Timer::builder().install().unwrap();
        assert_pending!(sleeping.poll());
        assert_pending!(limited.poll());
        assert_pending!(ticking.poll());
        assert_eq!(timer.metrics().pending(), 3);
        drop(timer.shutdown());
        assert!(sleeping.is_woken() && limited.is_woken() && ticking.is_woken());
    }
    sleeping.await;
    assert_eq!(start.elapsed(), ms(50));
    assert!(limited.await.is_err());
    assert_eq!(start.elapsed(), ms(70));
    assert_eq!(ticking.await, start + ms(90));
    assert_eq!(start.elapsed(), ms(90));
}

/// The shutdown of a default timer does not end its runtime. A future that waits on a worker must not
/// mistake the one for the other.
#[test]
fn nobody_hangs_while_timers_are_shut_down() {
    does_not_hang(|| {
        for _ in 0..400 {
            let runtime = multi_thread(3);
            runtime.block_on(async {
                let bound = built();
                let mut installed = Some(Timer::builder().install().unwrap());
                let sleep = |i| {
                    let bound = bound.clone();
                    tokio::spawn(async move {
                        match i % 2 {
                            0 => tokio_wheel::sleep(ms(1)).await,
                            _ => bound.sleep(ms(1)).await,
                        }
                    })
                };
                let sleeps: Vec<_> = (0..8).map(sleep).collect();
                let shut_down = tokio::spawn({
                    let bound = bound.clone();
                    async move {
                        drop(bound.shutdown());
                        // A sleep may start an ordinary timer, and none is installed from then on.
                        for _ in 0..3 {
                            if let Some(timer) = installed.take() {
                                drop(timer.shutdown());
                            }
                            installed = Timer::builder().install().ok();
                        }
                    }
                });
                shut_down.await.unwrap();
                for (i, sleep) in sleeps.into_iter().enumerate() {
                    let end = sleep.await;
                    assert!(end.is_ok() || i % 2 == 1, "only bound sleeps may panic");
                }
            });
        }
    });
}

/// A future of another timer does not need the worker's runtime to have time enabled.
#[test]
fn an_orphan_says_so_on_a_runtime_without_time() {
    let timer = multi_thread(1).block_on(async { built() });
    let mut sleep = timer.sleep(secs(60));
    let timeless = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    let told = timeless.spawn(async move { panic_of(|| poll(&mut sleep, Waker::noop())).message });
    let told = timeless.block_on(told).unwrap();
    assert!(told.contains("after its timer has shut down"), "{told}");
}

/// The next default timer starts when it is needed.
#[tokio::test(start_paused = true)]
async fn a_default_timer_is_replaced() {
    let mut timer = Timer::builder().install().unwrap();
    for is_last in [false, false, true] {
        tokio_wheel::sleep(ms(1)).await;
        let task = timer.schedule(secs(1), async {}).unwrap();
        assert_eq!(timer.shutdown().len(), 1);
        assert!(result(task).await.unwrap_err().is_shutdown());

        let installed = match is_last {
            true => None,
            false => Some(Timer::builder().max_pending(1).install().unwrap()),
        };
        let start = Instant::now();
        tokio_wheel::sleep(ms(5)).await;
        let next = Timer::current();
        assert!(!next.is_shutdown());
        assert_eq!(next.metrics().fired(), 1);
        let task = next.schedule(ms(5), async move { start.elapsed() });
        assert_eq!(output(task.unwrap()).await, ms(10));
        assert!(timer.shutdown().is_empty());
        assert!(!next.is_shutdown());
        assert_eq!(alive(), 1);
        if let Some(installed) = installed {
            assert_eq!(limit::room(&next), 1);
            timer = installed;
        }
    }
}

/// Workers, which remember their timer, also use the next default timer.
#[test]
fn a_default_timer_is_replaced_on_all_workers() {
    does_not_hang(|| {
        let runtime = multi_thread(2);
        let sleeps = || {
            runtime.block_on(async {
                let sleeps = (0..8).map(|_| tokio::spawn(tokio_wheel::sleep(ms(1))));
                for sleep in sleeps.collect::<Vec<_>>() {
                    sleep.await.unwrap();
                }
                Timer::current()
            })
        };
        let first = runtime.block_on(async { Timer::builder().install().unwrap() });
        // On a busy machine, the deadlines may pass before the first polls.
        wait_until(|| sleeps().metrics().fired() > 0);
        drop(first.shutdown());
        let second = sleeps();
        assert!(!second.is_shutdown());
        assert!(second.metrics().fired() + 8 >= second.metrics().registered());
    });
}

/// A thread that has seen the shutdown can schedule nothing more, even while the shutdown still closes
/// shards.
#[test]
fn nothing_is_scheduled_on_a_timer_that_says_it_is_shut_down() {
    does_not_hang(|| {
        let runtime = multi_thread(1);
        let builder = Timer::builder().shards(2);
        let timer = runtime.block_on(async { builder.build().unwrap() });
        // This waker is woken when the first shard is closed and the second is not.
        let refused = Arc::new(AtomicUsize::new(0));
        let mut hooks = Vec::new();
        let sleeps: Vec<_> = (0..2)
            .map(|_| {
                let (timer, refused) = (timer.clone(), refused.clone());
                let hook = Hook::on_wake({
                    let timer = timer.clone();
                    move || {
                        assert!(timer.is_shutdown());
                        assert!(timer.shutdown().is_empty());
                        // Two threads in a row use different shards.
                        for _ in 0..2 {
                            let timer = timer.clone();
                            let schedule = move || timer.schedule(secs(60), async {}).is_err();
                            let is_err = thread::spawn(schedule).join().unwrap();
                            refused.fetch_add(usize::from(is_err), Ordering::Relaxed);
                        }
                    }
                });
                let waker = hook.waker();
                hooks.push(hook);
                let registered = move || {
                    let mut sleep = timer.sleep(secs(60));
                    assert_pending!(poll(&mut sleep, &waker));
                    sleep
                };
                thread::spawn(registered).join().unwrap()
            })
            .collect();
        assert!(timer.shutdown().is_empty());
        assert!(hooks.iter().all(|hook| hook.has_run()));
        assert_eq!(refused.load(Ordering::Relaxed), 4);
        drop(sleeps);
    });
}
