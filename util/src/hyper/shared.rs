//! The state that the connections of a server share.
//!
//! A connection writes to this state when it opens and when it ends. A request only reads the number of changes.

use std::{
    hash::{BuildHasher as _, RandomState},
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use super::{
    connections::OpenError,
    ended::{Counts, Reason, Totals},
    server_limits::Limits,
};

/// The bit of [`Shared::open`] that is set when the shutdown begins.
const SHUT_DOWN: usize = 1 << (usize::BITS - 1);

pub(super) struct Shared {
    pub(super) limits: Limits,
    /// The source of the random numbers for maximum ages.
    random: RandomState,
    /// The bits of an `f64` from 0 to 1.
    pressure: AtomicU64,
    changes: Changes,
    /// Wakes all connections at the next change. Each change replaces it.
    next_change: Mutex<Arc<Notify>>,
    /// The number of open connections, and the bit [`SHUT_DOWN`]. One word holds the number and the bit, so
    /// that no connection opens after the shutdown has begun.
    open: AtomicUsize,
    /// The number of connections that were ever opened.
    opened: AtomicU64,
    totals: Totals,
    /// Wakes the callers of [`Shared::all_ended`] when the last connection ends during the shutdown.
    last: Notify,
}

/// The number of changes that connections must learn of. Each poll of a connection reads it, so it shares no cache
/// line with what connections write.
#[derive(Default)]
#[repr(align(128))]
struct Changes(AtomicUsize);

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
            pressure: AtomicU64::new(0),
            changes: Changes::default(),
            next_change: Mutex::default(),
            open: AtomicUsize::new(0),
            opened: AtomicU64::new(0),
            totals: Totals::default(),
            last: Notify::new(),
        }
    }

    /// Counts a new connection. Returns its maximum age.
    pub(super) fn open(&self) -> Result<Duration, OpenError> {
        let limit = self.limits.max_connections;
        let one_more = |open: usize| (open < limit && open < SHUT_DOWN).then(|| open + 1);
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        match self.open.fetch_update(success, failure, one_more) {
            Err(open) if open >= SHUT_DOWN => Err(OpenError::Shutdown),
            Err(open) => Err(OpenError::Full { open, limit }),
            Ok(_) => {
                let number = self.opened.fetch_add(1, Ordering::Relaxed);
                // An `f64` has 53 bits of precision.
                let random = (self.random.hash_one(number) >> 11) as f64 / (1_u64 << 53) as f64;
                let jitter = |age| share_of(age, self.limits.jitter * random);
                Ok((self.limits.max_age).map_or(Duration::MAX, |age| age - jitter(age)))
            }
        }
    }

    /// Counts the end of a connection: its reason, and whether it was cut. `None` stands for a connection that
    /// was dropped before it had ended.
    pub(super) fn close(&self, end: Option<(Reason, bool)>) {
        self.totals.count(end);
        if self.open.fetch_sub(1, Ordering::AcqRel) == SHUT_DOWN + 1 {
            self.last.notify_waiters();
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.totals.read(self.open_now() as u64)
    }

    fn open_now(&self) -> usize {
        self.open.load(Ordering::Acquire) & !SHUT_DOWN
    }

    /// Begins the shutdown. After this call, no connection can open. The first call wakes all open connections.
    pub(super) fn shut_down(&self) {
        if self.open.fetch_or(SHUT_DOWN, Ordering::AcqRel) < SHUT_DOWN {
            self.announce_change();
        }
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.open.load(Ordering::Acquire) >= SHUT_DOWN
    }

    /// Waits until no connection is open. The shutdown must have begun.
    pub(super) async fn all_ended(&self) {
        loop {
            let last = self.last.notified();
            if self.open_now() == 0 {
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
        let pressure = f64::from_bits(self.pressure.load(Ordering::Acquire));
        idle - share_of(idle - least, pressure)
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
        let before = self.pressure.swap(pressure.to_bits(), Ordering::AcqRel);
        if pressure > f64::from_bits(before) && self.limits.min_idle.is_some() {
            self.announce_change();
        }
    }

    /// Wakes all connections, so that they read the new values.
    fn announce_change(&self) {
        let change = {
            let mut next = lock(&self.next_change);
            self.changes.0.fetch_add(1, Ordering::Release);
            mem::take(&mut *next)
        };
        change.notify_waiters();
    }

    /// Returns the number of changes.
    pub(super) fn changes(&self) -> usize {
        self.changes.0.load(Ordering::Acquire)
    }

    /// Returns the number of changes, and what notifies of the next change.
    pub(super) fn next_change(&self) -> (usize, Arc<Notify>) {
        let next = lock(&self.next_change);
        (self.changes(), next.clone())
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
