//! Promise 15: a dropped future is gone. It wakes no task, no counter counts it as pending, and a worker keeps at
//! most two entries for its next futures. Whoever looks sees that by wakes, by counters, and by the drop of a waker.
//!
//! Models: `driver::loom_tests::keeping_races_fire`, `taking_over_races_fire` and `keeping_races_close`.

use super::*;

/// Runs a body in a task of a runtime with one worker, which leaves the entries of dropped futures.
fn on_a_worker<T: Send + 'static>(body: impl Future<Output = T> + Send + 'static) -> T {
    does_not_hang(|| {
        let runtime = multi_thread(1);
        let body = runtime.spawn(async {
            // The thread finds out that it is a worker.
            sleep(ms(1)).await;
            sleep(ms(1)).await;
            body.await
        });
        runtime.block_on(body).unwrap()
    })
}

fn set_and_cancel(duration: Duration, waker: Waker) {
    drop(registered(sleep(duration), &waker));
}

fn counts() -> (u64, u64) {
    let metrics = Timer::current().metrics();
    (metrics.pending(), metrics.cancelled())
}

/// The entry wakes the driver once. It would otherwise cascade, and then expire.
#[test]
fn a_dropped_sleep_wakes_no_task_and_is_not_pending() {
    on_a_worker(async {
        let (wakes, waker) = Wakes::new();
        let (timer, (_, before)) = (Timer::current(), counts());
        let wakeups = timer.metrics().driver_wakeups();
        set_and_cancel(ms(300), waker);
        assert!(!wakes.is_dropped(), "the worker keeps the entry");
        assert_eq!(counts(), (0, before + 1));
        while !wakes.is_dropped() {
            // A sleep of this crate would take the entry over.
            tokio::time::sleep(ms(5)).await;
        }
        assert_eq!((wakes.count(), counts()), (0, (0, before + 1)));
        assert_eq!(timer.metrics().driver_wakeups(), wakeups + 1);
    });
}

#[test]
fn the_next_sleep_of_the_task_takes_the_entry_over() {
    for [first, next] in [[30_000, 60_000], [30_000, 5], [10, 30], [30, 10]] {
        on_a_worker(async move {
            let (wakes, waker) = Wakes::new();
            let (_, before) = counts();
            set_and_cancel(ms(first), waker.clone());
            let start = Instant::now();
            let mut sleep = registered(sleep(ms(next)), &waker);
            assert_eq!(counts(), (1, before + 1));
            if next < 1_000 {
                tokio::time::sleep_until(start + ms(first.min(50) + next)).await;
                wait_until(|| wakes.count() > 0);
                assert_ready!(poll(&mut sleep, &waker));
                assert!(start.elapsed() >= ms(next));
                assert_eq!(wakes.count(), 1);
            }
            drop((sleep, waker));
            assert_eq!(counts().0, 0);
        });
    }
}

#[test]
fn an_entry_of_another_task_is_dropped() {
    on_a_worker(async {
        let [(one, waker), (other, others)] = [(); 2].map(|()| Wakes::new());
        set_and_cancel(ms(10), waker);
        let mut sleep = registered(sleep(ms(20)), &others);
        assert!(one.is_dropped());
        tokio::time::sleep(ms(40)).await;
        wait_until(|| other.count() > 0);
        assert_ready!(poll(&mut sleep, &others));
        assert_eq!((one.count(), other.count()), (0, 1));
    });
}

/// The end of the runtime drops them, and wakes no task.
#[test]
fn a_worker_keeps_two_entries_at_most() {
    let tasks = on_a_worker(async {
        let (tasks, wakers): (Vec<_>, Vec<_>) = (0..10).map(|_| Wakes::new()).unzip();
        let sleeps = wakers.iter().map(|it| registered(sleep(secs(3_600)), it));
        drop((sleeps.collect::<Vec<_>>(), wakers));
        let kept = tasks.iter().map(|wakes| !wakes.is_dropped());
        assert!(kept.eq((0..10).map(|n| n >= 8)), "the last two");
        assert_eq!(counts().0, 0);
        tasks
    });
    assert!(tasks.iter().all(|it| it.is_dropped() && it.count() == 0));
}

/// The waker of a task that has ended panics when another task makes the worker drop it.
#[test]
fn a_left_waker_that_panics_harms_no_other_task() {
    on_a_worker(async {
        let waker = Wakes::new().1;
        let panicking = || Hook::on_drop(quiet_panic).waker();
        set_and_cancel(secs(30), panicking());
        set_and_cancel(secs(30), waker.clone());
        for _ in 0..5 {
            drop([(); 3].map(|()| registered(sleep(secs(30)), &panicking())));
        }
        set_and_cancel(secs(30), waker);
    });
}

/// A worker that blocks in place hands its place to another thread.
#[test]
fn a_worker_that_moves_to_another_thread_leaves_nothing_behind() {
    on_a_worker(async {
        for _ in 0..20 {
            let (wakes, waker) = Wakes::new();
            set_and_cancel(ms(5), waker.clone());
            tokio::task::block_in_place(|| set_and_cancel(ms(5), waker.clone()));
            set_and_cancel(ms(5), waker);
            yield_now().await;
            while !wakes.is_dropped() {
                tokio::time::sleep(ms(5)).await;
            }
            assert_eq!((wakes.count(), counts().0), (0, 0));
        }
    });
}

#[test]
fn a_sleep_that_another_thread_drops_is_not_left() {
    on_a_worker(async {
        let (wakes, waker) = Wakes::new();
        let sleep = registered(sleep(secs(3_600)), &waker);
        drop(waker);
        thread::spawn(|| drop(sleep)).join().unwrap();
        assert!(wakes.is_dropped());
        assert_eq!(counts().0, 0);
    });
}

/// The drop of the waker uses the shard, and leaves another entry.
#[test]
fn a_left_waker_may_run_code_when_it_is_dropped() {
    on_a_worker(async {
        let hook = Hook::on_drop(|| set_and_cancel(secs(7), Waker::noop().clone()));
        // The entry has the only waker.
        set_and_cancel(secs(30), hook.waker());
        assert!(!hook.has_run());
        set_and_cancel(secs(30), Wakes::new().1);
        assert!(hook.has_run());
    });
}
