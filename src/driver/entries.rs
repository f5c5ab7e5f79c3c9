//! The operations of a [shard](super::shard) on its entries. Futures register and deregister entries, and the driver fires
//! them.
//!
//! # Rules
//!
//! * No user code runs under the lock. A thread clones a waker before it takes the lock. The thread drops or
//!   wakes a waker after it has released the lock. Under the lock it calls only [`Waker::will_wake`], which
//!   compares two addresses.
//! * An entry stays in the wheel until `deregister`, `fire`, `visit` or `close` removes it. A future that is dropped
//!   on its worker may [leave](super::left) its entry. After `visit`
//!   or `close`, the future of the entry finds that the entry's key is absent.
//!
//! Models: `loom_tests`. Test with hostile wakers: `tests/promises/p07_no_user_code_under_a_lock.rs`.

use std::{sync::Arc, task::Waker};

use bounded_wheel::{Key, NEVER, Tick};

use crate::{
    driver::{
        arming::Earlier,
        lateness::Lateness,
        left::{Leavers, Left},
        shard::{Held, Shard, State},
    },
    ground::unwind,
};

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

/// The values that a reading of a shard's counters returns. An entry that is neither pending nor has fired was canceled.
pub(crate) struct Counts {
    pub(crate) pending: u64,
    pub(crate) registered: u64,
    pub(crate) lateness: Lateness,
}

impl State {
    /// Returns the state of an entry.
    #[inline]
    fn state_of(&self, key: Key) -> EntryState {
        match self.wheel.get(key) {
            Some(_) => EntryState::Pending,
            None if self.closed => EntryState::Closed,
            None => EntryState::Fired,
        }
    }
}

impl Shard {
    /// Registers `waker`, even if `deadline` has expired.
    ///
    /// If `deadline` has expired, the driver wakes `waker` when it next visits the shard.
    ///
    /// If `now` is a tick, the function first advances the wheel to `now`. The second value of the result is
    /// the tick that the shard [publishes](super::shard::Held::publish_earlier). This value is `None` if the shard
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
        let mut held = self.lock_with_room();
        if held.closed {
            return Err(Refused::Closed);
        }
        held.catch_up(now);
        held.registered += 1;
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
        let mut held = self.lock();
        left.remove(key);
        if !held.wheel.get(key).is_some_and(|it| it.will_wake(waker)) {
            return Err(self.remove_from(held, key));
        }
        held.registered += 1;
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
        let held = self.lock();
        let oldest = left.keys().next()?;
        left.remove(oldest);
        self.remove_from(held, oldest)
    }

    /// Lets a worker leave entries in this shard, unless too many threads do.
    pub(crate) fn admit(&self) -> Option<Arc<Left>> {
        let left = Arc::<Left>::default();
        let has_room = self.lock().leavers.add(left.clone());
        has_room.then_some(left)
    }

    /// Removes the entries that a worker has left. The worker leaves no more entries.
    pub(crate) fn dismiss(&self, left: &Arc<Left>) {
        while left.keys().next().is_some() {
            unwind::discard(self.give_up(left));
        }
        self.lock().leavers.remove(left);
    }

    /// Removes an entry, if it is still in the wheel. Returns its waker, which the caller drops.
    #[inline]
    pub(crate) fn deregister(&self, key: Key) -> Option<Waker> {
        self.remove_from(self.lock(), key)
    }

    /// Gives an entry a later deadline. Returns `None` if the entry is not in the wheel.
    ///
    /// Returns `false` if the new deadline is earlier than the old deadline, or has expired. Then the caller
    /// reads the clock, and calls [`fire`](Self::fire) or [`reset`](Self::reset).
    #[inline]
    pub(crate) fn postpone(&self, key: Key, deadline: Tick) -> Option<bool> {
        let mut held = self.lock();
        if deadline <= held.wheel.now() {
            held.wheel.deadline(key)?;
            return Some(false);
        }
        held.wheel.postpone(key, deadline)
    }

    /// Gives an entry another deadline, if the entry is still in the wheel.
    ///
    /// If `now` is a tick, the function first advances the wheel to `now`. Returns the tick that the shard
    /// [publishes](super::shard::Held::publish_earlier), or `None` if it publishes no new tick.
    #[must_use]
    pub(crate) fn reset(&self, now: Option<Tick>, key: Key, deadline: Tick) -> Option<Earlier> {
        let mut held = self.lock();
        held.catch_up(now);
        let is_there = held.wheel.reset(key, deadline);
        is_there.then(|| held.publish_earlier(deadline))?
    }

    /// Removes an entry whose deadline has expired, if the entry is still in the wheel.
    ///
    /// Returns the entry's waker, which the caller wakes.
    pub(crate) fn fire(&self, key: Key) -> Option<Waker> {
        let mut held = self.lock();
        held.wheel.get(key)?;
        held.lateness.count(0);
        self.remove_from(held, key)
    }

    #[inline]
    fn remove_from(&self, mut held: Held<'_>, key: Key) -> Option<Waker> {
        let waker = held.wheel.remove(key)?.value;
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
            let held = self.lock();
            if held.wheel.get(key).is_none_or(|it| it.will_wake(waker)) {
                return held.state_of(key);
            }
        }
        self.replace_waker(key, waker.clone())
    }

    #[cold]
    fn replace_waker(&self, key: Key, mut waker: Waker) -> EntryState {
        let mut held = self.lock();
        // Rust drops arguments after local variables. So the replaced waker is dropped after the lock is
        // released.
        if let Some(registered) = held.wheel.get_mut(key) {
            std::mem::swap(registered, &mut waker);
        }
        held.state_of(key)
    }

    /// Returns the state of an entry.
    pub(crate) fn look_up(&self, key: Key) -> EntryState {
        self.lock().state_of(key)
    }

    /// Closes the shard permanently, and returns the wakers of its entries.
    pub(crate) fn close(&self) -> impl Iterator<Item = Waker> + use<> {
        let mut unused = Vec::with_capacity(Leavers::MAX_LEFT);
        let entries = {
            let mut held = self.lock();
            held.drop_left(NEVER, &mut unused);
            held.closed = true;
            held.wheel.take()
        };
        unused.into_iter().for_each(unwind::discard);
        entries.into_values()
    }

    /// Reads the counters, and the number of entries in the wheel.
    pub(crate) fn counts(&self) -> Counts {
        let held = self.lock();
        let keys = held.leavers.keys();
        let left = keys.filter(|key| held.wheel.get(*key).is_some()).count();
        Counts {
            pending: (held.wheel.len() - left) as u64,
            registered: held.registered,
            lateness: held.lateness.clone(),
        }
    }
}
