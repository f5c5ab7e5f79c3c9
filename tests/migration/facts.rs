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

/// Returns what a stream yields to the future of `block_on`. A task sends an item after 10 ms, and the limit is 10 ms.
#[cfg(feature = "stream")]
macro_rules! tie {
    ($time:path, $stream:path, $adapt:expr) => {{
        use $stream as _;
        use $time as time;
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (sender, receiver) = tokio::sync::mpsc::channel(9);
            tokio::spawn(async move {
                sender.send(0).await.unwrap();
                time::sleep(ms(10)).await;
                sender.send(1).await.unwrap();
            });
            let items = tokio_stream::wrappers::ReceiverStream::new(receiver);
            let adapt = $adapt;
            let stream = adapt(
                items,
                time::interval_at(time::Instant::now() + ms(10), ms(10)),
            );
            tokio_stream::StreamExt::collect::<Vec<_>>(stream).await
        })
    }};
}

#[cfg(feature = "stream")]
#[test]
fn in_block_on_an_item_comes_before_the_deadline_of_its_millisecond() {
    type Items = tokio_stream::wrappers::ReceiverStream<i32>;
    macro_rules! differ {
        ($adapt:expr, $ours:expr, $theirs:expr) => {
            let text =
                |events: String| events.replace("Elapsed(deadline has elapsed)", "Elapsed(())");
            let ours = tie!(tokio_wheel, tokio_wheel::stream::StreamExt, $adapt);
            let theirs = tie!(tokio::time, tokio_stream::StreamExt, $adapt);
            assert_eq!(text(format!("{ours:?}")), $ours);
            assert_eq!(format!("{theirs:?}"), $theirs);
        };
    }
    differ!(
        |items: Items, _| items.timeout(ms(10)),
        "[Ok(0), Ok(1)]",
        "[Ok(0), Err(Elapsed(())), Ok(1)]"
    );
    differ!(
        |items: Items, interval| items.timeout_repeating(interval),
        "[Ok(0), Ok(1)]",
        "[Ok(0), Err(Elapsed(())), Ok(1)]"
    );
    differ!(
        |items: Items, _| items.chunks_timeout(5, ms(10)),
        "[[0, 1]]",
        "[[0], [1]]"
    );
}
