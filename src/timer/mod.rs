//! Layer 2: the handle of a timer, its builder, its metrics, and the default timer of each runtime.

pub(crate) mod builder;
#[cfg(feature = "call-sites")]
mod call_sites;
pub(crate) mod default;
#[cfg(all(test, not(tokio_wheel_loom)))]
mod harness;
#[cfg(all(test, tokio_wheel_loom))]
pub(crate) mod loom_tests;
mod metrics;
mod registry;
#[cfg(all(test, feature = "test-util", not(tokio_wheel_loom)))]
mod simulation;
#[cfg(all(test, not(tokio_wheel_loom)))]
mod starved;
#[cfg(feature = "test-util")]
mod test_util;
#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests;

pub use builder::Builder;
#[cfg(feature = "call-sites")]
pub use call_sites::CallSite;
pub use metrics::{Histogram, Metrics};
#[cfg(feature = "test-util")]
pub use test_util::{advance, pause, resume};

use std::{
    fmt,
    panic::{RefUnwindSafe, UnwindSafe},
    sync::Arc,
    time::Duration,
};

use crate::{
    driver::{
        alarm::Alarm,
        registrar::Registrar,
        shared::{DriverTask, Shared},
        turn::Driver,
    },
    error::BuildError,
};

/// A handle to a timer.
///
/// Most programs need no handle, because the free functions, such as [`sleep`](crate::sleep()), use the default timer of the
/// runtime that polls their futures. Build a timer if you need:
///
/// * another tick, or another number of shards
/// * futures that can be polled outside of any runtime
///
/// All clones of a handle refer to the same timer. The timer's driver runs on the runtime on which the timer was
/// built. The timer lives until one of these happens:
///
/// * Its runtime shuts down.
/// * All of its handles and futures are dropped.
///
/// A timer that shuts down wakes its pending futures. Polling such a future before its deadline panics. A
/// future of a free function instead registers with the default timer of the runtime that polls it next, and panics only
/// if its own runtime has shut down and no other one is current.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{Duration, Instant, Timer};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::builder().tick(Duration::from_millis(5)).build()?;
///
/// let start = Instant::now();
/// timer.sleep(Duration::from_millis(12)).await;
/// assert!(start.elapsed() >= Duration::from_millis(12));
/// assert_eq!(timer.metrics().fired(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Timer {
    handle: Arc<Handle>,
}

/// The part that the clones of a [`Timer`] share. The driver has no reference to this part.
struct Handle {
    shared: Arc<Shared>,
    /// The registrar of each shard.
    registrars: Box<[Arc<Registrar>]>,
    /// The registrar that a thread remembers while it runs the timer's current-thread runtime. A simulation runs many of
    /// these runtimes on one thread, and the thread would otherwise make a registrar each time.
    of_current_thread: Arc<Registrar>,
}

// A timer stays intact after a panic. User code runs under no lock, and a driver that ends closes its timer.
impl UnwindSafe for Timer {}
impl RefUnwindSafe for Timer {}

impl Timer {
    /// Returns whether the timer has shut down, because its runtime has shut down or its driver has panicked.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    /// let timer = runtime.block_on(async { tokio_wheel::Timer::current() });
    /// assert!(!timer.is_shutdown());
    /// drop(runtime);
    /// assert!(timer.is_shutdown());
    /// ```
    #[must_use]
    pub fn is_shutdown(&self) -> bool {
        self.shared().ending.has_begun()
    }

    /// Returns the length of a tick. The timer rounds each deadline up to a tick.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().tick(Duration::from_millis(5)).build()?;
    /// assert_eq!(timer.tick(), Duration::from_millis(5));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn tick(&self) -> Duration {
        Duration::from_nanos(self.shared().agenda.clock.tick)
    }

    /// Makes a timer and its driver, which the caller spawns on the runtime.
    fn from_parts(shared: Shared, alarm: Box<dyn Alarm>, driver: Driver) -> (Self, DriverTask) {
        let shared = Arc::new(shared);
        shared.agenda.open(alarm, shared.clone().into(), driver);
        let task = DriverTask(shared.clone());
        let handle = Arc::new(Handle {
            registrars: Registrar::of_all_shards(&shared),
            of_current_thread: Registrar::new(&shared, &shared.shards[0], None, None),
            shared,
        });
        (Self { handle }, task)
    }

    /// Returns the timer, unless its runtime has shut down and dropped the driver.
    fn if_running(self) -> Result<Self, BuildError> {
        match self.is_shutdown() {
            false => Ok(self),
            true => Err(BuildError::RuntimeShutdown),
        }
    }

    /// Makes a registrar for the calling thread's shard, for futures that use the default timer.
    ///
    /// The thread remembers this registrar. Timers that are not default timers need no such registrar.
    /// If the thread is a worker, its futures may keep their entries.
    fn default_registrar(&self, is_worker: bool) -> Arc<Registrar> {
        let shard = &self.registrar().shard;
        let spares = is_worker.then(|| shard.admit()).flatten();
        Registrar::new(&self.handle.shared, shard, spares, None)
    }

    /// Returns the registrar of the calling thread's shard, for futures that always use this timer.
    pub(crate) fn registrar(&self) -> &Arc<Registrar> {
        &self.handle.registrars[self.shared().shard_of_thread()]
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.handle.shared
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer")
            .field("shards", &self.handle.registrars.len())
            .field("shutdown", &self.is_shutdown())
            .finish_non_exhaustive()
    }
}
