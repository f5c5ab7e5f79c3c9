//! Panics. Each message names the key and the remedy, and each location is the caller's.

use super::*;

#[test]
fn an_absent_key_panics_in_the_callers_frame() {
    let mut queue = DelayQueue::new();
    let key = queue.insert(7, secs(1));
    queue.remove(&key);
    queue.insert(8, secs(1));
    let named = format!("{key:?} names no element of this `DelayQueue`");
    // A program that moves to this queue may have tests that expect the first words, which are those of tokio-util.
    let with = |remedy| ["invalid key", named.as_str(), remedy];

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
    let words = "max queue capacity exceeded";
    let expected = [words, "at most 2147483648 elements", "got "];
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
    queue.insert(7, secs(1));
    let mut cx = Context::from_waker(Waker::noop());
    assert_panics(|| queue.poll_expired(&mut cx), &expected);
    let poll_next = || Stream::poll_next(Pin::new(&mut queue), &mut cx);
    assert_panics(poll_next, &expected);
    // An expired element needs no timer. Within a runtime the queue works.
    queue.insert_at(8, Instant::now() - secs(1));
    let expired = assert_ready!(queue.poll_expired(&mut cx));
    assert_eq!(expired.unwrap().into_inner(), 8);
    let next = paused().block_on(async { queue.next().await });
    assert_eq!(next.unwrap().into_inner(), 7);
}

#[test]
fn a_poll_after_the_timers_shutdown_names_the_remedy() {
    let runtime = current_thread();
    let mut queue = runtime.block_on(async { DelayQueue::with_timer(&Timer::current()) });
    drop(runtime);
    queue.insert(7, secs(60));
    let mut cx = Context::from_waker(Waker::noop());
    paused().block_on(async {
        let Panicked { message, .. } = panic_of(|| queue.poll_expired(&mut cx));
        for expected in ["after its timer has shut down", "keep the runtime"] {
            assert!(message.contains(expected), "{message}");
        }
        // The poll has started no default timer.
        drop(Timer::builder().install().unwrap());
    });

    queue.insert_at(8, Instant::now() - secs(1));
    let expired = assert_ready!(queue.poll_expired(&mut cx));
    assert_eq!(expired.unwrap().into_inner(), 8);
    queue.clear();
    assert!(assert_ready!(queue.poll_expired(&mut cx)).is_none());
}

/// A poll clones a hostile waker, or drops the hostile waker of an earlier poll.
#[tokio::test(start_paused = true)]
async fn a_poll_that_panics_loses_no_element() {
    fn poll(queue: &mut DelayQueue<u8>, waker: &Waker) -> Option<Poll<Option<u8>>> {
        let poll = || queue.poll_expired(&mut Context::from_waker(waker));
        let polled = catch_unwind(AssertUnwindSafe(poll)).ok()?;
        Some(polled.map(|element| Some(element?.into_inner())))
    }
    let (on_clone, on_drop) = (Hook::on_clone(quiet_panic), Hook::on_drop(quiet_panic));
    let mut queue = DelayQueue::new();
    queue.insert(7, ms(5));
    tokio::time::sleep(ms(10)).await;
    assert_eq!(poll(&mut queue, &on_clone.waker()), None);
    assert_eq!(queue.len(), 1);
    assert_eq!(poll(&mut queue, Waker::noop()), Some(Poll::Ready(Some(7))));

    queue.insert(8, ms(5));
    assert_eq!(poll(&mut queue, &on_drop.waker()), Some(Poll::Pending));
    tokio::time::sleep(ms(10)).await;
    assert_eq!(poll(&mut queue, Waker::noop()), None);
    assert_eq!(queue.len(), 1);
    assert_eq!(poll(&mut queue, Waker::noop()), Some(Poll::Ready(Some(8))));
}

/// tokio-util's queue panics here. Its callers lose the key, or the element.
#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_when_it_is_woken_harms_no_call() {
    type Call = fn(&mut DelayQueue<u8>, delay_queue::Key);
    let calls: [Call; 6] = [
        |queue, _| {
            let earlier = queue.insert(8, ms(1));
            assert_eq!(queue.remove(&earlier).into_inner(), 8);
        },
        |queue, key| queue.reset(&key, ms(1)),
        |queue, key| assert!(queue.try_reset(&key, ms(1))),
        |queue, key| assert_eq!(queue.remove(&key).into_inner(), 7),
        |queue, key| assert_eq!(queue.try_remove(&key).unwrap().into_inner(), 7),
        |queue, _| queue.clear(),
    ];
    for call in calls {
        let mut queue = DelayQueue::new();
        let key = queue.insert(7, secs(1));
        let hook = Hook::on_wake(quiet_panic);
        let waker = hook.waker();
        assert_pending!(queue.poll_expired(&mut Context::from_waker(&waker)));
        call(&mut queue, key);
        assert!(hook.has_run());
    }
}
