//! The description of a timer to be built, and its defaults.

use std::time::Duration;

use tokio::runtime;

use super::{Parts, Timer, Undriven};
use crate::{
    driver::{
        alarm::{Alarm, TokioTime},
        clock::{Clock, DEFAULT_TICK, Source},
    },
    error::BuildError,
};

#[cfg(all(feature = "high-resolution", target_os = "linux"))]
use crate::driver::alarm::TimerFd;
#[cfg(all(feature = "coarse", target_os = "linux"))]
use crate::driver::clock::Coarse;

const MAX_TICK: Duration = Duration::from_secs(3_600);

/// The shortest tick of a timer of high resolution, and its default.
#[cfg(feature = "high-resolution")]
const HIGH_RESOLUTION_TICK: Duration = Duration::from_micros(10);

pub(crate) const MAX_SHARDS: usize = 1_024;

/// A number of shards, if that is in range.
pub(crate) fn check_shards(given: usize) -> Result<usize, BuildError> {
    if (1..=MAX_SHARDS).contains(&given) {
        Ok(given)
    } else {
        Err(BuildError::Shards { given })
    }
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
    tick: Option<Duration>,
    shards: Option<usize>,
    max_pending: Option<usize>,
    resolution: Resolution,
}

/// How exact a timer is.
#[derive(Clone, Copy, Debug)]
enum Resolution {
    Ordinary,
    #[cfg(feature = "coarse")]
    Coarse,
    #[cfg(feature = "high-resolution")]
    High,
}

impl Resolution {
    /// The shortest tick, and the tick of a timer that names none.
    fn ticks(self) -> (Duration, Duration) {
        match self {
            Self::Ordinary => (Duration::from_nanos(1), DEFAULT_TICK),
            #[cfg(feature = "coarse")]
            Self::Coarse => Self::Ordinary.ticks(),
            #[cfg(feature = "high-resolution")]
            Self::High => (HIGH_RESOLUTION_TICK, HIGH_RESOLUTION_TICK),
        }
    }
}

impl Timer {
    /// Starts to describe a new timer.
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
        Builder {
            tick: None,
            shards: None,
            max_pending: None,
            resolution: Resolution::Ordinary,
        }
    }
}

impl Builder {
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
        self.tick = Some(tick);
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

    /// Makes timers cheaper and later: for ticks of 4 ms, the default then, and more.
    ///
    /// The time that [`sleep`](Timer::sleep), [`timeout`](Timer::timeout), a
    /// [`DelayQueue`](crate::DelayQueue) or an idle set of this timer count from is that of the
    /// kernel's coarse clock. To look at it costs a fifth of looking at the exact one, which is
    /// nearly half the cost of a timer that is cancelled. It is behind, so twice its interval, which
    /// is 1 to 10 ms and as a rule 4, is added: a deadline is that much later than it would be, but
    /// for a duration of zero. The driver goes by the exact clock.
    ///
    /// Where the timer is [installed](Self::install), the free functions [`sleep`](crate::sleep())
    /// and [`timeout`](crate::timeout()) count from the coarse clock too, on the runtime's worker
    /// threads, each from its second timer on that waits, and until it learns that the timer was
    /// shut down.
    ///
    /// Where there is no such clock, that is elsewhere than on Linux, the exact one is used; also on
    /// a current-thread runtime, whose clock can be paused. For a thread per core, build
    /// multi-thread runtimes of one worker. Within another runtime whose clock is paused, a timer
    /// made by this one may be early or late by that clock.
    ///
    /// A timer is never early by [`Sleep::deadline`](crate::Sleep::deadline). By the time at which
    /// it was made it is not either, unless the kernel's timer interrupt came late by more than
    /// its interval just then, which can happen on a virtual machine that is kept from running: the
    /// timer is then early by as much.
    ///
    /// This and [`high_resolution`](Self::high_resolution) exclude each other: what is called last
    /// counts.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant, Timer, error::BuildError, sleep};
    ///
    /// #[tokio::main]
    /// async fn main() -> Result<(), BuildError> {
    ///     Timer::builder().coarse().install()?;
    ///
    ///     let start = Instant::now();
    ///     sleep(Duration::from_millis(5)).await;
    ///     assert!(start.elapsed() >= Duration::from_millis(5));
    ///
    ///     let short = Timer::builder().coarse().tick(Duration::from_millis(1)).build();
    ///     assert!(matches!(short, Err(BuildError::TickTooShort { .. })));
    ///     Ok(())
    /// }
    /// ```
    #[cfg(feature = "coarse")]
    #[cfg_attr(docsrs, doc(cfg(feature = "coarse")))]
    pub fn coarse(mut self) -> Self {
        self.resolution = Resolution::Coarse;
        self
    }

    /// Makes timers exact to some ten microseconds: for ticks of 10 µs, the default then, and
    /// more.
    ///
    /// The driver sleeps on a `timerfd` of Linux, one for the whole timer, instead of on tokio's
    /// alarm, which moves in milliseconds. The price is wake-ups: up to one for each tick in which
    /// something is due. A paused clock is obeyed.
    ///
    /// What it wakes are tasks, so on a busy runtime they wait for their turn as others do.
    ///
    /// [`build`](Self::build) and [`install`](Self::install) then need a runtime with I/O enabled, a file
    /// descriptor, and Linux.
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
    #[cfg_attr(docsrs, doc(cfg(feature = "high-resolution")))]
    pub fn high_resolution(mut self) -> Self {
        self.resolution = Resolution::High;
        self
    }

    /// Builds the timer and spawns its driver on the current runtime.
    ///
    /// # Panics
    ///
    /// Outside of a runtime, and where the runtime has no time enabled, or no I/O for a timer of
    /// high resolution.
    ///
    /// # Errors
    ///
    /// If the tick, the number of shards or the limit is out of range, and if there is no alarm for a
    /// timer of high resolution.
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
        Ok(Undriven::new(self.parts()?, |_| {}).start())
    }

    /// What to build the timer of on the current runtime, if all is in range.
    #[track_caller]
    pub(super) fn parts(&self) -> Result<Parts, BuildError> {
        let (least, default_tick) = self.resolution.ticks();
        let tick = self.tick.unwrap_or(default_tick);
        if tick.is_zero() {
            return Err(BuildError::ZeroTick);
        }
        if tick > MAX_TICK {
            return Err(BuildError::TickTooLong { given: tick });
        }
        if tick < least {
            return Err(BuildError::TickTooShort { given: tick, least });
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
        let workers = runtime.metrics().num_workers();
        let source = match self.resolution {
            #[cfg(all(feature = "coarse", target_os = "linux"))]
            Resolution::Coarse => Coarse::new(&runtime).map_or(Source::Tokio, Source::Coarse),
            _ => Source::Tokio,
        };
        let alarm: Box<dyn Alarm> = match self.resolution {
            #[cfg(all(feature = "high-resolution", target_os = "linux"))]
            Resolution::High => match TimerFd::new(&runtime) {
                Ok(alarm) => Box::new(alarm),
                Err(error) => {
                    let os_error = error.raw_os_error();
                    return Err(BuildError::TimerFd { os_error });
                }
            },
            #[cfg(all(feature = "high-resolution", not(target_os = "linux")))]
            Resolution::High => return Err(BuildError::HighResolutionUnsupported),
            _ => Box::new(TokioTime::new()),
        };
        Ok(Parts {
            clock: Clock::new(tick, source),
            alarm,
            shards: shards.unwrap_or(workers.clamp(1, MAX_SHARDS)),
            max_pending: self.max_pending,
            runtime,
        })
    }
}
