//! A timer: its shards, its driver, and the handle to both.

pub(crate) mod ambient;
#[cfg(all(test, not(tokio_wheel_loom)))]
mod bench;
pub(crate) mod builder;
#[cfg(all(test, tokio_wheel_loom))]
pub(crate) mod loom_tests;
#[cfg(all(test, feature = "test-util", not(tokio_wheel_loom)))]
mod simulation;
#[cfg(all(test, not(tokio_wheel_loom)))]
mod starved;
#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests;

pub use builder::Builder;

use std::{
    cell::Cell,
    fmt,
    future::IntoFuture,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{runtime, time::Instant};

use crate::{
    Interval, Metrics, Sleep, TimeLeft, Timeout,
    alarm::Alarm,
    clock::Clock,
    driver::{self, Driver},
    error::TryCurrentError,
    limit::Limit,
    registrar::{End, Link, Registrar, offer_next_task},
    schedule::{Leftover, Unstarted},
    shard::Shard,
    trace, unwind,
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
    desks: Box<[Desk]>,
}

/// The two registrars of a shard.
struct Desk {
    bound: Arc<Registrar>,
    ambient: Arc<Registrar>,
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
        Builder::new()
    }

    /// The ambient timer of the current runtime, which is started if need be.
    ///
    /// # Panics
    ///
    /// Outside of a runtime, and where the runtime has no time enabled.
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
    #[track_caller]
    pub fn current() -> Self {
        match Self::try_current() {
            Ok(timer) => timer,
            Err(error) => panic!("{error}"),
        }
    }

    /// The ambient timer of the current runtime, which is started if need be.
    ///
    /// # Panics
    ///
    /// Where the runtime has no time enabled, which cannot be found out in another way.
    ///
    /// # Errors
    ///
    /// Outside of a runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Timer;
    ///
    /// assert!(Timer::try_current().is_err());
    ///
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    /// runtime.block_on(async {
    ///     assert!(Timer::try_current().is_ok());
    /// });
    /// ```
    #[track_caller]
    pub fn try_current() -> Result<Self, TryCurrentError> {
        match runtime::Handle::try_current() {
            Ok(runtime) => Ok(ambient::timer(&runtime)),
            Err(_) => Err(TryCurrentError::new()),
        }
    }

    /// Waits until `duration` has elapsed: [`sleep`](crate::sleep()) on this timer.
    ///
    /// # Examples
    ///
    /// A future of a timer can be polled on any executor:
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant, Timer};
    ///
    /// let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    /// let timer = runtime.block_on(async { Timer::current() });
    ///
    /// let start = Instant::now();
    /// tokio_test::block_on(timer.sleep(Duration::from_millis(5)));
    /// assert!(start.elapsed() >= Duration::from_millis(5));
    /// ```
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.handle.core.clock.after(duration))
    }

    /// Waits until `deadline` is reached: [`sleep_until`](crate::sleep_until) on this timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let deadline = Instant::now() + Duration::from_millis(5);
    /// Timer::current().sleep_until(deadline).await;
    /// assert!(Instant::now() >= deadline);
    /// # }
    /// ```
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep::on(self.registrar(), deadline)
    }

    /// Requires a future to complete in time: [`timeout`](crate::timeout()) on this timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let timer = Timer::current();
    /// assert_eq!(timer.timeout(Duration::from_secs(1), async { 7 }).await, Ok(7));
    /// # }
    /// ```
    #[inline]
    pub fn timeout<F: IntoFuture>(&self, duration: Duration, future: F) -> Timeout<F::IntoFuture> {
        Timeout::new(self.sleep(duration), future.into_future())
    }

    /// Requires a future to complete before `deadline`: [`timeout_at`](crate::timeout_at) on
    /// this timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Instant, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let never = std::future::pending::<()>();
    /// assert!(Timer::current().timeout_at(Instant::now(), never).await.is_err());
    /// # }
    /// ```
    pub fn timeout_at<F: IntoFuture>(
        &self,
        deadline: Instant,
        future: F,
    ) -> Timeout<F::IntoFuture> {
        Timeout::new(self.sleep_until(deadline), future.into_future())
    }

    /// Ticks every `period`, the first time at once: [`interval`](crate::interval()) on this
    /// timer.
    ///
    /// # Panics
    ///
    /// If `period` is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let mut interval = Timer::current().interval(Duration::from_secs(1));
    /// let first = interval.tick().await;
    /// assert_eq!(interval.tick().await, first + Duration::from_secs(1));
    /// # }
    /// ```
    #[track_caller]
    pub fn interval(&self, period: Duration) -> Interval {
        self.interval_at(Instant::now(), period)
    }

    /// Ticks every `period`, the first time at `start`: [`interval_at`](crate::interval_at) on
    /// this timer.
    ///
    /// # Panics
    ///
    /// If `period` is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let start = Instant::now() + Duration::from_millis(50);
    /// let mut interval = Timer::current().interval_at(start, Duration::from_secs(1));
    /// assert_eq!(interval.tick().await, start);
    /// # }
    /// ```
    #[track_caller]
    pub fn interval_at(&self, start: Instant, period: Duration) -> Interval {
        Interval::new(self.sleep_until(start), period)
    }

    /// Counts of what the timer has done and holds, and how late it was.
    ///
    /// Locks each shard in turn for a moment, so the sum is of slightly different times. The worst
    /// lateness starts anew with each call, by whichever handle: call it in one place.
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
        let core = &self.handle.core;
        let counts = core.shards().iter().map(|shard| shard.take_counts());
        Metrics::new(counts, &core.clock, core.wakeups.load(Ordering::Relaxed))
    }

    /// A histogram of the pending timers by the time left to their deadlines.
    ///
    /// Looks at every pending timer, which takes a few milliseconds per million of them, on the
    /// calling thread: [`metrics`](Self::metrics) has the mere number for much less. A shard's lock
    /// is held for at most 256 timers at a time, so others can use it meanwhile.
    ///
    /// The time left is that at the beginning of the call. A timer that is pending from then to
    /// the end is counted once. One that is registered, fires or is cancelled meanwhile may be
    /// missed, and one that is cancelled and registered anew may be counted twice.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_test::task;
    /// use tokio_wheel::{sleep, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let mut sleeps = [3, 9, 700].map(|ms| task::spawn(sleep(Duration::from_millis(ms))));
    /// assert!(sleeps.iter_mut().all(|sleep| sleep.poll().is_pending()));
    ///
    /// let time_left = Timer::current().time_left();
    /// let soon = time_left.buckets().find(|(bound, _)| *bound == Duration::from_millis(10));
    /// assert_eq!(soon, Some((Duration::from_millis(10), 2)));
    /// assert_eq!(time_left.total(), 3);
    /// # }
    /// ```
    #[doc(alias = "histogram")]
    pub fn time_left(&self) -> TimeLeft {
        let core = &self.handle.core;
        TimeLeft::of(core.shards(), &core.clock)
    }

    /// Shuts the timer down and gives back the scheduled tasks that were waiting, in the order of
    /// their deadlines.
    ///
    /// From then on nothing is scheduled any more, and the driver ends. Tasks that have started
    /// run on, but periodic ones for the last time. Of what was waiting, each task is given back:
    /// run it, keep it for later, or drop it. The [`ScheduledTask`](crate::schedule::ScheduledTask)
    /// of each returns an error that [`is_shutdown`](crate::error::TaskError::is_shutdown), and has
    /// the same [`id`](Unstarted::id). Of a periodic task the next run is given back:
    /// [`is_periodic`](Unstarted::is_periodic) tells. Each task is in exactly one place, whatever
    /// schedules, cancels and shuts down at the same time.
    ///
    /// Blocks the calling thread until all of them are moved and sorted, which takes O(*n* log *n*):
    /// some 0.4 s for a million small tasks. Where there may be very many, call it in
    /// [`spawn_blocking`](tokio::task::spawn_blocking) or on a thread of its own.
    ///
    /// Pending sleeps that a method of this timer made, and what is built on them, fare as when the
    /// runtime shuts down: they are woken, and polling them before their deadline panics. So await
    /// them before, or drop them. Those made by the free functions go on: if this was the ambient
    /// timer of their runtime, that starts another, an ordinary one, and they wait on it.
    ///
    /// Calling it again, or after the runtime has shut down, does nothing. Tasks that were waiting
    /// when their runtime shut down were dropped with it.
    ///
    /// # Examples
    ///
    /// What is left is spawned, so that no task waits for another:
    ///
    /// ```
    /// use tokio::task::JoinSet;
    /// use tokio_wheel::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().build()?;
    /// let task = timer.schedule(Duration::from_secs(60), async { println!("saved") })?;
    ///
    /// let left = timer.shutdown();
    /// assert_eq!(left.len(), 1);
    /// assert_eq!(left[0].id(), task.id());
    /// let runs: JoinSet<()> = left.into_iter().collect();
    /// runs.join_all().await;
    ///
    /// assert!(timer.shutdown().is_empty());
    /// assert!(task.await.unwrap_err().is_shutdown());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "what is scheduled is dropped unless it is run or kept"]
    pub fn shutdown(&self) -> Vec<Unstarted> {
        let core = &self.handle.core;
        let left = core.close(End::Shutdown).into_iter();
        core.link.bell.notify_one();
        let mut left: Vec<_> = left.filter_map(Leftover::into_unstarted).collect();
        left.sort_by_key(Unstarted::deadline);
        left
    }

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
        self.handle.core.link.end()
    }

    /// The registrar of the calling thread, for what stays with this timer.
    pub(crate) fn registrar(&self) -> Arc<Registrar> {
        self.desk().bound.clone()
    }

    /// The registrar of the calling thread, for futures that use the ambient timer.
    pub(crate) fn ambient_registrar(&self) -> Arc<Registrar> {
        self.desk().ambient.clone()
    }

    /// The desk of the calling thread.
    fn desk(&self) -> &Desk {
        let thread = runtime::worker_index().unwrap_or_else(thread_number);
        &self.handle.desks[thread % self.handle.desks.len()]
    }

    pub(crate) fn clock(&self) -> Clock {
        self.handle.core.clock
    }

    /// Whether this is a handle of that timer.
    pub(crate) fn is_of(&self, core: &Core) -> bool {
        std::ptr::eq(&*self.handle.core, core)
    }

    #[cfg(feature = "test-util")]
    pub(crate) fn expire_now(&self) {
        driver::expire_now(&self.handle.core);
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer")
            .field("shards", &self.handle.desks.len())
            .field("shutdown", &self.is_shutdown())
            .finish_non_exhaustive()
    }
}

/// A timer as its driver sees it: without registrars, so that these count who else uses it.
pub(crate) struct Core {
    clock: Clock,
    shards: Box<[Arc<Shard>]>,
    link: Arc<Link>,
    /// The runtime whose ambient timer this is.
    ambient_of: Option<runtime::Id>,
    wakeups: AtomicU64,
}

impl Core {
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    pub(crate) fn shards(&self) -> &[Arc<Shard>] {
        &self.shards
    }

    /// Arms for the earliest expiration of all shards.
    pub(crate) fn arm(&self) {
        let next_expiration = || {
            (self.shards.iter())
                .filter_map(|shard| shard.next_expiration())
                .min()
        };
        self.link.arming.arm(next_expiration);
    }

    /// Ready when the alarm goes off, which is set for the armed tick.
    pub(crate) fn poll_alarm(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.link.poll_alarm(&self.clock, cx)
    }

    pub(crate) fn count_wakeup(&self) {
        self.wakeups.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the driver has nothing left to do, for ever.
    pub(crate) fn is_over(&self) -> bool {
        self.link.end().is_some() || self.link.is_abandoned()
    }

    /// Closes the timer, if it is not closed yet: refuses what is new from now on, wakes whoever
    /// waits, and gives the scheduled tasks back that were waiting.
    fn close(&self, end: End) -> Vec<Arc<dyn Leftover>> {
        if !self.link.set_end(end) {
            return Vec::new();
        }
        if let Some(runtime) = self.ambient_of {
            ambient::remove(runtime, self);
        }
        let mut pending = 0;
        let leftovers = self.link.leftovers.collect_while(|| {
            for shard in self.shards() {
                for waker in shard.close() {
                    driver::wake(waker);
                    pending += 1;
                }
            }
        });
        trace::shutdown(pending);
        leftovers
    }

    /// Closes the timer because its driver is gone. What was scheduled is dropped.
    pub(crate) fn abandon(&self) {
        self.link.parking.close();
        for task in self.close(End::Runtime) {
            unwind::discard(task.into_unstarted());
        }
    }
}

/// A number for a thread that is no worker, to spread such threads over the shards.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
    }
    NUMBER.with(|number| {
        let mine = (number.get()).unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed));
        number.set(Some(mine));
        mine
    })
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
}

impl Undriven {
    /// A timer of these parts, which may be the ambient one of its runtime.
    fn new(parts: Parts, is_ambient: bool) -> Self {
        let Parts { clock, alarm, .. } = parts;
        let runtime = parts.runtime.id();
        let link = Arc::new(Link::new(runtime, alarm));
        let limit = (parts.max_pending).map(|max| Arc::new(Limit::new(max)));
        let shard = |_| Arc::new(Shard::new(limit.clone()));
        let shards: Box<[_]> = (0..parts.shards).map(shard).collect();
        let desk = |shard: &Arc<Shard>| {
            let registrar =
                |ambient| Arc::new(Registrar::new(shard.clone(), clock, link.clone(), ambient));
            Desk {
                bound: registrar(false),
                ambient: registrar(true),
            }
        };
        let desks = shards.iter().map(desk).collect();
        let core = Arc::new(Core {
            clock,
            shards,
            link,
            ambient_of: is_ambient.then_some(runtime),
            wakeups: AtomicU64::new(0),
        });
        let driver = Driver::new(core.clone(), parts.runtime.metrics());
        let timer = Timer {
            handle: Arc::new(Handle { core, desks }),
        };
        Self { timer, driver }
    }

    fn start(self, runtime: &runtime::Handle) -> Timer {
        runtime.spawn(self.driver.run());
        offer_next_task(runtime);
        self.timer
    }
}
