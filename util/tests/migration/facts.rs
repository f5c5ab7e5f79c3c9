//! Tests what the guide says about runtimes and the paused clock.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{runtime::Handle, time::Instant};

use crate::support::{current_thread, ms, paused};

/// The count includes the driver from the first pending timer on.
#[tokio::test(start_paused = true)]
async fn the_driver_counts_as_one_alive_task() {
    let alive = || Handle::current().metrics().num_alive_tasks();
    tokio::time::sleep(ms(1)).await;
    assert_eq!(alive(), 0);
    tokio_wheel::sleep(ms(1)).await;
    assert_eq!(alive(), 1);
    tokio::join!(tokio_wheel::sleep(ms(1)), tokio_wheel::sleep(ms(2)));
    assert_eq!(alive(), 1);
}

/// Returns the order in which a task and the future of `block_on` continue. Both sleep until the same instant.
fn order<F>(sleep: fn(Duration) -> F) -> Vec<&'static str>
where
    F: Future<Output = ()> + Send + 'static,
{
    let log = Arc::new(Mutex::new(Vec::new()));
    paused().block_on(async {
        let of_task = Arc::clone(&log);
        let task = tokio::spawn(async move {
            sleep(ms(10)).await;
            of_task.lock().unwrap().push("task");
        });
        sleep(ms(10)).await;
        log.lock().unwrap().push("block_on");
        task.await.unwrap();
    });
    log.lock().unwrap().clone()
}

#[test]
fn the_future_of_block_on_runs_before_expired_tasks() {
    assert_eq!(order(tokio::time::sleep), ["block_on", "task"]);
    assert_eq!(order(tokio_wheel::sleep), ["block_on", "task"]);
}

#[tokio::test(start_paused = true)]
async fn advance_of_tokio_fires_the_wheels_sleeps() {
    let mut sleep = tokio_test::task::spawn(tokio_wheel::sleep(ms(10)));
    assert!(sleep.poll().is_pending());
    tokio::time::advance(ms(10)).await;
    assert!(sleep.is_woken());
}

/// Shows whether a sleep that was ready and is reset wakes its task: without another poll, and with one.
#[tokio::test(start_paused = true)]
async fn a_sleep_that_was_ready_and_is_reset_must_be_polled_again() {
    macro_rules! wakes {
        ($($time:ident)::+) => {{
            let mut wakes = Vec::new();
            for is_polled_again in [false, true] {
                let mut sleep = tokio_test::task::spawn($($time)::+::sleep(ms(1)));
                assert!(sleep.poll().is_pending());
                $($time)::+::advance(ms(1)).await;
                assert!(sleep.poll().is_ready());
                sleep.enter(|_, sleep| sleep.reset(Instant::now() + ms(1)));
                assert!(!is_polled_again || sleep.poll().is_pending());
                $($time)::+::advance(ms(1)).await;
                wakes.push(sleep.is_woken());
            }
            wakes
        }};
    }
    assert_eq!(wakes!(tokio::time), [true, true]);
    assert_eq!(wakes!(tokio_wheel), [false, true]);
}

/// The clock has moved, and the runtime has not looked at its timers since.
#[tokio::test(start_paused = true)]
async fn a_passed_deadline_is_ready_in_the_instant_of_an_advance() {
    let end = Instant::now() + ms(10);
    let mut pending = tokio_test::task::spawn(tokio_wheel::sleep(ms(60)));
    assert!(pending.poll().is_pending());
    let mut tokios = tokio_test::task::spawn(tokio::time::sleep(ms(60)));
    assert!(tokios.poll().is_pending());
    let mut advance = tokio_test::task::spawn(tokio::time::advance(ms(20)));
    assert!(advance.poll().is_pending() && Instant::now() > end);
    let is_ready = |polled: std::task::Poll<()>| polled.is_ready();
    let tokio_first = tokio_test::task::spawn(tokio::time::sleep_until(end)).poll();
    let wheel_first = tokio_test::task::spawn(tokio_wheel::sleep_until(end)).poll();
    assert_eq!([tokio_first, wheel_first].map(is_ready), [false, true]);
    tokios.enter(|_, sleep| sleep.reset(end));
    pending.enter(|_, sleep| sleep.reset(end));
    assert_eq!([tokios.is_woken(), pending.is_woken()], [false, true]);
    tokio::task::yield_now().await;
    assert!(tokios.is_woken());
}

/// Two sleeps for one deadline, 200 ms: the first was reset from 100 ms to it, before the second was set at 70 ms.
#[tokio::test(start_paused = true)]
async fn a_sleep_that_was_reset_may_wake_after_one_that_was_set_later() {
    macro_rules! order {
        ($($time:ident)::+) => {{
            let log = Arc::new(Mutex::new(Vec::new()));
            let (first, second) = (Arc::clone(&log), Arc::clone(&log));
            // Both timers have seen the paused clock, at a multiple of their coarse slots.
            $($time)::+::sleep(ms(64)).await;
            let at = Instant::now() + ms(200);
            let first = tokio::spawn(async move {
                let mut sleep = Box::pin($($time)::+::sleep(ms(100)));
                std::future::poll_fn(|cx| {
                    assert!(sleep.as_mut().poll(cx).is_pending());
                    std::task::Poll::Ready(())
                })
                .await;
                sleep.as_mut().reset(at);
                sleep.await;
                first.lock().unwrap().push("first");
            });
            // No other sleep of the timer fires in between.
            tokio::time::sleep(ms(70)).await;
            let second = tokio::spawn(async move {
                $($time)::+::sleep_until(at).await;
                second.lock().unwrap().push("second");
            });
            let _ = tokio::join!(first, second);
            log.lock().unwrap().clone()
        }};
    }
    assert_eq!(order!(tokio::time), ["first", "second"]);
    assert_eq!(order!(tokio_wheel), ["second", "first"]);
}

/// Lets a sleep of tokio and a sleep of the wheel end that are set for the same duration, once in each order of registration
/// and in each order of awaiting. Returns how long each took, and whether the other sleep was woken when the first one was
/// ready.
async fn both(duration: Duration) -> Vec<(Duration, Duration, bool)> {
    let mut ends = Vec::new();
    for [first, awaited] in [[0, 0], [0, 1], [1, 0], [1, 1]] {
        let start = Instant::now();
        let (tokio, wheel) = (tokio::time::sleep(duration), tokio_wheel::sleep(duration));
        let sleeps: [Pin<Box<dyn Future<Output = ()>>>; 2] = [Box::pin(tokio), Box::pin(wheel)];
        let mut sleeps = sleeps.map(tokio_test::task::spawn);
        for one in [first, 1 - first] {
            assert!(sleeps[one].poll().is_pending());
        }
        (&mut sleeps[awaited]).await;
        let is_other_woken = sleeps[1 - awaited].is_woken();
        let mut took = [start.elapsed(); 2];
        (&mut sleeps[1 - awaited]).await;
        took[1 - awaited] = start.elapsed();
        ends.push((took[0], took[1], is_other_woken));
    }
    ends
}

#[test]
fn on_a_clock_that_starts_paused_both_sleeps_fire_together() {
    for is_first in [true, false] {
        for micros in [1, 5_000, 5_001, 5_500, 64_000, 100_000, 3_600_000_000] {
            let ends = paused().block_on(async {
                if !is_first {
                    tokio_wheel::sleep(ms(1)).await;
                }
                both(Duration::from_micros(micros)).await
            });
            for (tokio, wheel, is_other_woken) in ends {
                assert_eq!((tokio, is_other_woken), (wheel, true), "{micros} us");
            }
        }
    }
}

/// The program pauses the clock between two milliseconds of tokio's timer.
#[test]
fn on_a_clock_that_is_paused_later_only_the_first_timer_of_the_wheel_is_exact() {
    for wheel_was_used in [true, false] {
        let ends = current_thread().block_on(async {
            if wheel_was_used {
                tokio_wheel::sleep(ms(1)).await;
            }
            std::thread::sleep(Duration::from_micros(300));
            tokio::time::pause();
            if !wheel_was_used {
                tokio_wheel::sleep(ms(5)).await;
            }
            both(ms(5)).await
        });
        for (tokio, wheel, is_other_woken) in ends {
            assert!((ms(5)..=ms(6)).contains(&tokio), "{tokio:?}");
            assert!(wheel == tokio || !wheel_was_used && wheel < tokio);
            assert_eq!(is_other_woken, tokio == wheel, "{tokio:?}, {wheel:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn tokios_elapsed_converts_to_the_wheels() {
    let never = std::future::pending::<()>;
    let tokios = tokio::time::timeout(ms(1), never()).await.unwrap_err();
    let wheels = tokio_wheel::timeout(ms(1), never()).await.unwrap_err();
    let text = tokios.to_string();
    let converted = tokio_wheel::error::Elapsed::from(tokios);
    assert_eq!(converted, wheels);
    assert_eq!(converted.to_string(), text);
    assert_eq!(format!("{converted:?}"), "Elapsed(())");
}
