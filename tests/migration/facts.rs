//! Tests what the guide says about runtimes and the paused clock.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::runtime::{Builder, Handle};

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The count includes the driver from the first pending timer on.
#[tokio::test(start_paused = true)]
async fn the_driver_counts_as_one_alive_task() {
    let alive = || Handle::current().metrics().num_alive_tasks();
    tokio::time::sleep(ms(1)).await;
    assert_eq!(alive(), 0);
    tokio_wheel::sleep(ms(1)).await;
    assert_eq!(alive(), 1);
    tokio::join!(tokio_wheel::sleep(ms(1)), tokio_wheel::sleep(ms(2)));
    assert_eq!(alive(), 1);
}

/// Returns the order in which a task and the future of `block_on` continue. Both sleep until the same instant.
fn order<F>(sleep: fn(Duration) -> F) -> Vec<&'static str>
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    runtime.block_on(async {
        let of_task = Arc::clone(&log);
        let task = tokio::spawn(async move {
            sleep(ms(10)).await;
            of_task.lock().unwrap().push("task");
        });
        sleep(ms(10)).await;
        log.lock().unwrap().push("block_on");
        task.await.unwrap();
    });
    log.lock().unwrap().clone()
}

#[test]
fn the_future_of_block_on_runs_before_expired_tasks() {
    assert_eq!(order(tokio::time::sleep), ["block_on", "task"]);
    assert_eq!(order(tokio_wheel::sleep), ["block_on", "task"]);
}

#[tokio::test(start_paused = true)]
async fn advance_of_tokio_fires_the_wheels_sleeps() {
    let mut sleep = tokio_test::task::spawn(tokio_wheel::sleep(ms(10)));
    assert!(sleep.poll().is_pending());
    tokio::time::advance(ms(10)).await;
    assert!(sleep.is_woken());
}

#[tokio::test(start_paused = true)]
async fn tokios_elapsed_converts_to_the_wheels() {
    let never = std::future::pending::<()>;
    let tokios = tokio::time::timeout(ms(1), never()).await.unwrap_err();
    let wheels = tokio_wheel::timeout(ms(1), never()).await.unwrap_err();
    let text = tokios.to_string();
    let converted = tokio_wheel::error::Elapsed::from(tokios);
    assert_eq!(converted, wheels);
    assert_eq!(converted.to_string(), text);
    assert_eq!(format!("{converted:?}"), "Elapsed(deadline has elapsed)");
}
