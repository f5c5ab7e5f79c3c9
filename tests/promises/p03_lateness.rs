//! Promise 3, lateness: a timer is late by at most one tick and one wake-up of the driver.

use super::*;

async fn end(future: impl Future) -> Instant {
    future.await;
    Instant::now()
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
                let wait = Duration::from_nanos(n * 37_511);
                let (ours, theirs) = tokio::join!(end(sleep(wait)), end(tokio::time::sleep(wait)));
                assert!(
                    ours <= theirs + most,
                    "{n}, from {origin} ns: {:?} later",
                    ours - theirs
                );
            }
        });
    }
}

/// A task that has registered a sleep blocks one of two workers until a later sleep wakes another task. A third task
/// keeps the other worker returning to tokio's alarms. Unless `timer_is_there`, the blocking task spawns the driver.
fn beside_a_worker_that_blocks(timer_is_there: bool) {
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
        let (done, is_done) = mpsc::channel();
        let registers = has_registered.clone();
        let blocks = tokio::spawn(async move {
            let _earliest = pending_sleep(sleep(ms(200)));
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

#[test]
fn a_worker_that_blocks_makes_no_other_timer_late() {
    for timer_is_there in [true, false] {
        does_not_hang(move || beside_a_worker_that_blocks(timer_is_there));
    }
}

/// Runs `MANY` tasks with one deadline on four workers. The first task that runs on the driver's thread calls `block`.
/// If that thread kept the driver to itself, the driver could not continue.
fn one_of_many_blocks(block: fn(&AtomicUsize)) {
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
        let [ran, registered] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let drivers_thread = Arc::new(Mutex::new(None));
        let may_block = Arc::new(AtomicBool::new(false));
        let task = |deadline: Instant| {
            let (ran, registered) = (ran.clone(), registered.clone());
            let (drivers_thread, may_block) = (drivers_thread.clone(), may_block.clone());
            async move {
                let mut sleep = sleep_until(deadline);
                if poll_once(&mut sleep).await.is_pending() {
                    registered.fetch_add(1, Ordering::AcqRel);
                    sleep.await;
                }
                let is_drivers = *drivers_thread.lock().unwrap() == Some(thread::current().id());
                if is_drivers && may_block.swap(false, Ordering::AcqRel) {
                    block(&ran);
                }
                ran.fetch_add(1, Ordering::AcqRel);
            }
        };
        runtime.block_on(async {
            let deadline = Instant::now() + wait;
            // This waker runs on the driver's thread.
            let drivers = drivers_thread.clone();
            let hook = Hook::on_wake(move || {
                *drivers.lock().unwrap() = Some(thread::current().id());
            });
            let mut first = sleep_until(deadline);
            let _ = poll(&mut first, &hook.waker());
            let mut tasks = JoinSet::new();
            for _ in 0..MANY {
                tasks.spawn(task(deadline));
            }
            while registered.load(Ordering::Acquire) < MANY && Instant::now() < deadline {
                tokio::time::sleep(ms(1)).await;
            }
            // On a busy machine, some tasks are polled after the deadline. Then the round does not count.
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

/// The blocking task waits until all other tasks have run. The other three workers are idle.
#[test]
fn a_task_that_blocks_makes_none_of_those_late_that_are_due_with_it() {
    let all_others = |ran: &AtomicUsize| wait_until(|| ran.load(Ordering::Acquire) == MANY - 1);
    does_not_hang(move || one_of_many_blocks(all_others));
}

/// The blocking task waits for a sleep that it registers on its worker.
#[test]
fn a_task_that_blocks_on_a_sleep_is_woken_from_it() {
    does_not_hang(|| one_of_many_blocks(|_| block_on(sleep(ms(20)))));
}

/// A task blocks its worker until other tasks have used timers and a socket. Without a watch, the blocked worker is often the
/// one that should wait for their events.
fn beside_a_block(workers: usize) {
    let runtime = multi_thread(workers);
    runtime.block_on(async {
        let (release, is_released) = mpsc::channel();
        let is_blocked = Arc::new(AtomicBool::new(false));
        let blocked = is_blocked.clone();
        let blocking = tokio::spawn(async move {
            sleep(ms(5)).await;
            blocked.store(true, Ordering::Release);
            is_released.recv().unwrap();
        });
        let others = tokio::spawn(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            while !is_blocked.load(Ordering::Acquire) {
                tokio::time::sleep(ms(1)).await;
            }
            for _ in 0..3 {
                tokio::join!(sleep(ms(1)), tokio::time::sleep(ms(1)));
                let connected = thread::spawn(move || std::net::TcpStream::connect(address));
                listener.accept().await.unwrap();
                connected.join().unwrap().unwrap();
            }
            release.send(()).unwrap();
        });
        others.await.unwrap();
        blocking.await.unwrap();
    });
}

#[test]
fn a_worker_that_blocks_stops_neither_timers_nor_sockets() {
    for workers in [2, 4] {
        does_not_hang(move || (0..20).for_each(|_| beside_a_block(workers)));
    }
}
