//! Promise 1, never early: when a `Sleep` is ready, its deadline has passed. Every `Duration` saturates.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// A sleep is ready in the first millisecond of tokio's alarm that has reached the tick of the deadline.
    #[test]
    fn whatever_the_tick_and_the_deadline(
        tick in 1..20_000_000_u64,
        offset in 0..20_000_000_u64,
        nanos in prop::collection::vec(0..200_000_000_u64, 1..20),
    ) {
        const MILLI: u64 = 1_000_000;
        paused().block_on(async {
            let start = Instant::now();
            let since_start = |at: Instant| (at - start).as_nanos() as u64;
            tokio::time::advance(Duration::from_nanos(offset)).await;
            let timer = Timer::builder().tick(Duration::from_nanos(tick)).install().unwrap();
            tokio::time::advance(Duration::from_nanos(offset / 3)).await;
            let mut sleeps = JoinSet::new();
            for nanos in nanos {
                let deadline = Instant::now() + Duration::from_nanos(nanos);
                let sleep = timer.sleep_until(deadline);
                sleeps.spawn(async move {
                    sleep.await;
                    (deadline, Instant::now())
                });
            }
            while let Some(ended) = sleeps.join_next().await {
                let (deadline, now) = ended.unwrap();
                assert!(now >= deadline, "early by {:?}", deadline - now);
                let due = offset + (since_start(deadline) - offset).next_multiple_of(tick);
                let latest = due.next_multiple_of(MILLI) + (offset + offset / 3) % MILLI;
                assert!(since_start(now) <= latest, "late, {deadline:?}, {now:?}");
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn any_duration_saturates() {
    let far = [
        Duration::MAX,
        Duration::MAX / 2,
        Duration::from_secs(u64::MAX),
        Duration::from_secs(i64::MAX as u64),
        Duration::from_nanos(u64::MAX),
        100 * YEAR,
    ];
    for duration in far {
        let mut sleep = task::spawn(sleep(duration));
        let mut limit = task::spawn(timeout(duration, pending::<()>()));
        assert_pending!(sleep.poll());
        assert_pending!(limit.poll());
        advance(YEAR / 10).await;
        tokio::time::sleep(YEAR / 10).await;
        assert!(!sleep.is_woken() && !limit.is_woken(), "{duration:?}");
    }
}

/// A thread of another runtime, whose clock is an hour ahead, polls a sleep of this timer.
#[test]
fn another_runtimes_clock_moves_nobody_ahead() {
    let home = multi_thread(1);
    let timer = {
        let _entered = home.enter();
        Timer::builder().shards(1).build().unwrap()
    };
    let foreign = timer.clone();
    let ahead = thread::spawn(move || {
        paused().block_on(async {
            tokio::time::advance(secs(3_600)).await;
            let _ = poll(&mut foreign.sleep(ms(10)), Waker::noop());
            let mut earlier = foreign.sleep(secs(60));
            let _ = poll(&mut earlier, Waker::noop());
            Pin::new(&mut earlier).reset(Instant::now() + ms(5));
        });
    });
    ahead.join().unwrap();
    home.block_on(async { drop(pending_sleep(timer.sleep(secs(600)))) });
}
