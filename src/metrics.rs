//! What a timer tells of itself.

use crate::shard::Counts;

/// Counts of a [`Timer`](crate::Timer), read by [`Timer::metrics`](crate::Timer::metrics).
///
/// A timer that was ready when it was first polled, or was never polled, was not registered and
/// is not counted.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{sleep, Duration, Timer};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// sleep(Duration::from_millis(1)).await;
/// let metrics = Timer::current().metrics();
/// assert_eq!(metrics.registered(), 1);
/// assert_eq!(metrics.fired(), 1);
/// assert_eq!(metrics.cancelled() + metrics.pending(), 0);
/// assert!(metrics.driver_wakeups() >= 1);
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Metrics {
    counts: Counts,
    driver_wakeups: u64,
}

impl Metrics {
    pub(crate) fn new(shards: impl Iterator<Item = Counts>, driver_wakeups: u64) -> Self {
        let counts = shards.fold(Counts::default(), |sum, shard| Counts {
            pending: sum.pending + shard.pending,
            cancelled: sum.cancelled + shard.cancelled,
            fired: sum.fired + shard.fired,
        });
        Self {
            counts,
            driver_wakeups,
        }
    }

    /// Timers that are registered now.
    pub fn pending(&self) -> u64 {
        self.counts.pending
    }

    /// Registrations since the start: those cancelled, fired and pending.
    pub fn registered(&self) -> u64 {
        self.counts.cancelled + self.counts.fired + self.counts.pending
    }

    /// Timers that were deregistered before they fired, by drop or by the end of the runtime.
    pub fn cancelled(&self) -> u64 {
        self.counts.cancelled
    }

    /// Timers that fired.
    pub fn fired(&self) -> u64 {
        self.counts.fired
    }

    /// How often the driver woke up: because a slot of the wheel was due, which may hold only
    /// timers that were put off or be empty by then, or a registration was earlier than that.
    pub fn driver_wakeups(&self) -> u64 {
        self.driver_wakeups
    }
}
