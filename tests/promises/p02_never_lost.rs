//! Promise 2, never lost: every registered entry fires or is deregistered, or its timer shuts down.

use super::*;

/// Each sleep may be the earliest, while the driver may be about to park.
#[test]
fn every_sleep_fires_however_registration_and_driver_interleave() {
    does_not_hang(|| {
        let runtime = multi_thread(2);
        let timer = runtime.block_on(async { Timer::builder().build().unwrap() });
        thread::scope(|scope| {
            for thread in 0..4 {
                let (timer, handle) = (timer.clone(), runtime.handle());
                let body = async move {
                    for n in 0..400_u64 {
                        let wait = Duration::from_micros((n * 7 + thread) % 5 * 300);
                        timer.sleep(wait).await;
                    }
                };
                scope.spawn(move || match thread < 2 {
                    true => handle.block_on(handle.spawn(body)).unwrap(),
                    false => tokio_test::block_on(body),
                });
            }
        });
        let metrics = timer.metrics();
        assert_eq!((metrics.pending(), metrics.cancelled()), (0, 0));
    });
}

/// The runtime may stop at once, and a current-thread runtime drops the wakes that such a task has deferred.
#[test]
fn what_a_task_without_budget_registers_fires() {
    let runtime = paused();
    let timer = runtime.block_on(async {
        let timer = Timer::builder().build().unwrap();
        settle().await;
        timer
    });
    let (wakes, waker) = Wakes::new();
    let _sleep = runtime.block_on(poll_fn(|cx| {
        while let Poll::Ready(budget) = coop::poll_proceed(cx) {
            budget.made_progress();
        }
        Poll::Ready(registered(timer.sleep(ms(5)), &waker))
    }));
    runtime.block_on(async {
        tokio::time::sleep(ms(100)).await;
        assert_eq!(wakes.count(), 1);
    });
}
