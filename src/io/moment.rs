//! Instants and durations of 8 bytes, in nanoseconds.
//!
//! A connection keeps many of both. [`Instant`] takes 16 bytes, and so do [`Duration`] and an
//! [`Option`] of it. The range is 292 years before and after the base, which is an instant of the
//! process. Moments saturate: one out of range becomes [`Moment::FAR`] or the earliest one. So a timeout
//! that reaches beyond the range never expires, and is never early.

use std::{sync::LazyLock, time::Duration};

use tokio::time::Instant;

use crate::driver::clock::saturating_add;

/// What moments count from. A paused clock may be behind it.
static BASE: LazyLock<Instant> = LazyLock::new(|| std::time::Instant::now().into());

/// An instant, or [`NEVER`](Self::NEVER).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(i64);

impl Moment {
    /// The base.
    pub(super) const START: Self = Self(0);
    /// Later than any instant.
    pub(super) const NEVER: Self = Self(i64::MAX);
    /// The latest instant, which no clock reaches.
    const FAR: Self = Self(i64::MAX - 1);

    #[inline]
    pub(super) fn at(instant: Instant) -> Self {
        match instant.checked_duration_since(*BASE) {
            Some(after) => Self(nanos(after)).min(Self::FAR),
            None => Self::before_base(instant),
        }
    }

    #[cold]
    fn before_base(instant: Instant) -> Self {
        Self(-nanos(BASE.duration_since(instant)))
    }

    /// Returns the instant; [`NEVER`](Self::NEVER) has one that no clock reaches.
    #[inline]
    pub(super) fn instant(self) -> Instant {
        match u64::try_from(self.0) {
            Ok(nanos) => saturating_add(*BASE, Duration::from_nanos(nanos)),
            Err(_) => self.instant_before_base(),
        }
    }

    #[cold]
    fn instant_before_base(self) -> Instant {
        let distance = Duration::from_nanos(self.0.unsigned_abs());
        BASE.checked_sub(distance).unwrap_or(*BASE)
    }

    /// Returns the end of a span that begins at this moment.
    #[inline]
    pub(super) fn after(self, span: Span) -> Self {
        if span == Span::ENDLESS {
            return Self::NEVER;
        }
        Self(self.0.saturating_add_unsigned(span.0)).min(Self::FAR)
    }

    /// Returns the span from `earlier` to this moment, which is empty if `earlier` is later.
    #[inline]
    pub(super) fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0).max(0).unsigned_abs())
    }
}

/// A duration, or [`ENDLESS`](Self::ENDLESS), which stands for no limit.
///
/// A duration of 584 years or more becomes [`Duration::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span(u64);

impl Span {
    pub(super) const ZERO: Self = Self(0);
    /// Longer than any duration.
    pub(super) const ENDLESS: Self = Self(u64::MAX);
    /// The longest duration.
    const LONGEST: Self = Self(u64::MAX - 1);

    pub(super) fn of(duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(nanos).min(Self::LONGEST)
    }

    pub(super) fn duration(self) -> Duration {
        match self {
            Self::LONGEST | Self::ENDLESS => Duration::MAX,
            Self(nanos) => Duration::from_nanos(nanos),
        }
    }

    pub(super) fn limit(limit: Option<Duration>) -> Self {
        limit.map_or(Self::ENDLESS, Self::of)
    }

    pub(super) fn to_limit(self) -> Option<Duration> {
        (self != Self::ENDLESS).then(|| self.duration())
    }
}

/// Returns the nanoseconds of a duration, or [`i64::MAX`] if there are almost as many.
#[inline]
fn nanos(duration: Duration) -> i64 {
    const PER_SEC: u64 = 1_000_000_000;
    if duration.as_secs() >= i64::MAX as u64 / PER_SEC {
        return i64::MAX;
    }
    (duration.as_secs() * PER_SEC + u64::from(duration.subsec_nanos())) as i64
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CENTURY: u64 = 100 * 365 * 86_400;

    fn seconds() -> impl Strategy<Value = u64> {
        prop_oneof![0..100_u64, 0..CENTURY]
    }

    proptest! {
        #[test]
        fn instants_come_back_as_they_were(secs in seconds(), nanos in 0..1_000_000_000_u32) {
            let distance = Duration::new(secs, nanos);
            let after = *BASE + distance;
            prop_assert_eq!(Moment::at(after).instant(), after);
            if let Some(before) = BASE.checked_sub(distance) {
                prop_assert_eq!(Moment::at(before).instant(), before);
                let twice = Moment::at(after).since(Moment::at(before)).duration();
                prop_assert_eq!(twice, 2 * distance);
                prop_assert_eq!(Moment::at(before).since(Moment::at(after)), Span::ZERO);
                prop_assert_eq!(Moment::at(before).after(Span::of(2 * distance)), Moment::at(after));
            }
        }

        #[test]
        fn durations_come_back_as_they_were(secs in 0..584 * CENTURY / 100, nanos in 0..1_000_000_000_u32) {
            let limit = Some(Duration::new(secs, nanos));
            prop_assert_eq!(Span::limit(limit).to_limit(), limit);
        }
    }

    #[test]
    fn what_is_out_of_range_saturates() {
        assert_eq!(Span::limit(None), Span::ENDLESS);
        assert_eq!(Span::ENDLESS.to_limit(), None);
        for long in [Duration::MAX, Duration::from_secs(585 * CENTURY / 100)] {
            assert_eq!(Span::limit(Some(long)).to_limit(), Some(Duration::MAX));
            let end = Moment::at(*BASE).after(Span::of(long));
            assert_eq!(end, Moment::FAR);
            assert_eq!(end.after(Span::of(long)), Moment::FAR);
            assert!(end < Moment::at(*BASE).after(Span::ENDLESS));
            assert!(end.instant() > *BASE + Duration::from_secs(CENTURY / 4));
            assert!(end.instant() < Moment::NEVER.instant());
        }
        assert_eq!(
            Moment::at(saturating_add(*BASE, Duration::MAX)),
            Moment::FAR
        );
    }
}
