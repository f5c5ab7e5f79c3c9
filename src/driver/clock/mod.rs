//! Conversions between ticks and instants. No other module rounds a deadline.
//!
//! The clock rounds a deadline up to a tick, and rounds the current time down. So no entry fires before its
//! deadline. Test: `deadlines_round_up_and_the_clock_down`.

#[cfg(test)]
pub(crate) mod manual;

use std::time::Duration;

use bounded_wheel::{NEVER, Tick};
use tokio::time::Instant;

/// The tick of a timer whose builder sets no tick: 1/64 ms, which is 15.625 µs.
///
/// The driver's alarm rounds up to whole milliseconds, and 64 ticks make one millisecond. So a deadline that
/// is rounded up to a tick is seldom later than the millisecond at which the alarm goes off. A paused clock
/// moves in whole milliseconds. So on a paused clock, a rounded deadline is never later than the millisecond
/// at which the alarm goes off. A finer tick costs no additional wake-ups, because the alarm limits the
/// number of wake-ups.
pub(crate) const DEFAULT_TICK: Duration = Duration::from_nanos(15_625);

const NANOS_PER_SEC: u64 = 1_000_000_000;
const NANOS_PER_MS: u64 = 1_000_000;

/// Before this number of seconds since its origin, which is 292 years, a clock divides by a multiplication.
const NEAR: u64 = (1 << 63) / NANOS_PER_SEC - 3_600;

/// Converts between instants and the ticks of one timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// The instant of tick 0.
    origin: Instant,
    /// The length of a tick in nanoseconds, from 1 ns to 1 h.
    pub(crate) tick: u64,
    /// The factor by which [`divide`](Self::divide) multiplies, because a division by `tick` would be slow.
    multiplier: u64,
    /// [`divide`](Self::divide) shifts the product to the right by `64 + shift` bits.
    shift: u32,
    /// [`NEAR`], or 0 if the tick is longer than a millisecond: then each deadline is [far](Self::far_deadline).
    near: u64,
    /// The clock that a test moves by hand.
    #[cfg(test)]
    manual: Option<manual::Manual>,
}

impl Clock {
    /// Creates a clock of the current runtime, which starts now. The builder has checked that the tick is from 1 ns to 1 h.
    pub(crate) fn new(tick: Duration) -> Self {
        let tick = u64::try_from(tick.as_nanos()).unwrap_or(u64::MAX).max(1);
        let shift = tick.next_power_of_two().ilog2();
        Self {
            origin: Instant::now(),
            tick,
            multiplier: (1_u128 << (63 + shift)).div_ceil(u128::from(tick)) as u64,
            shift,
            near: if tick > NANOS_PER_MS { 0 } else { NEAR },
            #[cfg(test)]
            manual: None,
        }
    }

    /// Returns the current tick. The function rounds the current time down.
    pub(crate) fn now(&self) -> Tick {
        self.reached(self.present())
    }

    /// Returns the current time, and whether it is the system's time: see [`look`].
    pub(crate) fn look(&self) -> (Instant, bool) {
        #[cfg(test)]
        if let Some(manual) = self.manual {
            return (manual.now(), manual.is_real());
        }
        look()
    }

    /// Returns whether `deadline` passed less than a millisecond before `now`. tokio rounds deadlines up to
    /// milliseconds, so its sleeps still wait then.
    ///
    /// Returns `false` if the clock is or was paused. On a paused clock, tokio's sleep of zero is ready at once. Also
    /// returns `false` if the next tick may be more than a millisecond away.
    pub(crate) fn has_just_passed(&self, deadline: Instant, now: Instant) -> bool {
        let passed = now.duration_since(deadline).as_nanos();
        passed < NANOS_PER_MS.into() && self.tick <= NANOS_PER_MS && self.look().1
    }

    /// Returns the current time, which follows a paused clock.
    pub(crate) fn present(&self) -> Instant {
        #[cfg(test)]
        if let Some(manual) = self.manual {
            return manual.now();
        }
        Instant::now()
    }

    /// Returns the tick of `instant`. The function rounds `instant` down.
    pub(crate) fn reached(&self, instant: Instant) -> Tick {
        match self.nanos(instant) {
            Some(nanos) => self.divide(nanos),
            None => self.divide_far(instant, 0).min(NEVER - 1),
        }
    }

    /// Returns the first tick that is not before `deadline`. The function rounds `deadline` up. If the tick is longer than
    /// a millisecond, returns 0 for a deadline that has passed.
    ///
    /// Returns [`NEVER`] for a deadline beyond the 64 bits of a tick: with a tick of 1 ns after 584 years, and with the
    /// default tick after 9 million years.
    ///
    /// # Panics
    ///
    /// Panics if the current time is there too, because the entry could not tell whether it is due.
    #[inline]
    pub(crate) fn deadline(&self, deadline: Instant) -> Tick {
        match self.nanos(deadline) {
            Some(nanos) => self.divide(nanos + (self.tick - 1)),
            None => self.far_deadline(deadline),
        }
    }

    #[cold]
    fn far_deadline(&self, deadline: Instant) -> Tick {
        // Rounded up, the deadline would be at the next tick, which may be an hour away.
        if self.tick > NANOS_PER_MS && deadline <= self.present() {
            return 0;
        }
        let far = self.divide_far(deadline, self.tick - 1);
        assert!(
            far < NEVER || self.now() < NEVER - 1,
            "a timer with a tick of {} ns counts {} years from its creation, and the clock has passed them: build it \
             with a longer tick",
            self.tick,
            u128::from(NEVER) * u128::from(self.tick) / (u128::from(NANOS_PER_SEC) * 365 * 86_400),
        );
        far
    }

    /// Adds `round` nanoseconds to the time from the origin to `instant`, and divides by the tick.
    #[cold]
    fn divide_far(&self, instant: Instant, round: u64) -> Tick {
        let nanos = instant.saturating_duration_since(self.origin).as_nanos();
        let ticks = (nanos + u128::from(round)) / u128::from(self.tick);
        ticks.try_into().unwrap_or(NEVER)
    }

    /// Returns the instant at which `tick` begins, or `None` for [`NEVER`] and if no [`Instant`] is so late.
    pub(crate) fn instant(&self, tick: Tick) -> Option<Instant> {
        let since = (tick != NEVER).then(|| length(tick, self.tick))?;
        self.origin.checked_add(since)
    }

    /// Returns the number of nanoseconds from the origin to `instant`.
    ///
    /// Returns 0 if `instant` is before the origin. Returns `None` if `instant` is not [near](Self::near).
    #[inline]
    fn nanos(&self, instant: Instant) -> Option<u64> {
        let since = instant.saturating_duration_since(self.origin);
        if since.as_secs() >= self.near {
            return None;
        }
        Some(since.as_secs() * NANOS_PER_SEC + u64::from(since.subsec_nanos()))
    }

    /// Returns `nanos / self.tick`, rounded down. `nanos` must be less than 2^63.
    ///
    /// The function multiplies instead of dividing. The compiler does not know `tick`, so a division would
    /// cost several times as much as the multiplication.
    ///
    /// Let `p = 2^shift` be the least power of two that is not below `tick`. Then the multiplier `2^63 * p /
    /// tick` fits 64 bits. [`new`](Self::new) rounds the multiplier up. So the quotient is too large by less
    /// than `nanos * tick / (tick * 2^63 * p) < 1 / p <= 1 / tick`. This error is too small to reach the next
    /// whole number. Twice `nanos` also fits 64 bits. The function multiplies twice `nanos` by the
    /// multiplier, and shifts the product to the right by `64 + shift` bits. Test: `division_is_exact`.
    #[inline]
    fn divide(&self, nanos: u64) -> u64 {
        let product = u128::from(nanos << 1) * u128::from(self.multiplier);
        (product >> 64) as u64 >> self.shift
    }
}

/// Returns the length of a number of ticks of `tick` nanoseconds, at most [`Duration::MAX`].
pub(crate) fn length(ticks: u64, tick: u64) -> Duration {
    if let Some(nanos) = ticks.checked_mul(tick) {
        return Duration::from_nanos(nanos);
    }
    let nanos = u128::from(ticks) * u128::from(tick);
    let beyond = (nanos % u128::from(NANOS_PER_SEC)) as u32;
    let secs = (nanos / u128::from(NANOS_PER_SEC)).try_into();
    secs.map_or(Duration::MAX, |secs| Duration::new(secs, beyond))
}

/// Returns the instant that is `duration` after now.
///
/// [`Instant`] may be unable to represent that instant. Then the function returns an earlier instant. The
/// time from now to this earlier instant is at least half of the remaining range of [`Instant`]. On every
/// platform, this time is decades.
#[inline]
pub(crate) fn after(duration: Duration) -> Instant {
    saturating_add(Instant::now(), duration)
}

/// Returns `instant + duration`. If [`Instant`] cannot represent the sum, the function returns an earlier
/// instant: see [`after`].
#[inline]
pub(crate) fn saturating_add(instant: Instant, duration: Duration) -> Instant {
    let sum = instant.checked_add(duration);
    sum.unwrap_or_else(|| far_future(instant, duration))
}

#[cold]
fn far_future(instant: Instant, mut duration: Duration) -> Instant {
    // The range of `Instant` depends on the platform. The standard library has no function that returns the
    // range. This loop finds the range within a factor of two.
    loop {
        duration /= 2;
        if let Some(sum) = instant.checked_add(duration) {
            return sum;
        }
    }
}

/// Returns the current time, and whether it is the system's time.
///
/// The second value is `false` if tokio's clock is or was paused. Such a clock is behind the system's time, or a test has
/// moved it ahead.
pub(crate) fn look() -> (Instant, bool) {
    let before = std::time::Instant::now();
    let now = Instant::now();
    let is_real = before <= now.into_std() && now.into_std() <= std::time::Instant::now();
    (now, is_real)
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn division_is_exact(
            tick in prop_oneof![1..=100_u64, 1..=3_600 * NANOS_PER_SEC],
            nanos in 0..1_u64 << 63,
        ) {
            let clock = Clock::new(Duration::from_nanos(tick));
            // Rounding errors appear first around a multiple of the tick.
            let multiple = nanos / tick * tick;
            for nanos in [nanos, multiple, multiple.saturating_sub(1)] {
                prop_assert_eq!(clock.divide(nanos), nanos / tick);
            }
        }

        #[test]
        fn deadlines_round_up_and_the_clock_down(
            tick in 1..=3_600 * NANOS_PER_SEC,
            // Up to 2^63 ns, 2^64 ns and nearly the end of `Instant`.
            secs in (0..62_u32).prop_flat_map(|bits| 0..1_u64 << bits),
            nanos in 0..NANOS_PER_SEC as u32,
        ) {
            let clock = Clock::new(Duration::from_nanos(tick));
            let instant = clock.origin + Duration::new(secs, nanos);
            let deadline = clock.deadline(instant);
            prop_assert!(clock.reached(instant) <= deadline);
            match clock.instant(deadline) {
                Some(reached) => {
                    prop_assert!(reached >= instant);
                    prop_assert!(reached - instant < Duration::from_nanos(tick));
                }
                None => prop_assert!(
                    Duration::new(secs, nanos).as_nanos() > u128::from(NEVER - 1) * u128::from(tick)
                ),
            }
        }
    }

    #[test]
    fn every_duration_saturates() {
        let clock = Clock::new(Duration::from_millis(1));
        let far = after(Duration::MAX);
        assert!(far > Instant::now() + Duration::from_secs(30 * 365 * 86_400));
        assert!(clock.deadline(far) > clock.now());
        assert_eq!(clock.instant(NEVER), None);
    }

    #[test]
    fn instants_before_the_origin_are_tick_zero() {
        let clock = Clock::new(Duration::from_millis(1));
        if let Some(before) = clock.origin.checked_sub(Duration::from_secs(1)) {
            assert_eq!(clock.deadline(before), 0);
        }
    }
}
