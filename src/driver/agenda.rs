//! When the driver wakes: the ticks that the shards publish, the armed tick, and the alarm.
//!
//! Each shard [publishes](Published) a tick. No entry of the shard has a deadline before it. After a turn, the driver reads
//! the published ticks of all shards without a lock, and sets the alarm for the earliest. A registration with an
//! earlier deadline must make the driver wake earlier. A registration with a later deadline and a cancellation leave
//! the driver alone.
//!
//! # Rules
//!
//! 1. The driver *disarms* before it reads the first published tick: it sets the armed tick to [`NEVER`]. It *arms*
//!    after it has read the last published tick: it lowers the armed tick to the earliest published tick.
//! 2. A registration compares its deadline with the published tick of its shard, under the lock of the shard. If the
//!    deadline is not earlier, the registration does nothing more.
//! 3. If it is earlier, the registration publishes it (of a coarse slot the start, when its entries cascade), releases
//!    the lock, and *lowers* the armed tick.
//! 4. If that changes the armed tick, the registering thread makes the driver wake earlier ([`Agenda::wake_for`]).
//! 5. Only the thread that takes a turn raises the armed tick and the published ticks. So a burst of registrations and
//!    cancellations sets the alarm only once.
//! 6. The thread that takes a turn takes the driver out of the agenda. Meanwhile, registrations leave the alarm alone.
//!    When the thread puts the driver back, it sets the alarm. The alarm is set under a lock, and the armed tick is read
//!    under it. So the last thread that takes the lock sets the alarm for the lowest tick, and a turn misses no alarm
//!    that goes off meanwhile. A registration that finds the lock held notifies the driver's task, whose turn comes later.
//!
//! # The race
//!
//! In each drawing the armed tick is 9 at the start, and a registration has the deadline 5.
//!
//! The registration lowers the armed tick before the driver disarms:
//!
//! ```text
//!        driver                         registering thread             published    armed
//!   0.                                                                     9          9
//!   1.                                  publishes 5                        5          9
//!   2.                                  lowers: 9 was later                5          5
//!   3.   disarms                                                           5        NEVER
//!   4.   reads 5                                                           5        NEVER
//!   5.   arms for 5                                                        5          5
//!   6.                                  sets the alarm, or notifies        5          5
//!
//!   The driver reads 5, because step 3 reads the armed tick that step 2 has written. Step 6 may come
//!   earlier, and costs at most one wake-up.
//!   Model: timer::loom_tests::register_races_wake_up
//! ```
//!
//! The registration lowers the armed tick after the driver has disarmed:
//!
//! ```text
//!        driver                         registering thread             published    armed
//!   0.                                                                     9          9
//!   1.   disarms                                                           9        NEVER
//!   2.   reads 9                                                           9        NEVER
//!   3.                                  publishes 5                        5        NEVER
//!   4.                                  lowers: NEVER was later            5          5
//!   5.   arms for 9, finds 5                                               5          5
//!   6.   ends its turn, sets the alarm for 5                               5          5
//!   7.                                  sets the alarm for 5, or notifies  5          5
//!
//!   Step 5 cannot replace 5 with 9, because arming takes the minimum atomically.
//!   Steps 6 and 7 may come in either order. Each step reads the armed tick under the lock of the alarm.
//!   Models: timer::loom_tests::register_races_arm, register_elsewhere_races_arm, earlier_reset_races_arm
//! ```
//!
//! A second thread registers the deadline 7 in the same shard:
//!
//! ```text
//!        driver                         first thread         second thread        published    armed
//!   0.                                                                                9          9
//!   1.                                  publishes 5                                   5          9
//!   2.                                                       registers 7: 5 is        5          9
//!                                                            earlier, returns
//!   3.   disarms, reads 5, arms for 5                                                 5          5
//!   4.                                  lowers: 5 was armed                           5          5
//!
//!   The second thread relies on the first thread. Between steps 1 and 4 the system may take the processor
//!   from the first thread. If the driver reads the published tick before step 1, step 4 changes the armed
//!   tick. Then the first thread sets the alarm for both entries.
//!   Model: timer::loom_tests::second_registration_races_arm
//! ```
//!
//! # The rest of the watch
//!
//! A [watch](super::watch) that rests sleeps until the armed tick, or until a thread uses the timer:
//!
//! | the watch | a thread that registers an earlier entry |
//! |---|---|
//! | sets `rests` | lowers the armed tick |
//! | reads the armed tick | reads and clears `rests`, and unparks the watch if it was set |
//!
//! All four steps are read-modify-writes. So the watch reads the lowered tick, or the thread unparks it. Model:
//! `timer::loom_tests::rest_races_register`.
//!
//! Every reset and every drop of a registered future reads `rests` as well: a task that an event wakes usually drops or
//! resets a timeout before it does the work that may block. The thread writes only to unpark the watch, and may miss a
//! watch that begins to rest at this moment.
//!
//! # User code
//!
//! Setting the alarm runs code of tokio under the lock, and no user code, with one exception: with `tokio_unstable` and
//! tokio's feature `tracing`, tokio emits its own events. If a subscriber panics, the alarm is not set, and the driver's
//! task sets it again. A subscriber may also register a sleep. So a registration does not wait for the lock, and if it is
//! held, notifies the driver's task. Tests: `timer::tests::an_alarm_that_panics_is_set_again`,
//! `an_alarm_that_registers_a_sleep_is_set_again`.

use std::{sync::OnceLock, task::Waker, thread::Thread};

use bounded_wheel::{COARSE_FROM, FINE_TO, NEVER, Tick};
use tokio::runtime;

use crate::{
    driver::{alarm::Alarm, clock::Clock, turn::Driver},
    ground::{
        sync::{AtomicBool, AtomicU64, Mutex, Ordering, worker_index},
        unwind,
        wake::Notify,
    },
};

/// The ticks that a shard publishes. A thread writes them under the lock of the shard, and reads them without it.
///
/// They have cache lines of their own. So a driver that reads them does not take the cache line of the lock from a worker.
#[repr(align(128))]
pub(crate) struct Published {
    /// No entry has an earlier deadline. The tick may be too early, because a cancellation does not change it.
    tick: AtomicU64,
    /// The tick up to which the wheel was advanced.
    advanced: AtomicU64,
    /// No entry with a later deadline has fired. So a pending future needs no lock to know that it is pending.
    fired: AtomicU64,
}

impl Published {
    pub(crate) fn new() -> Self {
        Self {
            tick: AtomicU64::new(NEVER),
            advanced: AtomicU64::new(0),
            fired: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn tick(&self) -> Tick {
        self.tick.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, tick: Tick, advanced: Tick) {
        self.tick.store(tick, Ordering::Relaxed);
        self.set_advanced(advanced);
    }

    pub(crate) fn set_advanced(&self, advanced: Tick) {
        self.advanced.store(advanced, Ordering::Relaxed);
    }

    /// Records that entries up to this deadline may have fired.
    pub(crate) fn set_fired(&self, deadline: Tick) {
        let fired = self.fired.load(Ordering::Relaxed);
        self.fired.store(fired.max(deadline), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn may_have_fired(&self, deadline: Tick) -> bool {
        deadline <= self.fired.load(Ordering::Relaxed)
    }

    /// Returns whether a registration should read the time before it registers this deadline.
    ///
    /// The registration should read the time in these two cases:
    ///
    /// * The deadline may have passed, because it is before the published tick.
    /// * The entry may get a coarse slot instead of a fine slot, because the wheel may be behind the clock. But if the
    ///   deadline is [`COARSE_FROM`] ticks or more after the published tick, the slot is coarse in any case: the clock has
    ///   not passed the published tick, unless the driver is late.
    #[inline]
    pub(crate) fn needs_the_time(&self, deadline: Tick) -> bool {
        let (tick, advanced) = (self.tick(), self.advanced.load(Ordering::Relaxed));
        let may_have_passed = deadline < tick;
        let gets_coarse = deadline.saturating_sub(advanced) >= FINE_TO;
        let must_be_coarse = deadline >= tick.saturating_add(COARSE_FROM);
        may_have_passed || gets_coarse && !must_be_coarse
    }
}

/// The armed tick: the earliest tick at which the driver will look at the shards again. The driver raises it, and
/// registrations lower it, all without a lock.
///
/// It has cache lines of its own. So a registration that lowers it takes no other data from the caches of other threads.
#[repr(align(128))]
struct Armed(AtomicU64);

/// When the driver of a timer wakes, and the driver itself while nobody takes a turn.
pub(crate) struct Agenda {
    armed: Armed,
    pub(crate) clock: Clock,
    /// The runtime that the driver runs on.
    pub(crate) runtime: runtime::Id,
    /// Wakes the driver's task.
    pub(crate) notify: Notify,
    /// The thread that watches the workers. Not set for a timer without a watch.
    pub(crate) watch: OnceLock<Thread>,
    /// Whether the watch rests.
    rests: AtomicBool,
    /// The number of blocks that have lasted for a period of the watch.
    pub(crate) blocks: AtomicU64,
    /// The length of the longest block, in nanoseconds.
    pub(crate) longest_block: AtomicU64,
    /// `None` before the driver is made, and after it was dropped.
    parked: Mutex<Option<Parked>>,
}

struct Parked {
    alarm: Box<dyn Alarm>,
    /// The waker that the alarm wakes.
    waker: Waker,
    /// `None` while a thread takes a turn.
    driver: Option<Driver>,
}

impl Agenda {
    pub(crate) fn new(runtime: runtime::Id, clock: Clock) -> Self {
        Self {
            // Disarmed, so that the first registration sets the alarm.
            armed: Armed(AtomicU64::new(NEVER)),
            clock,
            runtime,
            notify: Notify::new(),
            watch: OnceLock::new(),
            rests: AtomicBool::new(false),
            blocks: AtomicU64::new(0),
            longest_block: AtomicU64::new(0),
            parked: Mutex::new(None),
        }
    }

    /// Provides the alarm, the waker that it wakes, and the driver.
    pub(crate) fn open(&self, alarm: Box<dyn Alarm>, waker: Waker, driver: Driver) {
        let driver = Some(driver);
        *self.parked.lock() = Some(Parked {
            alarm,
            waker,
            driver,
        });
    }

    /// Returns whether the driver's runtime is the current runtime of the calling thread.
    pub(crate) fn is_here(&self) -> bool {
        runtime::Handle::try_current().is_ok_and(|current| current.id() == self.runtime)
    }

    /// Returns whether the calling thread is a worker of the driver's runtime.
    ///
    /// A worker may run code that has entered another runtime through a handle. The function then treats the
    /// worker as a worker of the other runtime. So a worker that registers in a timer of its own runtime notifies
    /// the driver's task, and a worker that registers in a timer of the other runtime sets the alarm.
    pub(crate) fn is_worker(&self) -> bool {
        worker_index().is_some() && self.is_here()
    }

    /// Returns the armed tick.
    pub(crate) fn armed(&self) -> Tick {
        self.armed.0.load(Ordering::Relaxed)
    }

    /// Returns whether the armed tick is reached, so that the driver must take another turn.
    pub(crate) fn is_due(&self) -> bool {
        self.armed() <= self.clock.now()
    }

    /// Makes the driver wake at the tick that the calling registration has published, unless it wakes earlier.
    ///
    /// A worker of the driver's runtime sets the alarm itself: the driver's task could wait in its queue behind a long task.
    /// Any other thread may have another clock, so it notifies the driver's task. A registration that knows that the driver's
    /// runtime is the current one passes `true`.
    #[cold]
    pub(crate) fn wake_for(&self, next: Tick, is_here: bool) {
        // If several threads lower the armed tick to the same tick, only one of them goes on. Releases the published tick to
        // the turn that disarms next, and acquires from a watch that has begun to rest.
        if self.armed.0.fetch_min(next, Ordering::AcqRel) <= next {
            return;
        }
        self.end_rest();
        let is_worker = worker_index().is_some() && (is_here || self.is_here());
        if !is_worker || !self.set_alarm_early() {
            self.notify.notify_one();
        }
    }

    /// Sets the alarm to an earlier instant, unless a thread takes a turn, and sets it afterwards. Returns `false` if
    /// setting the alarm has panicked, or if a thread holds the lock. It may be the calling thread: see "User code".
    fn set_alarm_early(&self) -> bool {
        match self.parked.try_lock().as_deref_mut() {
            Some(Some(parked)) if parked.driver.is_some() => self.set_alarm(parked),
            parked => parked.is_some(),
        }
    }

    /// Sets the alarm for the armed tick, if the clock can reach that tick.
    fn set_alarm(&self, parked: &mut Parked) -> bool {
        let Some(instant) = self.clock.instant(self.armed()) else {
            return true;
        };
        unwind::contain(|| parked.alarm.set(instant, &parked.waker))
    }

    /// Takes the driver for a turn, or returns `None` if another thread has taken it.
    pub(crate) fn take(&self) -> Option<Driver> {
        self.parked.lock().as_mut()?.driver.take()
    }

    /// Takes the driver without waiting for the lock.
    ///
    /// Returns `None` if another thread has taken it, or if a thread sets the alarm at this moment. It may be the calling
    /// thread, because an alarm may go off while it is set.
    pub(crate) fn try_take(&self) -> Option<Driver> {
        self.parked.try_lock()?.as_mut()?.driver.take()
    }

    /// Disarms, calls `look`, and arms for the tick that `look` returns. Only the thread that takes a turn calls this
    /// function.
    ///
    /// A registration may have armed an earlier tick in the meantime. That tick stays armed.
    pub(crate) fn arm(&self, look: impl FnOnce() -> Tick) {
        // Reads the last tick to which a registration has lowered the armed tick, and so acquires what it has published.
        self.armed.0.swap(NEVER, Ordering::AcqRel);
        // Keeps an earlier tick. Publishes nothing: whoever needs the armed tick reads it under the lock of the alarm.
        self.armed.0.fetch_min(look(), Ordering::Relaxed);
    }

    /// Puts the driver back, and sets the alarm. Drops the driver if the driver's task was dropped in the meantime. Returns
    /// `false` if setting the alarm has panicked.
    pub(crate) fn put_back(&self, driver: Driver) -> bool {
        let mut parked = self.parked.lock();
        let Some(parked) = &mut *parked else {
            // The driver keeps parts of the runtime alive, so it is not dropped under the lock.
            drop(parked);
            drop(driver);
            return true;
        };
        parked.driver = Some(driver);
        self.set_alarm(parked)
    }

    /// Tells the watch that a thread uses the timer.
    #[inline]
    pub(crate) fn timer_is_used(&self) {
        if self.watch_rests() {
            self.end_rest();
        }
    }

    pub(crate) fn watch_rests(&self) -> bool {
        self.rests.load(Ordering::Relaxed)
    }

    #[cold]
    fn end_rest(&self) {
        // Of several threads, one unparks the watch.
        if let (true, Some(watch)) = (self.rests.swap(false, Ordering::AcqRel), self.watch.get()) {
            watch.unpark();
        }
    }

    /// Begins a rest of the watch, which sleeps until the tick that is returned.
    ///
    /// Returns `None` during a turn, which disarms before it arms for a tick. Model: `timer::loom_tests::rest_races_turn`.
    pub(crate) fn begin_rest(&self) -> Option<Tick> {
        let parked = self.parked.lock();
        parked.as_ref()?.driver.as_ref()?;
        self.rests.swap(true, Ordering::AcqRel);
        // Only reads. But a registration that lowers the armed tick afterwards acquires the line above, because this is a
        // read-modify-write.
        Some(self.armed.0.fetch_min(NEVER, Ordering::AcqRel))
    }

    /// Drops the alarm and the driver, because they may keep parts of the runtime alive.
    ///
    /// The driver's task calls this function when it is dropped.
    pub(crate) fn close(&self) {
        let closed = self.parked.lock().take();
        drop(closed);
        self.notify.forget();
    }
}
