//! A thread's way into a timer: its shard, and what else a registration needs.
//!
//! Where there are as many shards as workers, each worker thread and the futures that registered
//! there share a registrar of their own: the reference count that a registration touches is, like
//! the shard's lock, on a cache line that no other worker writes to in the common case.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use tokio::{
    runtime::{self, RuntimeFlavor},
    time::Instant,
};

#[cfg(all(feature = "coarse", target_os = "linux"))]
use crate::clock::Coarse;
use crate::{
    alarm::{Alarm, LEAD},
    arming::Arming,
    clock::Clock,
    parking::Parking,
    schedule::Leftovers,
    shard::{Admission, Refused, Rejected, Shard},
    sync::{AtomicUsize, Notify, OnceLock, Ordering, worker_index},
    wheel::{Key, Tick},
};

/// How a timer came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It was shut down. Its runtime goes on, as far as that is known.
    Shutdown,
    /// Its driver was dropped with the runtime.
    Runtime,
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
    /// Scheduled tasks that the timer's end finds waiting.
    pub(crate) leftovers: Leftovers,
    /// Set before the first shard is closed.
    end: OnceLock<End>,
    /// Where the driver runs.
    pub(crate) runtime: runtime::Id,
}

impl Link {
    pub(crate) fn new(runtime: runtime::Id, alarm: Box<dyn Alarm>) -> Self {
        Self {
            arming: Arming::new(),
            parking: Parking::new(alarm),
            bell: Notify::new(),
            registrars: AtomicUsize::new(0),
            leftovers: Leftovers::new(),
            end: OnceLock::new(),
            runtime,
        }
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
        // The alarm would have to be set for this one: worth a look at the clock first.
        if tick < self.link.arming.tick() && self.clock.present() >= deadline {
            return Err(Refused::Due);
        }
        let key = self.shard.register(tick, waker.clone())?;
        self.arm_for(tick);
        Ok(key)
    }

    /// Registers the waker of a scheduled task. One whose deadline has been reached by `now`, the
    /// present, is due at once: rounding up would put it off by as much as a tick.
    ///
    /// The caller holds the task's lock. If the tick that this returns
    /// [undercuts](Arming::undercut) the armed one, it has to
    /// [bring the driver forward](Self::bring_forward) when it has released that.
    pub(crate) fn register_task(
        &self,
        now: Instant,
        deadline: Instant,
        waker: Waker,
        admission: Admission,
    ) -> Result<(Key, Tick), Rejected> {
        let tick = if deadline <= now {
            self.clock.reached(now)
        } else {
            self.clock.deadline(deadline)
        };
        let key = self.shard.register_task(tick, waker, admission)?;
        Ok((key, tick))
    }

    /// Gives an entry another deadline, if it is still there, and says whether it is.
    #[inline]
    pub(crate) fn reset(&self, key: Key, deadline: Instant) -> bool {
        let mut tick = self.clock.deadline(deadline);
        // The alarm has to be set for this one: worth a look at the clock. A deadline that was
        // in the past when it was set is late from then on.
        if tick < self.link.arming.tick() {
            tick = tick.max(self.clock.now());
        }
        let pending = self.shard.reset(key, tick);
        if pending {
            self.arm_for(tick);
        }
        pending
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
