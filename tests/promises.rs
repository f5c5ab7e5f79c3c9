//! The promises of the design's section 2, one module for each.

#![cfg(feature = "test-util")]

mod hostile;
mod support;

use std::{
    future::{Future, pending, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Poll, Waker},
    thread,
};

use hostile::Hook;
use proptest::prelude::*;
use support::{Wakes, current_thread, does_not_hang, ms, multi_thread, paused, poll, secs, settle};
use tokio::{
    runtime::Runtime,
    task::{JoinSet, coop, yield_now},
};
use tokio_test::{assert_pending, assert_ready, task};
use tokio_wheel::{Duration, Instant, Sleep, Timer, advance, sleep, sleep_until, timeout};

const YEAR: Duration = secs(365 * 86_400);

/// "**Never early.** When a `Sleep` is ready, `Instant::now() >= deadline`. Deadlines round up to
/// a tick, the clock rounds down. Any `Duration`, `Duration::MAX` too, saturates."
mod p01_never_early {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// Ticks and deadlines that divide nothing.
        #[test]
        fn whatever_the_tick_and_the_deadline(
            tick in 1..20_000_000_u64,
            offset in 0..20_000_000_u64,
            nanos in prop::collection::vec(0..200_000_000_u64, 1..20),
        ) {
            paused().block_on(async {
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
                }
            });
        }

        /// The clock moves in steps that divide nothing, and the wheel with it.
        #[test]
        fn whatever_the_steps_of_the_clock(
            tick in 1..20_000_000_u64,
            nanos in 1..100_000_000_u64,
            steps in prop::collection::vec(1..20_000_000_u64, 1..40),
        ) {
            paused().block_on(async {
                Timer::builder().tick(Duration::from_nanos(tick)).install().unwrap();
                let deadline = Instant::now() + Duration::from_nanos(nanos);
                let mut sleep = task::spawn(sleep_until(deadline));
                assert_pending!(sleep.poll());
                for step in steps {
                    advance(Duration::from_nanos(step)).await;
                    if sleep.is_woken() || sleep.is_elapsed() || sleep.poll().is_ready() {
                        assert!(Instant::now() >= deadline);
                        return;
                    }
                    // The same deadline as another future sees it.
                    if task::spawn(sleep_until(deadline)).poll().is_ready() {
                        assert!(Instant::now() >= deadline);
                    }
                }
            });
        }
    }

    #[test]
    fn on_the_real_clock_with_several_workers() {
        does_not_hang(|| {
            multi_thread(2).block_on(async {
                let mut sleeps = JoinSet::new();
                for n in 0..512_u64 {
                    sleeps.spawn(async move {
                        for round in 0..3 {
                            let wait = Duration::from_nanos(n * 30_011 + round);
                            let deadline = Instant::now() + wait;
                            sleep_until(deadline).await;
                            assert!(Instant::now() >= deadline);
                        }
                    });
                }
                while let Some(ended) = sleeps.join_next().await {
                    ended.unwrap();
                }
            });
        });
    }

    #[test]
    fn any_duration_saturates() {
        paused().block_on(async {
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
        });
    }
}

/// "**Never lost.** Every registered entry fires, or is deregistered, or its timer shut down."
mod p02_never_lost {
    use super::*;

    /// Sleeps registered from two workers and two other threads, each of which may be the
    /// earliest: each must get through to a driver that may be about to park.
    #[test]
    fn every_sleep_fires_however_registration_and_driver_interleave() {
        does_not_hang(|| {
            let runtime = multi_thread(2);
            let timer = runtime.block_on(async { Timer::builder().build().unwrap() });
            let threads: Vec<_> = (0..4)
                .map(|thread| {
                    let (timer, handle) = (timer.clone(), runtime.handle().clone());
                    thread::spawn(move || {
                        let body = async move {
                            for n in 0..400_u64 {
                                let wait = Duration::from_micros((n * 7 + thread) % 5 * 300);
                                timer.sleep(wait).await;
                            }
                        };
                        if thread < 2 {
                            handle.block_on(handle.spawn(body)).unwrap();
                        } else {
                            tokio_test::block_on(body);
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(timer.metrics().pending(), 0);
            assert_eq!(timer.metrics().cancelled(), 0);
        });
    }

    #[test]
    fn the_counts_add_up_after_a_random_life() {
        does_not_hang(|| {
            let runtime = multi_thread(2);
            let timer = runtime.block_on(async {
                let mut tasks = JoinSet::new();
                for seed in 0..64_u64 {
                    tasks.spawn(life(seed));
                }
                while let Some(ended) = tasks.join_next().await {
                    ended.unwrap();
                }
                Timer::current()
            });
            let metrics = timer.metrics();
            assert_eq!(metrics.pending(), 0);
            assert_eq!(metrics.registered(), metrics.fired() + metrics.cancelled());
            assert!(metrics.fired() > 0 && metrics.cancelled() > 0);
        });
    }

    async fn life(mut seed: u64) {
        for _ in 0..50 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let micros = seed >> 33 & 0xfff;
            match seed >> 60 & 3 {
                0 => sleep(Duration::from_micros(micros)).await,
                1 => {
                    let answer = sleep(Duration::from_micros(micros / 2));
                    timeout(secs(30), answer).await.unwrap();
                }
                2 => {
                    let mut moved = sleep(secs(30));
                    assert!(poll_once(&mut moved).await.is_pending());
                    yield_now().await;
                    let deadline = Instant::now() + Duration::from_micros(micros);
                    Pin::new(&mut moved).reset(deadline);
                    moved.await;
                }
                _ => {
                    let mut moved = sleep(Duration::from_micros(micros));
                    let _ = poll_once(&mut moved).await;
                    yield_now().await;
                    let deadline = Instant::now() + Duration::from_micros(2 * micros);
                    Pin::new(&mut moved).reset(deadline);
                    moved.await;
                }
            }
        }
    }

    async fn poll_once(sleep: &mut Sleep) -> Poll<()> {
        poll_fn(|cx| Poll::Ready(Pin::new(&mut *sleep).poll(cx))).await
    }

    /// Each of ever earlier deadlines wakes the driver anew.
    #[test]
    fn ever_earlier_deadlines_all_fire() {
        does_not_hang(|| {
            paused().block_on(async {
                let start = Instant::now();
                let mut sleeps = Vec::new();
                for n in (1..=100).rev() {
                    let mut sleep = task::spawn(sleep(ms(n)));
                    assert_pending!(sleep.poll());
                    settle().await;
                    sleeps.push(sleep);
                }
                while let Some(mut earliest) = sleeps.pop() {
                    (&mut *earliest).await;
                    let n = 100 - sleeps.len() as u64;
                    assert_eq!(start.elapsed(), ms(n));
                }
            });
        });
    }

    /// An earlier timer that is cancelled does not take a later one with it.
    #[test]
    fn cancelling_the_earliest_leaves_the_others() {
        does_not_hang(|| {
            paused().block_on(async {
                let start = Instant::now();
                let mut later = task::spawn(sleep(ms(70)));
                assert_pending!(later.poll());
                let mut earlier = task::spawn(sleep(ms(3)));
                assert_pending!(earlier.poll());
                settle().await;
                drop(earlier);
                (&mut *later).await;
                assert_eq!(start.elapsed(), ms(70));
            });
        });
    }
}

/// "**Lateness** is at most one tick plus one driver wake-up. Choose the default so that it is
/// not later than `tokio::time`."
mod p03_lateness {
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
}

/// "**O(1)** … Advancing over a long gap (10 years of paused time) costs slots visited, not ticks
/// passed."
mod p04_cost_of_a_gap {
    use super::*;

    /// Ten years are 2 * 10^13 ticks.
    #[test]
    fn ten_years_cost_slots_visited() {
        does_not_hang(|| {
            paused().block_on(async {
                let waits = [ms(1), secs(1), secs(3_600), secs(86_400), YEAR, 10 * YEAR];
                let mut sleeps = JoinSet::new();
                for wait in waits {
                    sleeps.spawn(sleep(wait));
                }
                let start = Instant::now();
                while sleeps.join_next().await.is_some() {}
                assert_eq!(start.elapsed(), 10 * YEAR);

                // Each of the six cascades at most once for a level; the two far ones are beyond
                // the top level and visited about once in its 12 days.
                let wakeups = Timer::current().metrics().driver_wakeups();
                assert!(wakeups < 6 * 6 + 2 * 366, "{wakeups} wake-ups");
            });
        });
    }

    #[test]
    fn one_leap_over_ten_years_fires_all_that_lies_between() {
        does_not_hang(|| {
            paused().block_on(async {
                let mut sleeps: Vec<_> = (1..=1_000)
                    .map(|n| task::spawn(sleep(10 * YEAR / n)))
                    .collect();
                for sleep in &mut sleeps {
                    assert_pending!(sleep.poll());
                }
                let before = Timer::current().metrics().driver_wakeups();
                advance(10 * YEAR).await;
                assert!(sleeps.iter().all(|sleep| sleep.is_woken()));
                settle().await;
                let wakeups = Timer::current().metrics().driver_wakeups() - before;
                assert!(wakeups <= 2, "{wakeups} wake-ups for one leap");
            });
        });
    }
}

/// "**No tick without a reason.** The driver parks until the next expiration. 1,000,000 pending
/// far timers cost no CPU and no context switches while idle. Cancelling never wakes the driver."
mod p05_no_tick_without_a_reason {
    use super::*;

    /// How often the only worker of `runtime` went to sleep, once it does so no more.
    fn parks_when_settled(runtime: &Runtime) -> u64 {
        let mut parks = runtime.metrics().worker_park_count(0);
        loop {
            thread::sleep(ms(50));
            let now = runtime.metrics().worker_park_count(0);
            if now == parks {
                return parks;
            }
            parks = now;
        }
    }

    /// The worker has nothing to do but the driver: it would have to park once more whenever the
    /// driver was woken, for whatever reason.
    #[test]
    fn later_registrations_and_cancellations_do_not_wake_the_driver() {
        does_not_hang(|| {
            let runtime = multi_thread(1);
            let _entered = runtime.enter();
            let (_, waker) = Wakes::new();
            let mut first = sleep(secs(1_800));
            assert_pending!(poll(&mut first, &waker));
            let parks = parks_when_settled(&runtime);
            let wakeups = Timer::current().metrics().driver_wakeups();

            for n in 0..100_000 {
                let mut later = sleep(secs(1_800) + ms(n));
                assert_pending!(poll(&mut later, &waker));
                if n % 3 == 0 {
                    let deadline = later.deadline() + secs(60);
                    Pin::new(&mut later).reset(deadline);
                }
                drop(later);
            }
            assert_eq!(parks_when_settled(&runtime), parks);
            assert_eq!(Timer::current().metrics().driver_wakeups(), wakeups);

            // Not even the cancellation of the very timer that the driver is armed for.
            drop(first);
            assert_eq!(parks_when_settled(&runtime), parks);
        });
    }

    #[test]
    fn pending_far_timers_cost_nothing_while_idle() {
        does_not_hang(|| {
            let runtime = multi_thread(1);
            let _entered = runtime.enter();
            let (_, waker) = Wakes::new();
            let mut sleeps: Vec<_> = (0..200_000).map(|n| sleep(secs(1_800 + n))).collect();
            for sleep in &mut sleeps {
                assert_pending!(poll(sleep, &waker));
            }
            let parks = parks_when_settled(&runtime);
            let wakeups = Timer::current().metrics().driver_wakeups();
            thread::sleep(ms(200));
            assert_eq!(runtime.metrics().worker_park_count(0), parks);
            assert_eq!(Timer::current().metrics().driver_wakeups(), wakeups);
        });
    }

    /// A burst of ever earlier timers, cancelled, costs one wake-up when the earliest would have
    /// been due, and none after that.
    #[test]
    fn cancelled_timers_cost_one_wake_up_at_most() {
        paused().block_on(async {
            let mut sleeps: Vec<_> = (10..1_000)
                .rev()
                .map(|n| task::spawn(sleep(ms(n))))
                .collect();
            for sleep in &mut sleeps {
                assert_pending!(sleep.poll());
            }
            settle().await;
            drop(sleeps);
            let before = Timer::current().metrics().driver_wakeups();
            tokio::time::sleep(secs(3_600)).await;
            let wakeups = Timer::current().metrics().driver_wakeups() - before;
            assert!(wakeups <= 1, "{wakeups} wake-ups for nothing");
        });
    }
}

/// "**Bounded work under a lock and per driver poll.** A million timers due in one slot, or
/// cascading out of one slot, must not hold … a worker thread longer than about 1 ms: work in
/// chunks, then yield."
mod p06_bounded_work {
    use super::*;

    /// Far below a millisecond's worth.
    const MOST_AT_ONCE: usize = 1_024;

    /// Lets the other tasks have their turns, and no more than that: `yield_now` would wait for
    /// the runtime to look at its I/O in between.
    async fn turn() {
        let mut yielded = false;
        poll_fn(|cx| match std::mem::replace(&mut yielded, true) {
            true => Poll::Ready(()),
            false => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await;
    }

    /// Lets the driver alone drain what is due, while another task counts: how many wakes there
    /// were before each of its turns.
    async fn wakes_between_turns(wakes: Arc<Wakes>, all: usize) -> Vec<usize> {
        let watch = async move {
            let mut turns = Vec::new();
            let mut before = wakes.count();
            while before < all {
                turn().await;
                let now = wakes.count();
                turns.push(now - before);
                before = now;
                assert!(turns.len() < 10_000_000, "never drained");
            }
            turns
        };
        tokio::spawn(watch).await.unwrap()
    }

    #[test]
    fn a_million_due_in_one_slot_leave_others_their_turns() {
        const MANY: usize = 1_000_000;
        paused().block_on(async {
            let (wakes, waker) = Wakes::new();
            let deadline = Instant::now() + ms(100);
            let mut sleeps: Vec<_> = (0..MANY).map(|_| sleep_until(deadline)).collect();
            for sleep in &mut sleeps {
                assert_pending!(poll(sleep, &waker));
            }
            settle().await;
            // tokio's: the driver is to do the work.
            tokio::time::advance(ms(100)).await;
            let turns = wakes_between_turns(wakes, MANY).await;
            let most = *turns.iter().max().unwrap();
            assert!(most <= MOST_AT_ONCE, "{most} were woken in one go");
            assert!(sleeps.iter().all(Sleep::is_elapsed));
        });
    }

    /// All are in one slot of a coarse level, and none is due when that slot is.
    #[test]
    fn cascading_out_of_one_slot_leaves_others_their_turns() {
        const MANY: usize = 200_000;
        paused().block_on(async {
            Timer::builder().tick(ms(1)).install().unwrap();
            let (wakes, waker) = Wakes::new();
            let start = Instant::now();
            let mut sleeps: Vec<_> = (0..MANY)
                .map(|n| sleep_until(start + ms(4_096 + 64 + n as u64 % 4_000)))
                .collect();
            for sleep in &mut sleeps {
                assert_pending!(poll(sleep, &waker));
            }
            settle().await;
            tokio::time::advance(ms(4_096 + 64)).await;
            let turns = wakes_between_turns(wakes, 1).await.len();
            assert!(turns >= MANY / MOST_AT_ONCE, "only {turns} turns");
        });
    }

    /// A few in each of many shards are many as well.
    #[test]
    fn many_shards_leave_others_their_turns() {
        const SHARDS: usize = 1_000;
        const EACH: usize = 50;
        does_not_hang(|| {
            paused().block_on(async {
                let timer = Timer::builder().shards(SHARDS).build().unwrap();
                let (wakes, waker) = Wakes::new();
                let deadline = Instant::now() + secs(3_600);
                let mut sleeps = Vec::new();
                for _ in 0..SHARDS {
                    // Each thread has a shard of its own.
                    let (timer, waker) = (timer.clone(), waker.clone());
                    let thread = thread::spawn(move || {
                        let mut sleeps: Vec<_> =
                            (0..EACH).map(|_| timer.sleep_until(deadline)).collect();
                        for sleep in &mut sleeps {
                            assert_pending!(poll(sleep, &waker));
                        }
                        sleeps
                    });
                    sleeps.push(thread.join().unwrap());
                }
                settle().await;
                tokio::time::advance(secs(3_600)).await;
                let turns = wakes_between_turns(wakes, SHARDS * EACH).await;
                let most = *turns.iter().max().unwrap();
                assert!(most <= MOST_AT_ONCE, "{most} were woken in one go");
            });
        });
    }
}

/// "**No foreign code under a lock.** Waker clone, wake and drop run user code (dropping a waker
/// may drop a task that drops a `Sleep` of the same shard). None of them runs while a lock is
/// held."
///
/// A waker that touches its own shard under the lock hangs, and the watchdog tells.
mod p07_no_foreign_code_under_a_lock {
    use super::*;

    /// Does to the shard of `victim` all that a user can do.
    fn touch(mut victim: Sleep) {
        let (_, waker) = Wakes::new();
        let _ = poll(&mut victim, &waker);
        let _ = victim.is_elapsed();
        let deadline = Instant::now() + secs(5);
        Pin::new(&mut victim).reset(deadline);
        let _ = Timer::current().metrics();
        let mut another = sleep(secs(7));
        let _ = poll(&mut another, &waker);
        drop((victim, another));
    }

    /// A pending sleep.
    fn victim(wait: Duration) -> Sleep {
        let (_, waker) = Wakes::new();
        let mut victim = sleep(wait);
        assert_pending!(poll(&mut victim, &waker));
        victim
    }

    /// Runs a body under the paused clock, with a hook that has been run at its end.
    fn hooked<F: Future<Output = Arc<Hook>>>(body: impl FnOnce() -> F + Send + 'static) {
        does_not_hang(|| paused().block_on(async { assert!(body().await.has_run()) }));
    }

    #[test]
    fn wake_may_drop_a_sleep_of_the_same_batch() {
        hooked(|| async {
            let (same, later) = (victim(ms(5)), victim(ms(50)));
            let hook = Hook::on_wake(|| {
                touch(same);
                touch(later);
            });
            let mut sleep = sleep(ms(5));
            assert_pending!(poll(&mut sleep, &hook.waker()));
            // The driver's way, then the test clock's.
            tokio::time::sleep(ms(10)).await;
            hook
        });
    }

    #[test]
    fn wake_may_drop_a_sleep_when_the_clock_is_advanced() {
        hooked(|| async {
            let (same, later) = (victim(ms(5)), victim(ms(50)));
            let hook = Hook::on_wake(|| {
                touch(same);
                touch(later);
            });
            let mut sleep = sleep(ms(5));
            assert_pending!(poll(&mut sleep, &hook.waker()));
            advance(ms(10)).await;
            hook
        });
    }

    #[test]
    fn a_dropped_sleep_may_take_down_another_with_its_waker() {
        hooked(|| async {
            let other = victim(ms(5));
            let hook = Hook::on_drop(|| touch(other));
            let mut sleep = sleep(ms(5));
            // The entry holds the only waker.
            assert_pending!(poll(&mut sleep, &hook.waker()));
            assert!(!hook.has_run());
            drop(sleep);
            assert_eq!(Timer::current().metrics().pending(), 0);
            hook
        });
    }

    #[test]
    fn a_replaced_waker_may_take_down_another_sleep() {
        hooked(|| async {
            let other = victim(ms(5));
            let hook = Hook::on_drop(|| touch(other));
            let mut sleep = sleep(ms(5));
            assert_pending!(poll(&mut sleep, &hook.waker()));
            let (wakes, waker) = Wakes::new();
            assert_pending!(poll(&mut sleep, &waker));
            advance(ms(5)).await;
            assert_eq!(wakes.count(), 1);
            hook
        });
    }

    #[test]
    fn a_fired_waker_may_take_down_another_sleep_when_it_is_dropped() {
        hooked(|| async {
            let (same, later) = (victim(ms(5)), victim(ms(50)));
            let hook = Hook::on_drop(|| {
                touch(same);
                touch(later);
            });
            let mut sleep = sleep(ms(5));
            assert_pending!(poll(&mut sleep, &hook.waker()));
            tokio::time::sleep(ms(10)).await;
            hook
        });
    }

    #[test]
    fn clone_may_touch_the_shard_at_registration() {
        hooked(|| async {
            let other = victim(ms(5));
            let hook = Hook::on_clone(|| touch(other));
            let mut sleep = sleep(ms(5));
            assert_pending!(poll(&mut sleep, &hook.waker()));
            hook
        });
    }

    #[test]
    fn clone_may_touch_the_shard_at_replacement() {
        hooked(|| async {
            let other = victim(ms(5));
            let mut sleep = victim(ms(50));
            let hook = Hook::on_clone(|| touch(other));
            assert_pending!(poll(&mut sleep, &hook.waker()));
            hook
        });
    }

    /// The clone drops nothing but fires the very entry that is being polled.
    #[test]
    fn clone_may_fire_the_entry_whose_waker_it_is_to_replace() {
        hooked(|| async {
            let mut sleep = victim(ms(5));
            let hook = Hook::on_clone(|| {
                assert_pending!(task::spawn(tokio::time::advance(ms(5))).poll());
                assert!(task::spawn(advance(Duration::ZERO)).poll().is_pending());
            });
            let _ = poll(&mut sleep, &hook.waker());
            settle().await;
            let (_, waker) = Wakes::new();
            settle().await;
            assert_ready!(poll(&mut sleep, &waker));
            hook
        });
    }

    #[test]
    fn the_end_of_a_runtime_may_take_down_sleeps_with_their_wakers() {
        does_not_hang(|| {
            let runtime = paused();
            let entered = runtime.enter();
            let (one, two, three) = (victim(ms(5)), victim(ms(5)), victim(secs(5)));
            drop(entered);
            let on_wake = Hook::on_wake(move || drop((one, two)));
            let on_drop = Hook::on_drop(move || drop(three));
            let (mut first, mut second) = (sleep(ms(5)), sleep(ms(5)));
            runtime.block_on(async {
                assert_pending!(poll(&mut first, &on_wake.waker()));
                assert_pending!(poll(&mut second, &on_drop.waker()));
            });
            drop(runtime);
            assert!(on_wake.has_run() && on_drop.has_run());
        });
    }
}

/// "**A panicking waker harms nobody else.** The other timers of that batch still fire, the
/// driver lives."
mod p08_a_panicking_waker_harms_nobody_else {
    use super::*;

    /// Panics once more when the payload of its panic is dropped.
    struct Nasty;

    impl Drop for Nasty {
        fn drop(&mut self) {
            panic!("a payload that panics");
        }
    }

    fn the_others_fire(panics: fn() -> Arc<Hook>, drive: fn(&Runtime)) {
        does_not_hang(move || {
            let runtime = paused();
            let (wakes, waker) = Wakes::new();
            let deadline = runtime.block_on(async { Instant::now() }) + ms(5);
            let mut hooks = Vec::new();
            let mut sleeps: Vec<_> = (0..1_000).map(|_| sleep_until(deadline)).collect();
            let entered = runtime.enter();
            for (n, sleep) in sleeps.iter_mut().enumerate() {
                if n % 10 == 0 {
                    let hook = panics();
                    assert_pending!(poll(sleep, &hook.waker()));
                    hooks.push(hook);
                } else {
                    assert_pending!(poll(sleep, &waker));
                }
            }
            let timer = Timer::current();
            drop(entered);
            drive(&runtime);
            assert!(hooks.iter().all(|hook| hook.has_run()));
            assert_eq!(wakes.count(), 900);
            // They fired, rather than being woken because the timer came to its end.
            assert!(!timer.is_shutdown());
            assert_eq!(timer.metrics().fired(), 1_000);
            // The driver lives, and drives on.
            runtime.block_on(async {
                let start = Instant::now();
                sleep(ms(7)).await;
                assert_eq!(start.elapsed(), ms(7));
            });
            assert_eq!(timer.metrics().fired(), 1_001);
        });
    }

    fn by_the_driver(runtime: &Runtime) {
        runtime.block_on(async { tokio::time::sleep(ms(20)).await });
    }

    fn by_advance(runtime: &Runtime) {
        runtime.block_on(advance(ms(20)));
    }

    #[test]
    fn when_wake_panics() {
        the_others_fire(|| Hook::on_wake(|| panic!("hostile")), by_the_driver);
        the_others_fire(|| Hook::on_wake(|| panic!("hostile")), by_advance);
    }

    #[test]
    fn when_the_payload_panics_in_turn() {
        let panics = || Hook::on_wake(|| std::panic::panic_any(Nasty));
        the_others_fire(panics, by_the_driver);
    }

    #[test]
    fn when_the_drop_of_a_woken_waker_panics() {
        the_others_fire(|| Hook::on_drop(|| panic!("hostile")), by_the_driver);
    }

    #[test]
    fn when_a_waker_panics_at_the_end_of_the_runtime() {
        does_not_hang(|| {
            let (wakes, waker) = Wakes::new();
            let runtime = current_thread();
            let mut sleeps: Vec<_> = (0..100).map(|_| sleep(secs(60))).collect();
            let timer = runtime.block_on(async {
                for (n, sleep) in sleeps.iter_mut().enumerate() {
                    let hostile = Hook::on_wake(|| panic!("hostile")).waker();
                    let waker = if n % 2 == 0 { &hostile } else { &waker };
                    assert_pending!(poll(sleep, waker));
                }
                Timer::current()
            });
            drop(runtime);
            assert_eq!(wakes.count(), 50);
            assert!(timer.is_shutdown());
        });
    }

    /// What a waker does in the caller's frame is the caller's to bear, but breaks nothing.
    #[test]
    fn when_clone_panics_at_registration_the_sleep_can_be_polled_again() {
        does_not_hang(|| {
            let runtime = current_thread();
            let timer = runtime.block_on(async { Timer::builder().build().unwrap() });
            let mut sleep = timer.sleep(secs(60));
            let waker = Hook::on_clone(|| panic!("hostile")).waker();
            let poll_hostile = AssertUnwindSafe(|| poll(&mut sleep, &waker));
            assert!(catch_unwind(poll_hostile).is_err());
            // Outside of any runtime: it belongs to its timer still.
            let (_, waker) = Wakes::new();
            assert_pending!(poll(&mut sleep, &waker));
            assert_eq!(timer.metrics().pending(), 1);
        });
    }
}

/// "**Keys never alias.** An entry's key carries a generation; a stale key is simply absent."
mod p09_keys_never_alias {
    use super::*;

    /// The new sleeps are in the places of the old ones, whose futures still hold their keys.
    #[test]
    fn stale_futures_do_not_touch_the_entries_in_their_places() {
        paused().block_on(coop::unconstrained(async {
            let (_, waker) = Wakes::new();
            let mut stale: Vec<_> = (0..1_000).map(|_| sleep(ms(1))).collect();
            for sleep in &mut stale {
                assert_pending!(poll(sleep, &waker));
            }
            advance(ms(1)).await;

            let (wakes, waker) = Wakes::new();
            let mut fresh: Vec<_> = (0..1_000).map(|_| sleep(ms(10))).collect();
            for sleep in &mut fresh {
                assert_pending!(poll(sleep, &waker));
            }
            for (n, mut stale) in stale.into_iter().enumerate() {
                assert!(stale.is_elapsed());
                match n % 3 {
                    0 => assert_ready!(poll(&mut stale, &waker)),
                    1 => Pin::new(&mut stale).reset(Instant::now() + secs(5)),
                    _ => {}
                }
                drop(stale);
            }
            assert_eq!(Timer::current().metrics().pending(), 1_000);
            advance(ms(10)).await;
            assert_eq!(wakes.count(), 1_000);
        }));
    }

    /// The whole slab was given back in between.
    #[test]
    fn keys_from_before_a_shard_was_empty_are_absent() {
        paused().block_on(async {
            let (wakes, waker) = Wakes::new();
            let mut generations = Vec::new();
            for _ in 0..5 {
                let mut sleeps: Vec<_> = (0..2_000).map(|_| sleep(ms(1))).collect();
                for sleep in &mut sleeps {
                    assert_pending!(poll(sleep, &waker));
                }
                advance(ms(1)).await;
                generations.push(sleeps);
            }
            assert_eq!(wakes.count(), 10_000);
            let mut last: Vec<_> = (0..2_000).map(|_| sleep(ms(1))).collect();
            for sleep in &mut last {
                assert_pending!(poll(sleep, &waker));
            }
            assert!(generations.iter().flatten().all(Sleep::is_elapsed));
            drop(generations);
            assert_eq!(Timer::current().metrics().pending(), 2_000);
        });
    }
}

/// "**Runtime end.** When a runtime shuts down its ambient timer closes: nothing hangs, nothing
/// leaks, a later poll of an orphaned `Sleep` panics with a clear message, and a new runtime gets
/// a fresh timer."
mod p10_runtime_end {
    use super::*;

    fn pending_on(runtime: &Runtime, waker: &Waker) -> Sleep {
        let mut sleep = sleep(secs(60));
        let _entered = runtime.enter();
        assert_pending!(poll(&mut sleep, waker));
        sleep
    }

    fn message(polled: impl FnOnce()) -> String {
        let payload = catch_unwind(AssertUnwindSafe(polled)).unwrap_err();
        let literal = payload.downcast_ref::<&str>().map(ToString::to_string);
        literal.unwrap_or_else(|| *payload.downcast::<String>().unwrap())
    }

    #[test]
    fn who_waits_is_woken_and_told() {
        for runtime in [current_thread(), multi_thread(2), paused()] {
            let (wakes, waker) = Wakes::new();
            let mut orphan = pending_on(&runtime, &waker);
            let timer = {
                let _entered = runtime.enter();
                Timer::current()
            };
            drop(runtime);
            assert_eq!(wakes.count(), 1);
            assert!(timer.is_shutdown());
            let metrics = timer.metrics();
            assert_eq!((metrics.pending(), metrics.cancelled()), (0, 1));

            assert!(!orphan.is_elapsed());
            let told = message(|| assert_pending!(poll(&mut orphan, &waker)));
            assert!(told.contains("after its runtime has shut down"), "{told}");
            drop(orphan);
        }
    }

    #[test]
    fn nothing_leaks() {
        let (wakes, waker) = Wakes::new();
        drop(waker);
        let runtime = multi_thread(1);
        let orphans: Vec<_> = (0..1_000)
            .map(|_| pending_on(&runtime, &Waker::from(wakes.clone())))
            .collect();
        assert!(Arc::strong_count(&wakes) > 1_000);
        drop(runtime);
        assert_eq!(Arc::strong_count(&wakes), 1, "the wakers are dropped");
        drop(orphans);
    }

    #[test]
    fn an_orphan_past_its_deadline_is_ready() {
        let (_, waker) = Wakes::new();
        let runtime = current_thread();
        let mut orphan = {
            let _entered = runtime.enter();
            let mut orphan = sleep(ms(100));
            assert_pending!(poll(&mut orphan, &waker));
            orphan
        };
        drop(runtime);
        while Instant::now() < orphan.deadline() {
            thread::sleep(ms(1));
        }
        assert!(orphan.is_elapsed());
        assert_ready!(poll(&mut orphan, &waker));
    }

    #[test]
    fn an_orphan_that_is_reset_is_at_home_in_the_next_runtime() {
        does_not_hang(|| {
            let (_, waker) = Wakes::new();
            let runtime = current_thread();
            let mut orphan = pending_on(&runtime, &waker);
            drop(runtime);
            let deadline = Instant::now() + ms(5);
            Pin::new(&mut orphan).reset(deadline);
            current_thread().block_on(orphan);
            assert!(Instant::now() >= deadline);
        });
    }

    #[test]
    fn runtimes_in_turn_on_one_thread_have_timers_of_their_own() {
        does_not_hang(|| {
            for _ in 0..10 {
                paused().block_on(async {
                    sleep(ms(1)).await;
                    timeout(secs(9), yield_now()).await.unwrap();
                    assert_eq!(Timer::current().metrics().fired(), 1);
                    tokio::spawn(sleep(ms(1))).await.unwrap();
                    assert_eq!(Timer::current().metrics().fired(), 2);
                });
                multi_thread(1).block_on(async {
                    let deadline = Instant::now() + ms(1);
                    tokio::spawn(sleep_until(deadline)).await.unwrap();
                    assert!(Instant::now() >= deadline);
                    assert!(Timer::current().metrics().registered() <= 1);
                });
            }
        });
    }

    #[test]
    fn two_runtimes_alternate_on_one_thread() {
        does_not_hang(|| {
            let (one, two) = (paused(), paused());
            for n in 1..10 {
                for runtime in [&one, &two] {
                    runtime.block_on(async {
                        sleep(ms(1)).await;
                        assert_eq!(Timer::current().metrics().fired(), n);
                    });
                }
            }
        });
    }

    #[test]
    fn an_entered_handle_decides_which_runtime_drives() {
        does_not_hang(|| {
            let (outer, inner) = (current_thread(), multi_thread(1));
            outer.block_on(async {
                sleep(ms(50)).await;
                let mut inside = {
                    let _entered = inner.enter();
                    let mut inside = sleep(ms(50));
                    let (_, waker) = Wakes::new();
                    assert_pending!(poll(&mut inside, &waker));
                    assert_eq!(Timer::current().metrics().registered(), 1);
                    inside
                };
                assert_eq!(Timer::current().metrics().registered(), 1);
                // It fires there and wakes the task here.
                (&mut inside).await;
                sleep(ms(50)).await;
                assert_eq!(Timer::current().metrics().fired(), 2);
            });
            let _entered = inner.enter();
            assert_eq!(Timer::current().metrics().fired(), 1);
        });
    }

    /// What a worker did under another runtime's handle must not bind it to that.
    #[test]
    fn an_entered_handle_leaves_no_trace_on_a_worker() {
        does_not_hang(|| {
            let (home, other) = (multi_thread(1), multi_thread(1));
            let (_, waker) = Wakes::new();
            let mut visiting = sleep(secs(60));
            home.block_on(home.spawn(async move {
                {
                    let _entered = other.enter();
                    assert_pending!(poll(&mut visiting, &waker));
                }
                let mut at_home = sleep(ms(20));
                assert_pending!(poll(&mut at_home, &waker));
                other.shutdown_background();
                at_home.await;
                sleep(ms(1)).await;
                assert!(Timer::current().metrics().fired() >= 2);
            }))
            .unwrap();
        });
    }

    /// As above: this thread would be left with a real clock instead of its paused one.
    #[test]
    fn an_entered_handle_leaves_no_trace_on_a_thread() {
        does_not_hang(|| {
            let other = multi_thread(1);
            paused().block_on(async {
                let mut visiting = sleep(secs(60));
                let (_, waker) = Wakes::new();
                {
                    let _entered = other.enter();
                    assert_pending!(poll(&mut visiting, &waker));
                }
                let start = Instant::now();
                sleep(secs(3_600)).await;
                assert_eq!(start.elapsed(), secs(3_600));
            });
        });
    }

    #[test]
    fn nested_handles_unwind_in_order() {
        let runtimes = [multi_thread(1), multi_thread(1), multi_thread(1)];
        let (_, waker) = Wakes::new();
        let mut kept = Vec::new();
        let mut register = |expected| {
            let mut sleep = sleep(secs(60));
            assert_pending!(poll(&mut sleep, &waker));
            kept.push(sleep);
            assert_eq!(Timer::current().metrics().pending(), expected);
        };
        let first = runtimes[0].enter();
        register(1);
        let second = runtimes[1].enter();
        register(1);
        let third = runtimes[2].enter();
        register(1);
        drop(third);
        register(2);
        drop(second);
        register(2);
        drop(first);
    }

    #[test]
    fn a_worker_may_run_another_runtime() {
        does_not_hang(|| {
            multi_thread(2).block_on(async {
                tokio::spawn(async {
                    sleep(ms(1)).await;
                    tokio::task::block_in_place(|| {
                        let inner = current_thread();
                        let deadline = Instant::now() + ms(5);
                        inner.block_on(sleep_until(deadline));
                        assert!(Instant::now() >= deadline);
                    });
                    sleep(ms(1)).await;
                })
                .await
                .unwrap();
            });
        });
    }

    /// A worker drops the driver while another one still polls a task, which is to be dropped next
    /// and must not panic before.
    #[test]
    fn a_task_that_is_polled_during_the_shutdown_does_not_panic() {
        does_not_hang(|| {
            let runtime = multi_thread(2);
            let (started, is_started) = std::sync::mpsc::channel();
            let straggler = runtime.spawn(async move {
                let timer = Timer::current();
                let mut registered = sleep(secs(60));
                assert!(poll_once(&mut registered).await.is_pending());
                started.send(()).unwrap();
                while !timer.is_shutdown() {
                    thread::yield_now();
                }
                assert!(poll_once(&mut registered).await.is_pending());
                assert!(poll_once(&mut sleep(secs(60))).await.is_pending());
                assert!(poll_once(&mut timer.sleep(secs(60))).await.is_pending());
                pending::<()>().await;
            });
            is_started.recv().unwrap();
            runtime.shutdown_background();
            let end = tokio_test::block_on(straggler).unwrap_err();
            assert!(end.is_cancelled(), "{end}");
        });
    }

    async fn poll_once(sleep: &mut Sleep) -> Poll<()> {
        poll_fn(|cx| Poll::Ready(Pin::new(&mut *sleep).poll(cx))).await
    }

    /// Drops that run while the runtime shuts down poll, register and drop timers.
    #[test]
    fn timers_may_be_used_while_the_runtime_shuts_down() {
        struct UsesTimers(Option<Sleep>);
        impl Drop for UsesTimers {
            fn drop(&mut self) {
                let (_, waker) = Wakes::new();
                let mut fresh = sleep(secs(1));
                let _ = catch_unwind(AssertUnwindSafe(|| poll(&mut fresh, &waker)));
                let mut old = self.0.take().unwrap();
                let _ = catch_unwind(AssertUnwindSafe(|| poll(&mut old, &waker)));
                let _ = Timer::try_current().map(|timer| timer.is_shutdown());
            }
        }
        for runtime in [current_thread(), multi_thread(2)] {
            does_not_hang(move || {
                let (_, waker) = Wakes::new();
                for _ in 0..10 {
                    let uses = UsesTimers(Some(pending_on(&runtime, &waker)));
                    runtime.spawn(async move {
                        let _uses = uses;
                        pending::<()>().await;
                    });
                }
                runtime.block_on(yield_now());
                drop(runtime);
            });
        }
    }

    #[test]
    #[should_panic(expected = "timers are disabled")]
    fn a_runtime_without_time_panics_at_the_first_pending_poll() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(sleep(ms(1)));
    }

    #[test]
    fn a_runtime_without_time_spoils_nothing() {
        let timeless = tokio::runtime::Builder::new_current_thread().build();
        let timeless = timeless.unwrap();
        for _ in 0..2 {
            let told = message(|| timeless.block_on(sleep(ms(1))));
            assert!(told.contains("timers are disabled"), "{told}");
            // What needs no timer needs no time.
            timeless.block_on(async { timeout(ms(1), async {}).await.unwrap() });
            paused().block_on(sleep(ms(1)));
        }
    }

    #[test]
    fn a_timer_of_a_runtime_outlives_no_runtime_but_may_be_polled_anywhere() {
        does_not_hang(|| {
            let runtime = multi_thread(1);
            let timer = runtime.block_on(async { Timer::builder().build().unwrap() });
            let deadline = Instant::now() + ms(5);
            let other = current_thread();
            other.block_on(async {
                timer.sleep_until(deadline).await;
                assert!(Instant::now() >= deadline);
            });
            tokio_test::block_on(timer.sleep(ms(1)));
            drop(runtime);
            let told = message(|| other.block_on(timer.sleep(secs(1))));
            assert!(told.contains("after its runtime has shut down"), "{told}");
        });
    }

    #[test]
    fn a_sleep_may_change_its_thread_and_runtime_half_way() {
        does_not_hang(|| {
            let (one, two) = (multi_thread(1), current_thread());
            let (wakes, waker) = Wakes::new();
            let mut moved = sleep(ms(300));
            {
                let _entered = one.enter();
                assert_pending!(poll(&mut moved, &waker));
            }
            let deadline = moved.deadline();
            // On another executor …
            let mut moved = thread::spawn(move || {
                let (_, waker) = Wakes::new();
                let _ = poll(&mut moved, &waker);
                moved
            })
            .join()
            .unwrap();
            // … and in another runtime, whose task it wakes.
            two.block_on(&mut moved);
            assert!(Instant::now() >= deadline);
            assert_eq!(wakes.count(), 0, "a waker of long ago");
            Pin::new(&mut moved).reset(Instant::now() + ms(5));
            two.block_on(moved);
        });
    }
}

/// "**Cooperative.** A ready `Sleep` in a loop consumes tokio's coop budget; a `Timeout` whose
/// inner future exhausts the budget still expires."
mod p11_cooperative {
    use super::*;

    #[test]
    fn ready_sleeps_in_a_loop_let_others_run() {
        paused().block_on(async {
            let ran = Arc::new(AtomicBool::new(false));
            let others = tokio::spawn({
                let ran = ran.clone();
                async move { ran.store(true, Ordering::Relaxed) }
            });
            let mut turns = 0;
            while !ran.load(Ordering::Relaxed) {
                sleep(Duration::ZERO).await;
                turns += 1;
                assert!(turns < 10_000, "starves the other task");
            }
            others.await.unwrap();
        });
    }

    #[test]
    fn ticks_to_be_made_up_for_let_others_run() {
        paused().block_on(async {
            let mut interval = tokio_wheel::interval(ms(1));
            interval.tick().await;
            advance(secs(1_000)).await;
            let others = tokio::spawn(async {});
            let mut turns = 0;
            while !others.is_finished() {
                interval.tick().await;
                turns += 1;
                assert!(turns < 10_000, "starves the other task");
            }
        });
    }

    /// Uses its budget up at every poll, and would go on for ever.
    async fn greedy(polls: Arc<AtomicUsize>) {
        poll_fn(|cx| {
            let polls = polls.fetch_add(1, Ordering::Relaxed);
            assert!(polls < 10_000, "is never told that its time is over");
            while pin!(coop::consume_budget()).poll(cx).is_ready() {}
            Poll::<()>::Pending
        })
        .await;
    }

    #[test]
    fn a_timeout_of_a_greedy_future_expires() {
        paused().block_on(async {
            let polls = Arc::new(AtomicUsize::new(0));
            let limited = tokio::spawn(timeout(ms(10), greedy(polls.clone())));
            settle().await;
            assert!(polls.load(Ordering::Relaxed) > 1, "it goes on");
            assert!(!limited.is_finished());
            advance(ms(10)).await;
            assert!(limited.await.unwrap().is_err());
        });
    }

    #[test]
    fn a_timeout_of_an_endless_stream_expires() {
        does_not_hang(|| {
            current_thread().block_on(async {
                let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
                let endless = async {
                    sender.send(()).unwrap();
                    while let Some(()) = receiver.recv().await {
                        sender.send(()).unwrap();
                    }
                };
                assert!(timeout(ms(10), endless).await.is_err());
            });
        });
    }

    /// Where the budget was spent before the timeout was polled, the timeout waits for more.
    #[test]
    fn an_elapsed_timeout_costs_budget_as_well() {
        paused().block_on(async {
            let others = tokio::spawn(async {});
            let mut turns = 0;
            while !others.is_finished() {
                timeout(Duration::ZERO, pending::<()>()).await.unwrap_err();
                turns += 1;
                assert!(turns < 10_000, "starves the other task");
            }
        });
    }
}

/// "**Paused clock.** Everything works … with auto-advance; time is read through
/// `tokio::time::Instant`. `tokio_wheel::advance` also drives the wheel, so that timers due are
/// woken when it returns."
mod p12_paused_clock {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_idle_runtime_leaps_to_the_next_timer() {
        let (start, real) = (Instant::now(), std::time::Instant::now());
        sleep(secs(86_400)).await;
        assert_eq!(start.elapsed(), secs(86_400));
        assert!(real.elapsed() < secs(60));
    }

    #[tokio::test(start_paused = true)]
    async fn advance_has_woken_what_is_due_when_it_returns() {
        let mut due: Vec<_> = (1..=2_000).map(|n| task::spawn(sleep(ms(n)))).collect();
        for sleep in &mut due {
            assert_pending!(sleep.poll());
        }
        for n in 1..=20 {
            advance(ms(100)).await;
            let woken = due.iter().filter(|sleep| sleep.is_woken()).count();
            assert_eq!(woken, n * 100);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn advance_by_less_than_a_millisecond_drives_the_wheel() {
        let mut sleep = task::spawn(sleep(Duration::from_micros(500)));
        assert_pending!(sleep.poll());
        advance(Duration::from_micros(499)).await;
        assert!(!sleep.is_woken());
        advance(Duration::from_micros(1)).await;
        assert!(sleep.is_woken());
    }

    /// The order of their deadlines, to the tick.
    #[tokio::test(start_paused = true)]
    async fn a_leap_fires_in_order() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut sleeps = Vec::new();
        for n in 0..2_000_u64 {
            let (order, due) = (order.clone(), n * 7_919 % 2_000 + 1);
            let hook = Hook::on_wake(move || order.lock().unwrap().push(due));
            let mut sleep = sleep(ms(due));
            assert_pending!(poll(&mut sleep, &hook.waker()));
            sleeps.push(sleep);
        }
        advance(secs(2)).await;
        assert!(order.lock().unwrap().iter().copied().eq(1..=2_000));
    }

    #[test]
    fn pause_and_resume_reach_the_wheel() {
        does_not_hang(|| {
            current_thread().block_on(async {
                let start = Instant::now();
                sleep(ms(1)).await;
                tokio_wheel::pause();
                sleep(secs(3_600)).await;
                assert!(start.elapsed() >= secs(3_600));
                tokio_wheel::resume();
                let resumed = std::time::Instant::now();
                sleep(ms(5)).await;
                assert!(resumed.elapsed() >= ms(5));
                tokio_wheel::pause();
                let paused = Instant::now();
                advance(secs(5)).await;
                assert_eq!(paused.elapsed(), secs(5));
            });
        });
    }

    #[test]
    fn the_same_seeds_give_the_same_order() {
        let run = || {
            paused().block_on(async {
                let mut sleeps = JoinSet::new();
                let mut seed = 1_u64;
                for n in 0..3_000 {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let wait = Duration::from_micros(seed >> 44);
                    sleeps.spawn(async move {
                        sleep(wait).await;
                        n
                    });
                }
                let mut order = Vec::new();
                while let Some(n) = sleeps.join_next().await {
                    order.push(n.unwrap());
                }
                order
            })
        };
        assert_eq!(run(), run());
    }
}

/// "**Memory** of a pending sleep, future and entry together: at most 80 bytes."
///
/// What an entry takes in the wheel is measured by `benches/`.
mod p13_memory {
    use super::*;

    #[test]
    fn a_sleep_is_small() {
        assert!(size_of::<Sleep>() <= 40, "{} bytes", size_of::<Sleep>());
    }

    #[test]
    fn a_timeout_adds_nothing_to_its_future_and_its_sleep() {
        let limited = size_of_val(&timeout(ms(1), std::future::ready([0_u64; 8])));
        let inner = size_of_val(&std::future::ready([0_u64; 8]));
        assert_eq!(limited, inner + size_of::<Sleep>());
    }
}

/// "**`reset` to a later deadline moves nothing.** It stores the new deadline; the entry is
/// re-slotted when its old slot comes due."
mod p14_reset_to_a_later_deadline_moves_nothing {
    use super::*;

    /// Wake-ups of the driver until after the old deadline of a sleep that was or was not reset.
    fn wakeups(reset: Option<Duration>) -> u64 {
        paused().block_on(async {
            let start = Instant::now();
            let mut first = task::spawn(sleep(ms(100)));
            let mut moved = task::spawn(sleep(secs(2)));
            assert_pending!(first.poll());
            assert_pending!(moved.poll());
            if let Some(by) = reset {
                moved.enter(|_, moved| moved.reset(start + by));
            }
            tokio::time::sleep(ms(2_500)).await;
            assert!(first.is_woken());
            assert_eq!(moved.is_woken(), reset.is_none());
            Timer::current().metrics().driver_wakeups()
        })
    }

    /// The driver comes by where the entry was, though the first timer made it look again in
    /// between.
    #[test]
    fn the_entry_stays_in_its_old_slot_until_that_is_due() {
        // A year's slot would not be due for days.
        let moved = wakeups(Some(YEAR));
        assert!(moved > wakeups_without(), "the entry had been moved");

        fn wakeups_without() -> u64 {
            paused().block_on(async {
                let mut first = task::spawn(sleep(ms(100)));
                assert_pending!(first.poll());
                tokio::time::sleep(ms(2_500)).await;
                Timer::current().metrics().driver_wakeups()
            })
        }
        assert!(moved <= wakeups(None) + 1);
    }

    #[test]
    fn however_often_it_is_reset_it_is_visited_once_for_a_level() {
        paused().block_on(async {
            let mut sleep = task::spawn(sleep(secs(2)));
            assert_pending!(sleep.poll());
            settle().await;
            let before = Timer::current().metrics().driver_wakeups();
            for _ in 0..10_000 {
                let deadline = sleep.deadline() + ms(1);
                sleep.enter(|_, sleep| sleep.reset(deadline));
            }
            settle().await;
            assert_eq!(Timer::current().metrics().driver_wakeups(), before);
            (&mut *sleep).await;
            let wakeups = Timer::current().metrics().driver_wakeups() - before;
            assert!(wakeups <= 12, "{wakeups} wake-ups");
            assert_eq!(Timer::current().metrics().registered(), 1);
        });
    }

    /// A timer per connection that is put off at each request and never fires.
    #[test]
    fn a_timer_that_is_put_off_for_ever_never_fires() {
        paused().block_on(async {
            let mut idle = task::spawn(sleep(secs(30)));
            assert_pending!(idle.poll());
            for _ in 0..1_000 {
                tokio::time::sleep(secs(1)).await;
                let deadline = Instant::now() + secs(30);
                idle.enter(|_, idle| idle.reset(deadline));
                assert!(!idle.is_woken());
            }
            let last = Instant::now();
            (&mut *idle).await;
            assert_eq!(last.elapsed(), secs(30));
            // Once in about 30 seconds, and on the way down the levels.
            let wakeups = Timer::current().metrics().driver_wakeups();
            assert!(wakeups < 1_000, "{wakeups} wake-ups");
        });
    }
}
