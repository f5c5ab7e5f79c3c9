//! "**Lateness** is at most one tick plus one driver wake-up. Choose the default so that it is
//! not later than `tokio::time`."

use super::*;

/// When `wait` ends that starts now, for each of the two.
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

/// The paused clock moves in milliseconds, as tokio's alarm does, and ours must not
/// arrive at a later one: wherever within a millisecond the timer's origin lies, if the tick divides that.
#[test]
fn the_default_tick_is_not_later_than_tokio() {
    for origin in [0, 15_625, 250_000, 500_000, 984_375] {
        paused().block_on(async {
            tokio::time::advance(Duration::from_nanos(origin)).await;
            for n in 0..500_u64 {
                let (ours, theirs) = ends(Duration::from_nanos(n * 37_511)).await;
                assert!(
                    ours <= theirs,
                    "{n}, from {origin} ns: {:?} later",
                    ours - theirs
                );
            }
        });
    }
}

/// Where the tick does not divide the origin, a deadline may round past the millisecond.
#[test]
fn the_default_tick_is_at_most_one_wake_up_later_than_tokio() {
    for origin in [1, 300, 7_812, 333_333, 999_999] {
        paused().block_on(async {
            tokio::time::advance(Duration::from_nanos(origin)).await;
            for n in 0..500_u64 {
                let (ours, theirs) = ends(Duration::from_nanos(n * 37_511)).await;
                assert!(ours <= theirs + ms(1), "{:?} later", ours - theirs);
            }
        });
    }
}

#[test]
fn a_coarse_tick_is_late_by_less_than_itself_and_a_wake_up() {
    paused().block_on(async {
        let tick = ms(50);
        let timer = Timer::builder().tick(tick).build().unwrap();
        for n in 1..200 {
            let deadline = Instant::now() + ms(n);
            timer.sleep_until(deadline).await;
            assert!(deadline.elapsed() < tick + ms(1));
        }
    });
}

/// What is due is fired at once, whatever the alarm's steps.
#[test]
fn what_is_due_waits_for_no_alarm() {
    paused().block_on(async {
        // Between two of tokio's milliseconds, and of the timer's ticks.
        tokio::time::advance(Duration::from_nanos(300_001)).await;
        let timer = Timer::current();
        let start = Instant::now();
        timer
            .schedule(Duration::ZERO, async {})
            .unwrap()
            .await
            .unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);

        let (_, waker) = Wakes::new();
        let mut moved = timer.sleep(ms(50));
        assert_pending!(poll(&mut moved, &waker));
        Pin::new(&mut moved).reset(start);
        moved.await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

/// On one of two workers, a task registers something and then blocks until a sleep of 500 ms has woken
/// another task. A third keeps the other worker coming back to tokio's alarms. Whether the timer is
/// there before.
fn beside_a_worker_that_blocks<T: Send + 'static>(
    timer_is_there: bool,
    register: impl FnOnce() -> T + Send + 'static,
) {
    let runtime = multi_thread(2);
    runtime.block_on(async {
        let busy = tokio::spawn(async {
            loop {
                yield_now().await;
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
            // To be woken by that task would be to wait for its worker.
            while !has_registered.load(Ordering::Acquire) {
                yield_now().await;
            }
            sleep(ms(500)).await;
            done.send(()).unwrap();
        });
        blocks.await.unwrap();
        busy.abort();
    });
}

/// A sleep that is due before the other.
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

/// The driver is spawned by the first who needs it, and is not to wait for that task either.
#[test]
fn a_worker_that_starts_the_driver_and_blocks_makes_no_other_timer_late() {
    does_not_hang(|| beside_a_worker_that_blocks(false, earliest));
}

/// What is due has the driver woken, which is not to wait for that task either.
#[test]
fn a_worker_that_has_something_due_and_blocks_makes_no_other_timer_late() {
    let due = || Timer::current().schedule(Duration::ZERO, async {});
    does_not_hang(move || beside_a_worker_that_blocks(true, due));
}
