//! Floor 2: the handle of a timer, how it is built, and which timer is which runtime's.

pub(crate) mod ambient;
pub(crate) mod builder;
#[cfg(all(test, not(tokio_wheel_loom)))]
mod harness;
#[cfg(any(feature = "hyper", test))]
mod leap;
#[cfg(all(test, tokio_wheel_loom))]
pub(crate) mod loom_tests;
mod metrics;
#[cfg(all(test, feature = "test-util", not(tokio_wheel_loom)))]
mod simulation;
#[cfg(all(test, not(tokio_wheel_loom)))]
mod starved;
#[cfg(feature = "test-util")]
mod test_util;
#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests;

pub use builder::Builder;
pub use metrics::{Histogram, Metrics};
#[cfg(feature = "test-util")]
pub use test_util::{advance, pause, resume};

use std::{fmt, sync::Arc};

use tokio::runtime;

use crate::{
    driver::{
        alarm::Alarm, clock::Clock, core::Core, ending::End, handle::DriverHandle, limit::Limit,
        registrar::Registrar, shard::Shard, task::Driver, worker::offer_next_task,
    },
    ground::thread,
};

/// A timing wheel of its own, with the task that drives it.
///
/// The free functions of this crate use the *ambient* timer of the runtime they are polled on,
/// which is all that most programs need. Build a `Timer` for another tick, another number of
/// shards, or futures that are polled outside of any runtime.
///
/// A `Timer` is a handle: clones name the same timer. Its driver runs on the runtime on which it
/// was built, until that runtime shuts down or [`shutdown`](Self::shutdown) is called, or until
/// the last handle and future of the timer are gone and its scheduled tasks have ended. Once it
/// has shut down, futures of the timer that are still pending are woken, and polling them before
/// their deadline panics; those made by the free functions only if it was the runtime that shut
/// down.
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

/// What the clones of a [`Timer`] share. The driver has no part in it: see `Core`.
struct Handle {
    core: Arc<Core>,
    /// One for each shard.
    registrars: Box<[Arc<Registrar>]>,
}

impl Timer {
    /// Whether the timer has shut down, by [`shutdown`](Self::shutdown) or with its runtime.
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
    pub fn is_shutdown(&self) -> bool {
        self.end().is_some()
    }

    /// How the timer has ended, if it has.
    pub(crate) fn end(&self) -> Option<End> {
        self.core().driver().ending.get()
    }

    /// The registrar of the calling thread, for what stays with this timer.
    pub(crate) fn registrar(&self) -> Arc<Registrar> {
        self.own_registrar().clone()
    }

    /// Makes a registrar of the calling thread's shard, for futures that use the ambient timer. The
    /// thread remembers it, so that timers which are not ambient need none.
    fn ambient_registrar(&self) -> Arc<Registrar> {
        let own = self.own_registrar();
        let (shard, driver) = (own.shard.clone(), own.driver.clone());
        Arc::new(Registrar::new(shard, self.clock(), driver, true))
    }

    /// A worker has a shard by its index. Another thread has one by its number, which spreads such
    /// threads over the shards.
    fn own_registrar(&self) -> &Arc<Registrar> {
        let registrars = &self.handle.registrars;
        let index = runtime::worker_index().unwrap_or_else(thread::number);
        &registrars[index % registrars.len()]
    }

    pub(crate) fn clock(&self) -> Clock {
        *self.core().clock()
    }

    pub(crate) fn core(&self) -> &Core {
        &self.handle.core
    }

    /// Whether this is a handle of that timer.
    pub(crate) fn is_of(&self, core: &Core) -> bool {
        std::ptr::eq(self.core(), core)
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

/// What a timer is made of.
struct Parts {
    /// Where the driver is to run.
    runtime: runtime::Handle,
    clock: Clock,
    alarm: Box<dyn Alarm>,
    shards: usize,
    max_pending: Option<usize>,
}

/// A timer whose driver has not been spawned yet.
///
/// Making a timer runs into the runtime's panic where time is not enabled, spawning runs foreign
/// code where the runtime is shutting down: this lets the registry do both without its lock.
struct Undriven {
    timer: Timer,
    driver: Driver,
    runtime: runtime::Handle,
}

impl Undriven {
    /// A timer of these parts. `on_end` is called when it has ended.
    fn new(parts: Parts, on_end: fn(&Core)) -> Self {
        let Parts { clock, alarm, .. } = parts;
        let driver = Arc::new(DriverHandle::new(parts.runtime.id(), alarm));
        let limit = (parts.max_pending).map(|max| Arc::new(Limit::new(max)));
        let shard = |_| Arc::new(Shard::new(limit.clone()));
        let shards: Box<[_]> = (0..parts.shards).map(shard).collect();
        let registrar = |shard: &Arc<Shard>| {
            Arc::new(Registrar::new(shard.clone(), clock, driver.clone(), false))
        };
        let registrars = shards.iter().map(registrar).collect();
        let core = Arc::new(Core::new(clock, shards, driver, on_end));
        let driver = Driver::new(core.clone(), parts.runtime.metrics());
        let timer = Timer {
            handle: Arc::new(Handle { core, registrars }),
        };
        Self {
            timer,
            driver,
            runtime: parts.runtime,
        }
    }

    fn start(self) -> Timer {
        self.runtime.spawn(self.driver.run());
        offer_next_task(&self.runtime);
        self.timer
    }
}
