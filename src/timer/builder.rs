//! The description of a timer to be built, and its defaults.

use std::time::Duration;

use tokio::runtime;

use super::{Timer, Undriven, ambient};
use crate::{clock::DEFAULT_TICK, error::BuildError};

const MAX_TICK: Duration = Duration::from_secs(3_600);

pub(crate) const MAX_SHARDS: usize = 1_024;

/// A number of shards, if that is in range.
pub(crate) fn check_shards(given: usize) -> Result<usize, BuildError> {
    if (1..=MAX_SHARDS).contains(&given) {
        Ok(given)
    } else {
        Err(BuildError::Shards { given })
    }
}

/// The number of shards of a timer that names none: one for each worker thread.
pub(super) fn default_shards(runtime: &runtime::Handle) -> usize {
    runtime.metrics().num_workers().clamp(1, MAX_SHARDS)
}

/// Describes a [`Timer`] to be built; made by [`Timer::builder`].
///
/// # Examples
///
/// ```
/// use tokio_wheel::{Duration, Timer};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let timer = Timer::builder()
///     .tick(Duration::from_micros(100))
///     .shards(4)
///     .build()
///     .unwrap();
/// assert!(!timer.is_shutdown());
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` or `install` is called"]
pub struct Builder {
    tick: Duration,
    shards: Option<usize>,
    max_pending: Option<usize>,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            tick: DEFAULT_TICK,
            shards: None,
            max_pending: None,
        }
    }

    /// The granularity of deadlines: they round up to a multiple of the tick.
    ///
    /// From one nanosecond to one hour; by default 1/64 ms. A coarser tick fires the timers of a
    /// longer span together.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer, error::BuildError};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let coarse = Timer::builder().tick(Duration::from_millis(100)).build();
    /// assert!(coarse.is_ok());
    ///
    /// let zero = Timer::builder().tick(Duration::ZERO).build();
    /// assert!(matches!(zero, Err(BuildError::ZeroTick)));
    /// # }
    /// ```
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// The number of shards: wheels with a lock of their own.
    ///
    /// From 1 to 1,024; by default the number of the runtime's worker threads, so that each
    /// registers in its own.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Timer, error::BuildError};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert!(Timer::builder().shards(64).build().is_ok());
    ///
    /// let none = Timer::builder().shards(0).build();
    /// assert!(matches!(none, Err(BuildError::Shards { given: 0 })));
    /// # }
    /// ```
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// The most timers that may be pending: while there are as many, no further task is scheduled.
    ///
    /// At least 1; by default there is no limit. [`Timer::schedule`] and its kin then return an
    /// error, which carries the task back. Pending [`Sleep`](crate::Sleep)s count, whatever is
    /// built on them as well, but are never refused, and neither is the next run of a periodic
    /// task, which counts while it waits. So the count may come to exceed the limit.
    ///
    /// The count is exact, whatever fires and is cancelled at the same time. The price is that
    /// all threads which use the timer write to it. Without a limit they share nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer, error::BuildError};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().max_pending(1).build()?;
    /// let first = timer.schedule(Duration::from_secs(1), async { "first" })?;
    ///
    /// let refused = timer.schedule(Duration::from_secs(1), async { "second" }).unwrap_err();
    /// assert!(refused.is_full());
    /// assert_eq!(refused.into_inner().await, "second");
    ///
    /// assert!(first.cancel());
    /// assert!(timer.schedule(Duration::from_secs(1), async { "third" }).is_ok());
    ///
    /// let zero = Timer::builder().max_pending(0).build();
    /// assert!(matches!(zero, Err(BuildError::ZeroMaxPending)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_pending(mut self, timers: usize) -> Self {
        self.max_pending = Some(timers);
        self
    }

    /// Builds the timer and spawns its driver on the current runtime.
    ///
    /// # Panics
    ///
    /// Outside of a runtime, and where the runtime has no time enabled.
    ///
    /// # Errors
    ///
    /// If the tick, the number of shards or the limit is out of range.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tokio_wheel::error::BuildError> {
    /// let timer = tokio_wheel::Timer::builder().build()?;
    /// timer.sleep(tokio_wheel::Duration::from_millis(1)).await;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn build(self) -> Result<Timer, BuildError> {
        let (runtime, shards) = self.check()?;
        Ok(Undriven::new(self.tick, shards, self.max_pending, runtime.id(), false).start(&runtime))
    }

    /// Builds the timer and makes it the current runtime's ambient one, which the free functions
    /// use.
    ///
    /// # Panics
    ///
    /// Outside of a runtime, and where the runtime has no time enabled.
    ///
    /// # Errors
    ///
    /// If the tick, the number of shards or the limit is out of range, and if the runtime has an
    /// ambient timer already. It has one from the first poll of a free function's future on.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{sleep, Duration, Timer, error::BuildError};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), BuildError> {
    /// let timer = Timer::builder().tick(Duration::from_millis(10)).install()?;
    /// sleep(Duration::from_millis(15)).await;
    /// assert_eq!(timer.metrics().fired(), 1);
    ///
    /// let another = Timer::builder().install();
    /// assert!(matches!(another, Err(BuildError::AlreadyInstalled)));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn install(self) -> Result<Timer, BuildError> {
        let (runtime, shards) = self.check()?;
        let undriven = Undriven::new(self.tick, shards, self.max_pending, runtime.id(), true);
        ambient::insert(undriven, &runtime).map_err(|_| BuildError::AlreadyInstalled)
    }

    /// The runtime to build on and the number of shards, if all is in range.
    #[track_caller]
    fn check(&self) -> Result<(runtime::Handle, usize), BuildError> {
        if self.tick.is_zero() {
            return Err(BuildError::ZeroTick);
        }
        if self.tick > MAX_TICK {
            return Err(BuildError::TickTooLong { given: self.tick });
        }
        let shards = self.shards.map(check_shards).transpose()?;
        if self.max_pending == Some(0) {
            return Err(BuildError::ZeroMaxPending);
        }
        let Ok(runtime) = runtime::Handle::try_current() else {
            panic!(
                "a timer was built outside of a tokio runtime, which its driver needs: build it \
                 in a task, in `block_on`, or while the guard of `Handle::enter` lives"
            );
        };
        let shards = shards.unwrap_or_else(|| default_shards(&runtime));
        Ok((runtime, shards))
    }
}
