//! Tests of the driver on the harness. Each test moves the clock, rings the alarm and polls the driver.
//!
//! `simulation` has the tests of alarms that go off early, late, twice or not at all.

use std::{
    future::{Future, pending, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Mutex, mpsc},
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use bounded_wheel::CHUNK;
use tokio_test::{assert_pending, assert_ready, task};

use super::{
    Timer,
    harness::{Harness, ms},
};
use crate::{
    driver::{clock::DEFAULT_TICK, registrar::Registrar},
    futures::Sleep,
};

/// The driver's task may wait for its worker. Other tasks must not wait for the driver.
#[test]
fn a_worker_sets_the_alarm_itself() {
    let mut harness = Harness::new(1);
    let _later = harness.sleep(ms(300));
    let runtime = harness.runtime.take().unwrap();
    runtime.block_on(async {
        let mut sleep = task::spawn(harness.timer.sleep_until(harness.start + ms(100)));
        assert_pending!(sleep.poll());
        assert!(harness.alarm.set_for() <= Some(harness.start + ms(100)));
        sleep.enter(|_, sleep| sleep.reset(harness.start + ms(50)));
        assert!(harness.alarm.set_for() <= Some(harness.start + ms(50)));
        assert!(!harness.driver.is_woken());
    });
}

/// A thread that is no worker does not know whether a worker watches the alarm.
#[test]
fn a_thread_that_is_no_worker_wakes_the_driver() {
    let mut harness = Harness::new(1);
    let mut sleep = task::spawn(harness.timer.sleep_until(harness.start + ms(100)));
    assert_pending!(sleep.poll());
    assert!(harness.driver.is_woken());
    let before = harness.timer.metrics().driver_wakeups();
    harness.drive();
    assert_eq!(harness.timer.metrics().driver_wakeups(), before + 1);
}

/// A lone sleep wakes the driver once when it fires, and once for each coarse level from which it cascades.
#[test]
fn a_lone_timer_wakes_the_driver_once_a_level() {
    for (duration, wakeups) in [(ms(0), 1), (ms(60), 1), (ms(4_000), 2), (ms(260_000), 3)] {
        let mut harness = Harness::new(1);
        // If the deadline were at the start of a slot, the sleep would need one cascade less.
        let duration = duration + Duration::from_micros(500);
        let mut sleep = harness.sleep(duration);
        let before = harness.timer.metrics().driver_wakeups();
        harness.run_to(harness.start + duration + DEFAULT_TICK);
        assert_ready!(sleep.poll());
        let after = harness.timer.metrics().driver_wakeups();
        assert_eq!(after - before, wakeups, "{duration:?}");
    }
}

/// Many sleeps are registered in the last second before the deadline of another sleep. The many new sleeps do
/// not delay the other sleep.
#[test]
fn a_storm_behind_a_timer_does_not_make_it_late() {
    let second = ms(1_000);
    // If `idle` is true, nothing wakes the driver in the first 299 s. Otherwise, the first sleep is
    // registered at the start.
    for idle in [false, true] {
        let mut harness = Harness::new(1);
        let before = harness.start + 299 * second;
        let mut first = None;
        if !idle {
            first = Some(harness.sleep(300 * second));
        }
        harness.run_to(before);
        let mut first = first.unwrap_or_else(|| harness.sleep(second));
        let storm: Vec<_> = (0..5_000)
            .map(|n| harness.sleep(30 * second + ms(n)))
            .collect();
        harness.clock.advance(second);
        harness.alarm.ring();
        let mut polls = 0;
        while !first.is_woken() {
            assert_pending!(harness.driver.poll());
            polls += 1;
        }
        assert!(polls <= 2, "the driver needed {polls} turns");
        assert_ready!(first.poll());
        assert_eq!(harness.timer.metrics().pending(), storm.len() as u64);
    }
}

#[test]
fn a_shard_frees_the_memory_of_a_peak() {
    const PEAK: usize = 1_000;
    for fires in [false, true] {
        let mut harness = Harness::new(1);
        let sleeps: Vec<_> = (0..PEAK).map(|_| harness.sleep(ms(10))).collect();
        let capacity = |harness: &Harness| -> usize {
            let shards = &harness.timer.handle.shared.shards;
            shards.iter().map(|shard| shard.capacity()).sum()
        };
        assert!(capacity(&harness) >= PEAK);
        if fires {
            harness.run_to(harness.start + ms(10));
            assert_eq!(harness.timer.metrics().fired(), PEAK as u64);
        } else {
            drop(sleeps);
        }
        assert_eq!(capacity(&harness), CHUNK);
    }
}

#[test]
fn a_leap_of_centuries_costs_one_wake_up() {
    let mut harness = Harness::new(2);
    let year = Duration::from_secs(365 * 86_400);
    let mut sleeps: Vec<_> = (0..300).map(|n| harness.sleep(ms(1) + year * n)).collect();
    let before = harness.timer.metrics().driver_wakeups();
    harness.clock.advance(year * 290);
    harness.ring();
    assert_eq!(harness.timer.metrics().driver_wakeups(), before + 1);
    for (n, sleep) in sleeps.iter_mut().enumerate() {
        assert_eq!(sleep.poll().is_ready(), n < 290, "{n}");
    }
}

/// When the driver visits a shard, it locks the shard. The visit also takes the shard's cache lines from the
/// worker that registers there.
#[test]
fn the_driver_visits_only_shards_that_have_something_due() {
    const SHARDS: usize = 64;
    let mut harness = Harness::new(SHARDS);
    let start = harness.start;
    let sleep_in = |harness: &Harness, shard: usize, until| {
        let registrar = Registrar::of_shard(&harness.timer.handle.shared, shard);
        let mut sleep = task::spawn(Sleep::new(Some(registrar), until));
        assert_pending!(sleep.poll());
        sleep
    };
    let far: Vec<_> = (0..SHARDS)
        .map(|shard| sleep_in(&harness, shard, start + ms(30_000)))
        .collect();
    harness.drive();
    let due = sleep_in(&harness, 7, start + ms(100));
    harness.drive();
    harness.run_to(start + ms(100));
    assert!(due.is_woken());
    let wheels = harness.timer.handle.shared.shards.iter();
    let advanced: Vec<_> = (wheels.enumerate())
        .filter(|(_, shard)| shard.advanced_to() > 0)
        .map(|(number, _)| number)
        .collect();
    assert_eq!(advanced, [7]);
    harness.run_to(start + ms(30_000));
    assert!(far.iter().all(|sleep| sleep.is_woken()));
}

/// A turn may publish the start of a coarse slot, which is earlier than the tick that a registration has published. A
/// registration between the two ticks leaves the alarm alone.
#[test]
fn a_turn_before_its_time_arms_for_all_entries() {
    // In units of 64 ms, the time is 60. The second deadline lies in a coarse slot that starts at 64.
    let unit = ms(64);
    let mut harness = Harness::new(1);
    let now = harness.sleep(unit * 60);
    harness.run_to(harness.start + unit * 60);
    assert!(now.is_woken());
    let _first = harness.sleep(unit * 40);
    let _second = harness.sleep(unit * 65);
    harness.timer.shared().agenda.notify.notify_one();
    harness.drive();
    let between = harness.sleep(unit * 20);
    harness.run_to(harness.start + unit * 80);
    assert!(between.is_woken());
}

/// Each shard publishes the tick of a canceled sleep.
#[test]
fn canceled_timers_wake_the_driver_once() {
    const SHARDS: u64 = 64;
    let mut harness = Harness::new(SHARDS as usize);
    let shared = &harness.timer.handle.shared;
    let sleeps: Vec<_> = (1..=SHARDS)
        .map(|n| {
            let registrar = Registrar::of_shard(shared, n as usize - 1);
            let mut sleep = task::spawn(Sleep::new(Some(registrar), harness.start + ms(n)));
            assert_pending!(sleep.poll());
            sleep
        })
        .collect();
    harness.drive();
    drop(sleeps);
    let before = harness.timer.metrics().driver_wakeups();
    harness.run_to(harness.start + ms(2 * SHARDS));
    assert_eq!(harness.alarm.set_for(), None);
    assert_eq!(harness.timer.metrics().driver_wakeups(), before + 1);
}

#[test]
fn without_a_timer_the_alarm_is_left_alone() {
    let harness = Harness::new(4);
    assert_eq!(harness.alarm.set_for(), None);
}

/// A waker that runs a function when it is woken for the first time.
struct Acts(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Wake for Acts {
    fn wake(self: Arc<Self>) {
        let act = self.0.lock().unwrap().take();
        act.expect("a task must be woken once")();
    }
}

/// Registers a sleep whose waker calls `act`. The sleep is due in 10 ms.
fn sleep_that_acts(harness: &Harness, act: impl FnOnce() + Send + 'static) -> Pin<Box<Sleep>> {
    let waker = Arc::new(Acts(Mutex::new(Some(Box::new(act))))).into();
    let mut sleep = Box::pin(harness.timer.sleep_until(harness.clock.now() + ms(10)));
    assert_pending!(sleep.as_mut().poll(&mut Context::from_waker(&waker)));
    sleep
}

/// The alarm's waker arms the driver after it has woken the tasks. So it sets the alarm for an entry that one
/// of these tasks registers.
#[test]
fn a_sleep_that_is_registered_during_a_turn_sets_the_alarm() {
    for is_worker in [false, true] {
        let mut harness = Harness::new(1);
        let _far = harness.sleep(ms(300));
        let runtime = harness.runtime.take().unwrap();
        let next = Arc::new(Mutex::new(None));
        let (timer, deadline) = (harness.timer.clone(), harness.start + ms(20));
        let register = {
            let next = next.clone();
            move || {
                let mut sleep = task::spawn(timer.sleep_until(deadline));
                assert_pending!(sleep.poll());
                *next.lock().unwrap() = Some(sleep);
            }
        };
        let _sleep = sleep_that_acts(&harness, register);
        harness.drive();
        harness.clock.advance(ms(10));
        match is_worker {
            true => runtime.block_on(async { harness.alarm.ring() }),
            false => harness.alarm.ring(),
        }
        assert!(harness.alarm.set_for() <= Some(deadline));
        assert!(!harness.driver.is_woken());
        harness.run_to(deadline);
        assert!(next.lock().unwrap().as_ref().unwrap().is_woken());
    }
}

/// A turn runs in the waker of the alarm. The waker of a task wakes the alarm's waker again, and makes the
/// alarm go off again while the driver sets it.
#[test]
fn an_alarm_that_goes_off_during_a_turn_takes_no_second_turn() {
    let mut harness = Harness::new(1);
    let (shared, alarm) = (harness.timer.handle.shared.clone(), harness.alarm.clone());
    let go_off = move || {
        // There is something due for the second turn.
        shared.agenda.wake_for(0, false);
        Waker::from(shared).wake();
        alarm.ring();
    };
    let _sleep = sleep_that_acts(&harness, go_off);
    let later = harness.sleep(ms(20));
    harness.clock.advance(ms(10));
    let before = harness.timer.metrics().driver_wakeups();
    harness.alarm.ring();
    assert_eq!(harness.timer.metrics().driver_wakeups(), before + 1);
    assert!(harness.driver.is_woken());
    harness.drive();
    harness.run_to(harness.start + ms(20));
    assert!(later.is_woken());
}

/// A task that the alarm's waker wakes drops the last handle and the last future. The driver's task ends.
#[test]
fn a_timer_whose_last_handle_is_dropped_during_a_turn_ends() {
    let harness = Harness::new(1);
    let last = Arc::new(Mutex::new(None));
    let drop_last = {
        let last = last.clone();
        move || drop(last.lock().unwrap().take())
    };
    let sleep = sleep_that_acts(&harness, drop_last);
    let Harness {
        timer,
        mut driver,
        clock,
        alarm,
        ..
    } = harness;
    assert_pending!(driver.poll());
    let shared = timer.handle.shared.clone();
    *last.lock().unwrap() = Some((timer, sleep));
    clock.advance(ms(10));
    alarm.ring();
    assert!(last.lock().unwrap().is_none());
    assert!(driver.is_woken());
    assert_ready!(driver.poll());
    drop(driver);
    assert!(shared.ending.has_begun());
    assert_eq!(alarm.set_for(), None);
    assert_eq!(Arc::strong_count(&shared), 1);
}

/// A task that the alarm's waker wakes drops the driver. The turn then wakes the other tasks, and sets no
/// alarm.
#[test]
fn a_driver_that_is_dropped_during_a_turn_sets_no_alarm() {
    let mut harness = Harness::new(2);
    let driver = Arc::new(Mutex::new(None));
    let drop_driver = {
        let driver = driver.clone();
        move || drop(driver.lock().unwrap().take())
    };
    let _sleep = sleep_that_acts(&harness, drop_driver);
    let others = [harness.sleep(ms(10)), harness.sleep(ms(20))];
    let Harness {
        timer,
        clock,
        alarm,
        ..
    } = harness;
    *driver.lock().unwrap() = Some(harness.driver);
    clock.advance(ms(10));
    alarm.ring();
    assert!(driver.lock().unwrap().is_none());
    assert!(others.iter().all(|sleep| sleep.is_woken()));
    assert_eq!(alarm.set_for(), None);
    let shared = &timer.handle.shared;
    assert!(shared.agenda.take().is_none());
    // The handle and its three registrars keep the state.
    assert_eq!(Arc::strong_count(shared), 4);
}

#[test]
fn a_turn_that_panics_is_put_back() {
    let mut harness = Harness::new(2);
    let mut sleep = harness.sleep(ms(5));
    harness.clock.advance(ms(10));
    harness.clock.break_once();
    let rung = catch_unwind(AssertUnwindSafe(|| harness.alarm.ring()));
    assert!(rung.is_err());
    harness.drive();
    assert!(sleep.is_woken());
    assert_ready!(sleep.poll());
    let mut next = harness.sleep(ms(5));
    harness.run_to(harness.clock.now() + ms(6));
    assert_ready!(next.poll());
}

/// With `tokio_unstable`, a subscriber of tokio's events may panic while a thread sets the alarm. That thread is a worker
/// that registers, or either half of the driver.
#[test]
fn an_alarm_that_panics_is_set_again() {
    for by in ["a worker", "the waker of the alarm", "the driver's task"] {
        let mut harness = Harness::new(1);
        let mut first = harness.sleep(ms(5));
        let runtime = harness.runtime.take().unwrap();
        match by {
            "a worker" => {}
            "the waker of the alarm" => {
                harness.clock.advance(ms(6));
                harness.alarm.break_for(1);
                harness.alarm.ring();
            }
            _ => {
                harness.alarm.break_for(1);
                harness.timer.shared().agenda.notify.notify_one();
            }
        }
        let mut earlier = task::spawn(harness.timer.sleep_until(harness.clock.now() + ms(2)));
        runtime.block_on(async {
            if by == "a worker" {
                harness.alarm.break_for(1);
            }
            assert_pending!(earlier.poll());
        });
        harness.drive();
        harness.run_to(harness.clock.now() + ms(6));
        assert_ready!(earlier.poll(), "{by}");
        assert_ready!(first.poll(), "{by}");
    }
}

/// With `tokio_unstable`, a subscriber of tokio's events may register a sleep while a thread sets the alarm. That thread is
/// a worker that registers, or takes a turn.
#[test]
fn an_alarm_that_registers_a_sleep_is_set_again() {
    for takes_turn in [false, true] {
        let (ends, end) = mpsc::channel();
        thread::spawn(move || {
            let mut harness = Harness::new(1);
            let _far = harness.sleep(ms(300));
            let first = harness.sleep(ms(10));
            let runtime = harness.runtime.take().unwrap();
            let sleep = |after| task::spawn(harness.timer.sleep_until(harness.start + ms(after)));
            let mut second = sleep(if takes_turn { 30 } else { 9 });
            let third = Arc::new(Mutex::new(sleep(if takes_turn { 20 } else { 8 })));
            let registers = third.clone();
            let register = move || assert_pending!(registers.lock().unwrap().poll());
            runtime.block_on(async {
                if takes_turn {
                    assert_pending!(second.poll());
                    harness.clock.advance(ms(10));
                    harness.alarm.call(register);
                    harness.alarm.ring();
                } else {
                    harness.alarm.call(register);
                    assert_pending!(second.poll());
                }
            });
            harness.drive();
            harness.run_to(harness.start + ms(20));
            let third = third.lock().unwrap();
            ends.send([first.is_woken(), second.is_woken(), third.is_woken()])
        });
        let woken = end.recv_timeout(Duration::from_secs(60));
        assert_eq!(woken, Ok([true, !takes_turn, true]));
    }
}

/// The driver's task tries again in each poll, and lets other tasks run between two polls.
#[test]
fn an_alarm_that_always_panics_does_not_keep_a_worker() {
    let mut harness = Harness::new(1);
    let mut sleep = harness.sleep(ms(5));
    harness.alarm.break_for(100);
    harness.timer.shared().agenda.notify.notify_one();
    for _ in 0..50 {
        assert_pending!(harness.driver.poll());
        assert!(harness.driver.is_woken());
    }
    harness.drive();
    assert_eq!(harness.alarm.set_for(), Some(harness.start + ms(5)));
    harness.run_to(harness.start + ms(5));
    assert_ready!(sleep.poll());
}

/// A task with a sleep of zero runs after the tasks that are ready. So the sleep fires with the alarm, and a worker does
/// not notify the driver's task.
#[test]
fn a_sleep_of_zero_waits_for_the_alarm() {
    let mut harness = Harness::new(1);
    let runtime = harness.runtime.take().unwrap();
    for passed in [0, 1, 999_999] {
        let now = harness.clock.now();
        let mut sleep = task::spawn(harness.timer.sleep_until(now));
        harness.clock.advance(Duration::from_nanos(passed));
        runtime.block_on(async { assert_pending!(sleep.poll()) });
        assert!(!harness.driver.is_woken());
        let next = harness.alarm.set_for().unwrap();
        assert!(next > harness.clock.now());
        assert!(next <= harness.clock.now() + DEFAULT_TICK);
        harness.run_to(next);
        assert_ready!(sleep.poll());
    }
    let now = harness.clock.now();
    let mut late = task::spawn(harness.timer.sleep_until(now));
    let mut timeout = task::spawn(Box::pin(
        harness.timer.timeout_at(now + ms(1), pending::<()>()),
    ));
    harness.clock.advance(ms(1));
    runtime.block_on(async {
        assert_ready!(late.poll());
        assert_pending!(timeout.poll());
    });
    // Outside the runtime, nothing may drive the timer.
    assert_ready!(task::spawn(harness.timer.sleep_until(harness.clock.now())).poll());
    harness.run_to(harness.alarm.set_for().unwrap());
    assert!(assert_ready!(timeout.poll()).is_err());
}

/// A listener that makes a sleep and moves it to a task does not put the sleeps of all tasks into its own shard.
#[test]
fn a_sleep_registers_where_it_is_first_polled() {
    const WORKERS: usize = 4;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder
        .worker_threads(WORKERS)
        .enable_time()
        .build()
        .unwrap();
    let timer = runtime.block_on(async { Timer::builder().shards(WORKERS).build().unwrap() });
    for _ in 0..100 {
        let mut sleep = timer.sleep(ms(3_600_000));
        let timer = timer.clone();
        let polled = runtime.spawn(async move {
            let pending = || {
                let worker = tokio::runtime::worker_index().unwrap();
                timer.handle.shared.shards[worker].counts().pending
            };
            let before = pending();
            assert!(poll_fn(|cx| Poll::Ready(Pin::new(&mut sleep).poll(cx).is_pending())).await);
            assert_eq!(pending(), before + 1);
        });
        runtime.block_on(polled).unwrap();
    }
}
