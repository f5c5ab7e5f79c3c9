//! The operations of other platforms' timers. Each test names a system and an operation of it.

use tokio::task::JoinSet;

use super::*;

/// Netty's `HashedWheelTimer`.
mod netty {
    use super::*;

    /// `newTimeout(TimerTask, delay, unit)`: the task runs once, after the delay.
    #[tokio::test(start_paused = true)]
    async fn new_timeout() {
        let start = Instant::now();
        let timeout = built().schedule(ms(250), async move { start.elapsed() });
        assert_eq!(output(timeout.unwrap()).await, ms(250));
    }

    /// `Timeout.cancel()` returns false if the timeout has expired or was canceled before. Also
    /// `isCancelled` and `isExpired`.
    #[tokio::test(start_paused = true)]
    async fn timeout_cancel_is_cancelled_is_expired() {
        let timer = built();
        let timeout = timer.schedule(ms(250), async {}).unwrap();
        assert!(!timeout.is_cancelled() && !timeout.is_started());
        assert!(timeout.cancel());
        assert!(timeout.is_cancelled() && !timeout.is_started());
        assert!(!timeout.cancel());

        let timeout = timer.schedule(ms(250), async {}).unwrap();
        sleep(ms(250)).await;
        settle().await;
        assert!(!timeout.cancel());
        assert!(!timeout.is_cancelled() && timeout.is_started());
    }

    /// `maxPendingTimeouts` of the constructor: `newTimeout` throws a `RejectedExecutionException`. Here
    /// the error returns the task. Also `pendingTimeouts()`.
    #[tokio::test(start_paused = true)]
    async fn max_pending_timeouts_and_pending_timeouts() {
        let timer = limited(2);
        let timeouts = [(); 2].map(|()| timer.schedule(ms(250), async {}).unwrap());
        assert_eq!(timer.metrics().pending(), 2);
        let rejected = timer.schedule(ms(250), async { "rejected" }).unwrap_err();
        assert!(rejected.is_full());
        assert_eq!(rejected.into_inner().await, "rejected");

        assert!(timeouts[0].cancel());
        assert_eq!(timer.metrics().pending(), 1);
        drop(timer.schedule(ms(250), async {}).unwrap());
        sleep(ms(300)).await;
        assert_eq!(timer.metrics().pending(), 0);
    }

    /// `pendingTimeouts()` in netty's issue 14959: a timeout that was canceled while it expired was
    /// subtracted twice, so the limit admitted more and more timeouts. This test uses one shard, because
    /// the metric is then exact.
    #[test]
    fn issue_14959_pending_timeouts_under_cancel_and_expire() {
        const MAX: usize = 10;
        does_not_hang(|| {
            let runtime = multi_thread(1);
            let builder = Timer::builder().shards(1).max_pending(MAX);
            let timer = runtime.block_on(async { builder.build().unwrap() });
            let done = AtomicBool::new(false);
            thread::scope(|scope| {
                let cancels = [(); 2].map(|()| {
                    scope.spawn(|| {
                        for n in 0..20_000 {
                            let delay = Duration::from_micros(n % 3 * 500);
                            if let Ok(timeout) = timer.schedule(delay, async {}) {
                                if n % 5 > 0 {
                                    (0..n % 100).for_each(|_| std::hint::spin_loop());
                                    timeout.cancel();
                                }
                            }
                        }
                    })
                });
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let pending = timer.metrics().pending();
                        assert!(pending <= MAX as u64, "{pending} timeouts are pending");
                        thread::sleep(Duration::from_micros(20));
                    }
                });
                for thread in cancels {
                    thread.join().unwrap();
                }
                done.store(true, Ordering::Relaxed);
            });
            wait_until(|| timer.metrics().pending() == 0);
            assert_eq!(limit::room(&timer), MAX);
        });
    }

    /// `stop()` returns the timeouts that have neither expired nor been canceled. It ends the worker,
    /// and `newTimeout` then fails.
    #[tokio::test(start_paused = true)]
    async fn stop_returns_the_unprocessed_timeouts() {
        let before = alive();
        let timer = built();
        let expired = timer.schedule(ms(10), async { "expired" }).unwrap();
        let cancelled = timer.schedule(ms(250), async { "cancelled" }).unwrap();
        assert!(cancelled.cancel());
        let unprocessed = timer.schedule(ms(250), async { "unprocessed" }).unwrap();
        let deadline = unprocessed.deadline();
        sleep(ms(20)).await;

        let stopped = timer.shutdown();
        assert_eq!(stopped.len(), 1);
        assert_eq!(stopped[0].deadline(), deadline);
        assert!(timer.schedule(ms(250), async {}).unwrap_err().is_shutdown());
        assert_eq!(output(expired).await, "expired");
        assert!(result(unprocessed).await.unwrap_err().is_shutdown());
        settle().await;
        assert_eq!(alive(), before);
    }
}

/// PowerJob's `HashedWheelTimer`, whose tasks run on a pool of threads.
mod powerjob {
    use super::*;

    /// `schedule` with a pool for the tasks: a slow task cannot stall the wheel. This task blocks its
    /// thread until a later task has run.
    #[test]
    fn a_slow_task_stalls_neither_the_wheel_nor_other_tasks() {
        does_not_hang(|| {
            let runtime = multi_thread(2);
            let timer = runtime.block_on(async { built() });
            let (free, freed) = mpsc::channel();
            let slow = timer.schedule(Duration::ZERO, async move { freed.recv().unwrap() });
            let slow = slow.unwrap();
            wait_until(|| slow.is_started());
            for delay in [0, 1, 5, 0] {
                let quick = timer.schedule(ms(delay), async {}).unwrap();
                tokio_test::block_on(quick).unwrap();
            }
            assert!(!slow.is_finished());
            let frees = timer.schedule(ms(1), async move { free.send(7).unwrap() });
            tokio_test::block_on(frees.unwrap()).unwrap();
            assert_eq!(tokio_test::block_on(slow).unwrap(), 7);
        });
    }

    /// A task that waits or throws cannot stall the wheel either.
    #[tokio::test(start_paused = true)]
    async fn a_waiting_or_throwing_task_delays_no_other() {
        let timer = built();
        let start = Instant::now();
        let waits = timer.schedule(ms(10), sleep(secs(60))).unwrap();
        let throws = timer.schedule(ms(10), async { quiet_panic() }).unwrap();
        let on_time = [10, 11, 500].map(|delay| {
            let task = timer.schedule(ms(delay), async move { start.elapsed() });
            (ms(delay), task.unwrap())
        });
        for (delay, task) in on_time {
            assert_eq!(output(task).await, delay);
        }
        assert!(!waits.is_finished());
        assert!(result(throws).await.unwrap_err().is_panic());
    }

    /// `TimerFuture.cancel`, `isCancelled`, `isDone`.
    #[tokio::test(start_paused = true)]
    async fn timer_future() {
        let future = built().schedule(ms(10), async {}).unwrap();
        assert!(!future.is_finished());
        assert!(future.cancel());
        assert!(future.is_cancelled() && future.is_finished());
    }

    /// `stop()` returns the tasks that have not started.
    #[tokio::test(start_paused = true)]
    async fn stop_returns_the_unprocessed_tasks() {
        let timer = built();
        let ran = Count::default();
        let counts = ran.clone();
        drop(timer.schedule(ms(10), async move { counts.add() }).unwrap());
        let runs: JoinSet<()> = timer.shutdown().into_iter().collect();
        runs.join_all().await;
        assert_eq!(ran.get(), 1);
    }
}

/// The JDK's `Timer` and `ScheduledExecutorService`.
mod jdk {
    use super::*;

    /// Returns the starts of the runs of a periodic task, in milliseconds, and its error. `runs` has the
    /// duration of each run, and one more run throws. The task has a fixed rate with the given behavior,
    /// or a fixed delay. The period is 10 ms, and the initial delay is 5 ms.
    async fn starts(
        fixed_rate: Option<MissedTickBehavior>,
        runs: Vec<u64>,
    ) -> (Vec<u128>, TaskError) {
        let timer = built();
        let start = Instant::now();
        let log = Arc::new(Mutex::new(Vec::new()));
        let mut runs = runs.into_iter();
        let make = {
            let log = log.clone();
            move || {
                log.lock().unwrap().push(start.elapsed().as_millis());
                let takes = runs.next();
                async move {
                    match takes {
                        Some(takes) => sleep(ms(takes)).await,
                        None => quiet_panic(),
                    }
                }
            }
        };
        let task = match fixed_rate {
            Some(MissedTickBehavior::Burst) => timer.schedule_at_fixed_rate(ms(5), ms(10), make),
            Some(other) => timer.schedule_at_fixed_rate_with(other, ms(5), ms(10), make),
            None => timer.schedule_with_fixed_delay(ms(5), ms(10), make),
        };
        let error = result(task.unwrap()).await.unwrap_err();
        sleep(secs(1)).await;
        assert_eq!(timer.metrics().pending(), 0);
        let log = std::mem::take(&mut *log.lock().unwrap());
        (log, error)
    }

    /// `ScheduledExecutorService.schedule(Callable, delay, unit)` and `ScheduledFuture.get`.
    #[tokio::test(start_paused = true)]
    async fn schedule_a_callable_and_get() {
        let future = built().schedule(ms(10), async { 6 * 7 }).unwrap();
        assert_eq!(output(future).await, 42);
    }

    /// `Timer.schedule(TimerTask, Date)`: the task runs at once if the date has passed.
    #[tokio::test(start_paused = true)]
    async fn schedule_at_a_date() {
        sleep(ms(100)).await;
        let (past, now) = (Instant::now() - ms(50), Instant::now());
        let task = built().schedule_at(past, async { Instant::now() });
        assert_eq!(output(task.unwrap()).await, now);
    }

    /// `scheduleAtFixedRate`: a run starts after the initial delay and then every period. After a run
    /// that takes longer than the period, the next runs start late. Runs do not overlap. An exception
    /// suppresses all later runs.
    #[tokio::test(start_paused = true)]
    async fn schedule_at_fixed_rate() {
        let burst = Some(MissedTickBehavior::Burst);
        let (starts, error) = starts(burst, vec![0, 3, 25, 0, 0, 0]).await;
        assert_eq!(starts, [5, 15, 25, 50, 50, 55, 65]);
        assert!(error.is_panic(), "{error}");
    }

    /// `scheduleWithFixedDelay`: the delay is between the end of one run and the start of the next.
    #[tokio::test(start_paused = true)]
    async fn schedule_with_fixed_delay() {
        let (starts, error) = starts(None, vec![0, 3, 25, 0]).await;
        assert_eq!(starts, [5, 15, 28, 63, 73]);
        assert!(error.is_panic(), "{error}");
    }

    /// `Timer.schedule(TimerTask, delay, period)`: its "fixed delay" is between the starts of two runs. A
    /// late run postpones the runs after it.
    #[tokio::test(start_paused = true)]
    async fn timer_schedule_with_a_period() {
        let delay = Some(MissedTickBehavior::Delay);
        let (starts, error) = starts(delay, vec![0, 3, 25, 0, 20, 0, 0]).await;
        assert_eq!(starts, [5, 15, 25, 50, 60, 80, 90, 100]);
        assert!(error.is_panic(), "{error}");
    }

    /// A periodic task that throws does not run again, and `get` of its future throws. In a `Timer` all
    /// tasks would end. Here the other tasks continue.
    #[tokio::test(start_paused = true)]
    async fn a_periodic_task_that_throws_is_suppressed_and_no_other_is() {
        let timer = built();
        let throws = timer.schedule_at_fixed_rate(ms(10), ms(10), || async { quiet_panic() });
        let runs = Count::default();
        let counts = runs.clone();
        let lives = timer.schedule_at_fixed_rate(ms(10), ms(10), move || {
            counts.add();
            async {}
        });
        sleep(ms(105)).await;
        assert_eq!(runs.get(), 10);
        assert!(!lives.unwrap().is_finished());
        assert!(result(throws.unwrap()).await.unwrap_err().is_panic());
    }

    /// `Future.cancel(false)` of a periodic task during a run: the run completes.
    #[tokio::test(start_paused = true)]
    async fn cancel_a_periodic_task() {
        let ends = Count::default();
        let counts = ends.clone();
        let task = built().schedule_at_fixed_rate(ms(10), ms(10), move || {
            let counts = counts.clone();
            async move {
                sleep(ms(5)).await;
                counts.add();
            }
        });
        let task = task.unwrap();
        sleep(ms(32)).await;
        assert!(task.cancel());
        sleep(secs(1)).await;
        assert_eq!(ends.get(), 3);
        assert!(result(task).await.unwrap_err().is_cancelled());
    }

    /// `shutdownNow()` returns the tasks that have not started.
    #[tokio::test(start_paused = true)]
    async fn shutdown_now() {
        let timer = built();
        let commenced = timer.schedule(ms(10), sleep(ms(50))).unwrap();
        let _never = timer.schedule(ms(30), async {}).unwrap();
        sleep(ms(20)).await;
        assert_eq!(timer.shutdown().len(), 1);
        output(commenced).await;
    }

    /// `shutdown()`: delayed tasks run on time, even if other tasks take long. Periodic tasks do not run
    /// again.
    #[tokio::test(start_paused = true)]
    async fn shutdown() {
        let timer = built();
        let start = Instant::now();
        let log = Arc::new(Mutex::new(Vec::new()));
        let run = |takes| {
            let log = log.clone();
            async move {
                log.lock().unwrap().push(start.elapsed());
                sleep(takes).await;
            }
        };
        for (delay, takes) in [(ms(30), Duration::MAX), (ms(10), secs(1)), (ms(20), ms(0))] {
            drop(timer.schedule(delay, run(takes)).unwrap());
        }
        let runs = Count::default();
        let counts = runs.clone();
        let make = move || {
            counts.add();
            async {}
        };
        drop(timer.schedule_at_fixed_rate(ms(15), ms(15), make).unwrap());

        for task in timer.shutdown() {
            if !task.is_periodic() {
                tokio::spawn(async move {
                    tokio::time::sleep_until(task.deadline()).await;
                    task.await;
                });
            }
        }
        sleep(secs(2)).await;
        assert_eq!(*log.lock().unwrap(), [ms(10), ms(20), ms(30)]);
        assert_eq!(runs.get(), 0);
    }
}

/// Kafka's `SystemTimer`, whose clock advances on demand.
mod kafka {
    use super::*;

    /// `add(TimerTask)` and `advanceClock(timeoutMs)`: the clock advances to the next expiration, at any
    /// distance, and skips empty ticks. With a million tasks in some months and one task tomorrow, the
    /// driver wakes only for the one task.
    #[tokio::test(start_paused = true)]
    async fn the_clock_advances_on_demand() {
        const DAY: Duration = secs(86_400);
        let timer = built();
        for n in 0..1_000_000 {
            drop(timer.schedule(DAY * 300 + ms(n), async {}).unwrap());
        }
        settle().await;
        let before = timer.metrics().driver_wakeups();
        assert!(before <= 1, "{before} wake-ups for the first one");
        sleep(DAY).await;
        assert_eq!(timer.metrics().driver_wakeups(), before, "an idle day");

        let start = Instant::now();
        let purgatory = timer.schedule(DAY, async move { start.elapsed() });
        assert_eq!(output(purgatory.unwrap()).await, DAY);
        // Its deadline becomes the earliest, and the driver wakes for some levels of the wheel.
        let wakeups = timer.metrics().driver_wakeups() - before;
        assert!(wakeups <= 8, "{wakeups} wake-ups for one task in a day");
        assert_eq!(timer.metrics().pending(), 1_000_000);
    }

    /// `TimerTask.cancel()` is O(1), and wakes no thread. Also `size()`.
    #[tokio::test(start_paused = true)]
    async fn cancel_and_size() {
        let timer = built();
        let tasks: Vec<_> = (0..1_000)
            .map(|n| timer.schedule(secs(30 + n), async {}).unwrap())
            .collect();
        settle().await;
        let before = timer.metrics().driver_wakeups();
        assert_eq!(timer.metrics().pending(), 1_000);
        assert!(tasks.iter().all(ScheduledTask::cancel));
        assert_eq!(timer.metrics().pending(), 0);
        sleep(secs(3_600)).await;
        let wakeups = timer.metrics().driver_wakeups() - before;
        assert!(wakeups <= 1, "{wakeups} wake-ups for nothing");
    }

    /// `shutdown()` ends the pool of the tasks. Here the driver ends.
    #[tokio::test(start_paused = true)]
    async fn shutdown() {
        let before = alive();
        let timer = built();
        settle().await;
        drop(timer.shutdown());
        settle().await;
        assert_eq!(alive(), before);
    }
}
