//! The shared part of a set, and the protocol by which a handle wakes the reaper.
//!
//! The reaper waits for the *armed* tick. [`Arming`] settles whether a touch must wake the reaper
//! for an earlier tick. The reaper's waker is behind a lock of its own. Three rules ensure that the
//! reaper misses no touch, and no rise of the [lead](super::pace):
//!
//! 1. The reaper leaves its waker before it arms and before it reads the armed tick.
//! 2. A touch that lowers the armed tick takes the waker afterwards. Before it lowers the armed tick, it has published its
//!    deadline: in its shard, or [behind](super::behind).
//! 3. A thread that raises the lead lowers the armed tick to 0 afterwards, as such a touch does. The reaper reads the
//!    lead, by which it sets its alarm, after it has armed.
//!
//! A waker that is taken after it was left wakes the reaper. If it was taken before, the lock orders
//! the lowering before the reading, and the reaper sees the lower tick. If the armed tick is 0 already, nobody takes
//! the waker. The reaper then has yet to arm, and reads the lead after that. The last handle sets a flag
//! under the same lock: the reaper sees the flag or is woken.
//!
//! No waker is cloned, woken or dropped under the lock (`tests/idle/foreign.rs`). A touch goes on
//! if the reaper's waker panics (`a_panicking_waker_harms_no_touch`).
//!
//! Models: `touch_races_wait`, `earlier_touch_races_wait`, `touch_races_a_new_waker`, `pressure_races_wait` and
//! `last_handle_races_wait` in `idle/loom_tests.rs`.

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
    /// A touch reads the armed tick if it may have to wake the reaper. It is a tick of the wheels.
    pub(super) arming: Arming,
    pub(super) pace: Pace,
    pub(super) behind: Behind,
    reaper: Mutex<Waiter>,
}

/// On cache lines of its own, with the lock before it: every touch reads the clock and the shards.
#[repr(align(128))]
struct Waiter {
    /// Of the reaper's last poll, unless it was woken since.
    waker: Option<Waker>,
    /// Ready for good once there is no handle any more.
    abandoned: Poll<()>,
}

/// What the reaper waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Until {
    /// The tick, in the time of the wheels.
    pub(super) wheel: Tick,
    /// When the clock comes to that.
    pub(super) clock: Tick,
}

impl<K> Core<K> {
    /// `most` shards at the most, a power of two.
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

    /// Returns the earliest tick that a shard publishes, or that an entry behind a shed has: no key is due before it.
    pub(super) fn next_expiration(&self) -> Tick {
        let published = self.shards.iter().map(Shard::next_expiration);
        published.fold(self.behind.next(), Tick::min)
    }

    /// For the reaper, when nothing is due up to the armed tick or `now`, which is a tick of the clock. Leaves its waker
    /// and returns the tick to wait for, which no key of the set is due before. The reaper is woken if
    /// a touch sets an earlier deadline, and if the lead rises.
    ///
    /// Returns `None` if the set is empty and has no handle any more.
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
        // The lead is read after that: see rule 3.
        let clock = self.pace.on_the_clock(wheel);
        Some(Until { wheel, clock })
    }

    /// Sets the pressure, and wakes the reaper if the lead rises.
    pub(super) fn set_pressure(&self, pressure: f64) {
        if self.pace.set_pressure(pressure) {
            self.wake_for(LEAD_ROSE);
        }
    }

    /// For a touch that has released its shard: does what is left to do so that the reaper comes in time for the key.
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

    /// For the last handle.
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
