//! `Scheduler::shutdown`.

use futures_util::FutureExt as _;

use super::{
    periodic::{Pace, every},
    *,
};

/// The shutdown returns the next run of a periodic task, which is the last run.
#[tokio::test(start_paused = true)]
async fn of_a_periodic_task_one_run_is_given_back() {
    for ran in [0, 2] {
        let scheduler = Scheduler::new();
        let (make, runs, drops) = counted(yield_now);
        let start = Instant::now();
        let task = scheduler.schedule_at_fixed_rate(ms(10), ms(10), make);
        let task = task.unwrap();
        sleep(ms(5 + 10 * ran)).await;
        let mut left = scheduler.shutdown();
        assert_eq!(left.len(), 1);
        assert!(result(task).await.unwrap_err().is_shutdown());
        let left = left.pop().unwrap();
        assert_eq!(left.deadline(), start + ms(10 * (ran + 1)));
        assert!(left.is_periodic() && scheduler.shutdown().is_empty());
        assert_eq!((runs.get() as u64, drops.get()), (ran, 0));
        left.await;
        assert_eq!((runs.get() as u64, drops.get()), (ran + 1, 1));
        sleep(ms(50)).await;
        assert_eq!(runs.get() as u64, ran + 1);
        assert_eq!(scheduler.pending(), 0);
    }
}

/// Tasks that have started complete. A periodic task has its last run, which may return `Break` or be canceled.
#[tokio::test(start_paused = true)]
async fn what_has_started_goes_on() {
    for (pace, breaks, cancels) in [
        (Pace::Rate, false, false),
        (Pace::Delay, false, false),
        (Pace::Rate, true, false),
        (Pace::Delay, true, true),
    ] {
        let scheduler = Scheduler::new();
        let once = scheduler.schedule(ms(5), sleep(ms(10)));
        let (runs, drops) = (Count::default(), Count::default());
        let (count, held) = (runs.clone(), drops.on_drop());
        let make = move || {
            let _closure_holds = &held;
            count.add();
            async move {
                sleep(ms(10)).await;
                match breaks {
                    true => ControlFlow::Break(7),
                    false => ControlFlow::Continue(()),
                }
            }
        };
        let periodic = every(&scheduler, pace, ms(5), ms(20), make);
        sleep(ms(6)).await;
        assert!(scheduler.shutdown().is_empty());
        assert!(!periodic.is_finished(), "it runs");
        assert_eq!(cancels && periodic.cancel(), cancels);
        output(once.unwrap()).await;
        match result(periodic).await {
            Ok(output) => assert!(output == 7 && breaks && !cancels),
            Err(error) if cancels => assert!(error.is_cancelled()),
            Err(error) => assert!(error.is_shutdown() && !breaks),
        }
        sleep(secs(1)).await;
        assert_eq!((runs.get(), drops.get()), (1, 1));
    }
}

/// The numbers of the handles and of the returned tasks agree.
#[test]
fn a_task_that_is_given_back_has_the_number_of_its_handle() {
    let runtime = multi_thread(2);
    let scheduler = runtime.block_on(async { Scheduler::new() });
    let of_worker = scheduler.clone();
    let id_of = move |n: u64| of_worker.schedule(secs(60 + n), async {}).unwrap().id();
    let mut ids: Vec<_> = (0..100).map(&id_of).collect();
    let others = async move { (100..200).map(id_of).collect::<Vec<_>>() };
    ids.extend(runtime.block_on(runtime.spawn(others)).unwrap());
    let left: Vec<_> = scheduler.shutdown().iter().map(Unstarted::id).collect();
    assert_eq!(left, ids);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 200);
}

/// Runs that have started count, also those of periodic tasks that have been canceled. Waiting tasks do not.
#[tokio::test(start_paused = true)]
async fn a_thread_can_wait_for_what_runs() {
    let scheduler = Scheduler::new();
    scheduler.wait_idle().await;
    let start = Instant::now();
    drop(scheduler.schedule(ms(5), sleep(ms(10))));
    drop(scheduler.schedule(ms(5), async { quiet_panic() }));
    let beat = scheduler.schedule_at_fixed_rate(ms(5), ms(5), || sleep(ms(20)));
    drop(scheduler.schedule(secs(60), async {}));
    sleep(ms(6)).await;
    beat.unwrap().cancel();
    assert_eq!(scheduler.shutdown().len(), 1);
    scheduler.wait_idle().await;
    assert_eq!(start.elapsed(), ms(25));
}

/// The handle was dropped, so the run drops the output.
#[tokio::test(start_paused = true)]
async fn a_task_that_drops_its_output_still_runs() {
    struct Output(Scheduler, Arc<AtomicBool>);
    impl Drop for Output {
        fn drop(&mut self) {
            let is_idle = self.0.wait_idle().now_or_never().is_some();
            self.1.store(!is_idle, Ordering::Relaxed);
        }
    }
    let (scheduler, has_run) = (Scheduler::new(), Arc::new(AtomicBool::new(false)));
    let output = Output(scheduler.clone(), has_run.clone());
    drop(scheduler.schedule(ms(5), async { output }));
    sleep(ms(6)).await;
    assert!(has_run.load(Ordering::Relaxed));
}
