//! The state that handles and reaper share, and the protocol by which a handle wakes the reaper.
//!
//! The reaper waits for the *armed* tick. [`Arming`] decides whether a touch must wake the reaper
//! for an earlier tick. The reaper's waker has its own lock.
//!
//! # Invariants
//!
//! The reaper misses no touch and no rise of the [lead](super::pace):
//!
//! 1. The reaper stores its waker first. Then it arms, and then it reads the armed tick.
//! 2. A touch publishes its deadline first, in its shard or in [`behind`](super::behind). Then it
//!    lowers the armed tick. Then it takes the waker.
//! 3. To raise the lead, a thread stores the new lead first. Then it lowers the armed tick to 0 and
//!    takes the waker, as a touch does. The reaper arms first and reads the lead afterwards, and
//!    sets its alarm by that value.
//!
//! The rules suffice in each case:
//!
//! * If the touch takes the waker after the reaper stored it, the touch wakes the reaper.
//! * If the touch takes the waker before the reaper stores it, the lock orders the lowering before
//!   the reaper's read. The reaper then sees the lower tick.
//! * If the armed tick was 0 already, no thread takes the waker. The reaper has not armed yet, and
//!   reads the lead after it arms.
//!
//! Models in `idle/loom_tests.rs`: `touch_races_wait`, `earlier_touch_races_wait`,
//! `touch_races_a_new_waker`, `pressure_races_wait`.
//!
//! The stream always ends: the last handle sets a flag under the waker's lock. The reaper sees the
//! flag or is woken. Model: `last_handle_races_wait`.
//!
//! No waker is cloned, woken or dropped under the lock (`tests/idle/foreign.rs`,
//! `wakers_may_use_the_set`). If the reaper's waker panics, the touch still succeeds
//! (`a_panicking_waker_harms_no_touch`).

use std::task::{Poll, Waker};

use super::{
    behind::Behind,
    digest::Digest,
    pace::{LEAD_ROSE, Pace},
    shard::{Next, Shard},
    shards::Shards,
};
use crate::{
    driver::{arming::Arming, clock::Clock},
    ground::{sync::Mutex, waker},
    wheel::Tick,
};

pub(super) struct Core<K> {
    pub(super) clock: Clock,
    pub(super) shards: Shards<K>,
    /// The armed tick, in the time of the wheels. A touch reads it only if it may need to wake the
    /// reaper.
    pub(super) arming: Arming,
    pub(super) pace: Pace,
    pub(super) behind: Behind,
    reaper: Mutex<Waiter>,
}

/// The waker by which handles wake the reaper, and the flag that the last handle sets.
///
/// It and its lock have their own cache lines. Every touch reads the fields next to it, so changes
/// here must not slow touches down.
#[repr(align(128))]
struct Waiter {
    /// The waker of the reaper's last poll, unless a thread has taken it.
    waker: Option<Waker>,
    /// Ready after the last handle was dropped.
    abandoned: Poll<()>,
}

/// The tick for which the reaper waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Until {
    /// The tick in the time of the wheels.
    pub(super) wheel: Tick,
    /// The tick of the clock at which the wheels reach `wheel`.
    pub(super) clock: Tick,
}

impl<K> Core<K> {
    /// Creates the state with one shard. There can be up to `most` shards, a power of two.
    pub(super) fn new(clock: Clock, pace: Pace, most: usize) -> Self {
        let now = clock.now();
        Self {
            clock,
            shards: Shards::new(now, most),
            arming: Arming::new(),
            pace,
            behind: Behind::new(),
            reaper: Mutex::new(Waiter {
                waker: None,
                abandoned: Poll::Pending,
            }),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.shards.len()
    }

    /// Returns the earliest tick of all shards and of all entries behind a shed. No key is due
    /// before it.
    pub(super) fn next_expiration(&self) -> Tick {
        let published = self.shards.iter().map(Shard::next_expiration);
        published.fold(self.behind.next(), Tick::min)
    }

    /// Stores the reaper's waker and returns the tick to wait for. No key of the set is due before
    /// it.
    ///
    /// The reaper calls this when no key is due up to the armed tick or up to `now`, a tick of the
    /// clock. A touch wakes the reaper if it sets an earlier deadline. A rise of the lead also
    /// wakes the reaper.
    ///
    /// Returns `None` if the set is empty and its last handle was dropped.
    pub(super) fn wait(&self, waker: &Waker, now: Tick) -> Option<Until> {
        let abandoned = waker::poll_locked(
            &self.reaper,
            waker,
            |reaper| &mut reaper.waker,
            |reaper| reaper.abandoned,
        );
        if abandoned.is_ready() && self.len() == 0 {
            return None;
        }
        if self.arming.tick() <= self.pace.ahead(now) {
            self.arming.arm(|| self.next_expiration());
        }
        let wheel = self.arming.tick();
        // The lead must be read after the armed tick: see rule 3.
        let clock = self.pace.on_the_clock(wheel);
        Some(Until { wheel, clock })
    }

    /// Sets the pressure, and wakes the reaper if the lead rises.
    pub(super) fn set_pressure(&self, pressure: f64) {
        if self.pace.set_pressure(pressure) {
            self.wake_for(LEAD_ROSE);
        }
    }

    /// Wakes the reaper if it must come earlier. A touch calls this after it has released its
    /// shard.
    #[inline]
    pub(super) fn follow_up(&self, digest: Digest, next: Next) {
        match next {
            Next::Nothing => {}
            Next::Wake(tick) => self.wake_for(tick),
            Next::Behind(tick) => self.add_behind(digest, tick),
        }
    }

    #[cold]
    fn add_behind(&self, digest: Digest, tick: Tick) {
        self.behind.add(tick, digest);
        self.wake_for(tick);
    }

    /// Wakes the reaper if it waits for a later tick.
    #[inline]
    fn wake_for(&self, deadline: Tick) {
        if self.arming.lower_to(deadline) {
            self.wake();
        }
    }

    /// Records that no handle is left, and wakes the reaper. The last handle calls this.
    pub(super) fn abandon(&self) {
        self.reaper.lock().abandoned = Poll::Ready(());
        self.wake();
    }

    #[cold]
    fn wake(&self) {
        self.take_waker().into_iter().for_each(waker::wake);
    }

    pub(super) fn take_waker(&self) -> Option<Waker> {
        self.reaper.lock().waker.take()
    }
}
