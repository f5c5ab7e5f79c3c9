//! Promise 12, the paused clock: everything works under a paused clock that advances by itself.
//!
//! The crate reads the time through `tokio::time::Instant`. `tokio_wheel::advance` also advances
//! the wheel. When it returns, it has woken all due timers.

use super::*;

#[tokio::test(start_paused = true)]
async fn an_idle_runtime_leaps_to_the_next_timer() {
    let (start, real) = (Instant::now(), std::time::Instant::now());
    sleep(secs(86_400)).await;
    assert_eq!(start.elapsed(), secs(86_400));
    assert!(real.elapsed() < secs(3_600));
}

#[tokio::test(start_paused = true)]
async fn advance_has_woken_what_is_due_when_it_returns() {
    // The default tick, and a millisecond.
    for unit in [Duration::from_nanos(15_625), ms(1)] {
        let sleeps = (1..=2_000).map(|n| task::spawn(sleep(n * unit)));
        let mut due: Vec<_> = sleeps.collect();
        for sleep in &mut due {
            assert_pending!(sleep.poll());
        }
        for n in 1..=20 {
            advance(100 * unit).await;
            let woken = due.iter().filter(|sleep| sleep.is_woken()).count();
            assert_eq!(woken, n * 100);
        }
    }
}

/// An advance over many deadlines fires them in the order of their ticks.
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

/// Returns the order in which `many` sleeps of one deadline wake. They are set one after the other,
/// over half of `wait`.
fn order_of_wakes(many: u32, wait: Duration) -> Vec<u32> {
    paused().block_on(async {
        let deadline = Instant::now() + wait;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut sleeps = Vec::new();
        for n in 0..many {
            let order = order.clone();
            let hook = Hook::on_wake(move || order.lock().unwrap().push(n));
            let mut sleep = sleep_until(deadline);
            assert_pending!(poll(&mut sleep, &hook.waker()));
            sleeps.push(sleep);
            advance(wait / 2 / many).await;
        }
        sleep_until(deadline + ms(1)).await;
        let order = order.lock().unwrap();
        order.clone()
    })
}

/// Sleeps of one deadline that were set at different times wake in the order in which they were
/// set.
#[test]
fn sleeps_of_one_deadline_wake_in_the_order_in_which_they_were_set() {
    const MANY: u32 = 1_000;
    for wait in [ms(5), ms(100), secs(10), secs(600)] {
        let order = order_of_wakes(MANY, wait);
        assert!(order.iter().copied().eq(0..MANY), "of {wait:?}: {order:?}");
    }
}

/// Two deadlines that are a millisecond apart fire apart, wherever within a millisecond the clock
/// was paused.
#[test]
fn deadlines_a_millisecond_apart_do_not_fire_together() {
    for n in 0..20 {
        let ends_first = current_thread().block_on(async {
            thread::sleep(Duration::from_micros(n * 53));
            tokio_wheel::pause();
            timeout(ms(99), sleep(ms(100))).await.is_err()
        });
        assert!(
            ends_first,
            "the clock was paused {n} x 53 µs after the start of the runtime"
        );
    }
}

/// Two sleeps are reset to the deadline of other sleeps. All other sleeps were set before the
/// reset. The two sleeps wake after them.
#[tokio::test(start_paused = true)]
async fn a_sleep_that_was_postponed_wakes_after_those_that_were_set_before() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let hook = |name: usize| {
        let order = order.clone();
        Hook::on_wake(move || order.lock().unwrap().push(name))
    };
    let deadline = Instant::now() + ms(100);
    let mut sleeps = Vec::new();
    let mut hooks = Vec::new();
    for (name, wait) in [(0, 100), (1, 10), (2, 10), (3, 100)] {
        let mut sleep = sleep(ms(wait));
        let hook = hook(name);
        assert_pending!(poll(&mut sleep, &hook.waker()));
        sleeps.push(sleep);
        hooks.push(hook);
    }
    for postponed in &mut sleeps[1..=2] {
        Pin::new(postponed).reset(deadline);
    }
    advance(ms(20)).await;
    advance(ms(80)).await;
    assert_eq!(*order.lock().unwrap(), [0, 3, 1, 2]);
}
