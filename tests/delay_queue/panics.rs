//! Panics. Each message names the key and the remedy, and each location is the caller's.

use super::*;
use crate::support::panics::{Panicked, assert_panics, panic_of};

#[test]
fn an_absent_key_panics_in_the_callers_frame() {
    let mut queue = DelayQueue::new();
    let key = queue.insert(7, secs(1));
    queue.remove(&key);
    queue.insert(8, secs(1));
    let named = format!("{key:?} names no element of this `DelayQueue`");
    let with = |remedy| [named.as_str(), remedy];

    assert_panics(|| queue.remove(&key), &with("`try_remove` accepts"));
    assert_panics(|| queue.deadline(&key), &with("`try_deadline` accepts"));
    assert_panics(|| queue.reset(&key, ms(1)), &with("`try_reset` accepts"));
    let reset_at = || queue.reset_at(&key, Instant::now());
    assert_panics(reset_at, &with("`try_reset_at` accepts"));
    assert_eq!(queue.len(), 1, "no call changed the queue");
}

#[test]
fn too_many_elements_panic_in_the_callers_frame() {
    const MOST: usize = 1 << 31;
    let expected = ["at most 2147483648 elements", "got "];
    let mut queue = DelayQueue::new();
    queue.insert(7, secs(1));
    assert_panics(|| queue.reserve(MOST), &expected);
    assert_panics(|| queue.reserve(usize::MAX), &expected);
    assert_panics(|| DelayQueue::<u8>::with_capacity(MOST + 1), &expected);
    assert_eq!(queue.len(), 1);
}

#[test]
fn a_poll_outside_of_a_runtime_names_the_remedy() {
    let expected = [
        "polled outside of a tokio runtime",
        "a `tokio_wheel::Timer`",
    ];
    let mut queue = DelayQueue::new();
    let key = queue.insert(7, secs(1));
    let (_, waker) = Wakes::new();
    let mut cx = Context::from_waker(&waker);
    assert_panics(|| queue.poll_expired(&mut cx), &expected);
    let poll_next = || Stream::poll_next(Pin::new(&mut queue), &mut cx);
    assert_panics(poll_next, &expected);

    // An expired element needs no timer. Within a runtime the queue works.
    let mut cx = Context::from_waker(&waker);
    queue.insert_at(8, Instant::now() - secs(1));
    let expired = assert_ready!(queue.poll_expired(&mut cx));
    assert_eq!(expired.unwrap().into_inner(), 8);
    queue.reset(&key, ms(5));
    let next = paused().block_on(async { queue.next().await });
    assert_eq!(next.unwrap().into_inner(), 7);
    assert!(assert_ready!(queue.poll_expired(&mut cx)).is_none());
}

#[test]
fn a_poll_after_the_timers_shutdown_names_the_remedy() {
    let runtime = current_thread();
    let mut queue = runtime.block_on(async { DelayQueue::with_timer(&Timer::current()) });
    drop(runtime);
    queue.insert(7, secs(60));
    let (_, waker) = Wakes::new();
    let mut cx = Context::from_waker(&waker);
    let poll = || queue.poll_expired(&mut cx);
    let Panicked { message, .. } = panic_of(poll);
    let expected = "after its timer has shut down";
    assert!(message.contains(expected), "{message}");
    assert!(message.contains("keep the runtime"), "{message}");

    queue.insert_at(8, Instant::now() - secs(1));
    let expired = assert_ready!(queue.poll_expired(&mut cx));
    assert_eq!(expired.unwrap().into_inner(), 8);
    queue.clear();
    assert!(assert_ready!(queue.poll_expired(&mut cx)).is_none());
}
