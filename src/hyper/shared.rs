//! The state that the connections of a server share.
//!
//! A request touches nothing of it. A connection writes to it when it is opened and when it ends, and reads
//! the rest when its alarm fires.

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

/// Set in [`Shared::open`] once the shutdown has begun.
const SHUT_DOWN: usize = 1 << (usize::BITS - 1);

pub(super) struct Shared {
    pub(super) limits: Limits,
    pub(super) alarms: Alarms,
    /// How much of the idle limit the pressure takes, in nanoseconds.
    taken: AtomicU64,
    random: RandomState,
    lifetimes: Lifetimes,
}

/// A longer idle limit is a limit of a century. So what the pressure takes is in range.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

/// The counters that all connections write to, on cache lines of their own.
#[repr(align(128))]
struct Lifetimes {
    /// How many connections are open, and [`SHUT_DOWN`]: so none is opened after the shutdown began.
    open: AtomicUsize,
    /// How many were opened so far.
    opened: AtomicU64,
    totals: Totals,
    /// Notified when the last connection has ended after the shutdown began.
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

    /// Counts a connection, and returns the age that it may reach, if that is limited.
    pub(super) fn open(&self) -> Result<Option<Duration>, OpenError> {
        let limit = self.limits.max_connections;
        let one_more = |open: usize| (open < limit && open < SHUT_DOWN).then(|| open + 1);
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        match self.lifetimes.open.fetch_update(success, failure, one_more) {
            Err(open) if open >= SHUT_DOWN => Err(OpenError::ShutDown),
            Err(open) => Err(OpenError::Full { open, limit }),
            Ok(_) => {
                let number = self.lifetimes.opened.fetch_add(1, Ordering::Relaxed);
                Ok((self.limits.max_age).map(|age| age - self.jitter(age, number)))
            }
        }
    }

    /// Returns what the age of a connection is less than the maximum.
    fn jitter(&self, age: Duration, number: u64) -> Duration {
        // As many bits as a fraction has.
        let random = (self.random.hash_one(number) >> 11) as f64 / (1_u64 << 53) as f64;
        share_of(age, self.limits.jitter * random)
    }

    /// Counts the end of a connection; `None` if it was dropped before.
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

    /// Opens no connection any more, and has all of them look.
    pub(super) fn shut_down(&self) {
        let before = self.lifetimes.open.fetch_or(SHUT_DOWN, Ordering::AcqRel);
        if before < SHUT_DOWN {
            self.alarms.leap(EVERYTHING);
        }
    }

    /// Waits until no connection is open, once the shutdown has begun.
    pub(super) async fn all_ended(&self) {
        loop {
            let last = self.lifetimes.last.notified();
            if self.open_now() == 0 {
                return;
            }
            last.await;
        }
    }

    fn open_now(&self) -> usize {
        self.lifetimes.open.load(Ordering::Acquire) & !SHUT_DOWN
    }

    pub(super) fn counts(&self) -> Counts {
        self.lifetimes.totals.read(self.open_now() as u64)
    }

    /// Returns how long a connection may be idle now.
    pub(super) fn idle(&self) -> Option<Duration> {
        let taken = Duration::from_nanos(self.taken.load(Ordering::Acquire));
        Some(self.limits.idle?.saturating_sub(taken))
    }

    /// Shrinks the idle limit by that fraction of the range that it has, or lets it grow again.
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

/// Returns that fraction of a duration, which may be any number. A duration of more than 584 years counts as that.
fn share_of(duration: Duration, fraction: f64) -> Duration {
    // NaN is neither above nor below, and casts to 0.
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
