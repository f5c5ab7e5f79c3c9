//! Pressure: the time that keys lose and regain, and the wake-ups of the reaper.

use super::*;

/// Returns a set with a timeout of 60 s and a minimal timeout of 10 s.
fn set() -> (IdleSet<u64>, Reaper<u64>) {
    let builder = IdleSet::builder(secs(60)).min_timeout(secs(10));
    builder.build().unwrap()
}

async fn next(reaper: &mut Reaper<u64>, start: Instant) -> (u64, f64) {
    let key = reaper.reap().await.unwrap();
    (key, start.elapsed().as_secs_f64())
}

#[tokio::test(start_paused = true)]
async fn a_rise_wakes_a_reaper_that_waits() {
    let (wakes, waker) = Wakes::new();
    let cx = &mut Context::from_waker(&waker);
    let (set, mut reaper) = set();
    set.touch(&1);
    assert_pending!(reaper.poll_reap(cx));
    sleep(secs(20)).await;
    assert_eq!(wakes.count(), 0);
    set.set_pressure(0.5);
    assert_eq!(wakes.count(), 1);
    // The second rise comes before the next poll, so it does not wake the reaper again.
    set.set_pressure(0.6);
    assert_eq!(wakes.count(), 1);
    assert_pending!(reaper.poll_reap(cx));
    set.set_pressure(1.0);
    assert_eq!(wakes.count(), 2);
    assert_ready_eq!(reaper.poll_reap(cx), Some(1));
}

/// Three changes wake no task: a fall, a rise by less than a tick, and any change without a minimal timeout.
#[tokio::test(start_paused = true)]
async fn what_makes_no_key_earlier_wakes_nobody() {
    let (wakes, waker) = Wakes::new();
    let cx = &mut Context::from_waker(&waker);
    let (set, mut reaper) = set();
    set.set_pressure(0.5);
    set.touch(&1);
    assert_pending!(reaper.poll_reap(cx));
    set.set_pressure(0.500_001);
    set.set_pressure(0.25);
    set.set_pressure(0.0);
    assert_eq!(wakes.count(), 0);

    let (set, mut reaper) = IdleSet::new(secs(60));
    set.touch(&1);
    assert_pending!(reaper.poll_reap(cx));
    set.set_pressure(1.0);
    assert_eq!(wakes.count(), 0);
    assert_eq!(set.deadline(&1), Some(Instant::now() + secs(60)));
}

/// Pressure counts at most one day of the set's timeout. Otherwise these rises would bring the lead to its limit.
#[tokio::test(start_paused = true)]
async fn many_rises_of_a_set_without_end_leave_it_working() {
    let timer = Timer::builder().build().unwrap();
    let builder = IdleSet::builder(Duration::MAX).min_timeout(secs(10));
    let (set, mut reaper) = builder.timer(&timer).build().unwrap();
    for _ in 0..4_000 {
        set.set_pressure(1.0);
        set.set_pressure(0.0);
    }
    let start = Instant::now();
    for key in 0..3 {
        set.touch_with_timeout(&key, secs(60));
        sleep(secs(1)).await;
    }
    set.touch(&3);
    let (_, waker) = Wakes::new();
    assert_pending!(reaper.poll_reap(&mut Context::from_waker(&waker)));
    assert_eq!(reaper.shed().await, Some(0));
    set.set_pressure(1.0);
    assert_eq!(next(&mut reaper, start).await, (1, 11.0));
    set.set_pressure(0.5);
    assert_eq!(next(&mut reaper, start).await, (2, 37.0));
}

#[test]
fn a_minimal_timeout_is_at_most_the_timeout() {
    let build = |min| IdleSet::<u64>::builder(secs(60)).min_timeout(min).build();
    for min in [Duration::ZERO, secs(60)] {
        assert!(build(min).is_ok());
    }
    let error = build(secs(61)).unwrap_err();
    let BuildError::MinTimeout { given, max, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!((given, max), (secs(61), secs(60)));
    assert_eq!(
        error.to_string(),
        "min_timeout must be at most 60s, got 61s"
    );
}
