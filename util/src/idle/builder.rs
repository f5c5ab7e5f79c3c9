//! Constructors and configuration of an idle set.
//!
//! A set has from 1 to 1,024 shards (`a_number_of_shards_out_of_range_is_an_error`).

use std::{
    error::Error, fmt, hash::RandomState, marker::PhantomData, sync::Arc,
    thread::available_parallelism,
};

use tokio_wheel::{Duration, Timer};

use super::{
    reaper::Reaper,
    set::{Handle, IdleSet},
    shards::Shards,
};
use crate::ground::tick_sleep::TickSleep;

/// The highest number of shards of a set.
const MAX_SHARDS: usize = 1_024;

const VALID: &str = "the defaults are valid";

/// The error of a [`Builder`] that cannot create its set.
///
/// # Examples
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::idle::IdleSet;
///
/// let none = IdleSet::<u64>::builder(Duration::from_secs(30)).shards(0).build();
/// assert_eq!(none.unwrap_err().to_string(), "shards must be between 1 and 1024, got 0");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The number of shards is zero or too high.
    #[non_exhaustive]
    Shards {
        /// The number of shards that the caller set.
        given: usize,
        /// The highest number of shards that is allowed.
        max: usize,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shards { given, max } => {
                write!(f, "shards must be between 1 and {max}, got {given}")
            }
        }
    }
}

impl Error for BuildError {}

/// Configures and builds an [`IdleSet`]. [`IdleSet::builder`] returns a builder.
///
/// # Examples
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::idle::{BuildError, IdleSet, Touched};
///
/// # fn main() -> Result<(), BuildError> {
/// let (set, _reaper) = IdleSet::builder(Duration::from_secs(30)).shards(64).build()?;
/// assert_eq!(set.touch("a"), Touched::Inserted);
/// # Ok(())
/// # }
/// ```
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
        Self::builder(timeout).build().expect(VALID)
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
        let builder = Self::builder(timeout).timer(timer);
        builder.build().expect(VALID)
    }

    /// Returns a builder for a set whose keys expire after `timeout`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::idle::IdleSet;
    ///
    /// # fn main() -> Result<(), tokio_wheel_util::idle::BuildError> {
    /// let (set, _reaper) = IdleSet::<u64>::builder(Duration::from_secs(30)).shards(64).build()?;
    /// assert_eq!(set.timeout(), Duration::from_secs(30));
    /// # Ok(())
    /// # }
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
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::idle::{BuildError, IdleSet};
    ///
    /// let none = IdleSet::<u64>::builder(Duration::from_secs(30)).shards(0).build();
    /// assert!(matches!(none, Err(BuildError::Shards { given: 0, .. })));
    /// ```
    pub fn shards(mut self, shards: usize) -> Self {
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
    /// # fn main() -> Result<(), tokio_wheel_util::idle::BuildError> {
    /// let (set, _reaper) = IdleSet::builder(Duration::from_secs(30))
    ///     .hasher(BuildHasherDefault::<DefaultHasher>::new())
    ///     .build()?;
    /// assert_eq!(set.touch("a"), Touched::Inserted);
    /// # Ok(())
    /// # }
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
    ///     .build()?;
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
    /// # Errors
    ///
    /// [`BuildError::Shards`] if the number of shards is out of range.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::idle::IdleSet;
    ///
    /// let builder = || IdleSet::<u64>::builder(Duration::from_secs(60));
    /// assert!(builder().shards(1_024).build().is_ok());
    ///
    /// let error = builder().shards(1_025).build().unwrap_err();
    /// assert_eq!(error.to_string(), "shards must be between 1 and 1024, got 1025");
    /// ```
    pub fn build(self) -> Result<(IdleSet<K, S>, Reaper<K>), BuildError> {
        let shards = self.shards.unwrap_or_else(|| {
            // With four shards for each processor, threads seldom contend for a lock.
            let processors = available_parallelism().map_or(1, usize::from);
            processors.saturating_mul(4).min(MAX_SHARDS)
        });
        if !(1..=MAX_SHARDS).contains(&shards) {
            let (given, max) = (shards, MAX_SHARDS);
            return Err(BuildError::Shards { given, max });
        }
        let alarm = TickSleep::of(self.timer.as_ref());
        let shards = Arc::new(Shards::new(alarm.clock, shards.next_power_of_two()));
        let handle = Arc::new(Handle {
            shards: shards.clone(),
            timeout: self.timeout,
            hasher: self.hasher,
        });
        Ok((IdleSet { handle }, Reaper::new(shards, alarm)))
    }
}

impl<K, S> fmt::Debug for Builder<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("timeout", &self.timeout)
            .field("shards", &self.shards)
            .field("timer", &self.timer)
            .finish_non_exhaustive()
    }
}
