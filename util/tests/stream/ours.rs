//! Tests of the features that only this crate's adapters have: explicit timers, any duration, any executor.

use futures_util::FutureExt as _;

use super::*;
use crate::support::until_another_task_runs;

fn never() -> impl Stream<Item = u8> + Unpin {
    FromFn(|_: &mut Context<'_>| Poll::Pending)
}

fn always() -> impl Stream<Item = u8> + Unpin {
    FromFn(|_: &mut Context<'_>| Poll::Ready(Some(7)))
}

/// An item at every other poll.
fn now_and_then() -> impl Stream<Item = u8> + Unpin {
    let mut turns = 0_usize..;
    FromFn(move |_: &mut Context<'_>| match turns.next() {
        Some(turn) if turn % 2 == 0 => Poll::Ready(Some(7)),
        _ => Poll::Pending,
    })
}

fn once() -> impl Stream<Item = u8> + Unpin {
    once_and(|_| Poll::Pending)
}

/// One item, and then what `rest` returns.
fn once_and(
    mut rest: impl FnMut(&mut Context<'_>) -> Poll<Option<u8>> + Unpin,
) -> impl Stream<Item = u8> + Unpin {
    let mut first = Some(7);
    FromFn(move |cx: &mut Context<'_>| match first.take() {
        Some(item) => Poll::Ready(Some(item)),
        None => rest(cx),
    })
}

#[tokio::test(start_paused = true)]
async fn items_that_are_there_register_nothing() {
    let mut timeout = always().timeout(ms(1));
    let mut repeating = always().timeout_repeating(interval(ms(1)));
    let mut throttle = always().throttle(Duration::ZERO);
    let mut chunks = always().chunks_timeout(3, ms(1));
    for _ in 0..100 {
        next(&mut timeout).await.unwrap().unwrap();
        next(&mut repeating).await.unwrap().unwrap();
        next(&mut throttle).await.unwrap();
        next(&mut chunks).await.unwrap();
    }
    assert_eq!(Timer::current().metrics().registered(), 0);
}

/// An item moves the deadline of the entry.
#[tokio::test(start_paused = true)]
async fn an_item_in_time_registers_nothing_new() {
    async fn registered<S: Stream + Unpin>(wrap: fn(Received<u8>) -> S) -> u64 {
        let before = Timer::current().metrics().registered();
        let (sender, receiver) = unbounded_channel();
        let mut stream = task::spawn(wrap(Received(receiver)));
        for _ in 0..100 {
            sender.send(7).unwrap();
            while stream.poll_next().is_ready() {}
            advance(ms(1)).await;
        }
        Timer::current().metrics().registered() - before
    }
    assert_eq!(registered(|stream| stream.timeout(ms(50))).await, 1);
    let wrap = |stream: Received<u8>| stream.timeout_repeating(interval(ms(50)));
    // The first tick of an interval is at once, and needs no registration.
    assert_eq!(registered(wrap).await, 1);
    // A chunk waits for its second item 50 times, each time for less than the limit.
    let wrap = |stream: Received<u8>| stream.chunks_timeout(2, secs(1));
    assert_eq!(registered(wrap).await, 1);
    assert_eq!(registered(|stream| stream.debounce(ms(50))).await, 1);
}

#[tokio::test(start_paused = true)]
async fn the_longest_duration_does_not_end_within_a_year() {
    let (items, receiver) = unbounded_channel();
    let mut timeout = task::spawn(Received(receiver).timeout(Duration::MAX));
    let mut throttle = task::spawn(always().throttle(Duration::MAX));
    let (sender, receiver) = unbounded_channel();
    let mut chunks = task::spawn(Received(receiver).chunks_timeout(3, Duration::MAX));
    let mut repeating = task::spawn(never().timeout_repeating(interval(Duration::MAX)));
    sender.send(7).unwrap();

    assert!(assert_ready!(repeating.poll_next()).unwrap().is_err());
    assert_pending!(timeout.poll_next());
    items.send(7).unwrap();
    assert_ready_eq!(timeout.poll_next(), Some(Ok(7)));
    assert_ready_eq!(throttle.poll_next(), Some(7));
    for _ in 0..3 {
        assert_pending!(timeout.poll_next());
        assert_pending!(repeating.poll_next());
        assert_pending!(throttle.poll_next());
        assert_pending!(chunks.poll_next());
        advance(secs(10_000_000)).await;
        assert!(!timeout.is_woken() && !repeating.is_woken());
        assert!(!throttle.is_woken() && !chunks.is_woken());
    }
    assert_eq!(chunks.enter(|_, chunks| chunks.into_remainder()), [7]);
}

/// The test polls by hand, outside a runtime.
#[test]
fn adapters_on_a_certain_timer_can_be_polled_anywhere() {
    fn fires<S: Stream + Unpin>(timer: &Timer, make: impl Fn() -> S) {
        let (wakes, waker) = Wakes::new();
        let mut cx = Context::from_waker(&waker);
        // On a busy machine, the time may elapse before the first poll.
        let (mut stream, fired) = loop {
            let metrics = timer.metrics();
            let mut stream = make();
            while Pin::new(&mut stream).poll_next(&mut cx).is_ready() {}
            if timer.metrics().registered() > metrics.registered() {
                break (stream, metrics.fired());
            }
        };
        wait_until(|| wakes.count() > 0);
        assert!(Pin::new(&mut stream).poll_next(&mut cx).is_ready());
        assert_eq!(timer.metrics().fired(), fired + 1);
    }
    does_not_hang(|| {
        let runtime = multi_thread(1);
        let timer = runtime.block_on(async { Timer::builder().build().unwrap() });
        let ambient = runtime.block_on(async { Timer::current() });

        fires(&timer, || IntervalStream::new(timer.interval(ms(5))));
        fires(&timer, || never().timeout_repeating(timer.interval(ms(5))));
        assert_eq!(timer.metrics().pending(), 0);
        assert_eq!(ambient.metrics().registered(), 0);
    });
}

/// A poll that finds an elapsed timer uses budget.
#[tokio::test(start_paused = true)]
async fn ready_timers_let_others_run() {
    async fn lets_others_run<S: Stream + Unpin>(mut stream: S) {
        advance(secs(1_000)).await;
        let take = async || assert!(next(&mut stream).await.is_some());
        let turns = until_another_task_runs(take).await;
        assert!(turns > 1, "the stream yields although it has budget");
    }
    lets_others_run(IntervalStream::new(interval(ms(1)))).await;
    lets_others_run(never().timeout_repeating(interval(ms(1)))).await;
    lets_others_run(now_and_then().timeout(Duration::ZERO)).await;
    lets_others_run(now_and_then().chunks_timeout(3, Duration::ZERO)).await;
    lets_others_run(now_and_then().debounce(Duration::ZERO)).await;
    lets_others_run(JitteredInterval::new(|| Duration::ZERO)).await;
}

/// A poll after the end of a pause uses budget. A slow reader polls only then.
#[tokio::test(start_paused = true)]
async fn pauses_that_are_over_let_others_run() {
    let mut throttled = always().throttle(Duration::from_nanos(1));
    let mut turns = 0;
    poll_fn(|cx| {
        while let Poll::Ready(item) = Pin::new(&mut throttled).poll_next(cx) {
            assert_eq!(item, Some(7));
            turns += 1;
            assert!(turns < 10_000, "the poll never yields");
            // A nanosecond passes.
            while pin!(advance(Duration::from_nanos(1))).poll(cx).is_ready() {}
        }
        Poll::Ready(())
    })
    .await;
    assert!(turns > 1, "the stream yields although it has budget");
}

/// Further polls use no budget, so they do not make the reader yield.
#[tokio::test(start_paused = true)]
async fn a_pause_that_is_over_costs_budget_only_once() {
    let mut polls = 0;
    let mut throttled = once_and(|_| {
        polls += 1;
        Poll::Pending
    })
    .throttle(ms(10));
    assert_eq!(next(&mut throttled).await, Some(7));
    advance(ms(10)).await;
    poll_fn(|cx| {
        for _ in 0..1_000 {
            assert_pending!(Pin::new(&mut throttled).poll_next(cx));
        }
        Poll::Ready(())
    })
    .await;
    drop(throttled);
    assert_eq!(polls, 1_000);
}

#[test]
fn chunks_of_size_zero_panic_in_the_callers_frame() {
    let make = || never().chunks_timeout(0, ms(1));
    assert_panics(make, &["`max_size` must be 1 or more, got 0"]);
}

#[test]
fn a_poll_outside_of_a_runtime_names_the_remedy() {
    fn poll<S: Stream + Unpin>(mut stream: S) {
        let mut cx = Context::from_waker(Waker::noop());
        while Pin::new(&mut stream).poll_next(&mut cx).is_ready() {}
    }
    let bodies: [fn(); 7] = [
        || poll(once().debounce(secs(9))),
        || poll(JitteredInterval::new(|| secs(9))),
        || poll(never().timeout(ms(1))),
        || poll(never().timeout_repeating(interval(secs(9)))),
        || poll(always().throttle(secs(9))),
        || poll(once().chunks_timeout(3, secs(9))),
        || poll(IntervalStream::new(interval(secs(9)))),
    ];
    let expected = "polled outside of a tokio runtime";
    for body in bodies {
        let message = panic_of(body).message;
        assert!(message.contains(expected), "{message}");
    }
    let tick = || async { JitteredInterval::new(|| secs(9)).tick().await }.now_or_never();
    assert_panics(tick, &[expected]);
}

#[tokio::test(start_paused = true)]
async fn chunks_of_a_stream_that_never_rests_end_in_time() {
    let endless = FromFn(|_: &mut Context<'_>| Poll::Ready(Some(1_u8)));
    let mut chunks = pin!(endless.chunks_timeout(usize::MAX, ms(10)));
    let turns = AtomicUsize::new(0);
    // A paused clock does not move while a task is ready to run. This task moves it.
    let others = async {
        for _ in 0..20 {
            tokio::task::yield_now().await;
            turns.fetch_add(1, Ordering::Relaxed);
            advance(ms(1)).await;
        }
    };
    let chunk = async { poll_fn(|cx| chunks.as_mut().poll_next(cx)).await };
    let (chunk, ()) = tokio::join!(chunk, others);
    assert!(chunk.unwrap().len() > 1_024);
    assert_eq!(turns.load(Ordering::Relaxed), 20);
}

#[tokio::test(start_paused = true)]
async fn limits_beside_a_greedy_sibling_end() {
    let mut timeout = never().timeout(ms(10));
    let late = beside_a_greedy_sibling(next(&mut timeout)).await;
    assert!(late.unwrap().is_err());
    let later = interval_at(Instant::now() + ms(10), ms(10));
    let mut repeating = never().timeout_repeating(later);
    for _ in 0..3 {
        let late = beside_a_greedy_sibling(next(&mut repeating)).await;
        assert!(late.unwrap().is_err());
    }
    let (sender, receiver) = unbounded_channel();
    sender.send(7).unwrap();
    let mut chunks = Received(receiver).chunks_timeout(3, ms(10));
    // The receiver needs budget for the item, so the task begins a new poll.
    tokio::task::yield_now().await;
    assert!(peek(&mut chunks).await.is_pending());
    let chunk = beside_a_greedy_sibling(next(&mut chunks)).await;
    assert_eq!(chunk, Some(vec![7]));
    let mut latest = once().debounce(ms(10));
    assert_eq!(beside_a_greedy_sibling(next(&mut latest)).await, Some(7));
}

/// A tick that is late by less than a period makes no other tick late. A dropped call loses no tick, and there is no burst.
#[tokio::test(start_paused = true)]
async fn a_jittered_interval_has_the_periods_of_its_closure() {
    let start = Instant::now();
    let mut periods = [10, 30, 20, 50, 60, 0, 0].map(ms).into_iter();
    let mut ticks = JitteredInterval::new(|| periods.next().unwrap());
    assert_eq!(ticks.tick().await, start + ms(10));
    advance(ms(5)).await;
    let mut dropped = Box::pin(ticks.tick());
    assert!(poll_once(&mut dropped).await.is_pending());
    drop(dropped);
    advance(ms(100)).await;
    assert_eq!(ticks.tick().await, start + ms(40));
    // The period of 20 ms had ended too.
    assert_eq!(ticks.tick().await, start + ms(115 + 20));
    assert_eq!(start.elapsed(), ms(135));
    advance(ms(90)).await;
    assert_eq!(ticks.tick().await, start + ms(135 + 50));
    assert_eq!(ticks.tick().await, start + ms(135 + 50 + 60));
    assert_eq!(ticks.tick().await, start + ms(135 + 50 + 60));
    assert_eq!(start.elapsed(), ms(245));
}

/// The timer is late by a part of its tick at each tick, and the interval is not later after many.
#[tokio::test(start_paused = true)]
async fn a_jittered_interval_does_not_drift() {
    let _timer = Timer::builder().tick(ms(1)).install().unwrap();
    let (start, period) = (Instant::now(), Duration::from_micros(33_333));
    let mut ticks = JitteredInterval::new(|| period);
    for n in 1..=3_000 {
        assert_eq!(ticks.tick().await, start + n * period);
        assert!(start.elapsed() < n * period + ms(2), "{n}");
    }
}
