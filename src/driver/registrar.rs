//! A thread's way into a timer: its shard, and what else a registration needs.
//!
//! Where there are as many shards as workers, each worker thread and the futures that registered
//! there share a registrar of their own: the reference count that a registration touches is, like
//! the shard's lock, on a cache line that no other worker writes to in the common case.

use std::{
    cell::{Cell, RefCell},
    future::Future,
    mem::{self, ManuallyDrop, replace, take},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::{
    runtime::{self, RuntimeFlavor},
    task::coop::unconstrained,
    time::{Instant, Sleep},
};

#[cfg(all(feature = "coarse", target_os = "linux"))]
use crate::driver::clock::Coarse;
use crate::{
    driver::{
        alarm::{Alarm, LEAD},
        arming::Arming,
        clock::Clock,
        parking::Parking,
        shard::{Admission, Postponed, Refused, Shard},
    },
    ground::{
        sync::{AtomicUsize, Mutex, Notify, OnceLock, Ordering, thread_local, worker_index},
        unwind,
    },
    wheel::{COARSE_FROM, Key, Tick},
};

/// How a timer came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It was shut down. Its runtime goes on, as far as that is known.
    Shutdown,
    /// Its driver was dropped with the runtime.
    Runtime,
}

type Acts = Vec<Box<dyn FnOnce()>>;

thread_local! {
    /// The timer that the thread is closing.
    static CLOSING: Cell<*const Link> = const { Cell::new(std::ptr::null()) };

    /// The calls to make once that timer is closed. Empty at other times. Without a destructor, since a
    /// timer may be closed while its thread ends.
    static AFTERWARDS: RefCell<ManuallyDrop<Acts>> =
        const { RefCell::new(ManuallyDrop::new(Acts::new())) };
}

/// For a waker that is woken because a timer [is closing](Link::is_closing): has `act` called when all
/// shards are closed and everybody is woken, as it may wait for one of them.
pub(crate) fn after_closing(act: impl FnOnce() + 'static) {
    AFTERWARDS.with(|acts| acts.borrow_mut().push(Box::new(act)));
}

/// The outcome of a reset.
pub(crate) enum Reset {
    /// It waits for its new deadline.
    Pending,
    /// Its new deadline has been reached: it has fired, and the caller wakes its waker.
    Fired(Waker),
    /// It was not in the wheel any more.
    Absent,
}

/// What registrations and the driver share.
#[repr(align(128))]
pub(crate) struct Link {
    pub(crate) arming: Arming,
    pub(crate) parking: Parking,
    /// Wakes the driver.
    pub(crate) bell: Notify,
    /// Registrars that a handle or a future still holds.
    registrars: AtomicUsize,
    /// Set before the first shard is closed.
    end: OnceLock<End>,
    /// Where the driver runs.
    pub(crate) runtime: runtime::Id,
    /// Sleeps that elapse when tokio's own timer shuts down, which is the last that a runtime does.
    last: Mutex<Vec<Pin<Box<Sleep>>>>,
}

impl Link {
    pub(crate) fn new(runtime: runtime::Id, alarm: Box<dyn Alarm>) -> Self {
        Self {
            arming: Arming::new(),
            parking: Parking::new(alarm),
            bell: Notify::new(),
            registrars: AtomicUsize::new(0),
            end: OnceLock::new(),
            runtime,
            last: Mutex::new(Vec::new()),
        }
    }

    /// Ready when the runtime, which is shutting down and is the current one, has dropped its tasks.
    #[cold]
    pub(crate) fn poll_runtime_end(&self, cx: &mut Context<'_>) -> Poll<()> {
        let ended = {
            let mut last = self.last.lock();
            let has_ended = last.iter().any(|sleep| sleep.is_elapsed());
            has_ended.then(|| mem::take(&mut *last))
        };
        if let Some(sleeps) = ended {
            // They hold what is left of the runtime.
            drop(sleeps);
            return Poll::Ready(());
        }
        let mut sleep = Box::pin(tokio::time::sleep(Duration::MAX));
        let polled = unwind::catch(|| pin!(unconstrained(sleep.as_mut())).poll(cx));
        if !matches!(polled, Ok(Poll::Pending)) {
            return Poll::Ready(());
        }
        self.last.lock().push(sleep);
        Poll::Pending
    }

    /// For the driver: ready when the alarm goes off, which is set for the armed tick.
    pub(crate) fn poll_alarm(&self, clock: &Clock, cx: &mut Context<'_>) -> Poll<()> {
        self.parking.poll(|| clock.instant(self.arming.tick()), cx)
    }

    /// How the timer has ended, if it has.
    pub(crate) fn end(&self) -> Option<End> {
        self.end.get().copied()
    }

    /// Ends the timer, and says whether it had not ended before.
    pub(crate) fn set_end(&self, end: End) -> bool {
        self.end.set(end).is_ok()
    }

    /// Calls `close`, which closes the shards of the timer and wakes who waits there, and then what
    /// these wakers have left [for afterwards](after_closing).
    pub(crate) fn while_closing(&self, close: impl FnOnce()) {
        let outer = CLOSING.with(|closing| closing.replace(self));
        let of_outer = AFTERWARDS.with(|acts| take(&mut **acts.borrow_mut()));
        close();
        CLOSING.with(|closing| closing.set(outer));
        let acts = AFTERWARDS.with(|acts| replace(&mut **acts.borrow_mut(), of_outer));
        acts.into_iter().for_each(|act| act());
    }

    /// For a waker: whether it is woken because the calling thread closes the timer, and not because
    /// it is due.
    pub(crate) fn is_closing(&self) -> bool {
        CLOSING.with(|closing| std::ptr::eq(closing.get(), self))
    }

    /// Whether neither a handle nor a future can reach the timer any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.registrars.load(Ordering::Acquire) == 0
    }
}

/// Registers futures in one shard of one timer. The last one of a timer to be dropped tells the
/// driver, which ends.
#[repr(align(128))]
pub(crate) struct Registrar {
    pub(crate) shard: Arc<Shard>,
    clock: Clock,
    pub(crate) link: Arc<Link>,
    ambient: bool,
}

impl Registrar {
    /// A registrar for futures that belong to the timer (`ambient` is false), or to whatever
    /// runtime polls them at the time of registration.
    pub(crate) fn new(shard: Arc<Shard>, clock: Clock, link: Arc<Link>, ambient: bool) -> Self {
        link.registrars.fetch_add(1, Ordering::Relaxed);
        Self {
            shard,
            clock,
            link,
            ambient,
        }
    }

    /// Whether a future that was registered here looks for its timer anew the next time.
    #[inline]
    pub(crate) fn is_ambient(&self) -> bool {
        self.ambient
    }

    /// The coarse clock, if that is what the timer's deadlines count from.
    #[cfg(all(feature = "coarse", target_os = "linux"))]
    pub(crate) fn coarse(&self) -> Option<Coarse> {
        self.clock.coarse()
    }

    /// Whether a future that was refused here, or whose entry was closed, may look for its timer
    /// anew: if this is an ambient one which is not the latest, or was shut down.
    pub(crate) fn may_be_replaced(&self, latest: bool) -> bool {
        self.ambient && (!latest || self.link.end() == Some(End::Shutdown))
    }

    /// Registers a clone of `waker` to be woken at `deadline`.
    #[inline]
    pub(crate) fn register(&self, deadline: Instant, waker: &Waker) -> Result<Key, Refused> {
        let tick = self.clock.deadline(deadline);
        let armed = self.link.arming.tick();
        // The alarm would have to be set for this one: worth a look at the clock first.
        if tick < armed && self.clock.present() >= deadline {
            return Err(Refused::Due);
        }
        let key = match self.shard.register(tick, far(armed), waker.clone()) {
            Err(Refused::Behind) => self.register_behind(tick, waker)?,
            registered => registered?,
        };
        self.arm_for(tick);
        Ok(key)
    }

    /// Registers with a shard that may be behind the clock.
    #[cold]
    fn register_behind(&self, deadline: Tick, waker: &Waker) -> Result<Key, Refused> {
        if self.is_current() {
            self.shard.catch_up(self.clock.now());
        }
        self.shard.register(deadline, Tick(0), waker.clone())
    }

    /// Registers `waker`, even if `deadline` has been reached by `now`, the present. It is due at once
    /// then: rounding up would postpone it by as much as a tick.
    ///
    /// The caller may hold a lock of its own. If the tick that this returns
    /// [undercuts](Arming::undercut) the armed one, it has to
    /// [bring the driver forward](Self::bring_forward) when it has released that.
    pub(crate) fn register_always(
        &self,
        now: Instant,
        deadline: Instant,
        waker: Waker,
        admission: Admission,
    ) -> Result<(Key, Tick), Refused> {
        let tick = if deadline <= now {
            self.clock.reached(now)
        } else {
            self.clock.deadline(deadline)
        };
        if tick < far(self.link.arming.tick()) && self.is_current() {
            self.shard.catch_up(self.clock.reached(now));
        }
        let key = self.shard.register_always(tick, waker, admission)?;
        Ok((key, tick))
    }

    /// Gives an entry another deadline, if it is still there, and says what became of it. One whose
    /// deadline is reached fires at once.
    #[inline]
    pub(crate) fn reset(&self, key: Key, deadline: Instant) -> Reset {
        let tick = self.clock.deadline(deadline);
        match self.shard.postpone(key, tick) {
            None => Reset::Absent,
            // The driver looks at the entry when its old slot is reached.
            Some(Postponed::Stored) => Reset::Pending,
            Some(Postponed::Not) => self.reset_to_earlier(key, deadline, tick),
        }
    }

    fn reset_to_earlier(&self, key: Key, deadline: Instant, tick: Tick) -> Reset {
        let now = self.clock.present();
        if now >= deadline {
            return match self.shard.fire(key) {
                Some(waker) => Reset::Fired(waker),
                None => Reset::Absent,
            };
        }
        if self.is_current() {
            self.shard.catch_up(self.clock.reached(now));
        }
        self.shard.bring_forward(key, tick);
        self.arm_for(tick);
        Reset::Pending
    }

    /// Whether the calling thread is in the timer's runtime, and so the clock that it reads is the
    /// timer's own: another runtime's may be paused, or may have been moved ahead.
    fn is_current(&self) -> bool {
        runtime::Handle::try_current().is_ok_and(|current| current.id() == self.link.runtime)
    }

    /// Has the alarm set for a deadline that has just been set, if it is earlier than what the
    /// driver is armed for.
    #[inline]
    pub(crate) fn arm_for(&self, deadline: Tick) {
        if self.link.arming.undercut(deadline) {
            self.bring_forward();
        }
    }

    /// Has the alarm set for the armed tick, which a registration of this shard has just lowered.
    #[cold]
    pub(crate) fn bring_forward(&self) {
        let Link {
            arming, parking, ..
        } = &*self.link;
        // The slot of the deadline may start before it. If it was not cascaded then, it would be
        // when that is due, with all that has come into it meanwhile (`timer::tests`,
        // `a_crowd_behind_a_timer_does_not_make_it_late`).
        arming.lower(|| self.shard.next_expiration());
        let armed = || self.clock.instant(arming.tick());
        let Some(runtime) = worker_of(self.link.runtime) else {
            return self.link.bell.notify_one();
        };
        if self.is_all_but_due(armed()) {
            self.link.bell.notify_one();
        } else {
            parking.bring_forward(armed);
        }
        // Then the driver was woken, if not by this bell, then by the alarm; or it is at work.
        if self.is_all_but_due(armed()) {
            offer_next_task(&runtime);
        }
    }

    /// Whether `instant` is reached, or too near for an alarm.
    fn is_all_but_due(&self, instant: Option<Instant>) -> bool {
        instant.is_some_and(|instant| instant <= self.clock.present() + LEAD)
    }
}

/// The tick from where on a deadline is far, whether or not the shard is behind the clock: unless the
/// driver is late, it is behind by no more than up to the armed tick.
#[inline]
fn far(armed: Tick) -> Tick {
    Tick(armed.0.saturating_add(COARSE_FROM))
}

/// That runtime, if the calling thread is one of its workers.
///
/// A worker that has entered another runtime's handle passes for a worker of that one. So a timer
/// of that one has no idle worker woken, and a timer of its own has the driver woken but not moved.
pub(crate) fn worker_of(runtime: runtime::Id) -> Option<runtime::Handle> {
    worker_index()?;
    let current = runtime::Handle::try_current().ok()?;
    (current.id() == runtime).then_some(current)
}

/// The task that a worker woke or spawned last is its next, and no other worker may have it. Puts
/// an empty one in its place, so that an idle worker takes the other.
pub(crate) fn offer_next_task(runtime: &runtime::Handle) {
    if runtime.runtime_flavor() == RuntimeFlavor::MultiThread {
        runtime.spawn(async {});
    }
}

impl Drop for Registrar {
    fn drop(&mut self) {
        if self.link.registrars.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.link.bell.notify_one();
        }
    }
}
