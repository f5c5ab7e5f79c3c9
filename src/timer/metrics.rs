//! The counts and the histogram of lateness that a timer keeps.

use std::{fmt, sync::atomic::Ordering, time::Duration};

use crate::{
    driver::{
        clock,
        lateness::{self, Lateness},
        shard::Counts,
    },
    timer::Timer,
};

/// A snapshot of a [`Timer`]'s counters, returned by [`Timer::metrics`].
///
/// All counters are zero when the timer is built. Only [`pending`](Self::pending) can decrease.
///
/// Each sleep, timeout or interval that waits on the timer is one entry. Futures that were never polled, or that were ready
/// at their first poll, are not counted.
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
#[derive(Clone, Debug)]
pub struct Metrics {
    pending: u64,
    registered: u64,
    driver_wakeups: u64,
    is_watched: bool,
    blocks: u64,
    longest_block: Duration,
    lateness: Histogram,
}

impl Timer {
    /// Returns a snapshot of the timer's counters and of its lateness.
    ///
    /// This resets nothing, so several exporters can read one timer. It takes the lock of one shard after the other, each for
    /// a short time, so the counts of different shards are from slightly different times.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{timeout, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let answer = async { tokio::task::yield_now().await };
    /// timeout(Duration::from_secs(30), answer).await.unwrap();
    ///
    /// let metrics = Timer::current().metrics();
    /// assert_eq!((metrics.registered(), metrics.cancelled()), (1, 1));
    /// # }
    /// ```
    pub fn metrics(&self) -> Metrics {
        let shared = self.shared();
        let agenda = &shared.agenda;
        let mut counts = Counts::default();
        (shared.shards.iter()).for_each(|shard| shard.add_counts(&mut counts));
        Metrics {
            pending: counts.pending,
            registered: counts.registered,
            driver_wakeups: shared.wakeups.load(Ordering::Relaxed),
            is_watched: agenda.watch.get().is_some(),
            blocks: agenda.blocks.load(Ordering::Relaxed),
            longest_block: Duration::from_nanos(agenda.longest_block.load(Ordering::Relaxed)),
            lateness: Histogram {
                tick: agenda.clock.tick,
                lateness: counts.lateness,
            },
        }
    }
}

impl Metrics {
    /// Returns the number of entries that are pending now.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let sleep = tokio::spawn(sleep(Duration::from_secs(1)));
    /// tokio::task::yield_now().await;
    /// assert_eq!(Timer::current().metrics().pending(), 1);
    /// sleep.await.unwrap();
    /// assert_eq!(Timer::current().metrics().pending(), 0);
    /// # }
    /// ```
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// Returns the number of entries so far, whether they are pending, have fired or were canceled.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// sleep(Duration::from_secs(1)).await;
    /// let metrics = Timer::current().metrics();
    /// assert_eq!(metrics.registered(), 1);
    /// assert_eq!(metrics.registered(), metrics.fired() + metrics.cancelled() + metrics.pending());
    /// # }
    /// ```
    pub fn registered(&self) -> u64 {
        self.registered
    }

    /// Returns the number of entries that were canceled before they fired.
    ///
    /// Dropping a future cancels its entry, and the shutdown of the timer's runtime cancels all entries.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let sleep = tokio::spawn(sleep(Duration::from_secs(1)));
    /// tokio::task::yield_now().await;
    /// sleep.abort();
    /// assert!(sleep.await.is_err());
    /// assert_eq!(Timer::current().metrics().cancelled(), 1);
    /// # }
    /// ```
    pub fn cancelled(&self) -> u64 {
        self.registered - self.fired() - self.pending
    }

    /// Returns the number of entries that have fired.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// sleep(Duration::from_secs(1)).await;
    /// assert_eq!(Timer::current().metrics().fired(), 1);
    /// # }
    /// ```
    pub fn fired(&self) -> u64 {
        self.lateness.count()
    }

    /// Returns how often the driver was woken, by its alarm or by a notification.
    ///
    /// The alarm goes off when the start of a slot of the wheel is reached. By then, all entries of the slot may
    /// have been postponed or canceled. A thread notifies the driver in these cases:
    ///
    /// * A new or reset entry must fire at once.
    /// * A thread that is not a worker of the timer's runtime sets an earlier deadline.
    /// * The alarm goes off while a thread drives the timer or sets the alarm.
    /// * The driver has work left after a turn.
    /// * No handle and no future uses the timer anymore.
    ///
    /// The watch wakes the driver once for each of the [`blocks`](Self::blocks).
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let before = Timer::current().metrics().driver_wakeups();
    /// sleep(Duration::from_secs(1)).await;
    /// assert!(Timer::current().metrics().driver_wakeups() > before);
    /// # }
    /// ```
    pub fn driver_wakeups(&self) -> u64 {
        self.driver_wakeups
    }

    /// Returns whether the timer's runtime has a [watch](crate::Builder::watch) for blocked workers.
    ///
    /// Returns `false` if the runtime has only one worker, if the builder turned the watch off, or if the system could not start
    /// the thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Timer;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// // A current-thread runtime has no other worker that could be woken.
    /// assert!(!Timer::current().metrics().is_watched());
    /// # }
    /// ```
    pub fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// Returns how often the [watch](crate::Builder::watch) had to wake a worker because a task blocked another one.
    ///
    /// The watch counts a block once, however long it lasts, and only if it lasts for at least one period of the watch. If no
    /// block was counted in the last 1,000 periods, it looks at every other period, and may miss a block of less than 2.2
    /// periods. A worker that blocks while others handle the events holds up nobody, and is not counted. A worker that polls 61
    /// tasks without looking for events counts as blocked meanwhile.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{thread, time::Duration};
    /// use tokio_wheel::{sleep, Timer};
    ///
    /// # #[tokio::main]
    /// # async fn main() {
    /// let blocking = tokio::spawn(async {
    ///     sleep(Duration::from_millis(1)).await;
    ///     thread::sleep(Duration::from_millis(200)); // This belongs in `spawn_blocking`.
    /// });
    /// blocking.await.unwrap();
    ///
    /// let metrics = Timer::current().metrics();
    /// println!("{} blocks, the longest {:?}", metrics.blocks(), metrics.longest_block());
    /// # }
    /// ```
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns the duration of the longest of the [`blocks`](Self::blocks), or zero if there was none.
    ///
    /// While a block lasts, the value is a lower bound: the block may be longer by two periods of the watch, or by a quarter if
    /// nothing else happens on the runtime. After its end, the length may include what the worker did just before.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let metrics = Timer::current().metrics();
    /// assert_eq!((metrics.blocks(), metrics.longest_block()), (0, Duration::ZERO));
    /// # }
    /// ```
    pub fn longest_block(&self) -> Duration {
        self.longest_block
    }

    /// Returns a histogram of how late entries fired.
    ///
    /// The lateness of an entry is the time from its deadline until it fires, just before its task is woken. It is measured in
    /// whole ticks, and may be up to two ticks shorter than the true lateness. If an entry gets a deadline in the past, its
    /// lateness counts from the time when it got the deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let sleep = tokio::spawn(sleep(Duration::from_millis(10)));
    /// tokio::task::yield_now().await;
    /// // The paused clock leaps, and the driver fires the sleep 15 ms late.
    /// tokio::time::advance(Duration::from_millis(25)).await;
    /// sleep.await.unwrap();
    ///
    /// let metrics = Timer::current().metrics();
    /// assert_eq!(metrics.lateness().count(), 1);
    /// assert_eq!(metrics.lateness().sum(), Duration::from_millis(15));
    /// assert_eq!(metrics.lateness().max(), Duration::from_millis(16));
    /// # }
    /// ```
    pub fn lateness(&self) -> &Histogram {
        &self.lateness
    }
}

/// A histogram of how late a timer fired its entries, returned by [`Metrics::lateness`].
///
/// The bounds of the buckets are powers of two of the timer's [tick](crate::Builder::tick): 0, 1, 2, 4, 8
/// ticks and so on. The buckets of one timer always have the same bounds.
///
/// The counts grow as long as the timer lives. For a shorter time span, subtract an earlier snapshot with
/// [`since`](Self::since).
///
/// The example `prometheus` shows how to export a histogram.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{sleep, Duration, Timer};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let timer = Timer::current();
/// let before = timer.metrics();
/// sleep(Duration::from_millis(10)).await;
///
/// let lateness = timer.metrics().lateness().since(before.lateness());
/// assert_eq!(lateness.count(), 1);
/// assert!(lateness.quantile(0.99) <= Duration::from_millis(1));
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    /// The length of a tick in nanoseconds.
    tick: u64,
    lateness: Lateness,
}

impl Histogram {
    /// Returns the upper bound and the number of entries of each bucket, in ascending order of the bounds.
    ///
    /// A bucket contains the entries whose lateness is at most its bound, and more than the bound of the
    /// previous bucket. The bound of the last bucket is [`Duration::MAX`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tokio_wheel::error::BuildError> {
    /// let timer = Timer::builder().tick(Duration::from_millis(1)).build()?;
    /// let metrics = timer.metrics();
    /// let bounds = metrics.lateness().buckets().map(|(bound, _)| bound);
    /// let first: Vec<_> = bounds.take(5).collect();
    /// assert_eq!(first, [0, 1, 2, 4, 8].map(Duration::from_millis));
    /// # Ok(())
    /// # }
    /// ```
    pub fn buckets(
        &self,
    ) -> impl DoubleEndedIterator<Item = (Duration, u64)> + ExactSizeIterator + Clone {
        let counts = self.lateness.counts.iter().enumerate();
        counts.map(|(bucket, count)| (self.bound(bucket), *count))
    }

    /// Returns the number of entries in all buckets.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// sleep(Duration::from_millis(10)).await;
    /// let metrics = Timer::current().metrics();
    /// assert_eq!(metrics.lateness().count(), metrics.fired());
    /// # }
    /// ```
    pub fn count(&self) -> u64 {
        self.lateness.counts.iter().sum()
    }

    /// Returns the total lateness of all entries.
    ///
    /// The sum saturates at 2^64 ticks, which are 9 million years with the default tick.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let sleep = tokio::spawn(sleep(Duration::from_millis(10)));
    /// tokio::task::yield_now().await;
    /// // The driver fires the sleep 15 ms late.
    /// tokio::time::advance(Duration::from_millis(25)).await;
    /// sleep.await.unwrap();
    ///
    /// let metrics = Timer::current().metrics();
    /// assert_eq!(metrics.lateness().sum(), Duration::from_millis(15));
    /// # }
    /// ```
    pub fn sum(&self) -> Duration {
        clock::length(self.lateness.sum, self.tick)
    }

    /// Returns an upper bound on the highest lateness: that of the highest bucket that is not empty.
    ///
    /// No entry was later than this, but the latest one may have been only about half as late. Returns zero if no entry has
    /// fired.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let sleep = tokio::spawn(sleep(Duration::from_millis(10)));
    /// tokio::task::yield_now().await;
    /// // The driver fires the sleep 15 ms late.
    /// tokio::time::advance(Duration::from_millis(25)).await;
    /// sleep.await.unwrap();
    ///
    /// let metrics = Timer::current().metrics();
    /// assert_eq!(metrics.lateness().max(), Duration::from_millis(16)); // The bound of its bucket.
    /// # }
    /// ```
    pub fn max(&self) -> Duration {
        let highest = self.lateness.counts.iter().rposition(|count| *count > 0);
        self.bound(highest.unwrap_or(0))
    }

    /// Returns an upper bound on a quantile of the lateness: that of the bucket in which the quantile lies.
    ///
    /// The quantile 0.5 is the median.
    /// For the quantile 0.99, at least 99% of the entries were late by at most the returned duration. Returns zero if no entry
    /// has fired.
    ///
    /// # Panics
    ///
    /// Panics if `quantile` is not between 0 and 1.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let sleep = tokio::spawn(sleep(Duration::from_millis(10)));
    /// tokio::task::yield_now().await;
    /// // The driver fires the sleep 15 ms late.
    /// tokio::time::advance(Duration::from_millis(25)).await;
    /// sleep.await.unwrap();
    ///
    /// let metrics = Timer::current().metrics();
    /// assert_eq!(metrics.lateness().quantile(0.5), Duration::from_millis(16));
    /// # }
    /// ```
    #[track_caller]
    pub fn quantile(&self, quantile: f64) -> Duration {
        assert!(
            (0.0..=1.0).contains(&quantile),
            "quantile must be between 0 and 1, got {quantile}"
        );
        let wanted = (quantile * self.count() as f64).ceil() as u64;
        let mut seen = 0;
        let reached = |count: &u64| {
            seen += count;
            seen >= wanted.max(1)
        };
        let bucket = self.lateness.counts.iter().position(reached);
        bucket.map_or_else(|| self.max(), |bucket| self.bound(bucket))
    }

    /// Returns the histogram of the entries that fired after an earlier snapshot of the same timer.
    ///
    /// A count or sum that is higher in `earlier` becomes zero. This happens only if `earlier` is in fact the later snapshot,
    /// or one of another timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let timer = Timer::current();
    /// sleep(Duration::from_millis(1)).await;
    /// let before = timer.metrics();
    /// sleep(Duration::from_millis(1)).await;
    ///
    /// let after = timer.metrics();
    /// assert_eq!(after.lateness().count(), 2);
    /// assert_eq!(after.lateness().since(before.lateness()).count(), 1);
    /// # }
    /// ```
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        (since.lateness).combine(&earlier.lateness, u64::saturating_sub);
        since
    }

    /// Returns the upper bound of a bucket.
    fn bound(&self, bucket: usize) -> Duration {
        lateness::bound(bucket).map_or(Duration::MAX, |ticks| clock::length(ticks, self.tick))
    }
}

/// Shows the buckets that are not empty.
impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Histogram ")?;
        let buckets = self.buckets().filter(|(_, count)| *count > 0);
        let mut map = f.debug_map();
        for (bound, count) in buckets {
            map.entry(&format_args!("<= {bound:?}"), &count);
        }
        map.finish()
    }
}
