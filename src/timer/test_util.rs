//! The paused clock of tests.

use std::time::Duration;

use crate::{driver::task, timer::Timer};

/// Stops time, as [`tokio::time::pause`].
///
/// # Panics
///
/// If time is stopped already, and outside of a current-thread runtime.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{pause, sleep, Duration};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let start = std::time::Instant::now();
/// pause();
/// // The clock leaps to the next timer whenever the runtime is idle.
/// sleep(Duration::from_secs(3_600)).await;
/// assert!(start.elapsed() < Duration::from_secs(60));
/// # }
/// ```
#[track_caller]
pub fn pause() {
    tokio::time::pause();
}

/// Lets time go on, as [`tokio::time::resume`].
///
/// # Panics
///
/// If time is not stopped, and outside of a runtime.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{pause, resume, Instant};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// pause();
/// let stopped = Instant::now();
/// assert_eq!(Instant::now(), stopped);
/// resume();
/// while Instant::now() == stopped {}
/// # }
/// ```
#[track_caller]
pub fn resume() {
    tokio::time::resume();
}

/// Moves a stopped clock on, as [`tokio::time::advance`], and fires the timers of the current
/// runtime's ambient timer that are due: their tasks have been woken when this returns.
///
/// Time leaps over the timers in between: they fire together, within each shard in the order of
/// their deadlines.
///
/// # Panics
///
/// If time is not stopped, and outside of a runtime.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{advance, sleep, Duration};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let mut sleep = tokio_test::task::spawn(sleep(Duration::from_secs(1)));
/// assert!(sleep.poll().is_pending());
/// advance(Duration::from_secs(1)).await;
/// assert!(sleep.is_woken());
/// # }
/// ```
pub async fn advance(duration: Duration) {
    tokio::time::advance(duration).await;
    task::expire_now(Timer::current().core());
}
