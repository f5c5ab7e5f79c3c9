//! Tests limits that travel. `http/deadline.rs` tests the layers, and `examples/chain.rs` a chain of servers.

#![cfg(feature = "deadline")]

use std::{
    cell::Cell,
    future::{Future, pending, poll_fn, ready},
    io,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::mpsc,
    task::Poll,
};

use futures_util::FutureExt as _;
use tokio::task::{LocalSet, block_in_place, spawn_local, yield_now};
use tokio_wheel::{Duration, Instant, Timer, sleep};
use tokio_wheel_util::deadline::{
    self, Deadline, Exceeded, inherit, outside, remaining, until, within,
};

use crate::support::{current_thread, ms, multi_thread, secs, until_another_task_runs};

/// Sleeps for a millisecond again and again, and counts how often it runs.
async fn count(runs: &Cell<u32>) {
    loop {
        runs.set(runs.get() + 1);
        sleep(ms(1)).await;
    }
}

fn registered() -> u64 {
    Timer::current().metrics().registered()
}

#[tokio::test(start_paused = true)]
async fn an_inner_limit_takes_the_earlier_deadline() {
    for (outer, inner, takes, ended_by) in [
        (10, 3, 3, "inner"),
        (10, 20, 10, "outer"),
        (10, 10, 10, "outer"),
    ] {
        let start = Instant::now();
        let scope = within(secs(outer), async {
            let inner = within(secs(inner), async {
                assert_eq!(remaining(), Some(secs(takes)));
                assert_eq!(Deadline::current().unwrap().name(), Some(ended_by));
                pending::<()>().await
            });
            inner.named("inner").await
        });
        let exceeded = scope
            .named("outer")
            .await
            .and_then(|inner| inner)
            .unwrap_err();
        assert_eq!(start.elapsed(), secs(takes));
        assert_eq!(
            (exceeded.took(), exceeded.deadline().limit()),
            (secs(takes), secs(takes))
        );
        assert_eq!(exceeded.deadline().name(), Some(ended_by));
        assert!(!exceeded.is_outer());
    }
}

/// The second limit is shorter than the first, but ends later.
#[tokio::test(start_paused = true)]
async fn a_shorter_limit_that_starts_late_ends_with_the_scope() {
    let start = Instant::now();
    let scope = within(secs(10), async {
        sleep(secs(9)).await;
        within(secs(5), async { (remaining(), pending::<()>().await) })
            .await
            .map(|_| ())
    });
    assert!(scope.await.is_err());
    // Those of the scope and of the sleep.
    assert_eq!(registered(), 2);
    assert_eq!(start.elapsed(), secs(10));
}

#[tokio::test(start_paused = true)]
async fn only_the_earliest_limit_registers() {
    for (inner, entries) in [
        (secs(10), 1),
        (secs(60), 1),
        (Duration::MAX, 1),
        (secs(1), 2),
    ] {
        let before = registered();
        let nested = within(inner, within(inner, yield_now()));
        assert_eq!(within(secs(10), nested).await, Ok(Ok(Ok(()))));
        assert_eq!(registered() - before, entries, "{inner:?}");
    }
    let before = registered();
    for limit in [Duration::ZERO, secs(1), Duration::MAX] {
        assert_eq!(within(limit, ready(7)).await, Ok(7));
    }
    assert_eq!(registered(), before);
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_after_the_end() {
    let runs = Cell::new(0);
    let branches = async {
        tokio::join!(
            count(&runs),
            within(secs(1), count(&runs)),
            within(ms(5), count(&runs))
        )
    };
    let mut scope = pin!(within(ms(10), branches));
    assert!(scope.as_mut().await.is_err());
    let at_the_end = runs.get();
    assert_eq!(at_the_end, 10 + 10 + 5);
    // Not even if somebody goes on to poll it.
    sleep(ms(5)).await;
    assert!(scope.await.is_err());
    assert_eq!(runs.get(), at_the_end);
}

/// A task that is woken by something else in the instant of the end does not run.
#[tokio::test(start_paused = true)]
async fn a_result_in_the_instant_of_the_end_is_too_late() {
    let ran = Cell::new(false);
    let slow = async {
        sleep(secs(1)).await;
        ran.set(true);
    };
    assert!(within(secs(1), slow).await.is_err());
    assert!(!ran.get());
}

#[tokio::test(start_paused = true)]
async fn no_first_poll_after_the_end() {
    let ran = Cell::new(false);
    let first = async || ran.set(true);
    let deadline = Instant::now() + secs(1);
    let scope = within(secs(1), poll_fn(|_| Poll::Ready(inherit(first()))));
    let inherited = scope.await.unwrap();
    sleep(secs(1)).await;
    assert!(until(deadline, first()).await.is_err());
    assert!(inherited.await.unwrap_err().is_outer());
    assert!(!ran.get());
}

/// On a real clock, a poll takes longer than the scope. A limit that it begins then fails at once.
#[test]
fn a_limit_begun_after_the_end_fails() {
    let ran = Cell::new(false);
    current_thread().block_on(async {
        let scope = within(ms(10), async {
            std::thread::sleep(ms(20));
            let inner = within(ms(5), async { ran.set(true) }).named("inner");
            let exceeded = inner.await.unwrap_err();
            assert!(exceeded.is_outer());
            assert_eq!(exceeded.deadline().name(), Some("outer"));
            assert!(exceeded.took() >= ms(20));
        });
        scope.named("outer").await.unwrap();
    });
    assert!(!ran.get());
}

#[tokio::test(start_paused = true)]
async fn the_error_names_the_limit() {
    let line = line!() + 1;
    let exceeded = within(ms(300), pending::<()>())
        .named("load user")
        .await
        .unwrap_err();
    let place = exceeded.deadline().location();
    assert_eq!((place.file(), place.line()), (file!(), line));
    let text = format!("`load user` exceeded its limit of 300ms after 300ms (set at {place})");
    assert_eq!(exceeded.to_string(), text);
    let error = io::Error::from(exceeded.clone());
    assert_eq!(
        (error.kind(), error.to_string()),
        (io::ErrorKind::TimedOut, text)
    );
    assert_eq!(Exceeded::find(&error), Some(&exceeded));
    assert_eq!(
        Exceeded::find(&io::Error::from(io::ErrorKind::TimedOut)),
        None
    );
    let boxed: Box<dyn std::error::Error + Send + Sync> = exceeded.clone().into();
    assert_eq!(Exceeded::find(&*boxed), Some(&exceeded));

    let line = line!() + 1;
    let unnamed = until(Instant::now() + secs(2), pending::<()>())
        .await
        .unwrap_err();
    let text = unnamed.to_string();
    assert!(
        text.starts_with("exceeded a limit of 2s after 2s (set at "),
        "{text}"
    );
    assert_eq!(unnamed.deadline().location().line(), line);
}

#[tokio::test(start_paused = true)]
async fn a_task_has_the_deadline_only_if_it_inherits_it() {
    let start = Instant::now();
    let spawn = async {
        let plain = tokio::spawn(async { remaining() });
        let inherits = tokio::spawn(inherit(async { (remaining(), pending::<()>().await) }));
        (plain.await.unwrap(), inherits)
    };
    let (plain, inherits) = within(secs(3), spawn).named("page").await.unwrap();
    assert_eq!(plain, None);
    let exceeded = inherits.await.unwrap().unwrap_err();
    assert_eq!(
        (exceeded.deadline().name(), exceeded.is_outer()),
        (Some("page"), true)
    );
    assert!(exceeded.to_string().contains("(an outer limit, set at "));
    assert_eq!(start.elapsed(), secs(3));
    assert_eq!(inherit(async { remaining() }).await, Ok(None));
}

/// A limit that has no entry of its own gets one when it leaves the scope.
#[tokio::test(start_paused = true)]
async fn a_limit_that_leaves_its_scope_still_holds() {
    for limit in [4, 20] {
        let start = Instant::now();
        let mut inner = Box::pin(within(secs(limit), pending::<()>()).named("inner"));
        let scope = within(secs(10), async {
            sleep(secs(7)).await;
            drop(futures_util::poll!(&mut inner));
        });
        scope.await.unwrap();
        let exceeded = inner.await.unwrap_err();
        assert_eq!(exceeded.deadline().name(), Some("inner"));
        assert_eq!(start.elapsed(), secs(7 + limit));
    }
}

/// The limit is first polled in a shorter scope, so nothing has read the clock for it.
#[tokio::test(start_paused = true)]
async fn shorter_scopes_one_after_the_other_do_not_restart_a_limit() {
    let start = Instant::now();
    let mut inner = Box::pin(within(secs(5), pending::<()>()).named("inner"));
    loop {
        match within(secs(1), &mut inner).await {
            Ok(ended) => break assert!(ended.is_err()),
            Err(exceeded) => assert_eq!(exceeded.deadline().name(), None),
        }
        assert!(start.elapsed() < secs(7));
    }
    assert!(start.elapsed() >= secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_enters_a_shorter_scope_takes_its_deadline() {
    let seen = async {
        yield_now().await;
        sleep(secs(1)).await;
        remaining()
    };
    let mut inner = Box::pin(within(secs(10), seen));
    drop(futures_util::poll!(&mut inner));
    let seen = within(secs(2), &mut inner).await.unwrap().unwrap();
    assert_eq!(seen, Some(secs(1)));
}

#[tokio::test(start_paused = true)]
async fn a_future_outside_in_another_task_keeps_no_scope_alive() {
    let start = Instant::now();
    let tasks = LocalSet::new();
    let forever = async {
        loop {
            sleep(ms(100)).await;
        }
    };
    tasks.spawn_local(within(ms(500), outside(forever)));
    let ended = within(secs(2), tasks.run_until(pending::<()>())).await;
    assert!(ended.is_err());
    assert_eq!(start.elapsed(), secs(2));
}

#[tokio::test(start_paused = true)]
async fn the_outer_scope_is_restored() {
    let scope = within(secs(10), async {
        let panics = within(secs(1), async { panic!("expected") });
        assert!(AssertUnwindSafe(panics).catch_unwind().await.is_err());
        assert_eq!(remaining(), Some(secs(10)));
        let panics = outside(async { panic!("expected") });
        assert!(AssertUnwindSafe(panics).catch_unwind().await.is_err());
        assert_eq!(remaining(), Some(secs(10)));
        let short = async |limit| {
            within(secs(limit), async {
                (remaining(), yield_now().await, remaining())
            })
            .await
            .unwrap()
        };
        let (one, two, own) = tokio::join!(short(1), short(2), async { remaining() });
        assert_eq!(
            (one.0, one.2, two.0, two.2),
            (Some(secs(1)), Some(secs(1)), Some(secs(2)), Some(secs(2)))
        );
        assert_eq!(own, Some(secs(10)));
        tokio::select! {
            biased;
            _ = within(secs(1), pending::<()>()) => unreachable!(),
            left = async { remaining() } => assert_eq!(left, Some(secs(10))),
        }
    });
    scope.await.unwrap();
    assert_eq!(remaining(), None);
}

/// A scope polls the tasks of a `LocalSet`, but they are not in it.
#[tokio::test(start_paused = true)]
async fn the_tasks_of_a_local_set_have_scopes_of_their_own() {
    let tasks = LocalSet::new();
    let other = tasks.spawn_local(within(secs(60), async {
        yield_now().await;
        remaining()
    }));
    let run = tasks.run_until(async {
        let plain = spawn_local(async { remaining() });
        let inherits = spawn_local(inherit(async { remaining() }));
        assert_eq!(other.await.unwrap(), Ok(Some(secs(60))));
        (plain.await.unwrap(), inherits.await.unwrap(), remaining())
    });
    let left = Some(secs(5));
    assert_eq!(within(secs(5), run).await, Ok((None, Ok(left), left)));
}

#[test]
fn a_runtime_inside_block_in_place() {
    let within_a_task = async {
        let inner = || {
            current_thread().block_on(async {
                // The caller waits for this future, but not for the task.
                (
                    remaining().is_some(),
                    tokio::spawn(async { remaining() }).await.unwrap(),
                )
            })
        };
        let seen = within(secs(600), async {
            (block_in_place(inner), remaining().is_some())
        });
        (seen.await.unwrap(), remaining())
    };
    let seen = multi_thread(1).block_on(async { tokio::spawn(within_a_task).await.unwrap() });
    assert_eq!(seen, (((true, None), true), None));
}

#[tokio::test(start_paused = true)]
async fn what_is_outside_runs_to_its_end() {
    let start = Instant::now();
    let after = Cell::new(false);
    let scope = within(
        secs(2),
        within(secs(1), async {
            let rollback = outside(async {
                assert_eq!(remaining(), None);
                sleep(secs(5)).await;
                within(secs(1), pending::<()>()).await.unwrap_err().took()
            });
            assert_eq!(rollback.await, secs(1));
            assert_eq!(remaining(), Some(Duration::ZERO));
            // The scope has ended, so no limit begins.
            let late = within(secs(9), async { after.set(true) })
                .await
                .unwrap_err();
            assert!(late.is_outer());
            yield_now().await;
            after.set(true);
        }),
    );
    assert!(scope.await.unwrap().is_err());
    assert_eq!(start.elapsed(), secs(6));
    assert!(!after.get());
    // It keeps no scope of another task.
    assert!(within(ms(1), pending::<()>()).await.is_err());
    // An inner limit that is longer does not drop it either.
    let covered = within(secs(2), within(secs(9), outside(sleep(secs(5)))));
    assert_eq!(covered.await, Ok(Ok(())));
}

#[tokio::test(start_paused = true)]
async fn an_ended_limit_uses_budget() {
    let past = Instant::now();
    until_another_task_runs(async || _ = until(past, ready(())).await.unwrap_err()).await;
}

/// An inner future that uses up the budget in each poll does not escape.
#[tokio::test(start_paused = true)]
async fn a_greedy_future_is_ended() {
    let greedy = poll_fn(|cx| {
        while pin!(tokio::task::consume_budget()).poll(cx).is_ready() {}
        Poll::<()>::Pending
    });
    let advance = tokio::spawn(async { tokio_wheel::advance(ms(10)).await });
    assert!(within(ms(5), greedy).await.is_err());
    advance.await.unwrap();
}

#[test]
fn deadlines_are_values() {
    let deadline = current_thread().block_on(within(secs(1), async { Deadline::current() }));
    let deadline = deadline.unwrap().unwrap();
    assert!(deadline.instant() > Instant::now() && deadline.remaining() <= secs(1));
    static_assertions::assert_impl_all!(Deadline: Copy, Send, Sync, std::panic::UnwindSafe);
    static_assertions::assert_impl_all!(Exceeded: Clone, Send, Sync, std::error::Error);
    static_assertions::assert_impl_all!(deadline::Within<std::future::Ready<()>>: Send, Sync, Unpin);
}

#[test]
fn the_destructor_of_a_thread_local_may_poll_a_scope() {
    struct Last(mpsc::Sender<Option<u8>>);
    impl Drop for Last {
        fn drop(&mut self) {
            self.0.send(outside(ready(7)).now_or_never()).unwrap();
        }
    }
    thread_local!(static LAST: Cell<Option<Last>> = const { Cell::new(None) });
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        LAST.set(Some(Last(sender)));
        outside(ready(7)).now_or_never()
    });
    assert_eq!(thread.join().unwrap(), Some(7));
    assert_eq!(receiver.recv(), Ok(Some(7)));
}
