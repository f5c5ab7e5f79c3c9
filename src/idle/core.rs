//! The state that the handles and the reaper share. This file also
//! defines how a handle wakes the reaper.
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
//! 3. A thread that raises the lead stores the new lead first. Then it lowers the armed tick to 0.
//!    Then it takes the waker, as a touch does. The reaper arms first, and reads the lead
//!    afterwards. Then it sets its alarm by the lead that it has read.
//!
//! The rules suffice in each case:
//!
//! * If the reaper stores its waker first, the touch finds the waker and wakes the reaper.
//! * If the touching thread takes the waker's lock first, it has lowered the armed tick already.
//!   The lock orders the two threads. The reaper reads the armed tick later, so it sees the lower
//!   tick.
//! * If the armed tick is 0 already, a thread that raises the lead does not take the waker. In this
//!   case the reaper has not armed yet. It reads the lead after it arms, so it sees the new lead.
//!
//! Models in `idle/loom_tests.rs`: `touch_races_wait`, `earlier_touch_races_wait`,
//! `touch_races_a_new_waker`, `pressure_races_wait`.
//!
//! The stream always ends. The last handle sets a flag under the waker's lock, and then takes the
//! waker. So the reaper sees the flag, or the last handle wakes the reaper. Model:
//! `last_handle_races_wait`.
//!
//! While a thread holds the waker's lock, it does not clone, wake or drop a waker
//! (`tests/idle/foreign.rs`, `wakers_may_use_the_set`). If the reaper's waker panics, the touch
//! still succeeds (`a_panicking_waker_harms_no_touch`).

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
    /// The armed tick, as a tick of the wheels. A touch reads the armed tick only if the touch may
    /// have to wake the reaper.
    pub(super) arming: Arming,
    pub(super) pace: Pace,
    pub(super) behind: Behind,
    reaper: Mutex<Waiter>,
}

/// The waker by which handles wake the reaper, and the flag that the last handle sets.
///
/// The `Waiter` and its lock have their own cache lines. Every touch reads other fields of
/// [`Core`]. So a change of the `Waiter` does not slow touches down.
#[repr(align(128))]
struct Waiter {
    /// The waker of the reaper's last poll, unless a thread has taken it.
    waker: Option<Waker>,
    /// `Ready` after the last handle was dropped.
    abandoned: Poll<()>,
}

/// The tick for which the reaper waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Until {
    /// The armed tick, as a tick of the wheels.
    pub(super) wheel: Tick,
    /// The tick of the clock at which the wheels reach `wheel`.
    pub(super) clock: Tick,
}

impl<K> Core<K> {
    /// Creates the state of a set with one shard. The set can have up to `most` shards. `most` must
    /// be a power of two.
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
    /// before this tick.
    pub(super) fn next_expiration(&self) -> Tick {
        let published = self.shards.iter().map(Shard::next_expiration);
        published.fold(self.behind.next(), Tick::min)
    }

    /// Stores the reaper's waker and returns the tick for which the reaper must wait. No key of the
    /// set is due before this tick.
    ///
    /// The reaper calls this method after a round has ended. `now` is a tick of the clock. A touch
    /// wakes the reaper if the touch sets a deadline before the returned tick. A thread that raises
    /// the lead also wakes the reaper.
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
        // The reaper must read the lead after it has read the armed tick: see rule 3.
        let clock = self.pace.on_the_clock(wheel);
        Some(Until { wheel, clock })
    }

    /// Sets the pressure, and wakes the reaper if the lead rises.
    pub(super) fn set_pressure(&self, pressure: f64) {
        if self.pace.set_pressure(pressure) {
            self.wake_for(LEAD_ROSE);
        }
    }

    /// Does the work that remains after a touch: see [`Next`]. The touch calls this method after it
    /// has released the lock of its shard.
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
