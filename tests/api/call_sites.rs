//! `Timer::call_sites`: which places of the program have timers pending.

#![cfg(feature = "test-util")]

use std::{
    future::{pending, poll_fn},
    panic::Location,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use tokio_test::task;
use tokio_wheel::{
    Duration, FutureExt, Instant, Timer, interval_at, sleep, sleep_until, timeout, timeout_at,
};

use crate::support::{ms, multi_thread, registered, secs};

/// Returns the line and the count of each place in this file.
fn in_this_file(timer: &Timer) -> Vec<(u32, u64)> {
    let mut sites = timer.call_sites();
    sites.retain(|site| site.location.file() == file!());
    (sites.iter())
        .map(|site| (site.location.line(), site.pending))
        .collect()
}

#[track_caller]
fn line() -> u32 {
    Location::caller().line()
}

#[tokio::test(start_paused = true)]
async fn every_way_to_make_a_future_names_its_caller() {
    let timer = Timer::current();
    let nothing = pending::<()>;
    let (hour, at) = (secs(3_600), Instant::now() + secs(3_600));
    let first = line() + 2;
    let (mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h, mut i, mut j, mut k, mut l) = (
        task::spawn(sleep(hour)),
        task::spawn(sleep_until(at)),
        task::spawn(timeout(hour, nothing())),
        task::spawn(timeout_at(at, nothing())),
        task::spawn(timer.sleep(hour)),
        task::spawn(timer.sleep_until(at)),
        task::spawn(timer.timeout(hour, nothing())),
        task::spawn(timer.timeout_at(at, nothing())),
        task::spawn(nothing().timeout(hour)),
        task::spawn(nothing().timeout_at(at)),
        interval_at(at, hour),
        timer.interval_at(at, hour),
    );
    assert_eq!(
        timer.call_sites(),
        [],
        "nothing is registered before its first poll"
    );
    let _ = (a.poll(), b.poll(), c.poll(), d.poll(), e.poll(), f.poll());
    let _ = (g.poll(), h.poll(), i.poll(), j.poll());
    let mut cx = Context::from_waker(Waker::noop());
    let _ = (k.poll_tick(&mut cx), l.poll_tick(&mut cx));
    let expected: Vec<_> = (first..first + 12).map(|line| (line, 1)).collect();
    assert_eq!(in_this_file(&timer), expected);
}

#[tokio::test(start_paused = true)]
async fn places_have_counts_and_deadlines() {
    let (timer, start) = (Timer::current(), Instant::now());
    let many = |n| (registered(sleep(secs(n)), Waker::noop()), line());
    let few = |_| (registered(sleep(Duration::MAX), Waker::noop()), line());
    let (many, of_many): (Vec<_>, Vec<_>) = (1..=1_000).map(many).unzip();
    let (mut few, of_few): (Vec<_>, Vec<_>) = (0..3).map(few).unzip();
    let expected = [(of_many[0], 1_000), (of_few[0], 3)];
    assert_eq!(in_this_file(&timer), expected);
    let site = timer.call_sites().remove(0);
    assert!(site.earliest - start - secs(1) < ms(1));
    assert!(site.latest - start - secs(1_000) < ms(1));
    // A later deadline is only stored. It counts all the same.
    few.drain(1..);
    Pin::new(&mut few[0]).reset(start + secs(9));
    drop(many);
    assert_eq!(in_this_file(&timer), [(of_few[0], 1)]);
    assert!(timer.call_sites()[0].latest - start - secs(9) < ms(1));
}

/// A worker keeps the entries of dropped futures for the next futures. They do not count, and the next future's place does.
#[test]
fn an_entry_that_is_handed_on_names_its_new_place() {
    multi_thread(1).block_on(async {
        let worker = tokio::spawn(async {
            // A witness runs on the worker in the meantime.
            sleep(ms(1)).await;
            sleep(ms(1)).await;
            let timer = Timer::current();
            let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
            drop(registered(sleep(secs(60)), &waker));
            assert_eq!(in_this_file(&timer), []);
            let expected = line() + 1;
            let _next = registered(sleep(secs(60)), &waker);
            assert_eq!(in_this_file(&timer), [(expected, 1)]);
        });
        worker.await.unwrap();
    });
}
