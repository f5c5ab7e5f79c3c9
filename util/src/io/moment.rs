//! Instants and durations in nanoseconds. Each of them takes 8 bytes.
//!
//! A connection stores many instants and durations. [`Instant`], [`Duration`] and `Option<Duration>` take 16
//! bytes each.
//!
//! A span is at most 292 years long. A moment lies between 146 years before the base and 438 years after it.
//! Values out of range saturate. A timeout that would end after the last moment therefore never expires. No
//! timeout expires early.

use std::{num::NonZeroU64, sync::LazyLock, time::Duration};

use tokio::time::Instant;

use crate::driver::clock::saturating_add;

/// The instant from which every `Moment` is measured. The first use sets this instant to the current time. A
/// paused clock may show an earlier instant.
static BASE: LazyLock<Instant> = LazyLock::new(|| std::time::Instant::now().into());

/// An instant, or [`NEVER`](Self::NEVER).
// Because of `NonZeroU64`, the enum `Alarms` needs no tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(NonZeroU64);

impl Moment {
    /// The moment that represents `BASE`.
    pub(super) const START: Self = Self(NonZeroU64::new(1 << 62).unwrap());
    /// A moment that is later than any instant.
    pub(super) const NEVER: Self = Self(NonZeroU64::MAX);

    #[inline]
    pub(super) fn at(instant: Instant) -> Self {
        match instant.checked_duration_since(*BASE) {
            Some(since) => Self::START.after(Span::of(since)),
            None => Self::before_base(instant),
        }
    }

    #[cold]
    fn before_base(instant: Instant) -> Self {
        let distance = Span::of(BASE.duration_since(instant));
        let nanos = Self::START.0.get().saturating_sub(distance.0);
        Self(NonZeroU64::new(nanos).unwrap_or(NonZeroU64::MIN))
    }

    /// Returns the end of a span that starts at this moment. Returns [`NEVER`](Self::NEVER) if the span is
    /// endless or if its end is out of range.
    #[inline]
    pub(super) fn after(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// Returns the span from `earlier` to this moment. Returns zero if `earlier` is later than this moment.
    #[inline]
    pub(super) fn since(self, earlier: Self) -> Span {
        Span(self.0.get().saturating_sub(earlier.0.get()))
    }
}

/// Converts a moment to an instant. `NEVER` becomes an instant that no clock reaches.
impl From<Moment> for Instant {
    #[inline]
    fn from(moment: Moment) -> Self {
        let since = moment.since(Moment::START);
        let before = Moment::START.since(moment);
        if before == Span::ZERO {
            saturating_add(*BASE, Duration::from_nanos(since.0))
        } else {
            BASE.checked_sub(Duration::from_nanos(before.0))
                .unwrap_or(*BASE)
        }
    }
}

/// A duration, or [`ENDLESS`](Self::ENDLESS), which means no limit.
///
/// A duration of 292 years or more becomes [`Duration::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span(u64);

impl Span {
    pub(super) const ZERO: Self = Self(0);
    /// A span that is longer than any duration.
    pub(super) const ENDLESS: Self = Self(u64::MAX);
    /// The longest duration. Its end is in range if its start is at most 146 years after the base.
    const LONGEST: Self = Self(1 << 63);

    #[inline]
    pub(super) fn of(duration: Duration) -> Self {
        const PER_SEC: u64 = 1_000_000_000;
        if duration.as_secs() >= Self::LONGEST.0 / PER_SEC {
            return Self::LONGEST;
        }
        Self(duration.as_secs() * PER_SEC + u64::from(duration.subsec_nanos()))
    }

    pub(super) fn duration(self) -> Duration {
        if self < Self::LONGEST {
            self.into()
        } else {
            Duration::MAX
        }
    }

    pub(super) fn limit(limit: Option<Duration>) -> Self {
        limit.map_or(Self::ENDLESS, Self::of)
    }

    pub(super) fn to_limit(self) -> Option<Duration> {
        (self != Self::ENDLESS).then(|| self.duration())
    }
}

/// Converts a span faster than `Span::duration` does. A span of 292 years or more becomes a duration of
/// several centuries.
impl From<Span> for Duration {
    #[inline]
    fn from(span: Span) -> Self {
        Self::from_nanos(span.0)
    }
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
        fn instants_survive_the_conversion(secs in seconds(), nanos in 0..1_000_000_000_u32) {
            let distance = Duration::new(secs, nanos);
            let after = *BASE + distance;
            prop_assert_eq!(Instant::from(Moment::at(after)), after);
            if let Some(before) = BASE.checked_sub(distance) {
                prop_assert_eq!(Instant::from(Moment::at(before)), before);
                let twice = Moment::at(after).since(Moment::at(before)).duration();
                prop_assert_eq!(twice, 2 * distance);
                prop_assert_eq!(Moment::at(before).since(Moment::at(after)), Span::ZERO);
                prop_assert_eq!(Moment::at(before).after(Span::of(2 * distance)), Moment::at(after));
            }
        }

        #[test]
        fn durations_survive_the_conversion(secs in 0..292 * CENTURY / 100, nanos in 0..1_000_000_000_u32) {
            let limit = Some(Duration::new(secs, nanos));
            prop_assert_eq!(Span::limit(limit).to_limit(), limit);
        }
    }

    #[test]
    fn values_out_of_range_saturate() {
        assert_eq!(Span::limit(None), Span::ENDLESS);
        assert_eq!(Span::ENDLESS.to_limit(), None);
        let endless = Moment::at(*BASE).after(Span::ENDLESS);
        assert_eq!(endless, Moment::NEVER);
        let latest = Moment::at(saturating_add(*BASE, Duration::MAX));
        for long in [Duration::MAX, Duration::from_secs(293 * CENTURY / 100)] {
            assert_eq!(Span::limit(Some(long)).to_limit(), Some(Duration::MAX));
            let end = Moment::at(*BASE).after(Span::of(long));
            assert_eq!(end, latest);
            assert_eq!(end.after(Span::of(long)), Moment::NEVER);
            assert!(end < Moment::NEVER);
            assert!(Instant::from(end) > *BASE + Duration::from_secs(CENTURY / 4));
            assert!(Instant::from(end) < Instant::from(Moment::NEVER));
        }
    }
}
