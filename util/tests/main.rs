//! The tests that share a process. Those of `alone/` measure or change theirs.

#[path = "../../tests/support/mod.rs"]
mod support;

/// Takes steps until another task has run, which must be soon. Returns their number.
#[allow(dead_code, reason = "without features, there are no tests")]
async fn until_another_task_runs(mut step: impl AsyncFnMut()) -> usize {
    let (another, mut steps) = (tokio::spawn(async {}), 0);
    while !another.is_finished() {
        step().await;
        steps += 1;
        assert!(steps < 10_000, "the other task does not run");
    }
    steps
}

mod delay_queue;
mod examples;
mod http;
mod hyper;
mod idle;
mod io;
mod migration;
mod schedule;
mod serve;
mod stream;
mod tower;
