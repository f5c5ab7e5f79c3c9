//! Ticks and instants: the only place that rounds.
//!
//! A deadline rounds up to a tick and the clock rounds down, so the tick of a deadline is not
//! reached before the deadline is: this is what makes a timer never early
//! (`deadlines_round_up_and_the_clock_down`). Time is read through [`tokio::time::Instant`], so
//! that a paused clock is obeyed.

use std::time::Duration;

use tokio::time::Instant;

use crate::wheel::Tick;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Converts between instants and the ticks of one timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// The instant of tick 0.
    origin: Instant,
    /// The length of a tick in nanoseconds, at least 1.
    tick: u64,
    /// 2^64 divided by `tick`, rounded down: a division costs more than two multiplications.
    reciprocal: u64,
}

impl Clock {
    /// A clock that starts now. The tick is at least one nanosecond and at most an hour, which
    /// the builder has checked.
    pub(crate) fn new(tick: Duration) -> Self {
        let tick = u64::try_from(tick.as_nanos()).unwrap_or(u64::MAX).max(1);
        Self {
            origin: Instant::now(),
            tick,
            reciprocal: u64::try_from((1_u128 << 64) / u128::from(tick)).unwrap_or(u64::MAX),
        }
    }

    /// The tick that the present lies in: rounds down.
    pub(crate) fn now(&self) -> Tick {
        let nanos = self.nanos(Instant::now()).unwrap_or(u64::MAX);
        Tick(self.divide(nanos).0.min(Tick::NEVER.0 - 1))
    }

    /// The first tick that is not before `deadline`: rounds up.
    ///
    /// A deadline that is more than 584 years after the origin has no tick in the clock's reach.
    #[inline]
    pub(crate) fn deadline(&self, deadline: Instant) -> Tick {
        let Some(nanos) = self.nanos(deadline) else {
            return Tick::NEVER;
        };
        let (tick, rest) = self.divide(nanos);
        Tick(tick.saturating_add(u64::from(rest != 0)))
    }

    /// The instant at which `tick` begins, if it is in the clock's reach.
    pub(crate) fn instant(&self, tick: Tick) -> Option<Instant> {
        let nanos = tick.0.checked_mul(self.tick)?;
        self.origin.checked_add(Duration::from_nanos(nanos))
    }

    /// Nanoseconds from the origin to `instant`; 0 if it is earlier, `None` past 584 years.
    #[inline]
    fn nanos(&self, instant: Instant) -> Option<u64> {
        let since = instant.saturating_duration_since(self.origin);
        since
            .as_secs()
            .checked_mul(NANOS_PER_SEC)?
            .checked_add(u64::from(since.subsec_nanos()))
    }

    /// `nanos` divided by the length of a tick, and the remainder.
    #[inline]
    fn divide(&self, nanos: u64) -> (u64, u64) {
        // Too small by at most one, since the reciprocal is less than one too small.
        let estimate = ((u128::from(nanos) * u128::from(self.reciprocal)) >> 64) as u64;
        let rest = nanos - estimate * self.tick;
        if rest >= self.tick {
            (estimate + 1, rest - self.tick)
        } else {
            (estimate, rest)
        }
    }
}

/// The instant `duration` after now; if there is none, one that is at least a quarter of the
/// remaining range of [`Instant`] away, which on every platform is decades.
#[inline]
pub(crate) fn after(duration: Duration) -> Instant {
    saturating_add(Instant::now(), duration)
}

/// `instant + duration`, saturating as [`after`] does.
#[inline]
pub(crate) fn saturating_add(instant: Instant, duration: Duration) -> Instant {
    match instant.checked_add(duration) {
        Some(sum) => sum,
        None => far_future(instant, duration),
    }
}

#[cold]
fn far_future(instant: Instant, mut duration: Duration) -> Instant {
    // How far an `Instant` reaches depends on the platform, and the standard library does not
    // say: find out within a factor of two.
    loop {
        duration /= 2;
        if let Some(sum) = instant.checked_add(duration) {
            return sum;
        }
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn division_is_exact(tick in 1..=3_600 * NANOS_PER_SEC, nanos: u64) {
            let clock = Clock::new(Duration::from_nanos(tick));
            prop_assert_eq!(clock.divide(nanos), (nanos / tick, nanos % tick));
        }

        #[test]
        fn deadlines_round_up_and_the_clock_down(
            tick in 1..=3_600 * NANOS_PER_SEC,
            nanos in 0..u64::MAX / 2,
        ) {
            let clock = Clock::new(Duration::from_nanos(tick));
            let instant = clock.origin + Duration::from_nanos(nanos);
            let deadline = clock.deadline(instant);
            let reached = clock.instant(deadline).expect("within reach");
            prop_assert!(reached >= instant);
            prop_assert!(reached - instant < Duration::from_nanos(tick));
            prop_assert!(clock.divide(nanos).0 <= deadline.0);
        }
    }

    #[test]
    fn every_duration_saturates() {
        let clock = Clock::new(Duration::from_millis(1));
        let far = after(Duration::MAX);
        assert!(far > Instant::now() + Duration::from_secs(30 * 365 * 86_400));
        assert!(clock.deadline(far) > clock.now());
        assert_eq!(clock.instant(Tick::NEVER), None);
    }

    #[test]
    fn instants_before_the_origin_are_tick_zero() {
        let clock = Clock::new(Duration::from_millis(1));
        if let Some(before) = clock.origin.checked_sub(Duration::from_secs(1)) {
            assert_eq!(clock.deadline(before), Tick(0));
        }
    }
}
