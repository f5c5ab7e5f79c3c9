//! Functions for tests with a paused clock.

use std::time::Duration;

pub use tokio::time::{pause, resume};

use tokio::runtime::Handle;

use super::registry;

/// Advances a paused clock like [`tokio::time::advance`], and fires the expired entries of the current runtime's default
/// timer.
///
/// When the function returns, the tasks of all expired entries have been woken. The clock leaps over the
/// deadlines of these entries, so the entries fire together. Within each shard, they fire in the order of
/// their deadlines.
///
/// # Cancel safety
///
/// The clock advances when the future is first polled. If the future is dropped after its first poll, expired
/// entries may fire later, in the driver's next turn.
///
/// # Panics
///
/// Panics if time is not paused, or if the thread is not in a runtime.
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
    if let Some(timer) = registry::existing(Handle::current().id()) {
        timer.shared().expire_now();
    }
}
