//! The state that the handles and the reaper share. This file also defines how a handle wakes the
//! reaper.
//!
//! # The shards
//!
//! The number of shards is fixed. Some bits of a key's [digest](super::digest) select the shard. A shard exists
//! from the insertion of its first key, so that a small set takes little memory.
//!
//! | State of a slot | Meaning                       | Events that end the state                     |
//! |-----------------|-------------------------------|-----------------------------------------------|
//! | empty           | The shard has never had a key | An insertion allocates the shard, or a close  |
//! | shard           | The shard has its lock        | None. A close only closes the shard           |
//! | `None`          | The set is closed             | None                                          |
//!
//! A slot is a [`OnceLock`], so only one thread sets it. If an insertion and a close race, one of
//! them finds the value of the other. So no shard of a closed set is open, and no key stays in a
//! closed set. Models: `touch_races_touch`, `touch_races_close`.
//!
//! # The locks
//!
//! Each shard has a lock, the [overtaken](super::overtaken) entries have one, and the reaper's waker
//! has one. A thread holds at most one of these locks at a time.
//!
//! # How a handle wakes the reaper
//!
//! The reaper waits for the *armed* tick. It keeps this tick and its waker behind one lock. The reaper misses no touch
//! and no rise of the [lead](super::pressure):
//!
//! 1. The reaper *disarms*: it sets the armed tick to [`NEVER`]. Then it reads the published ticks of all shards and of
//!    [`overtaken`](super::overtaken). Then, under one hold of the lock, it lowers the armed tick to the earliest of them,
//!    and stores its waker.
//! 2. A touch publishes its deadline first, in its shard or in `overtaken`. Then, under one hold of the lock, it lowers
//!    the armed tick and takes the waker. It does so only if it has published an earlier tick than before.
//! 3. A thread that raises the lead stores the new lead first. Then it lowers the armed tick to 0, as a touch does. The
//!    reaper reads the lead after it has armed. Then it sets its alarm by the lead that it has read.
//!
//! The rules suffice in each case:
//!
//! * If the touch takes the lock before the reaper disarms, the reaper reads the tick that the touch has published.
//! * If it takes the lock later, but before the reaper stores its waker, the reaper finds the lower armed tick.
//! * If it takes the lock after that, it finds the waker, and wakes the reaper.
//! * If the armed tick is 0 already, a thread that raises the lead does not take the waker. In this
//!   case the reaper has not armed yet. It reads the lead after it arms, so it sees the new lead.
//!
//! Models in `idle/loom_tests.rs`: `touch_races_wait`, `pressure_races_wait`,
//! `insertion_behind_a_shed_races_wait`.
//!
//! The stream always ends. The last handle sets a flag and takes the waker under one hold of the lock. So the reaper
//! sees the flag, or the last handle wakes the reaper. Model: `last_handle_races_wait`.
//!
//! While a thread holds the waker's lock, it does not clone, wake or drop a waker
//! (`tests/idle/user_code.rs`, `wakers_may_use_the_set`). If the reaper's waker panics, the touch
//! still succeeds (`a_panicking_waker_harms_no_touch`).

use std::{iter, mem, task::Waker};

use bounded_wheel::{NEVER, Tick};

use super::{
    digest::Digest,
    keys::{Early, LockedShard},
    overtaken::Overtaken,
    pressure::Pressure,
    shard::{Closed, Shard},
    touched::Touched,
};
use crate::ground::{
    clock::Clock,
    sync::{Mutex, MutexGuard, OnceLock, lock},
    unwind, waker,
};

/// The number of shards whose published ticks the reaper can read in the time of one step.
const LOOKS: usize = 64;

/// A place for a shard. It contains `None` if the set was closed before the shard had a key.
type Slot<K> = OnceLock<Option<Box<Shard<K>>>>;

pub(super) struct Shards<K> {
    pub(super) clock: Clock,
    slots: Box<[Slot<K>]>,
    pub(super) pressure: Pressure,
    pub(super) overtaken: Overtaken,
    waiter: Mutex<Waiter>,
}

/// How handles wake the reaper. A touch takes its lock only if the touch may have to wake the reaper.
///
/// The `Waiter` and its lock have their own cache lines. Every touch reads other fields of
/// [`Shards`]. So a change of the `Waiter` does not slow touches down.
#[repr(align(128))]
struct Waiter {
    /// The armed tick, as a tick of the wheels. The reaper raises it, and other threads lower it.
    armed: Tick,
    /// The waker of the reaper's last poll, unless a thread has taken it.
    waker: Option<Waker>,
    /// Whether the last handle was dropped.
    is_abandoned: bool,
    /// Whether the reaper was dropped and all shards are closed.
    is_closed: bool,
}

impl<K> Shards<K> {
    /// Creates the state of a set. The number of shards must be a power of two.
    pub(super) fn new(clock: Clock, pressure: Pressure, shards: usize) -> Self {
        Self {
            clock,
            slots: iter::repeat_with(OnceLock::new).take(shards).collect(),
            pressure,
            overtaken: Overtaken::new(),
            waiter: Mutex::new(Waiter {
                armed: NEVER,
                waker: None,
                is_abandoned: false,
                is_closed: false,
            }),
        }
    }

    /// Returns the number of the shard of a key.
    #[inline]
    pub(super) fn number(&self, digest: Digest) -> usize {
        digest.shard(self.slots.len())
    }

    /// Locks the shard of a key. Returns an error if the shard has no keys: [`Touched::Absent`], or
    /// [`Touched::Closed`] if the set is closed.
    // Without this attribute, the guard passes through memory, and a touch takes 334 instructions
    // instead of 307.
    #[inline(always)]
    pub(super) fn lock(&self, digest: Digest) -> Result<LockedShard<'_, K>, Touched> {
        match self.slots[self.number(digest)].get() {
            Some(Some(shard)) => LockedShard::of(shard, &self.pressure).ok_or(Touched::Closed),
            Some(None) => Err(Touched::Closed),
            None => Err(Touched::Absent),
        }
    }

    /// Locks the shard of a key, which then has memory for one more key. Returns `None` if the set
    /// is closed.
    pub(super) fn lock_with_room(&self, digest: Digest) -> Option<LockedShard<'_, K>> {
        let slot = &self.slots[self.number(digest)];
        if slot.get().is_none() {
            let shard = Shard::new(self.pressure.ahead(self.clock.now()));
            // `set` fails if another thread has set the slot in the meantime.
            let _ = slot.set(Some(shard));
        }
        LockedShard::with_room(slot.get()?.as_ref()?, &self.pressure)
    }

    /// Returns a shard, if it exists.
    pub(super) fn shard(&self, number: usize) -> Option<&Shard<K>> {
        self.slots[number].get()?.as_deref()
    }

    fn shards(&self) -> impl Iterator<Item = &Shard<K>> {
        (0..self.slots.len()).filter_map(|number| self.shard(number))
    }

    /// Returns the first number from `from` whose shard publishes `until` or an earlier tick.
    pub(super) fn next_shard(&self, from: usize, until: Tick) -> Option<usize> {
        let is_reached = |shard: &Shard<K>| shard.published() <= until;
        (from..self.slots.len()).find(|number| self.shard(*number).is_some_and(is_reached))
    }

    /// Returns the number of keys. Locks each shard in turn.
    pub(super) fn len(&self) -> usize {
        let open = (self.shards()).filter_map(|shard| LockedShard::of(shard, &self.pressure));
        open.map(|keys| keys.len()).sum()
    }

    pub(super) fn is_closed(&self) -> bool {
        lock(&self.waiter).is_closed
    }

    /// Closes all shards. Returns their content and the reaper's waker.
    pub(super) fn close(&self) -> (Vec<Closed<K>>, Option<Waker>) {
        for slot in &self.slots {
            // `set` fails if the shard exists.
            let _ = slot.set(None);
        }
        let closed = self.shards().map(Shard::close).collect();
        let mut waiter = lock(&self.waiter);
        waiter.is_closed = true;
        (closed, waiter.waker.take())
    }

    /// Returns the earliest tick of all shards and of all overtaken entries. No key is due before
    /// this tick.
    pub(super) fn published(&self) -> Tick {
        let published = self.shards().map(Shard::published);
        published.fold(self.overtaken.next(), Tick::min)
    }

    /// Returns the cost of [`published`](Self::published), in steps.
    pub(super) fn steps_of_a_look(&self) -> usize {
        1 + self.slots.len() / LOOKS
    }

    /// Stores the reaper's waker. Returns the tick for which the reaper must wait, as a tick of the
    /// wheels, and the tick of the clock at which the wheels reach it. No key of the set is due
    /// before this tick.
    ///
    /// The reaper calls this method after a sweep has ended. `now` is a tick of the clock. A touch
    /// wakes the reaper if the touch sets a deadline before the returned tick. A thread that raises
    /// the lead also wakes the reaper.
    ///
    /// Returns `None` if the set is empty and its last handle was dropped.
    pub(super) fn wait(&self, waker: &Waker, now: Tick) -> Option<(Tick, Tick)> {
        let mut unused = Some(waker.clone());
        let mut waiter = lock(&self.waiter);
        if waiter.armed <= self.pressure.ahead(now) {
            waiter.armed = NEVER;
            drop(waiter);
            let next = self.published();
            waiter = lock(&self.waiter);
            waiter.armed = waiter.armed.min(next);
        }
        let (until, is_abandoned) = (waiter.armed, waiter.is_abandoned);
        if !is_abandoned {
            mem::swap(&mut waiter.waker, &mut unused);
        }
        drop(waiter);
        unwind::contain(|| drop(unused));
        if is_abandoned && self.len() == 0 {
            return None;
        }
        // The reaper must read the lead after it has read the armed tick: see rule 3.
        Some((until, self.pressure.on_the_clock(until)))
    }

    /// Sets the pressure, and wakes the reaper if the lead rises.
    pub(super) fn set_pressure(&self, pressure: f64) {
        if self.pressure.set(pressure) {
            self.wake_for(0);
        }
    }

    /// Wakes the reaper for an early entry of a shard, if the reaper waits for a later tick. The
    /// caller has released the lock of the shard.
    #[inline]
    pub(super) fn follow_up(&self, shard: usize, early: Option<Early>) {
        let Some(Early { tick, overtaken }) = early else {
            return;
        };
        if let Some(entry) = overtaken {
            self.overtaken.add(tick, shard, entry);
        }
        self.wake_for(tick);
    }

    /// Lowers the armed tick to `tick`. If it was later, wakes the reaper.
    #[cold]
    fn wake_for(&self, tick: Tick) {
        let mut waiter = lock(&self.waiter);
        if tick < waiter.armed {
            waiter.armed = tick;
            wake(waiter);
        }
    }

    /// Records that no handle is left, and wakes the reaper. The last handle calls this.
    pub(super) fn abandon(&self) {
        let mut waiter = lock(&self.waiter);
        waiter.is_abandoned = true;
        wake(waiter);
    }
}

/// Takes the reaper's waker, releases the lock, and wakes the reaper.
fn wake(mut waiter: MutexGuard<'_, Waiter>) {
    let waker = waiter.waker.take();
    drop(waiter);
    waker.into_iter().for_each(waker::wake);
}

#[cfg(all(test, tokio_wheel_util_loom))]
impl<K> Shards<K> {
    pub(super) fn arm(&self, tick: Tick) {
        lock(&self.waiter).armed = tick;
    }
}
