//! The builder of a timer, and its defaults.

use std::time::Duration;

use tokio::runtime;

use super::{Timer, registry};
use crate::{
    driver::{
        alarm::{Alarm, TokioTime},
        clock::{Clock, DEFAULT_TICK},
        room::Room,
        shared::{DriverTask, Shared},
        turn::Driver,
        watch::DEFAULT_PERIOD,
    },
    error::BuildError,
};

#[cfg(all(feature = "high-resolution", target_os = "linux"))]
use crate::driver::timer_fd::TimerFd;

const MIN_TICK: Duration = Duration::from_nanos(1);
const MAX_TICK: Duration = Duration::from_secs(3_600);

/// The shortest tick of a timer of high resolution. It is also the default tick of such a timer.
const HIGH_RESOLUTION_TICK: Duration = Duration::from_micros(10);

const MAX_SHARDS: usize = 1_024;

const MIN_PERIOD: Duration = Duration::from_millis(1);
const MAX_PERIOD: Duration = Duration::from_secs(1);

/// Builds a [`Timer`]. [`Timer::builder`] returns a builder.
///
/// Without any settings, the timer is like the default timer of a runtime.
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
    tick: Option<Duration>,
    shards: Option<usize>,
    /// Whether the driver sleeps on a `timerfd`.
    // Without the feature, the compiler would report a field named `high_resolution` as private, instead of the
    // missing method. Test: `no_private_field_has_the_name_of_a_method`.
    sleeps_on_timer_fd: bool,
    /// The period of the watch, if the builder makes a timer with a watch.
    watch_period: Option<Duration>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            tick: None,
            shards: None,
            sleeps_on_timer_fd: false,
            watch_period: Some(DEFAULT_PERIOD),
        }
    }
}

impl Timer {
    /// Returns a builder for a new timer.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let timer = tokio_wheel::Timer::builder().shards(2).build().unwrap();
    /// assert_eq!(timer.metrics().pending(), 0);
    /// # }
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Builder {
    /// Sets the tick. The timer rounds deadlines up to a multiple of the tick.
    ///
    /// A tick is between 1 ns and 1 h. The default is 1/64 ms. With a longer tick, more entries fire
    /// together, and each entry fires up to one tick later. A timer counts 2^64 ticks: 584 years if a tick is 1 ns. On a
    /// paused clock that goes beyond that, new sleeps of this timer panic, and pending ones stay pending.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), tokio_wheel::error::BuildError> {
    /// let timer = Timer::builder().tick(Duration::from_millis(100)).build()?;
    /// let start = Instant::now();
    /// timer.sleep(Duration::from_millis(30)).await;
    /// assert_eq!(start.elapsed(), Duration::from_millis(100));
    /// # Ok(())
    /// # }
    /// ```
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = Some(tick);
        self
    }

    /// Sets the number of shards. Each shard is a wheel with its own lock.
    ///
    /// The number must be between 1 and 1,024. The default is the number of the runtime's worker threads, but
    /// at most 1,024, so that each worker registers in its own shard.
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
    /// assert!(matches!(none, Err(BuildError::Shards { given: 0, max: 1_024, .. })));
    /// # }
    /// ```
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Sets how often a background thread, the watch, looks for blocked workers, or turns it off.
    ///
    /// If a task blocks a worker, a tokio runtime may stop handling all of its sockets and timers, although other workers are
    /// idle. The watch then wakes one of these, after at most about 1.2 periods, or 2.2 if there was no block in the last 1,000
    /// periods. [`Metrics::blocks`](crate::Metrics::blocks) counts how often this happens. The watch cannot help if all workers
    /// are blocked, nor can it help a task that the blocking task has just woken.
    ///
    /// The period must be between 1 ms and 1 s. The default is 10 ms. A runtime with one worker has no watch. The watch rests
    /// while the runtime uses no timers: see [limitations]. One thread serves all runtimes of a process, and lives as long as the
    /// process. If a runtime has several timers, one watch is enough, so turn it off for the others.
    ///
    /// [limitations]: https://github.com/tokio-wheel/tokio-wheel/blob/main/docs/limitations.md#blocked-workers
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), tokio_wheel::error::BuildError> {
    /// let timer = Timer::builder().watch(Duration::from_millis(5)).build()?;
    /// let unwatched = Timer::builder().watch(None).build()?;
    /// assert!(!unwatched.metrics().is_watched());
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch(mut self, period: impl Into<Option<Duration>>) -> Self {
        self.watch_period = period.into();
        self
    }

    /// Makes the timer accurate to tens of microseconds, on Linux.
    ///
    /// The driver then sleeps on a `timerfd`. Without this setting, it sleeps on tokio's alarm, whose resolution is one
    /// millisecond. The shortest tick is 10 µs, which is also the default. The driver wakes up more often: up to once for each
    /// tick in which an entry fires. A busy runtime still delays the tasks that are woken. The timer also works with a paused
    /// clock.
    ///
    /// The timer needs one file descriptor and a runtime with I/O enabled. On systems other than Linux, building the timer fails
    /// with [`BuildError::Alarm`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant, Timer, error::BuildError};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), BuildError> {
    /// # #[cfg(target_os = "linux")] {
    /// let timer = Timer::builder().high_resolution().build()?;
    ///
    /// let start = Instant::now();
    /// timer.sleep(Duration::from_micros(250)).await;
    /// assert!(start.elapsed() >= Duration::from_micros(250));
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "high-resolution")]
    pub fn high_resolution(mut self) -> Self {
        self.sleeps_on_timer_fd = true;
        self
    }

    /// Builds the timer and spawns its driver on the current runtime.
    ///
    /// To build the timer on another runtime, enter that runtime first, with
    /// [`Handle::enter`](runtime::Handle::enter).
    ///
    /// # Panics
    ///
    /// Panics if time is not enabled on the runtime. A timer of high resolution also needs I/O enabled.
    ///
    /// # Errors
    ///
    /// Returns an error if:
    ///
    /// * the tick, the number of shards or the period of the watch is out of range
    /// * the calling thread is not in a runtime
    /// * a timer of high resolution gets no alarm from the operating system
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer, error::BuildError};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), BuildError> {
    /// let timer = Timer::builder().build()?;
    /// timer.sleep(Duration::from_millis(1)).await;
    ///
    /// let outside = std::thread::spawn(|| Timer::builder().build()).join().unwrap();
    /// assert!(matches!(outside, Err(BuildError::NoRuntime)));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn build(self) -> Result<Timer, BuildError> {
        let (timer, driver) = self.assemble()?;
        tokio::spawn(driver.run());
        timer.if_running()
    }

    /// Builds the timer and makes it the default timer of the current runtime.
    ///
    /// The free functions then use this timer on that runtime. Install it before a future of a free function is polled,
    /// because the first poll starts an ordinary default timer.
    ///
    /// # Panics
    ///
    /// Panics if time is not enabled on the runtime. A timer of high resolution also needs I/O enabled.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`build`](Self::build), or [`AlreadyInstalled`](BuildError::AlreadyInstalled) if
    /// the runtime already has a default timer.
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
        let inserted = registry::insert(self.assemble()?);
        let timer = inserted.map_err(|_| BuildError::AlreadyInstalled)?;
        timer.if_running()
    }

    /// Checks the settings, and makes a timer of the current runtime.
    #[track_caller]
    pub(super) fn assemble(&self) -> Result<(Timer, DriverTask), BuildError> {
        let (min, default_tick) = match self.sleeps_on_timer_fd {
            true => (HIGH_RESOLUTION_TICK, HIGH_RESOLUTION_TICK),
            false => (MIN_TICK, DEFAULT_TICK),
        };
        let (given, max) = (self.tick.unwrap_or(default_tick), MAX_TICK);
        if !(min..=max).contains(&given) {
            return Err(BuildError::Tick { given, min, max });
        }
        if let Some(given) = self.shards.filter(|it| !(1..=MAX_SHARDS).contains(it)) {
            let max = MAX_SHARDS;
            return Err(BuildError::Shards { given, max });
        }
        let (min, max) = (MIN_PERIOD, MAX_PERIOD);
        if let Some(given) = self.watch_period.filter(|it| !(min..=max).contains(it)) {
            return Err(BuildError::Watch { given, min, max });
        }
        let runtime = runtime::Handle::try_current().map_err(|_| BuildError::NoRuntime)?;
        let workers = runtime.metrics().num_workers();
        let shards = self.shards.unwrap_or(workers.clamp(1, MAX_SHARDS));
        let alarm: Box<dyn Alarm> = match self.sleeps_on_timer_fd {
            #[cfg(all(feature = "high-resolution", target_os = "linux"))]
            true => Box::new(TimerFd::new().map_err(|source| BuildError::Alarm { source })?),
            #[cfg(all(feature = "high-resolution", not(target_os = "linux")))]
            true => {
                let source = std::io::ErrorKind::Unsupported.into();
                return Err(BuildError::Alarm { source });
            }
            _ => Box::new(TokioTime::new()),
        };
        let shared = Shared::new(runtime.id(), Clock::new(given), shards, registry::remove);
        let driver = Driver::new(Room::new(&runtime));
        let (timer, task) = Timer::from_parts(shared, alarm, driver);
        if let Some(period) = self.watch_period.filter(|_| workers > 1) {
            registry::watch().add(timer.handle.shared.clone(), runtime, period);
        }
        Ok((timer, task))
    }
}
