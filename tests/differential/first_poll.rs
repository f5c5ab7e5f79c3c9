//! A sleep of zero, and what contains one, beside a task that is ready.

use std::{
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{runtime::Runtime, sync::oneshot, task::yield_now};

use super::time::{self, Instant};
use crate::support::secs;

type Log = Arc<Mutex<Vec<&'static str>>>;

/// Runs `timed` beside a task that yields once. Returns which ends first.
async fn race(timed: impl Future<Output = ()> + Send + 'static) -> &'static str {
    async fn end(log: Log, name: &'static str, future: impl Future<Output = ()>) {
        future.await;
        log.lock().unwrap().push(name);
    }
    let log = Log::default();
    let timed = tokio::spawn(end(log.clone(), "timer", timed));
    let task = tokio::spawn(end(log.clone(), "task", yield_now()));
    timed.await.unwrap();
    task.await.unwrap();
    log.lock().unwrap()[0]
}

async fn first_tick() {
    time::interval(secs(1)).tick().await;
}

async fn tick_after_a_reset() {
    let mut interval = time::interval_at(Instant::now() + secs(1), secs(1));
    interval.reset_immediately();
    interval.tick().await;
}

/// A timeout of zero lets a task answer that is ready.
async fn timeout() -> &'static str {
    let (answer, answered) = oneshot::channel();
    tokio::spawn(async move {
        yield_now().await;
        answer.send(()).unwrap_or_default();
    });
    let answered = time::timeout(Duration::ZERO, answered).await;
    answered.map_or("timer", |_| "task")
}

/// Runs these programs as tasks of a new runtime.
pub(crate) fn run(runtime: fn() -> Runtime) -> [&'static str; 4] {
    let runtime = runtime();
    let programs = runtime.spawn(async {
        [
            race(time::sleep(Duration::ZERO)).await,
            race(first_tick()).await,
            race(tick_after_a_reset()).await,
            timeout().await,
        ]
    });
    runtime.block_on(programs).unwrap()
}
