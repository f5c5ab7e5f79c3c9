//! The state that the connections of a server share.
//!
//! A connection locks this state when it opens, when it checks its limits and when it ends. A request only reads the
//! number of changes. No waker runs under the lock.

use std::{
    hash::{BuildHasher as _, RandomState},
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use super::{
    connections::OpenError,
    ended::{Counts, Reason},
    server_limits::Limits,
};

pub(super) struct Shared {
    pub(super) limits: Limits,
    /// The source of the random numbers for maximum ages.
    random: RandomState,
    changes: Changes,
    state: Mutex<State>,
    /// Wakes the callers of [`Shared::all_ended`] when no connection is open.
    last: Notify,
}

/// The number of changes that connections must learn of. Each poll of a connection reads it, so it shares no cache
/// line with the state.
#[derive(Default)]
#[repr(align(128))]
struct Changes(AtomicUsize);

#[derive(Default)]
struct State {
    counts: Counts,
    /// The number of connections that were ever opened.
    opened: u64,
    /// The pressure, from 0 to 1.
    pressure: f64,
    is_shut_down: bool,
    /// Wakes all connections at the next change. Each change replaces it.
    next_change: Arc<Notify>,
}

impl Shared {
    #[track_caller]
    pub(super) fn new(limits: Limits) -> Self {
        if let (Some(least), Some(idle)) = (limits.min_idle, limits.idle) {
            assert!(
                least <= idle,
                "min_idle must be at most idle ({idle:?}), got {least:?}"
            );
        }
        Self {
            limits,
            random: RandomState::new(),
            changes: Changes::default(),
            state: Mutex::default(),
            last: Notify::new(),
        }
    }

    /// Counts a new connection. Returns its maximum age.
    pub(super) fn open(&self) -> Result<Duration, OpenError> {
        let limit = self.limits.max_connections;
        let mut state = lock(&self.state);
        let open = state.counts.open as usize;
        if state.is_shut_down {
            return Err(OpenError::Shutdown);
        }
        if open >= limit {
            return Err(OpenError::Full { open, limit });
        }
        state.counts.open += 1;
        state.opened += 1;
        // An `f64` has 53 bits of precision.
        let random = (self.random.hash_one(state.opened) >> 11) as f64 / (1_u64 << 53) as f64;
        let jitter = |age| share_of(age, self.limits.jitter * random);
        Ok((self.limits.max_age).map_or(Duration::MAX, |age| age - jitter(age)))
    }

    /// Counts the end of a connection: its reason, and whether it was cut. `None` stands for a connection that
    /// was dropped before it had ended.
    pub(super) fn close(&self, end: Option<(Reason, bool)>) {
        let mut state = lock(&self.state);
        let counts = &mut state.counts;
        counts.open -= 1;
        match end {
            Some((reason, is_cut)) => {
                counts.ended[reason as usize] += 1;
                counts.cut += u64::from(is_cut);
            }
            None => counts.dropped += 1,
        }
        let is_last = counts.open == 0;
        drop(state);
        if is_last {
            self.last.notify_waiters();
        }
    }

    pub(super) fn counts(&self) -> Counts {
        lock(&self.state).counts.clone()
    }

    /// Begins the shutdown. After this call, no connection can open. The first call wakes all open connections.
    pub(super) fn shut_down(&self) {
        let mut state = lock(&self.state);
        if !mem::replace(&mut state.is_shut_down, true) {
            self.announce_change(state);
        }
    }

    pub(super) fn is_shut_down(&self) -> bool {
        lock(&self.state).is_shut_down
    }

    /// Waits until no connection is open. The shutdown must have begun.
    pub(super) async fn all_ended(&self) {
        loop {
            let last = self.last.notified();
            if self.counts().open == 0 {
                return;
            }
            last.await;
        }
    }

    /// Returns the current idle limit.
    pub(super) fn idle(&self) -> Duration {
        let Some(idle) = self.limits.idle else {
            return Duration::MAX;
        };
        let least = self.limits.min_idle.unwrap_or(idle);
        idle - share_of(idle - least, lock(&self.state).pressure)
    }

    /// Sets the pressure. A higher pressure wakes all open connections. With a lower pressure, the connections
    /// find their longer limit when the shorter limit ends.
    pub(super) fn set_pressure(&self, pressure: f64) {
        // NaN is 0.
        let pressure = if pressure > 0.0 {
            pressure.min(1.0)
        } else {
            0.0
        };
        let mut state = lock(&self.state);
        let before = mem::replace(&mut state.pressure, pressure);
        if pressure > before && self.limits.min_idle.is_some() {
            self.announce_change(state);
        }
    }

    /// Wakes all connections, so that they read the new state.
    fn announce_change(&self, mut state: MutexGuard<'_, State>) {
        self.changes.0.fetch_add(1, Ordering::Release);
        let change = mem::take(&mut state.next_change);
        drop(state);
        change.notify_waiters();
    }

    /// Returns the number of changes.
    pub(super) fn changes(&self) -> usize {
        self.changes.0.load(Ordering::Acquire)
    }

    /// Returns the number of changes, and what notifies of the next change.
    pub(super) fn next_change(&self) -> (usize, Arc<Notify>) {
        let state = lock(&self.state);
        (self.changes(), state.next_change.clone())
    }
}

/// Locks a mutex under which no code panics.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns `duration` times `fraction`, where `fraction` is from 0 to 1.
fn share_of(duration: Duration, fraction: f64) -> Duration {
    // The product of a very long duration may round up to more than a `Duration` can hold.
    let share = Duration::try_from_secs_f64(duration.as_secs_f64() * fraction);
    share.map_or(duration, |share| share.min(duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_the_duration() {
        let minute = Duration::from_secs(60);
        for (fraction, secs) in [(0.0, 0), (0.25, 15), (1.0, 60)] {
            let share = share_of(minute, fraction);
            assert_eq!(share, Duration::from_secs(secs), "{fraction}");
        }
        assert_eq!(share_of(Duration::MAX, 1.0), Duration::MAX);
        assert!(share_of(Duration::MAX, 0.5) > Duration::from_secs(500 * 365 * 86_400));
    }
}
