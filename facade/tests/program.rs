//! A program that says `tokio` and gets this crate, as with the one line in its Cargo.toml.
#![cfg(all(feature = "full", feature = "test-util"))]

// A dependency `tokio = { package = "tokio-on-wheel" }` gives the crate this name.
extern crate tokio_on_wheel as tokio;
// And this one gives it a name of the program's own.
extern crate tokio_on_wheel as renamed;

use std::{error::Error, io};

use tokio::time::{self, Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

/// Each item is the wheel's, or a type that the wheel and tokio share.
#[test]
fn the_items_are_the_wheels() {
    let _: fn(Duration) -> tokio_wheel::Sleep = time::sleep;
    let _: fn(Instant) -> tokio_wheel::Sleep = time::sleep_until;
    let _: fn(Duration) -> tokio_wheel::Interval = time::interval;
    let _: fn(Instant, Duration) -> tokio_wheel::Interval = time::interval_at;
    let _ = |future: time::Sleep| -> tokio_wheel::Timeout<_> { time::timeout(SECOND, future) };
    let _ = |future: time::Sleep| -> tokio_wheel::Timeout<_> {
        time::timeout_at(Instant::now(), future)
    };

    let _ = |elapsed: time::error::Elapsed| -> tokio_wheel::error::Elapsed { elapsed };
    let _ = |shared: time::MissedTickBehavior| -> tokio_wheel::MissedTickBehavior { shared };
    assert!(time::error::Error::shutdown().is_shutdown());
}

#[test]
fn main_starts_a_runtime() {
    #[tokio::main]
    async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
        let start = Instant::now();
        let task = tokio::spawn(async {
            time::sleep(Duration::from_millis(2)).await;
            Instant::now()
        });
        assert!(task.await? >= start + Duration::from_millis(2));
        let elapsed = time::timeout(Duration::ZERO, std::future::pending::<()>()).await;
        assert_eq!(
            io::Error::from(elapsed.unwrap_err()).kind(),
            io::ErrorKind::TimedOut
        );
        Ok(())
    }
    main().unwrap();
}

#[tokio::test]
async fn pause_advance_and_resume_drive_the_wheel() {
    time::pause();
    let sleep = tokio::spawn(time::sleep(SECOND));
    tokio::task::yield_now().await;
    time::advance(SECOND).await;
    sleep.await.unwrap();
    time::resume();
}

#[tokio::test(start_paused = true)]
async fn the_macros_take_the_wheels_futures() {
    let start = Instant::now();
    tokio::join!(time::sleep(SECOND), time::sleep(2 * SECOND));
    assert_eq!(start.elapsed(), 2 * SECOND);
    let joined = tokio::try_join!(
        time::timeout(SECOND, async {}),
        time::timeout(SECOND, time::sleep(2 * SECOND)),
    );
    let _: time::error::Elapsed = joined.unwrap_err();

    let sleep = time::sleep(SECOND);
    tokio::pin!(sleep);
    let mut interval = time::interval(2 * SECOND);
    let mut ticks = 0;
    loop {
        tokio::select! {
            () = &mut sleep => break,
            _ = interval.tick() => ticks += 1,
        }
    }
    assert_eq!(ticks, 1);
    sleep.as_mut().reset(Instant::now() + SECOND);
    sleep.await;
}

#[renamed::test(crate = "renamed", start_paused = true)]
async fn the_crate_may_have_another_name() {
    renamed::select! {
        () = renamed::time::sleep(SECOND) => {}
        () = renamed::time::sleep(2 * SECOND) => unreachable!(),
    }
}

/// A program needs no second dependency to read the metrics of its timer.
#[tokio::test(start_paused = true)]
async fn the_wheel_shows_its_metrics() {
    time::timeout(SECOND, time::sleep(2 * SECOND))
        .await
        .unwrap_err();
    let metrics = tokio::tokio_wheel::Timer::current().metrics();
    assert_eq!((metrics.fired(), metrics.cancelled()), (1, 1));
}

/// Everything but `time` is tokio's own, so a dependency accepts it.
#[test]
fn the_rest_is_tokios() {
    let _ = |listener: tokio::net::TcpListener| {
        tokio_stream::wrappers::TcpListenerStream::new(listener)
    };
}
