//! A shard: a locked wheel of wakers.
//!
//! Futures register and deregister entries in a shard, and the driver fires the entries. By default, each
//! worker thread registers in a shard of its own. So threads compete for the lock of a shard only if the driver
//! visits the shard, or if another thread polls or drops a future of the shard.
//!
//! # Rules
//!
//! * No user code runs under the lock. A thread clones a waker before it takes the lock. The thread drops or
//!   wakes a waker after it has released the lock. Under the lock it calls only [`Waker::will_wake`], which
//!   compares two addresses.
//! * An entry stays in the wheel until `deregister`, `fire`, `visit` or `close` removes it. A future that is dropped
//!   on its worker may [leave](super::left) its entry. After `visit`
//!   or `close`, the future of the entry finds that the entry's key is absent.
//! * The counters are plain integers, and the lock protects them too.
//! * No thread allocates or frees memory under the lock: see [`locked`](super::locked).
//!
//! Models: `loom_tests`. Test with hostile wakers: `tests/promises/p07_no_user_code_under_a_lock.rs`.

use std::{sync::Arc, task::Waker};

use bounded_wheel::{Key, NEVER, Tick};

use crate::{
    driver::{
        arming::Earlier,
        lateness::Lateness,
        left::{Leavers, Left},
        locked::{self, Held, LockedWheel},
    },
    ground::{
        sync::{const_fn, constant},
        unwind,
    },
};

/// A locked wheel of wakers, on cache lines of its own.
#[repr(align(128))]
pub(crate) struct Shard {
    pub(super) wheel: LockedWheel<Waker, Attached>,
}

/// The reason why a shard refused a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The deadline has expired.
    Due,
    /// The shard is closed, because its timer has shut down.
    Closed,
}

/// The state of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryState {
    /// The entry is in the wheel.
    Pending,
    /// The driver has fired the entry.
    Fired,
    /// The entry is not in the wheel, and the shard is closed. Either the entry has fired, or the shard
    /// removed it when the shard closed.
    Closed,
}

pub(super) type State = locked::State<Waker, Attached>;

impl State {
    /// Removes the entries with a deadline up to `until` that dropped futures have left. Takes their wakers.
    pub(super) fn drop_left(&mut self, until: Tick, unused: &mut Vec<Waker>) {
        let Attached {
            leavers, cancelled, ..
        } = &mut self.attached;
        *cancelled += leavers.expire(&mut self.wheel, until, unused);
    }

    /// Returns the state of an entry that is not in the wheel.
    fn without_entry(&self) -> EntryState {
        if self.closed {
            EntryState::Closed
        } else {
            EntryState::Fired
        }
    }
}

/// The state that the lock of a shard protects beside the wheel. The counters never decrease.
pub(super) struct Attached {
    cancelled: u64,
    /// Counts the entries that fired. The box keeps this large histogram out of the memory between the lock
    /// and the wheel. It is `None` only in [`Shard::new`], because a constant has no box.
    lateness: Option<Box<Lateness>>,
    leavers: Leavers,
}

impl Attached {
    #[inline]
    pub(super) fn lateness(&mut self) -> &mut Lateness {
        self.lateness.as_mut().expect("`Shard::new` allocates it")
    }

    fn cancel(&mut self) {
        self.cancelled += 1;
    }
}

/// The values that a reading of a shard's counters returns.
pub(crate) struct Counts {
    pub(crate) pending: u64,
    pub(crate) cancelled: u64,
    pub(crate) lateness: Lateness,
}

impl Shard {
    // The `Arc` is made from a box, because `Arc::new` would have the shard on its stack.
    pub(crate) fn new() -> Arc<Self> {
        let shard = Box::new(constant!(Self::empty()));
        {
            let attached = &mut shard.wheel.lock().attached;
            attached.lateness = Some(Box::new(Lateness::new()));
            attached.leavers.allocate();
        }
        Arc::from(shard)
    }

    const_fn! {
        fn empty() -> Self {
            let attached = Attached {
                cancelled: 0,
                lateness: None,
                leavers: Leavers::new(),
            };
            Self {
                wheel: LockedWheel::new(attached),
            }
        }
    }

    /// Registers `waker`, even if `deadline` has expired.
    ///
    /// If `deadline` has expired, the driver wakes `waker` when it next visits the shard.
    ///
    /// If `now` is a tick, the function first advances the wheel to `now`. The second value of the result is
    /// the tick that the shard [publishes](LockedWheel::publish_earlier). This value is `None` if the shard
    /// publishes no new tick.
    #[inline]
    pub(crate) fn register(
        &self,
        now: Option<Tick>,
        deadline: Tick,
        waker: Waker,
    ) -> Result<(Key, Option<Earlier>), Refused> {
        // Rust drops arguments after local variables. So a refused `waker` is dropped after the lock is
        // released.
        let mut held = self.wheel.lock_with_room();
        if held.closed {
            return Err(Refused::Closed);
        }
        held.catch_up(now);
        let key = held.wheel.insert_in_room(deadline, waker);
        Ok((key, held.publish_earlier(deadline)))
    }

    /// Gives an entry that a dropped future has `left` to a future of the same task.
    ///
    /// If the entry is gone or belongs to another task, returns its waker as an error, which the caller drops. The
    /// arguments `now` and `deadline`, and the tick in the result, have the same meaning as in
    /// [`register`](Self::register).
    #[inline]
    pub(crate) fn take_over(
        &self,
        (left, key): (&Left, Key),
        now: Option<Tick>,
        deadline: Tick,
        waker: &Waker,
    ) -> Result<Option<Earlier>, Option<Waker>> {
        let mut held = self.wheel.lock();
        left.remove(key);
        if !held.wheel.get(key).is_some_and(|it| it.will_wake(waker)) {
            return Err(self.remove_from(held, key, Attached::cancel));
        }
        held.attached.cancelled += 1;
        held.catch_up(now);
        held.wheel.reset(key, deadline);
        Ok(held.publish_earlier(deadline))
    }

    /// Leaves the entry of a dropped future. Only the worker to which `left` belongs calls this function.
    ///
    /// If there are too many entries, removes the oldest, and returns its waker, which the caller drops.
    #[inline]
    pub(crate) fn leave(&self, left: &Left, key: Key) -> Option<Waker> {
        if left.add(key) {
            return None;
        }
        let unused = self.give_up(left);
        left.add(key);
        unused
    }

    /// Removes the oldest entry that a worker has `left`. Returns its waker, which the caller drops.
    #[cold]
    fn give_up(&self, left: &Left) -> Option<Waker> {
        let held = self.wheel.lock();
        let oldest = left.keys().next()?;
        left.remove(oldest);
        self.remove_from(held, oldest, Attached::cancel)
    }

    /// Lets a worker leave entries in this shard, unless too many threads do.
    pub(crate) fn admit(&self) -> Option<Arc<Left>> {
        let left = Arc::<Left>::default();
        let has_room = self.wheel.lock().attached.leavers.add(left.clone());
        has_room.then_some(left)
    }

    /// Removes the entries that a worker has left. The worker leaves no more entries.
    pub(crate) fn dismiss(&self, left: &Arc<Left>) {
        while left.keys().next().is_some() {
            unwind::discard(self.give_up(left));
        }
        self.wheel.lock().attached.leavers.remove(left);
    }

    /// Returns whether a registration should read the time: see [`LockedWheel::needs_the_time`].
    #[inline]
    pub(crate) fn needs_the_time(&self, deadline: Tick) -> bool {
        self.wheel.needs_the_time(deadline)
    }

    /// Removes an entry, if it is still in the wheel. Returns its waker, which the caller drops.
    #[inline]
    pub(crate) fn deregister(&self, key: Key) -> Option<Waker> {
        self.remove(key, Attached::cancel)
    }

    /// Gives an entry a later deadline. Returns `None` if the entry is not in the wheel.
    ///
    /// Returns `false` if the new deadline is earlier than the old deadline, or has expired. Then the caller
    /// reads the clock, and calls [`fire`](Self::fire) or [`reset`](Self::reset).
    #[inline]
    pub(crate) fn postpone(&self, key: Key, deadline: Tick) -> Option<bool> {
        let mut state = self.wheel.lock();
        if deadline <= state.wheel.now() {
            state.wheel.deadline(key)?;
            return Some(false);
        }
        state.wheel.postpone(key, deadline)
    }

    /// Gives an entry another deadline, if the entry is still in the wheel.
    ///
    /// If `now` is a tick, the function first advances the wheel to `now`. Returns the tick that the shard
    /// [publishes](LockedWheel::publish_earlier), or `None` if it publishes no new tick.
    #[must_use]
    pub(crate) fn reset(&self, now: Option<Tick>, key: Key, deadline: Tick) -> Option<Earlier> {
        let mut held = self.wheel.lock();
        held.catch_up(now);
        let is_there = held.wheel.reset(key, deadline);
        is_there.then(|| held.publish_earlier(deadline))?
    }

    /// Removes an entry whose deadline has expired, if the entry is still in the wheel.
    ///
    /// Returns the entry's waker, which the caller wakes.
    pub(crate) fn fire(&self, key: Key) -> Option<Waker> {
        self.remove(key, |attached| attached.lateness().count(0))
    }

    /// Removes an entry, if it is still in the wheel, and counts it with `count`.
    #[inline]
    fn remove(&self, key: Key, count: impl FnOnce(&mut Attached)) -> Option<Waker> {
        self.remove_from(self.wheel.lock(), key, count)
    }

    #[inline]
    fn remove_from(
        &self,
        mut held: Held<'_, Waker, Attached>,
        key: Key,
        count: impl FnOnce(&mut Attached),
    ) -> Option<Waker> {
        let waker = held.wheel.remove(key)?.value;
        count(&mut held.attached);
        let has_unused = held.wheel.has_unused();
        drop(held);
        if has_unused {
            self.free_unused();
        }
        Some(waker)
    }

    /// Returns the state of an entry. If the entry is pending, the driver will wake `waker`.
    #[inline]
    pub(crate) fn poll(&self, key: Key, waker: &Waker) -> EntryState {
        {
            let state = self.wheel.lock();
            match state.wheel.get(key) {
                Some(registered) if registered.will_wake(waker) => return EntryState::Pending,
                Some(_) => {}
                None => return state.without_entry(),
            }
        }
        self.replace_waker(key, waker.clone())
    }

    #[cold]
    fn replace_waker(&self, key: Key, mut waker: Waker) -> EntryState {
        let mut state = self.wheel.lock();
        let Some(registered) = state.wheel.get_mut(key) else {
            return state.without_entry();
        };
        // Rust drops arguments after local variables. So the replaced waker is dropped after the lock is
        // released.
        std::mem::swap(registered, &mut waker);
        EntryState::Pending
    }

    /// Returns the state of an entry.
    pub(crate) fn look_up(&self, key: Key) -> EntryState {
        let state = self.wheel.lock();
        match state.wheel.get(key) {
            Some(_) => EntryState::Pending,
            None => state.without_entry(),
        }
    }

    /// Returns the published tick. No entry of the shard has an earlier deadline.
    #[inline]
    pub(crate) fn published(&self) -> Tick {
        self.wheel.published()
    }

    /// Raises the published tick if it is too early. A cancellation can leave the tick too early.
    ///
    /// Only the driver calls this function.
    pub(crate) fn correct(&self) {
        self.wheel.lock().raise();
    }

    /// Frees the memory that the wheel does not use.
    #[cold]
    pub(crate) fn free_unused(&self) {
        self.wheel.free_unused();
    }

    /// Closes the shard permanently, and returns the wakers of its entries.
    pub(crate) fn close(&self) -> impl Iterator<Item = Waker> + use<> {
        let mut unused = Vec::with_capacity(Leavers::MAX_LEFT);
        let entries = {
            let mut held = self.wheel.lock();
            held.drop_left(NEVER, &mut unused);
            held.attached.cancelled += held.wheel.len() as u64;
            held.closed = true;
            held.wheel.take()
        };
        unused.into_iter().for_each(unwind::discard);
        entries.into_values()
    }

    /// Reads the counters, and the number of entries in the wheel.
    pub(crate) fn counts(&self) -> Counts {
        let mut state = self.wheel.lock();
        let keys = state.attached.leavers.keys();
        let left = keys.filter(|key| state.wheel.get(*key).is_some()).count() as u64;
        Counts {
            pending: state.wheel.len() as u64 - left,
            cancelled: state.attached.cancelled + left,
            lateness: state.attached.lateness().clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Shard {
        /// Returns the tick up to which the wheel was advanced.
        #[cfg(not(tokio_wheel_loom))]
        pub(crate) fn advanced_to(&self) -> Tick {
            self.wheel.lock().wheel.now()
        }

        /// Returns the number of entries for which the wheel has memory.
        pub(crate) fn capacity(&self) -> usize {
            self.wheel.lock().wheel.capacity()
        }
    }
}
