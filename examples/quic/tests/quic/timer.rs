//! Polls a timer of the runtime by hand, and checks what quinn expects of an `AsyncTimer`.

use std::{future::poll_fn, pin::Pin, time::Duration};

use quinn::{AsyncTimer, Runtime as _};
use tokio_test::{assert_pending, assert_ready, task};
use tokio_wheel_quic::runtime::WheelRuntime;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

async fn fired(timer: &mut Pin<Box<dyn AsyncTimer>>) {
    poll_fn(|cx| timer.as_mut().poll(cx)).await;
}

#[tokio::test(start_paused = true)]
async fn a_timer_fires_at_its_deadline() {
    let start = WheelRuntime.now();
    let mut timer = WheelRuntime.new_timer(start + ms(40));
    fired(&mut timer).await;
    assert_eq!(WheelRuntime.now() - start, ms(40));
}

#[tokio::test(start_paused = true)]
async fn a_poll_after_a_reset_sees_the_new_deadline() {
    let start = WheelRuntime.now();
    let mut timer = WheelRuntime.new_timer(start + ms(40));
    let mut task = task::spawn(());
    assert_pending!(task.enter(|cx, _| timer.as_mut().poll(cx)));

    // Moves the deadline later. The old deadline passes without effect.
    timer.as_mut().reset(start + ms(80));
    tokio::time::sleep(ms(50)).await;
    assert_pending!(task.enter(|cx, _| timer.as_mut().poll(cx)));

    // Moves the deadline earlier.
    timer.as_mut().reset(start + ms(60));
    assert_pending!(task.enter(|cx, _| timer.as_mut().poll(cx)));
    fired(&mut timer).await;
    assert_eq!(WheelRuntime.now() - start, ms(60));

    // Resets the timer after it has fired. It wakes the same task again.
    timer.as_mut().reset(start + ms(90));
    assert_pending!(task.enter(|cx, _| timer.as_mut().poll(cx)));
    tokio::time::sleep(ms(40)).await;
    assert!(task.is_woken());
    assert_ready!(task.enter(|cx, _| timer.as_mut().poll(cx)));
}

#[tokio::test(start_paused = true)]
async fn a_timer_whose_deadline_has_passed_is_ready() {
    let start = WheelRuntime.now();
    tokio::time::sleep(ms(10)).await;
    let mut task = task::spawn(());

    let mut timer = WheelRuntime.new_timer(start);
    assert_ready!(task.enter(|cx, _| timer.as_mut().poll(cx)));

    timer.as_mut().reset(start + ms(100));
    assert_pending!(task.enter(|cx, _| timer.as_mut().poll(cx)));
    timer.as_mut().reset(start);
    assert_ready!(task.enter(|cx, _| timer.as_mut().poll(cx)));
}
