//! Promise 3, lateness: a timer is late by at most one tick and one wake-up of the driver.
//!
//! With the default tick, a sleep is not later than with `tokio::time`.

use super::*;

/// Returns when a `wait` that starts now ends, for tokio and for this crate.
async fn ends(wait: Duration) -> (Instant, Instant) {
    let (ours, theirs) = (sleep(wait), tokio::time::sleep(wait));
    tokio::join!(
        async {
            ours.await;
            Instant::now()
        },
        async {
            theirs.await;
            Instant::now()
        },
    )
}

/// The paused clock moves in milliseconds, as tokio's alarm does. If the tick divides the origin of the timer, the sleep
/// must not end at a later millisecond than tokio's sleep. Otherwise, a deadline may round up past the millisecond.
#[test]
fn the_default_tick_is_not_later_than_tokio() {
    let exact = [0, 15_625, 250_000, 500_000, 984_375].map(|origin| (origin, ms(0)));
    let rounded = [1, 300, 7_812, 333_333, 999_999].map(|origin| (origin, ms(1)));
    for (origin, most) in exact.into_iter().chain(rounded) {
        paused().block_on(async {
            tokio::time::advance(Duration::from_nanos(origin)).await;
            for n in 0..500_u64 {
                let (ours, theirs) = ends(Duration::from_nanos(n * 37_511)).await;
                assert!(
                    ours <= theirs + most,
                    "{n}, from {origin} ns: {:?} later",
                    ours - theirs
                );
            }
        });
    }
}

/// A due entry fires at once, whatever the steps of the alarm.
#[test]
fn what_is_due_waits_for_no_alarm() {
    paused().block_on(async {
        // This instant is between two of tokio's milliseconds, and between two ticks of the timer.
        tokio::time::advance(Duration::from_nanos(300_001)).await;
        let timer = Timer::current();
        let start = Instant::now();
        let (_, waker) = Wakes::new();
        let mut moved = timer.sleep(ms(50));
        assert_pending!(poll(&mut moved, &waker));
        Pin::new(&mut moved).reset(start);
        moved.await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

/// Blocks one of two workers until a sleep of 300 ms wakes another task.
///
/// The blocking task calls `register` first. A third task keeps the other worker returning to
/// tokio's alarms. `timer_is_there` says whether the default timer starts before that.
fn beside_a_worker_that_blocks<T: Send + 'static>(
    timer_is_there: bool,
    register: impl FnOnce() -> T + Send + 'static,
) {
    let runtime = multi_thread(2);
    runtime.block_on(async {
        let busy = tokio::spawn(async {
            loop {
                tokio::time::sleep(ms(1)).await;
            }
        });
        if timer_is_there {
            tokio::spawn(sleep(ms(1))).await.unwrap();
        }
        let has_registered = Arc::new(AtomicBool::new(false));
        let (done, is_done) = std::sync::mpsc::channel();
        let registers = has_registered.clone();
        let blocks = tokio::spawn(async move {
            let _registered = register();
            registers.store(true, Ordering::Release);
            is_done.recv().unwrap();
        });
        tokio::spawn(async move {
            // A wake by that task would wait for its blocked worker.
            while !has_registered.load(Ordering::Acquire) {
                tokio::time::sleep(ms(1)).await;
            }
            sleep(ms(300)).await;
            done.send(()).unwrap();
        });
        blocks.await.unwrap();
        busy.abort();
    });
}

/// Returns a registered sleep that expires before the sleep of 300 ms.
fn earliest() -> Sleep {
    let (_, waker) = Wakes::new();
    let mut earliest = sleep(ms(200));
    assert_pending!(poll(&mut earliest, &waker));
    earliest
}

#[test]
fn a_worker_that_blocks_makes_no_other_timer_late() {
    does_not_hang(|| beside_a_worker_that_blocks(true, earliest));
}

/// The blocking task is the first to need the driver and spawns it. The driver must not wait for
/// that task.
#[test]
fn a_worker_that_starts_the_driver_and_blocks_makes_no_other_timer_late() {
    does_not_hang(|| beside_a_worker_that_blocks(false, earliest));
}

/// Runs `MANY` tasks on four workers, in ten rounds. Their sleeps have one deadline.
///
/// One task calls `block`: the first task that runs on the thread where the driver fires the
/// sleeps. If that thread kept the driver to itself, the driver could not continue.
fn one_of_many_blocks(block: impl Fn(&Ran) + Send + Sync + 'static) {
    let block = Arc::new(block);
    let runtime = multi_thread(4);
    // If the blocking worker has watched tokio's alarms, the others may wait without a look at them, as with
    // `tokio::time`. So another thread keeps a worker returning to the alarms.
    let handle = runtime.handle().clone();
    let (goes_on, has_ended) = mpsc::channel::<()>();
    let keeper = thread::spawn(move || {
        while has_ended.recv_timeout(ms(1)) == Err(mpsc::RecvTimeoutError::Timeout) {
            handle.spawn(async {});
        }
    });
    let mut rounds = 0;
    let mut wait = ms(100);
    while rounds < 10 {
        let ran = Arc::new(Ran::default());
        let drivers_thread = Arc::new(Mutex::new(None));
        let registered = Arc::new(AtomicUsize::new(0));
        let may_block = Arc::new(AtomicBool::new(false));
        let task = |deadline: Instant| {
            let (ran, block) = (ran.clone(), block.clone());
            let (drivers_thread, may_block) = (drivers_thread.clone(), may_block.clone());
            let registered = registered.clone();
            async move {
                let mut sleep = sleep_until(deadline);
                if poll_fn(|cx| Poll::Ready(Pin::new(&mut sleep).poll(cx)))
                    .await
                    .is_pending()
                {
                    registered.fetch_add(1, Ordering::AcqRel);
                    sleep.await;
                }
                let is_drivers = *drivers_thread.lock().unwrap() == Some(thread::current().id());
                if is_drivers && may_block.swap(false, Ordering::AcqRel) {
                    block(&ran);
                }
                ran.add();
            }
        };
        runtime.block_on(async {
            let deadline = Instant::now() + wait;
            // This waker runs on the driver's thread.
            let on_wake = {
                let drivers_thread = drivers_thread.clone();
                move || *drivers_thread.lock().unwrap() = Some(thread::current().id())
            };
            let hook = Hook::on_wake(on_wake);
            let mut first = sleep_until(deadline);
            let _ = poll(&mut first, &hook.waker());
            let mut tasks = JoinSet::new();
            for _ in 0..MANY {
                tasks.spawn(task(deadline));
            }
            while registered.load(Ordering::Acquire) < MANY && Instant::now() < deadline {
                tokio::time::sleep(ms(1)).await;
            }
            // On a busy machine, some tasks are polled after the deadline. Then the sleeps do not
            // fire together, and the round does not count.
            if registered.load(Ordering::Acquire) == MANY && Instant::now() + ms(10) < deadline {
                may_block.store(true, Ordering::Release);
                rounds += 1;
            } else {
                wait *= 2;
            }
            tasks.join_all().await;
        });
    }
    drop(goes_on);
    keeper.join().unwrap();
}

/// More than a turn wakes, and less than a worker's queue holds. If its queue overflowed, tokio could run the blocking
/// task out of turn, while the worker's next task is in the place from which no other worker takes a task.
const MANY: usize = 200;

/// The number of tasks that have run.
#[derive(Default)]
struct Ran(Mutex<usize>, std::sync::Condvar);

impl Ran {
    fn add(&self) {
        *self.0.lock().unwrap() += 1;
        self.1.notify_all();
    }

    /// Blocks the thread until `many` tasks have run.
    fn wait_for(&self, many: usize) {
        let ran = self.0.lock().unwrap();
        drop(self.1.wait_while(ran, |ran| *ran < many).unwrap());
    }
}

/// One task blocks its worker until all other tasks have run. The other three workers are idle.
#[test]
fn a_task_that_blocks_makes_none_of_those_late_that_are_due_with_it() {
    does_not_hang(|| one_of_many_blocks(|ran| ran.wait_for(MANY - 1)));
}

/// One task registers a sleep on its worker, and blocks that worker until the sleep fires. The
/// other three workers are idle.
#[test]
fn a_task_that_blocks_on_a_sleep_is_woken_from_it() {
    does_not_hang(|| one_of_many_blocks(|_| block_on(sleep(ms(20)))));
}
