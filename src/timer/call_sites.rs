//! Which places of a program have sleeps, timeouts and intervals pending.

use std::{collections::HashMap, panic::Location, time::Duration};

use bounded_wheel::CHUNK;
use tokio::time::Instant;

use super::Timer;
use crate::driver::clock;

/// A line of the program that has futures pending on a timer, returned by [`Timer::call_sites`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallSite {
    /// The file and the line that called `sleep`, `timeout` or `interval`.
    pub location: &'static Location<'static>,
    /// The number of pending futures.
    pub pending: u64,
    /// The earliest deadline of these futures, rounded up to the timer's [tick](Timer::tick).
    pub earliest: Instant,
    /// The latest deadline of these futures, rounded up to the timer's [tick](Timer::tick).
    pub latest: Instant,
}

impl Timer {
    /// Returns the lines of the program that have futures pending on this timer, those with the most futures first.
    ///
    /// A line is the call of `sleep`, `timeout` or `interval`, or the call of a `#[track_caller]` function that calls one of
    /// them. A future counts from the first poll that is pending.
    ///
    /// This method reads all pending entries, about 10 million a second, but holds the lock of a shard for only 256 at a time. So
    /// you can call it in production. It may miss entries that are registered, canceled or fired meanwhile.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, FutureExt, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let line = line!() + 1;
    /// let leaked = (1..=1_000).map(|n| tokio::spawn(sleep(Duration::from_secs(n))));
    /// let _leaked: Vec<_> = leaked.collect();
    /// sleep(Duration::from_millis(1)).await;
    ///
    /// let sites = Timer::current().call_sites();
    /// assert_eq!((sites[0].location.line(), sites[0].pending), (line, 1_000));
    /// assert!(sites[0].latest - sites[0].earliest >= Duration::from_secs(999));
    /// # }
    /// ```
    #[must_use]
    pub fn call_sites(&self) -> Vec<CallSite> {
        let clock = self.shared().agenda.clock;
        let mut sites = HashMap::new();
        let mut entries = Vec::with_capacity(CHUNK);
        for shard in &self.shared().shards {
            let mut chunk = 0;
            while shard.read_chunk(chunk, &mut entries) {
                chunk += 1;
                for (location, deadline) in entries.drain(..) {
                    let deadline =
                        (clock.instant(deadline)).unwrap_or_else(|| clock::after(Duration::MAX));
                    let site = sites.entry(location).or_insert(CallSite {
                        location,
                        pending: 0,
                        earliest: deadline,
                        latest: deadline,
                    });
                    site.pending += 1;
                    site.earliest = site.earliest.min(deadline);
                    site.latest = site.latest.max(deadline);
                }
            }
        }
        let mut sites: Vec<_> = sites.into_values().collect();
        sites.sort_by_key(|site| (u64::MAX - site.pending, site.location));
        sites
    }
}
