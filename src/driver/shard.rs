//! A shard: a wheel of wakers behind a lock. Futures register and deregister entries, and the driver fires them.
//!
//! By default, each worker thread registers in a shard of its own. So threads compete for the lock of a shard only if the
//! driver visits the shard, or if another thread polls or drops a future of the shard.
//!
//! # Rules
//!
//! * No user code runs under the lock. A thread clones a waker before it takes the lock. The thread drops or
//!   wakes a waker after it has released the lock. Under the lock it calls only [`Waker::will_wake`], which
//!   compares two addresses. Test with hostile wakers: `tests/promises/p07_no_user_code_under_a_lock.rs`.
//! * No thread allocates or frees memory under the lock, because allocating and freeing can take long (see
//!   `wheel::nodes`). Test: `timer::tests::a_shard_frees_the_memory_of_a_peak`. Model:
//!   `driver::loom_tests::refill_races_free`.
//! * An entry stays in the wheel until its future, a fire or `close` removes it. A future that is dropped
//!   on its worker may keep its entry as [spare](super::entry). After `visit` or `close`, the future of the entry finds
//!   that the entry's key is absent.
//! * Whenever the lock is free, no entry has a deadline before the [published](Published) tick. So a driver does not need
//!   to visit a wheel before that tick is reached.
//! * A registration or a reset that lowers the published tick also lowers the armed tick ([`agenda`](super::agenda)). Apart
//!   from these, only the thread that takes a turn publishes a tick, and arms for the earliest afterwards. Tests:
//!   `timer::tests::a_turn_before_its_time_arms_for_all_entries`, `the_driver_visits_only_shards_that_have_something_due`.
//!
//! Models: `driver::loom_tests`.

#[cfg(feature = "call-sites")]
use std::panic::Location;
use std::{
    mem,
    ops::ControlFlow,
    sync::Arc,
    task::{Poll, Waker},
};

use bounded_wheel::{Key, NEVER, Order, Refill, Removed, Tick};

use crate::{
    driver::{
        agenda::Published,
        entry::{Entry, Keepers, Owner, Spares},
        lateness::Lateness,
        turn::Turn,
    },
    error::TimerShutdown,
    ground::{
        sync::{Mutex, MutexGuard, Wheel},
        unwind,
    },
};

/// A locked wheel of wakers, on cache lines of its own.
#[repr(align(128))]
pub(crate) struct Shard {
    state: Mutex<State>,
    pub(crate) published: Published,
}

/// The state that the lock protects.
///
/// The fields that every operation uses come first, so that they share a cache line with the lock. The large histogram,
/// which a registration does not touch, comes last.
#[repr(C)]
struct State {
    /// Whether the shard is closed. A closed shard refuses registrations, and stays closed.
    closed: bool,
    /// Whether the last visit was on a paused clock.
    is_paused: bool,
    /// The number of registrations. It never decreases.
    registered: u64,
    keepers: Keepers,
    wheel: Wheel<Entry>,
    /// Counts the entries that have fired.
    lateness: Lateness,
}

/// A greater alignment would put the state into another cache line than the lock.
#[cfg(not(tokio_wheel_loom))]
const _: () = assert!(align_of::<State>() == align_of::<u64>());

/// The counters of shards. An entry that is neither pending nor has fired was canceled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) pending: u64,
    pub(crate) registered: u64,
    pub(crate) lateness: Lateness,
}

/// While coarse slots of a wheel wait for their cascade, one step out of this many steps of a visit belongs to
/// them. Otherwise a storm of late entries could stop the cascades, and with them all entries of these slots.
const BACKLOG_SHARE: usize = 4;

impl State {
    /// Returns whether an entry has fired. Returns an error if the shard is closed and the entry is gone: it has fired, or
    /// the shard removed it when it closed.
    #[inline]
    fn look_up(&self, key: Key) -> Poll<Result<(), TimerShutdown>> {
        match self.wheel.get(key) {
            Some(_) => Poll::Pending,
            None if self.closed => Poll::Ready(Err(TimerShutdown(()))),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Returns the tick at which the wheel next has work. On a paused clock it has none before a deadline.
    fn next_work(&self) -> Option<Tick> {
        match self.is_paused {
            true => self.wheel.next_deadline(),
            false => self.wheel.next_expiration(),
        }
    }
}

impl Shard {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                closed: false,
                is_paused: false,
                registered: 0,
                keepers: Keepers::default(),
                wheel: Wheel::new(0),
                lateness: Lateness::default(),
            }),
            published: Published::new(),
        })
    }

    /// Takes the lock of a wheel that has room for an entry. Returns an error if the shard is closed.
    ///
    /// If the wheel is full, the function releases the lock, allocates memory, and takes the lock again.
    #[inline]
    fn lock_with_room(&self) -> Result<MutexGuard<'_, State>, TimerShutdown> {
        loop {
            let mut state = self.state.lock();
            if state.closed {
                return Err(TimerShutdown(()));
            }
            if state.wheel.has_room() {
                return Ok(state);
            }
            let chunks = state.wheel.chunks_wanted();
            drop(state);
            self.refill(chunks);
        }
    }

    #[cold]
    fn refill(&self, chunks: usize) {
        let refill = Refill::allocate(chunks);
        let replaced = self.state.lock().wheel.refill(refill);
        drop(replaced);
    }

    /// Frees the memory that the wheel does not use.
    #[cold]
    fn free_unused(&self) {
        loop {
            let unused = self.state.lock().wheel.take_unused();
            if unused.is_none() {
                return;
            }
        }
    }

    /// Advances the wheel to `now`, or to its first occupied slot if that slot starts earlier. Does nothing if `now` is
    /// `None`.
    #[inline]
    fn catch_up(&self, state: &mut State, now: Option<Tick>) {
        if let Some(now) = now {
            state.wheel.catch_up(now);
            self.published.set_advanced(state.wheel.now());
        }
    }

    /// Publishes the tick at which the wheel next has work, and returns it.
    fn publish(&self, state: &State) -> Tick {
        let next = state.next_work().unwrap_or(NEVER);
        self.published.set(next, state.wheel.now());
        next
    }

    /// Publishes an earlier tick if `deadline` is before the published tick, and releases the lock. Then calls `wake_for`
    /// with the tick. The caller has registered or reset an entry.
    // Without inlining, a registration takes 15 more instructions.
    #[inline(always)]
    fn publish_earlier(
        &self,
        state: MutexGuard<'_, State>,
        deadline: Tick,
        wake_for: impl FnOnce(Tick),
    ) {
        if deadline < self.published.tick() {
            let next = self.publish(&state);
            drop(state);
            wake_for(next);
        }
    }

    /// Registers an entry, even if `deadline` has expired. Returns an error if the shard is closed.
    ///
    /// If `deadline` has expired, the driver fires the entry when it next visits the shard.
    ///
    /// If `now` is a tick, the function first advances the wheel to `now`. If the shard publishes an earlier tick, the
    /// function then calls `wake_for`, without the lock: see [`Agenda::wake_for`](super::agenda::Agenda::wake_for).
    #[inline]
    pub(crate) fn register(
        &self,
        now: Option<Tick>,
        deadline: Tick,
        entry: Entry,
        wake_for: impl FnOnce(Tick),
    ) -> Result<Key, TimerShutdown> {
        let mut state = self.lock_with_room()?;
        self.catch_up(&mut state, now);
        state.registered += 1;
        let key = state.wheel.insert_in_room(deadline, entry);
        self.publish_earlier(state, deadline, wake_for);
        Ok(key)
    }

    /// Gives a spare entry to a future of the same task.
    ///
    /// If the entry is gone or belongs to another task, returns its waker as an error, which the caller drops. `now`,
    /// `deadline` and `wake_for` have the same meaning as in [`register`](Self::register).
    #[inline]
    pub(crate) fn take_over(
        &self,
        (spares, key): (&Spares, Key),
        now: Option<Tick>,
        deadline: Tick,
        (waker, site): Owner<'_>,
        wake_for: impl FnOnce(Tick),
    ) -> Result<(), Option<Waker>> {
        let mut state = self.state.lock();
        spares.remove(key);
        match state.wheel.get_mut(key) {
            Some(entry) if entry.waker.will_wake(waker) => entry.site = site,
            _ => return Err(self.remove_from(state, key)),
        }
        state.registered += 1;
        self.catch_up(&mut state, now);
        state.wheel.reset(key, deadline);
        self.publish_earlier(state, deadline, wake_for);
        Ok(())
    }

    /// Keeps the entry of a dropped future as spare. Only the worker to which `spares` belongs calls this function.
    ///
    /// If there are too many entries, removes the oldest, and returns its waker, which the caller drops.
    #[inline]
    pub(crate) fn keep(&self, spares: &Spares, key: Key) -> Option<Waker> {
        if spares.add(key) {
            return None;
        }
        let unused = self.give_up(spares);
        spares.add(key);
        unused
    }

    /// Removes the oldest spare entry of a worker. Returns its waker, which the caller drops.
    #[cold]
    fn give_up(&self, spares: &Spares) -> Option<Waker> {
        let state = self.state.lock();
        let oldest = spares.keys().next()?;
        spares.remove(oldest);
        self.remove_from(state, oldest)
    }

    /// Lets a worker keep entries of this shard, unless too many threads do.
    pub(crate) fn admit(&self) -> Option<Arc<Spares>> {
        let spares = Arc::<Spares>::default();
        let has_room = self.state.lock().keepers.add(spares.clone());
        has_room.then_some(spares)
    }

    /// Removes the spare entries of a worker, which keeps no more.
    pub(crate) fn dismiss(&self, spares: &Arc<Spares>) {
        while spares.keys().next().is_some() {
            unwind::discard(self.give_up(spares));
        }
        self.state.lock().keepers.remove(spares);
    }

    /// Removes an entry, if it is still in the wheel. Returns its waker, which the caller drops.
    #[inline]
    pub(crate) fn deregister(&self, key: Key) -> Option<Waker> {
        self.remove_from(self.state.lock(), key)
    }

    #[inline]
    fn remove_from(&self, mut state: MutexGuard<'_, State>, key: Key) -> Option<Waker> {
        let waker = state.wheel.remove(key)?.value.waker;
        let has_unused = state.wheel.has_unused();
        drop(state);
        if has_unused {
            self.free_unused();
        }
        Some(waker)
    }

    /// Gives an entry a later deadline. Returns `None` if the entry is not in the wheel.
    ///
    /// Returns `false` if the new deadline is earlier than the old one, or has expired. Then the caller reads the clock, and
    /// calls [`fire`](Self::fire) or [`reset`](Self::reset).
    #[inline]
    pub(crate) fn postpone(&self, key: Key, deadline: Tick) -> Option<bool> {
        let mut state = self.state.lock();
        if deadline <= state.wheel.now() {
            return state.wheel.deadline(key).map(|_| false);
        }
        state.wheel.postpone(key, deadline)
    }

    /// Gives an entry another deadline, if the entry is still in the wheel.
    ///
    /// `now` and `wake_for` have the same meaning as in [`register`](Self::register).
    pub(crate) fn reset(
        &self,
        now: Option<Tick>,
        key: Key,
        deadline: Tick,
        wake_for: impl FnOnce(Tick),
    ) {
        let mut state = self.state.lock();
        self.catch_up(&mut state, now);
        if state.wheel.reset(key, deadline) {
            self.publish_earlier(state, deadline, wake_for);
        }
    }

    /// Removes an entry whose deadline, which a reset has set, has expired, if the entry is still in the wheel.
    ///
    /// Returns the entry's waker, which the caller wakes.
    pub(crate) fn fire(&self, key: Key, deadline: Tick) -> Option<Waker> {
        let mut state = self.state.lock();
        state.wheel.get(key)?;
        self.published.set_fired(deadline);
        state.lateness.count(0);
        self.remove_from(state, key)
    }

    /// Returns whether an entry has fired, as [`look_up`](Self::look_up) does. If it is pending, the driver will wake
    /// `waker`.
    #[inline]
    pub(crate) fn poll(&self, key: Key, waker: &Waker) -> Poll<Result<(), TimerShutdown>> {
        let state = self.state.lock();
        let entry = state.wheel.get(key);
        if entry.is_none_or(|entry| entry.waker.will_wake(waker)) {
            return state.look_up(key);
        }
        drop(state);
        self.replace_waker(key, waker.clone())
    }

    #[cold]
    fn replace_waker(&self, key: Key, mut waker: Waker) -> Poll<Result<(), TimerShutdown>> {
        let mut state = self.state.lock();
        if let Some(registered) = state.wheel.get_mut(key) {
            mem::swap(&mut registered.waker, &mut waker);
        }
        let polled = state.look_up(key);
        drop(state);
        drop(waker);
        polled
    }

    /// Returns whether an entry has fired. Returns an error if the shard is closed and the entry is gone.
    pub(crate) fn look_up(&self, key: Key) -> Poll<Result<(), TimerShutdown>> {
        self.state.lock().look_up(key)
    }

    /// Fires entries that have expired, and cascades: at most `hold` steps of the turn, each a few memory accesses. Returns
    /// whether the wheel has entries that must cascade.
    ///
    /// If the turn may not wake any more tasks, the visit fires no entry, or only entries that are late.
    pub(crate) fn visit(&self, turn: &mut Turn<'_>, hold: usize) -> bool {
        let given = hold.min(turn.steps);
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.is_paused = turn.order == Order::Strict;
        (state.keepers).remove_spares(&mut state.wheel, &mut turn.driver.unused);
        let share = given / BACKLOG_SHARE;
        let reserved = if state.wheel.has_cascades() { share } else { 0 };
        let mut steps = given - reserved;
        if turn.may_wake(self.published.tick()) {
            let (now, order) = (turn.now, turn.order);
            let fire = |entry: Removed<Entry>| {
                state.lateness.count(now.saturating_sub(entry.deadline));
                turn.collect(entry.deadline, entry.value.waker);
                match turn.may_wake(entry.deadline) {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            };
            // The next visit does what is left.
            let _ = state.wheel.advance(now, order, &mut steps, fire);
        }
        steps += reserved;
        let _ = state.wheel.cascade_backlog(&mut steps);
        turn.steps -= given - steps;
        // A visit that runs out of steps within a slot fires later deadlines than the wheel's `now`.
        self.published.set_fired(turn.now.max(state.wheel.now()));
        self.publish(state);
        let has_cascades = state.wheel.has_cascades();
        let has_unused = state.wheel.has_unused();
        drop(guard);
        if has_unused {
            self.free_unused();
        }
        has_cascades
    }

    /// Publishes a new tick, in case the old one is too early because an entry was canceled.
    pub(crate) fn correct(&self) {
        self.publish(&self.state.lock());
    }

    /// Closes the shard permanently, and returns the wakers of its entries.
    pub(crate) fn close(&self) -> impl Iterator<Item = Waker> + use<> {
        let mut unused = Vec::with_capacity(Keepers::MAX_SPARE);
        let mut guard = self.state.lock();
        let state = &mut *guard;
        (state.keepers).remove_spares(&mut state.wheel, &mut unused);
        state.closed = true;
        self.published.set_fired(NEVER);
        let entries = state.wheel.take();
        drop(guard);
        unused.into_iter().for_each(unwind::discard);
        entries.into_values().map(|entry| entry.waker)
    }

    /// Reads where the pending entries of a chunk of the wheel were made, and their deadlines, into a buffer with room for
    /// [`CHUNK`](bounded_wheel::CHUNK) entries. Returns `false` after the last chunk.
    #[cfg(feature = "call-sites")]
    pub(crate) fn read_chunk(
        &self,
        chunk: usize,
        entries: &mut Vec<(&'static Location<'static>, Tick)>,
    ) -> bool {
        let state = self.state.lock();
        let Some(chunk) = state.wheel.chunk(chunk) else {
            return false;
        };
        let pending = chunk.filter(|(key, ..)| state.keepers.keys().all(|spare| spare != *key));
        entries.extend(pending.map(|(_, deadline, entry)| (entry.site.location, deadline)));
        true
    }

    /// Adds the counters of this shard to `sum`.
    pub(crate) fn add_counts(&self, sum: &mut Counts) {
        let state = self.state.lock();
        let keys = state.keepers.keys();
        let spare = keys.filter(|key| state.wheel.get(*key).is_some()).count();
        sum.pending += (state.wheel.len() - spare) as u64;
        sum.registered += state.registered;
        (sum.lateness).combine(&state.lateness, u64::saturating_add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Shard {
        /// Drops the spare entries, as a visit does.
        #[cfg(tokio_wheel_loom)]
        pub(crate) fn drop_spares(&self) {
            let mut unused = Vec::with_capacity(Keepers::MAX_SPARE);
            let state = &mut *self.state.lock();
            (state.keepers).remove_spares(&mut state.wheel, &mut unused);
        }

        pub(crate) fn counts(&self) -> Counts {
            let mut counts = Counts::default();
            self.add_counts(&mut counts);
            counts
        }

        /// Returns the tick up to which the wheel was advanced.
        #[cfg(not(tokio_wheel_loom))]
        pub(crate) fn advanced_to(&self) -> Tick {
            self.state.lock().wheel.now()
        }

        /// Returns the number of entries for which the wheel has memory.
        pub(crate) fn capacity(&self) -> usize {
            self.state.lock().wheel.capacity()
        }
    }
}
