//! The timer on which a reaper waits, on runtimes and other executors.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_ambient_timer_is_used_when_it_is_needed() {
    let ambient = Timer::current();
    let (set, reaper) = IdleSet::new(ms(10));
    let mut reaper = task::spawn(reaper);
    assert_pending!(reaper.poll_next());
    set.touch_with_timeout(&1, Duration::ZERO);
    assert_ready_eq!(reaper.poll_next(), Some(1));
    assert_eq!(
        ambient.metrics().registered(),
        0,
        "the reaper had no deadline to wait for"
    );
    for key in 2..50 {
        set.touch(&key);
        assert_pending!(reaper.poll_next());
    }
    assert_eq!(
        ambient.metrics().registered(),
        1,
        "all keys share one alarm"
    );
}

#[test]
fn another_executor() {
    does_not_hang(|| {
        let runtime = multi_thread(1);
        let timer = runtime.block_on(async { Timer::current() });
        let start = Instant::now();
        let (set, mut reaper) = IdleSet::with_timer(ms(10), &timer);
        for key in [15, 5, 25] {
            set.touch_with_timeout(&key, ms(key));
        }
        for key in [5, 15, 25] {
            assert_eq!(tokio_test::block_on(reaper.reap()), Some(key));
            assert!(start.elapsed() >= ms(key));
        }
    });
}

#[test]
fn made_and_filled_outside_of_a_runtime() {
    let (set, mut reaper) = IdleSet::new(ms(20));
    let start = Instant::now();
    for key in ["gone", "late", "never"] {
        set.touch(key);
    }
    set.touch_with_timeout("never", Duration::MAX);
    set.touch_with_timeout("now", Duration::ZERO);
    set.remove("gone");
    does_not_hang(move || {
        current_thread().block_on(async {
            assert_eq!(reaper.reap().await.as_deref(), Some("now"));
            assert_eq!(reaper.reap().await.as_deref(), Some("late"));
            assert!(start.elapsed() >= ms(20));
        });
    });
    assert_eq!(set.len(), 0, "the drop of the reaper empties the set");
}

/// If a poll outside a runtime must wait, it panics with a message that names the remedy.
#[test]
fn a_poll_outside_of_a_runtime_names_the_remedy() {
    let (set, mut reaper) = IdleSet::new(ms(20));
    set.touch(&1);
    let poll = || reaper.poll_reap(&mut Context::from_waker(Waker::noop()));
    assert_panics(poll, &["polled outside of a tokio runtime"]);
}

#[test]
fn a_set_outlives_the_runtime_of_its_reaper() {
    does_not_hang(|| {
        let (set, mut reaper) = IdleSet::new(ms(20));
        let touched = Instant::now();
        set.touch(&1);
        let first = current_thread();
        let poll = poll_fn(|cx| Poll::Ready(reaper.poll_reap(cx).is_pending()));
        assert!(first.block_on(poll));
        drop(first);
        assert_eq!(current_thread().block_on(reaper.reap()), Some(1));
        assert!(touched.elapsed() >= ms(20));
    });
}

/// The timer's clock is paused and jumps. The clock of the polling thread is not paused.
#[test]
fn an_alarm_counts_that_goes_by_another_clock() {
    let runtime = paused();
    let timer = runtime.block_on(async { Timer::current() });
    let (set, mut reaper) = IdleSet::with_timer(secs(1_000), &timer);
    let (wakes, waker) = Wakes::new();
    let mut poll = || reaper.poll_reap(&mut Context::from_waker(&waker));
    set.touch(&1);
    assert_pending!(poll());
    // Before the deadline, the reaper may wait for one slot of each level.
    let mut leaps = 0;
    let reaped = loop {
        leaps += 1;
        runtime.block_on(advance(secs(2_000)));
        assert_eq!(wakes.count(), leaps);
        if let Poll::Ready(reaped) = poll() {
            break reaped;
        }
    };
    assert_eq!(reaped, Some(1));
    assert!(leaps <= 5, "{leaps} leaps");

    set.touch_with_timeout(&2, secs(5_000));
    assert_pending!(poll());
    runtime.block_on(advance(secs(5_000)));
    assert_eq!(wakes.count(), leaps + 1);
    set.remove(&2);
    assert_pending!(poll());
    assert_eq!(wakes.count(), leaps + 1, "the set has no deadline");
}
