//! The state that the connections of a server share.
//!
//! A request neither reads nor writes this state. A connection writes to this state when it opens and when it
//! ends. A connection reads the limits when its alarm fires.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

use tokio::sync::Notify;

use super::{
    alarms::{Alarms, EVERYTHING},
    counts::{Counts, Totals},
    ended::Ended,
    error::OpenError,
    limits::Limits,
};

/// The bit of [`Lifetimes::open`] that is set when the shutdown begins.
const SHUT_DOWN: usize = 1 << (usize::BITS - 1);

pub(super) struct Shared {
    pub(super) limits: Limits,
    pub(super) alarms: Alarms,
    /// The time by which the pressure shortens the idle limit, in nanoseconds.
    taken: AtomicU64,
    /// The source of the random numbers for maximum ages.
    random: RandomState,
    lifetimes: Lifetimes,
}

/// The longest idle limit: 100 years. [`Shared::taken`] can hold this many nanoseconds in its 64 bits.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

/// The counters to which all connections write. They share no cache line with other data.
#[repr(align(128))]
struct Lifetimes {
    /// The number of open connections, and the bit [`SHUT_DOWN`]. One word holds the number and the bit, so
    /// that no connection opens after the shutdown has begun.
    open: AtomicUsize,
    /// The number of connections that were ever opened.
    opened: AtomicU64,
    totals: Totals,
    /// Wakes the callers of [`Shared::all_ended`] when the last connection ends during the shutdown.
    last: Notify,
}

impl Shared {
    #[track_caller]
    pub(super) fn new(mut limits: Limits) -> Self {
        if let (Some(least), Some(idle)) = (limits.min_idle, limits.idle) {
            assert!(
                least <= idle,
                "min_idle must be at most idle ({idle:?}), got {least:?}"
            );
        }
        for limit in [&mut limits.idle, &mut limits.min_idle] {
            *limit = limit.map(|limit| limit.min(CENTURY));
        }
        Self {
            limits,
            alarms: Alarms::new(),
            taken: AtomicU64::new(0),
            random: RandomState::new(),
            lifetimes: Lifetimes {
                open: AtomicUsize::new(0),
                opened: AtomicU64::new(0),
                totals: Totals::default(),
                last: Notify::new(),
            },
        }
    }

    /// Counts a new connection. Returns its maximum age, or `None` if the age has no limit.
    pub(super) fn open(&self) -> Result<Option<Duration>, OpenError> {
        let limit = self.limits.max_connections;
        let one_more = |open: usize| (open < limit && open < SHUT_DOWN).then(|| open + 1);
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        match self.lifetimes.open.fetch_update(success, failure, one_more) {
            Err(open) if open >= SHUT_DOWN => Err(OpenError::Shutdown),
            Err(open) => Err(OpenError::Full { open, limit }),
            Ok(_) => {
                let number = self.lifetimes.opened.fetch_add(1, Ordering::Relaxed);
                Ok((self.limits.max_age).map(|age| age - self.jitter(age, number)))
            }
        }
    }

    /// Returns a random time for the connection with the index `number`. The maximum age of this connection
    /// is `age` minus the random time.
    fn jitter(&self, age: Duration, number: u64) -> Duration {
        // An `f64` has 53 bits of precision.
        let random = (self.random.hash_one(number) >> 11) as f64 / (1_u64 << 53) as f64;
        share_of(age, self.limits.jitter * random)
    }

    /// Counts the end of a connection. `None` stands for a connection that was dropped before it had ended.
    pub(super) fn close<E>(&self, ended: Option<&Ended<E>>) {
        let Lifetimes {
            open, totals, last, ..
        } = &self.lifetimes;
        totals.count(ended.map(|ended| (ended.reason, ended.is_cut())));
        if open.fetch_sub(1, Ordering::AcqRel) == SHUT_DOWN + 1 {
            last.notify_waiters();
        }
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.lifetimes.open.load(Ordering::Acquire) >= SHUT_DOWN
    }

    /// Begins the shutdown. After this call, no connection can open. The first call wakes all open
    /// connections, and each connection then checks its state.
    pub(super) fn shut_down(&self) {
        let before = self.lifetimes.open.fetch_or(SHUT_DOWN, Ordering::AcqRel);
        if before < SHUT_DOWN {
            self.alarms.leap(EVERYTHING);
        }
    }

    /// Waits until no connection is open. The shutdown must have begun.
    pub(super) async fn all_ended(&self) {
        loop {
            let last = self.lifetimes.last.notified();
            if self.open_now() == 0 {
                return;
            }
            last.await;
        }
    }

    /// Returns the number of open connections.
    pub(super) fn open_now(&self) -> usize {
        self.lifetimes.open.load(Ordering::Acquire) & !SHUT_DOWN
    }

    pub(super) fn counts(&self) -> Counts {
        self.lifetimes.totals.read(self.open_now() as u64)
    }

    /// Returns the current idle limit.
    pub(super) fn idle(&self) -> Option<Duration> {
        let taken = Duration::from_nanos(self.taken.load(Ordering::Acquire));
        Some(self.limits.idle?.saturating_sub(taken))
    }

    /// Sets the idle limit in proportion to the pressure. The limit is `idle` at a pressure of 0, and
    /// `min_idle` at a pressure of 1.
    pub(super) fn set_pressure(&self, pressure: f64) {
        let Limits { idle, min_idle, .. } = self.limits;
        let (Some(idle), Some(least)) = (idle, min_idle) else {
            return;
        };
        let taken = nanos(share_of(idle - least, pressure));
        let before = self.taken.swap(taken, Ordering::AcqRel);
        if taken > before {
            self.alarms.leap(Duration::from_nanos(taken - before));
        }
    }
}

/// Returns `duration` times `fraction`. The function limits `fraction` to the range from 0 to 1, and
/// `duration` to 584 years.
fn share_of(duration: Duration, fraction: f64) -> Duration {
    // `clamp` keeps NaN, and the cast turns NaN into 0.
    let share = nanos(duration) as f64 * fraction.clamp(0.0, 1.0);
    Duration::from_nanos(share.round() as u64).min(duration)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_the_duration() {
        let minute = Duration::from_secs(60);
        let shares = [
            (0.0, 0),
            (0.25, 15),
            (1.0, 60),
            (1.5, 60),
            (f64::INFINITY, 60),
            (-0.5, 0),
            (f64::NAN, 0),
        ];
        for (fraction, secs) in shares {
            assert_eq!(
                share_of(minute, fraction),
                Duration::from_secs(secs),
                "{fraction}"
            );
        }
        assert!(share_of(Duration::MAX, 1.0) > Duration::from_secs(500 * 365 * 86_400));
    }
}
