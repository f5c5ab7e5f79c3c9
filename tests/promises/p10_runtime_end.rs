//! Promise 10, the end of a runtime: its default timer shuts down with it.

use super::*;
use crate::support::panics::{message_of, panic_of};

fn pending_on(runtime: &Runtime, waker: &Waker) -> Sleep {
    let _entered = runtime.enter();
    registered(sleep(secs(60)), waker)
}

fn timer_of(runtime: &Runtime) -> Timer {
    let _entered = runtime.enter();
    Timer::current()
}

#[test]
fn who_waits_is_woken_and_told() {
    for runtime in [current_thread(), multi_thread(2), paused()] {
        let (wakes, waker) = Wakes::new();
        let orphans = [(); 100].map(|()| pending_on(&runtime, &waker));
        let timer = timer_of(&runtime);
        drop((runtime, waker));
        assert_eq!((wakes.count(), wakes.is_dropped()), (100, true));
        assert!(timer.is_shutdown());
        let metrics = timer.metrics();
        assert_eq!((metrics.pending(), metrics.cancelled()), (0, 100));

        let [mut orphan, mut reset, ..] = orphans;
        assert!(!orphan.is_elapsed());
        let told = panic_of(|| assert_pending!(poll(&mut orphan, Waker::noop()))).message;
        assert!(told.contains("after its timer has shut down"), "{told}");
        // A reset makes an orphan at home in the next runtime.
        let deadline = Instant::now() + ms(5);
        Pin::new(&mut reset).reset(deadline);
        does_not_hang(|| current_thread().block_on(reset));
        assert!(Instant::now() >= deadline);
    }
}

/// Nobody fires the entry, so the clock tells.
#[test]
fn an_orphan_elapses_at_its_deadline() {
    let runtime = current_thread();
    let entered = runtime.enter();
    let orphan = registered(sleep(ms(5)), Waker::noop());
    drop(entered);
    drop(runtime);
    std::thread::sleep(ms(10));
    assert!(orphan.is_elapsed());
}

#[test]
fn an_entered_handle_decides_which_runtime_drives() {
    for has_timer in [false, true] {
        does_not_hang(move || {
            let (outer, inner) = (current_thread(), multi_thread(1));
            outer.block_on(async {
                if has_timer {
                    drop(pending_sleep(sleep(ms(100))));
                }
                let before = has_timer.into();
                let mut inside = pending_on(&inner, Waker::noop());
                assert_eq!(timer_of(&inner).metrics().registered(), 1);
                assert_eq!(Timer::current().metrics().registered(), before);
                // The sleep fires in the other runtime, and wakes the task of this runtime.
                Pin::new(&mut inside).reset(Instant::now() + ms(100));
                inside.await;
                sleep(ms(100)).await;
                assert_eq!(Timer::current().metrics().fired(), 1);
            });
            assert_eq!(timer_of(&inner).metrics().fired(), 1);
        });
    }
}

#[test]
fn an_entered_handle_leaves_no_trace_on_a_worker() {
    does_not_hang(|| {
        let (home, other) = (multi_thread(1), multi_thread(1));
        home.block_on(home.spawn(async move {
            let _visiting = pending_on(&other, Waker::noop());
            let at_home = registered(sleep(ms(100)), Waker::noop());
            other.shutdown_background();
            at_home.await;
            sleep(ms(100)).await;
            assert!(Timer::current().metrics().fired() >= 2);
        }))
        .unwrap();
    });
}

/// A thread of the blocking pool that was worker 0, until its task blocked in place, runs a current-thread runtime, in which
/// its worker index is 0 as well. The only worker waits for it, so its own runtime would never fire the sleep.
#[test]
fn a_thread_that_was_a_worker_uses_the_runtime_that_it_runs_now() {
    does_not_hang(|| {
        let home = multi_thread(1);
        let worker = home.spawn(async {
            // A witness runs on the worker in the meantime.
            sleep(ms(1)).await;
            sleep(ms(1)).await;
            let (started, has_started) = mpsc::channel();
            tokio::spawn(async move { started.send(()).unwrap() });
            tokio::task::block_in_place(|| has_started.recv().unwrap());
            thread::current().id()
        });
        let worker = home.block_on(worker).unwrap();
        let waits = home.spawn(async move {
            let is_it = move || {
                let is_it = thread::current().id() == worker;
                if is_it {
                    let start = Instant::now();
                    current_thread().block_on(sleep(ms(10)));
                    assert!(start.elapsed() >= ms(10));
                }
                is_it
            };
            wait_until(|| {
                let (done, is_done) = mpsc::channel();
                tokio::task::spawn_blocking(move || done.send(is_it()).unwrap());
                is_done.recv().unwrap()
            });
        });
        home.block_on(waits).unwrap();
    });
}

/// `docs/limitations.md` says what follows if the worker then blocks: its own runtime may never fire the sleep. A `Timer`
/// of the entered runtime fires, and so does a sleep that is earlier than the worker's other timers.
#[test]
fn a_worker_that_enters_another_runtime_registers_with_its_own() {
    does_not_hang(|| {
        let (home, other) = (multi_thread(1), multi_thread(1));
        home.block_on(home.spawn(async move {
            // A witness runs on the worker in the meantime.
            sleep(ms(1)).await;
            sleep(ms(1)).await;
            let own = Timer::current();
            let _earlier = pending_sleep(sleep(secs(30)));
            let before = own.metrics().registered();
            {
                let _entered = other.enter();
                let _visiting = pending_sleep(sleep(secs(60)));
                assert_eq!(own.metrics().registered(), before + 1);
                let of_other = Timer::current();
                assert_eq!(of_other.metrics().registered(), 0);
                block_on(of_other.sleep(ms(5)));
                block_on(sleep(ms(5)));
                assert_eq!(of_other.metrics().fired(), 2);
            }
            other.shutdown_background();
        }))
        .unwrap();
    });
}

/// One worker drops the driver while another worker still polls a task. A thread that remembers the runtime's timer then
/// keeps no other part of the runtime, and a task that polls again and again keeps one waker.
#[test]
fn a_task_that_is_polled_during_the_shutdown_does_not_panic() {
    does_not_hang(|| {
        let held = Arc::new(());
        let in_runtime = held.clone();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .on_thread_park(move || drop(in_runtime.clone()))
            .build()
            .unwrap();
        runtime.block_on(sleep(ms(1)));
        let (started, is_started) = mpsc::channel();
        let (wakes, waker) = Wakes::new();
        let straggler = runtime.spawn(async move {
            let timer = Timer::current();
            let mut registered = sleep(secs(60));
            assert!(poll_once(&mut registered).await.is_pending());
            started.send(()).unwrap();
            wait_until(|| timer.is_shutdown());
            assert!(poll_once(&mut registered).await.is_pending());
            assert!(poll_once(&mut sleep(secs(60))).await.is_pending());
            assert!(poll_once(&mut timer.sleep(secs(60))).await.is_pending());
            for _ in 0..1_000 {
                assert_pending!(poll(&mut sleep(secs(60)), &waker));
                assert_pending!(poll(&mut Timer::current().sleep(secs(60)), &waker));
            }
            pending::<()>().await;
        });
        is_started.recv().unwrap();
        drop(runtime);
        let end = tokio_test::block_on(straggler).unwrap_err();
        assert!(end.is_cancelled(), "{end}");
        assert_eq!(Arc::strong_count(&held), 1, "the runtime is left");
        assert_eq!((wakes.count(), wakes.is_dropped()), (1, true));
    });
}

/// The runtime may end while its thread unwinds, as in a test that panics. The sleeps then panic too, and do not wait.
#[test]
fn timers_may_be_used_while_the_runtime_shuts_down() {
    struct UsesTimers(Option<Sleep>, mpsc::Sender<String>);
    impl Drop for UsesTimers {
        fn drop(&mut self) {
            for mut sleep in [self.0.take().unwrap(), sleep(secs(3_600))] {
                let polls = AssertUnwindSafe(|| poll(&mut sleep, Waker::noop()));
                let told = match catch_unwind(polls) {
                    // The runtime has not dropped the driver yet.
                    Ok(Poll::Pending) => "shut down later".to_owned(),
                    Ok(Poll::Ready(())) => "ready early".to_owned(),
                    Err(panic) => message_of(panic),
                };
                self.1.send(told).unwrap();
            }
            let _ = Timer::try_current().map(|timer| timer.is_shutdown());
        }
    }
    let runtimes: [fn() -> Runtime; 2] = [current_thread, || multi_thread(2)];
    for (new, unwinds) in runtimes
        .into_iter()
        .flat_map(|new| [(new, false), (new, true)])
    {
        does_not_hang(move || {
            let (tells, told) = mpsc::channel();
            let ended = catch_unwind(|| {
                let runtime = new();
                for _ in 0..10 {
                    let uses = UsesTimers(Some(pending_on(&runtime, Waker::noop())), tells.clone());
                    runtime.spawn(async move {
                        let _uses = uses;
                        pending::<()>().await;
                    });
                }
                runtime.block_on(yield_now());
                if unwinds {
                    quiet_panic();
                }
            });
            assert_eq!(ended.is_err(), unwinds);
            drop(tells);
            let told: Vec<_> = told.iter().collect();
            assert_eq!(told.len(), 20);
            assert!(
                told.iter().all(|told| told.contains("shut down")),
                "{told:?}"
            );
        });
    }
}

/// Blocks a worker in place on a future, calls `after` after each poll, and returns the message of the panic.
fn wait_in_place(future: impl Future, after: impl Fn(bool)) -> String {
    tokio::task::block_in_place(|| {
        let panicked = panic_of(|| {
            let mut future = pin!(future);
            Handle::current().block_on(poll_fn(|cx| {
                let polled = future.as_mut().poll(cx);
                after(polled.is_pending());
                polled.map(drop)
            }));
        });
        panicked.message
    })
}

/// As in tokio, the worker's poll panics with the reason.
#[test]
fn the_drop_returns_while_a_worker_waits_in_place() {
    does_not_hang(|| {
        let runtime = multi_thread(2);
        let (waits, is_waiting) = mpsc::channel();
        let (tells, told) = mpsc::channel();
        runtime.spawn(async move {
            let waiting = |is_pending| waits.send(is_pending).unwrap();
            tells
                .send(wait_in_place(sleep(secs(3_600)), waiting))
                .unwrap();
        });
        assert!(is_waiting.recv().unwrap());
        drop(runtime);
        let told = told.recv().unwrap();
        assert!(told.contains("shut down"), "{told}");
    });
}

/// A worker runs another runtime in `block_in_place` while its own runtime shuts down.
#[test]
fn a_sleep_of_another_runtime_outlives_the_workers_own() {
    let others: [fn() -> Runtime; 2] = [current_thread, || multi_thread(1)];
    for other in others {
        does_not_hang(move || {
            let home = multi_thread(1);
            let (waits, is_waiting) = mpsc::channel();
            let (is_over, over) = mpsc::channel::<()>();
            let outlives = home.spawn(async move {
                for _ in 0..10 {
                    sleep(ms(1)).await;
                }
                let other_runs = || {
                    other().block_on(async {
                        let mut pending = sleep(ms(200));
                        assert!(poll_once(&mut pending).await.is_pending());
                        waits.send(()).unwrap();
                        over.recv().unwrap();
                        let deadline = pending.deadline();
                        pending.await;
                        assert!(Instant::now() >= deadline);
                    });
                };
                tokio::task::block_in_place(other_runs);
            });
            is_waiting.recv().unwrap();
            let timer = timer_of(&home);
            home.shutdown_background();
            wait_until(|| timer.is_shutdown());
            is_over.send(()).unwrap();
            tokio_test::block_on(outlives).expect("the sleep of the other runtime panicked");
        });
    }
}
