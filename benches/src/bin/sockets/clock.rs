//! Reads the machine's monotonic clock, in nanoseconds. All processes read the same time from it.
//! So a process can tell another process when something must happen.

use std::{sync::LazyLock, thread, time::Duration};

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// The same moment on both clocks.
static EPOCH: LazyLock<(u64, Instant)> = LazyLock::new(|| (now(), Instant::now()));

/// Returns the current time.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the instant at which the clock shows `at`. Equal times give equal instants.
pub(crate) fn instant(at: u64) -> Instant {
    let (epoch, instant) = *EPOCH;
    if at < epoch {
        instant - Duration::from_nanos(epoch - at)
    } else {
        instant + Duration::from_nanos(at - epoch)
    }
}

/// Blocks the thread until the clock shows `at`.
pub(crate) fn wait_until(at: u64) {
    thread::sleep(Duration::from_nanos(at.saturating_sub(now())));
}

/// Returns how many nanoseconds ago a deadline was. The value is negative before the deadline.
pub(crate) fn late_by(deadline: Instant) -> i64 {
    let now = Instant::now();
    let late = now.saturating_duration_since(deadline).as_nanos() as i64;
    let early = deadline.saturating_duration_since(now).as_nanos() as i64;
    late - early
}
