//! A sleep of zero, and what contains one, beside a task that is ready: on both crates the same comes first.

use std::{
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{runtime::Runtime, sync::oneshot, task::yield_now};

use super::time::{Ours, Theirs, Time};
use crate::support::{current_thread, multi_thread, paused, secs};

type Log = Arc<Mutex<Vec<&'static str>>>;

/// Runs `timed` beside a task that yields once. Returns the order in which they end.
async fn race(timed: impl Future<Output = ()> + Send + 'static) -> Vec<&'static str> {
    async fn end(log: Log, name: &'static str, future: impl Future<Output = ()>) {
        future.await;
        log.lock().unwrap().push(name);
    }
    let log = Log::default();
    let timed = tokio::spawn(end(log.clone(), "timer", timed));
    let task = tokio::spawn(end(log.clone(), "task", yield_now()));
    timed.await.unwrap();
    task.await.unwrap();
    log.lock().unwrap().clone()
}

async fn sleep<T: Time>() {
    T::sleep(Duration::ZERO).await;
}

async fn first_tick<T: Time>() {
    T::tick(&mut T::interval(secs(1))).await;
}

async fn tick_after_a_reset<T: Time>() {
    let mut interval = T::interval_at(tokio_wheel::Instant::now() + secs(1), secs(1));
    T::reset_immediately(&mut interval);
    T::tick(&mut interval).await;
}

/// A timeout of zero lets a task answer that is ready.
async fn timeout<T: Time>() -> Vec<&'static str> {
    let (answer, answered) = oneshot::channel();
    tokio::spawn(async move {
        yield_now().await;
        answer.send(()).unwrap_or_default();
    });
    match T::timeout(Duration::ZERO, answered).await {
        Some(_) => vec!["task"],
        None => vec!["timer"],
    }
}

async fn orders<T: Time>() -> [Vec<&'static str>; 4] {
    [
        race(sleep::<T>()).await,
        race(first_tick::<T>()).await,
        race(tick_after_a_reset::<T>()).await,
        timeout::<T>().await,
    ]
}

/// Runs the programs as tasks of a new runtime.
fn run<T: Time>(runtime: fn() -> Runtime) -> [Vec<&'static str>; 4] {
    let runtime = runtime();
    runtime.block_on(runtime.spawn(orders::<T>())).unwrap()
}

/// If the system takes the processor away for a millisecond, the timer comes first, in tokio as well. So the test asks
/// whether the usual order occurs at all.
#[test]
fn a_sleep_of_zero_gives_way() {
    let one_worker: fn() -> Runtime = || multi_thread(1);
    for runtime in [current_thread, one_worker] {
        let mut occurs = [[false; 2]; 4];
        for _ in 0..1_000 {
            let both = [run::<Theirs>(runtime), run::<Ours>(runtime)];
            for (crates, orders) in both.iter().enumerate() {
                for (program, order) in orders.iter().enumerate() {
                    occurs[program][crates] |= order[0] == "task";
                }
            }
            if occurs == [[true; 2]; 4] {
                break;
            }
        }
        assert_eq!(occurs, [[true; 2]; 4]);
    }
}

#[test]
fn on_a_paused_clock_a_sleep_of_zero_is_ready() {
    assert_eq!(run::<Ours>(paused), run::<Theirs>(paused));
}
