//! Constructors and configuration of an idle set.
//!
//! A set has from 1 to 1,024 shards (`a_number_of_shards_out_of_range_panics`).

use std::{hash::RandomState, marker::PhantomData, sync::Arc, thread::available_parallelism};

use tokio_wheel::{Duration, Timer};

use super::{
    reaper::Reaper,
    set::{Handle, IdleSet},
    shards::Shards,
};
use crate::ground::tick_sleep::TickSleep;

/// The highest number of shards of a set.
const MAX_SHARDS: usize = 1_024;

/// Configures and builds an [`IdleSet`]. [`IdleSet::builder`] returns a builder.
///
/// # Examples
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::idle::{IdleSet, Touched};
///
/// let (set, _reaper) = IdleSet::builder(Duration::from_secs(30)).shards(64).build();
/// assert_eq!(set.touch("a"), Touched::Inserted);
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder<K, S = RandomState> {
    timeout: Duration,
    hasher: S,
    shards: Option<usize>,
    timer: Option<Timer>,
    keys: PhantomData<fn(K)>,
}

impl<K> IdleSet<K> {
    /// Creates a set whose keys expire after `timeout`, and returns a handle and the reaper.
    ///
    /// The reaper waits on the default timer of the runtime that polls it. The set rounds deadlines
    /// up to a millisecond. If a deadline is later than [`Instant`](tokio_wheel::Instant) can express,
    /// the key never expires.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::idle::IdleSet;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let (set, mut reaper) = IdleSet::new(Duration::from_secs(30));
    /// set.touch("a");
    /// assert_eq!(reaper.reap().await.as_deref(), Some("a"));
    /// # }
    /// ```
    pub fn new(timeout: Duration) -> (Self, Reaper<K>) {
        Self::builder(timeout).build()
    }

    /// Creates a set on `timer`, and returns a handle and the reaper.
    ///
    /// The set rounds deadlines up to 1/64 ms, or to the timer's tick if that is finer. A key expires when a sleep of the
    /// timer would be ready. Any executor may poll the reaper.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    /// use tokio_wheel_util::idle::IdleSet;
    ///
    /// let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    /// let timer = runtime.block_on(async { Timer::current() });
    ///
    /// let (set, mut reaper) = IdleSet::with_timer(Duration::from_millis(5), &timer);
    /// set.touch(&7);
    /// assert_eq!(tokio_test::block_on(reaper.reap()), Some(7));
    /// ```
    pub fn with_timer(timeout: Duration, timer: &Timer) -> (Self, Reaper<K>) {
        Self::builder(timeout).timer(timer).build()
    }

    /// Returns a builder for a set whose keys expire after `timeout`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::idle::IdleSet;
    ///
    /// let (set, _reaper) = IdleSet::<u64>::builder(Duration::from_secs(30)).shards(64).build();
    /// assert_eq!(set.timeout(), Duration::from_secs(30));
    /// ```
    pub fn builder(timeout: Duration) -> Builder<K> {
        Builder {
            timeout,
            hasher: RandomState::new(),
            shards: None,
            timer: None,
            keys: PhantomData,
        }
    }
}

impl<K, S> Builder<K, S> {
    /// Sets the number of shards. The set spreads its keys over its shards.
    ///
    /// Each shard has its own lock. The number must be from 1 to 1,024, and the set rounds it up to
    /// a power of two. The default is four shards for each processor. With more shards, more
    /// threads can touch keys at the same time.
    ///
    /// An unused shard takes 16 bytes. From its first key on, a shard takes 13 KiB, so a small set needs
    /// less memory with fewer shards.
    ///
    /// Each time the reaper wakes, it reads each shard twice, without a lock and in a few nanoseconds. It
    /// locks only the shards that have work.
    ///
    /// # Panics
    ///
    /// Panics if the number is 0 or more than 1,024.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::idle::IdleSet;
    ///
    /// let (set, _reaper) = IdleSet::<u64>::builder(Duration::from_secs(30)).shards(1).build();
    /// assert!(set.is_empty());
    /// ```
    #[track_caller]
    pub fn shards(mut self, shards: usize) -> Self {
        assert!(
            (1..=MAX_SHARDS).contains(&shards),
            "shards must be between 1 and {MAX_SHARDS}, got {shards}"
        );
        self.shards = Some(shards);
        self
    }

    /// Sets the hasher for the keys.
    ///
    /// The default is a [`RandomState`]. It protects the set against attackers who choose keys
    /// whose hashes collide.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::hash::{BuildHasherDefault, DefaultHasher};
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::idle::{IdleSet, Touched};
    ///
    /// let (set, _reaper) = IdleSet::builder(Duration::from_secs(30))
    ///     .hasher(BuildHasherDefault::<DefaultHasher>::new())
    ///     .build();
    /// assert_eq!(set.touch("a"), Touched::Inserted);
    /// ```
    pub fn hasher<H>(self, hasher: H) -> Builder<K, H> {
        Builder {
            timeout: self.timeout,
            hasher,
            shards: self.shards,
            timer: self.timer,
            keys: self.keys,
        }
    }

    /// Sets the timer on which the reaper waits: see [`IdleSet::with_timer`].
    ///
    /// Without this setting, the reaper waits on the default timer of the runtime that polls it.
    /// The tick is then 1 ms.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant, Timer};
    /// use tokio_wheel_util::idle::IdleSet;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().tick(Duration::from_secs(1)).build()?;
    /// let start = Instant::now();
    /// let (set, mut reaper) = IdleSet::builder(Duration::from_millis(2_500))
    ///     .timer(&timer)
    ///     .build();
    /// set.touch("a");
    /// assert_eq!(reaper.reap().await.as_deref(), Some("a"));
    /// assert_eq!(start.elapsed(), Duration::from_secs(3));
    /// # Ok(())
    /// # }
    /// ```
    pub fn timer(mut self, timer: &Timer) -> Self {
        self.timer = Some(timer.clone());
        self
    }

    /// Builds the set, and returns a handle and the reaper.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::idle::IdleSet;
    ///
    /// let (set, _reaper) = IdleSet::<u64>::builder(Duration::from_secs(60)).build();
    /// assert_eq!(set.timeout(), Duration::from_secs(60));
    /// ```
    pub fn build(self) -> (IdleSet<K, S>, Reaper<K>) {
        let shards = self.shards.unwrap_or_else(|| {
            // With four shards for each processor, threads seldom contend for a lock.
            let processors = available_parallelism().map_or(1, usize::from);
            processors.saturating_mul(4).min(MAX_SHARDS)
        });
        let alarm = TickSleep::of(self.timer.as_ref());
        let shards = Arc::new(Shards::new(alarm.clock, shards.next_power_of_two()));
        let handle = Arc::new(Handle {
            shards: shards.clone(),
            timeout: self.timeout,
            hasher: self.hasher,
        });
        (IdleSet { handle }, Reaper::new(shards, alarm))
    }
}
