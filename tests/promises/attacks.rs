//! Clients that choose when to connect, for how long and how often. The tests prove those lines of `SECURITY.md`
//! that `promises/` does not prove.

use std::{task::Waker, thread};

use tokio_test::assert_pending;
use tokio_wheel::{Duration, Instant, Sleep, Timer, sleep_until};

use crate::support::{Wakes, does_not_hang, ms, paused, poll, settle};

/// The default tick.
const TICK: Duration = Duration::from_nanos(15_625);

/// Registers sleeps on a new thread, and therefore in another shard. Returns the pending sleeps.
fn elsewhere(timer: &Timer, deadlines: Vec<Instant>, waker: &Waker) -> Vec<Sleep> {
    let runtime = tokio::runtime::Handle::current();
    let pending = |deadline| {
        let mut sleep = timer.sleep_until(deadline);
        assert_pending!(poll(&mut sleep, waker));
        sleep
    };
    thread::scope(|scope| {
        let register = || {
            let _entered = runtime.enter();
            deadlines.into_iter().map(pending).collect()
        };
        scope.spawn(register).join().unwrap()
    })
}

/// In one shard, 100,000 sleeps expire at once. A sleep in another shard does not wait for them.
#[test]
fn a_crowd_in_one_shard_does_not_hold_up_another() {
    const CROWD: usize = 100_000;
    does_not_hang(|| {
        paused().block_on(async {
            let timer = Timer::builder().shards(2).build().unwrap();
            let deadline = Instant::now() + ms(100);
            let (wakes, waker) = Wakes::new();
            let first = elsewhere(&timer, vec![deadline; CROWD], &waker);
            let (victims_wakes, victims_waker) = Wakes::new();
            let victim = elsewhere(&timer, vec![deadline], &victims_waker);
            let second = elsewhere(&timer, vec![deadline; CROWD], &waker);
            settle().await;
            tokio::time::advance(ms(100)).await;
            for _ in 0..CROWD {
                if victims_wakes.count() == 0 {
                    tokio::task::yield_now().await;
                }
            }
            assert_eq!(victims_wakes.count(), 1);
            let before = wakes.count();
            assert!(before < 2_000, "{before} sleeps of the crowd fired first");
            drop((first, victim, second));
        });
    });
}

/// The alarm has a resolution of a millisecond, which has 64 default ticks.
#[test]
fn timers_at_every_tick_wake_the_driver_once_in_a_millisecond() {
    const TICKS: u32 = 64_000;
    paused().block_on(async {
        let timer = Timer::current();
        let start = Instant::now();
        let (wakes, waker) = Wakes::new();
        let mut sleeps: Vec<_> = (1..=TICKS).map(|n| sleep_until(start + TICK * n)).collect();
        for sleep in &mut sleeps {
            assert_pending!(poll(sleep, &waker));
        }
        settle().await;
        let before = timer.metrics().driver_wakeups();
        while wakes.count() < sleeps.len() {
            tokio::time::sleep(ms(10)).await;
        }
        let wakeups = timer.metrics().driver_wakeups() - before;
        let took = start.elapsed().as_millis();
        assert!(took >= 1_000, "early, after {took} ms");
        assert!(
            u128::from(wakeups) <= took,
            "{wakeups} wake-ups in {took} ms"
        );
    });
}
