//! The timer on which a reaper waits. `ground::tick_sleep` tests a reaper that moves to another runtime.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_ambient_timer_is_used_when_it_is_needed() {
    let ambient = Timer::current();
    let (set, reaper) = IdleSet::new(ms(10));
    let mut reaper = task::spawn(reaper);
    assert_pending!(reaper.poll_next());
    set.touch_with_timeout(&1, Duration::ZERO);
    assert_ready_eq!(reaper.poll_next(), Some(1));
    // The reaper had no deadline to wait for.
    assert_eq!(ambient.metrics().registered(), 0);
    for key in 2..50 {
        set.touch(&key);
        assert_pending!(reaper.poll_next());
    }
    let registered = ambient.metrics().registered();
    assert_eq!(registered, 1, "all keys share one alarm");
}

/// If a poll outside a runtime must wait, it panics with a message that names the remedy.
#[test]
fn a_poll_outside_of_a_runtime_names_the_remedy() {
    let (set, mut reaper) = IdleSet::new(secs(3_600));
    set.touch(&1);
    let poll = || reaper.poll_reap(&mut Context::from_waker(Waker::noop()));
    assert_panics(poll, &["polled outside of a tokio runtime"]);
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
