//! "**Paused clock.** Everything works … with auto-advance; time is read through
//! `tokio::time::Instant`. `tokio_wheel::advance` also drives the wheel, so that timers due are
//! woken when it returns."

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
