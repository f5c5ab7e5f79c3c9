//! Conversions between ticks and instants.
//!
//! The clock rounds a deadline up to a tick, and rounds the current time down. So no entry fires before its
//! deadline. Test: `deadlines_round_up_and_the_clock_down`.

use bounded_wheel::{NEVER, Tick};
use tokio::time::Instant;
use tokio_wheel::Duration;

use crate::limit::{nanos, saturating_add};

/// The longest time since its origin that a clock represents: 292 years less an hour, in nanoseconds. So this time and a
/// tick are less than 2^63.
const REACH: u64 = (1 << 63) - 3_600_000_000_000;

/// Converts between instants and the ticks of one service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// The instant of tick 0.
    origin: Instant,
    /// The length of a tick in nanoseconds, from 1 ns to 1 h.
    pub(crate) tick: u64,
    /// The factor by which [`divide`](Self::divide) multiplies.
    multiplier: u64,
    /// [`divide`](Self::divide) shifts the product to the right by `64 + shift` bits.
    shift: u32,
}

impl Clock {
    /// Creates a clock that starts now. `tick` is the tick of a timer, or a constant.
    pub(crate) fn new(tick: Duration) -> Self {
        let tick = nanos(tick);
        let shift = tick.next_power_of_two().ilog2();
        Self {
            origin: Instant::now(),
            tick,
            multiplier: (1_u128 << (63 + shift)).div_ceil(u128::from(tick)) as u64,
            shift,
        }
    }

    /// Returns `nanos / tick`, for less than 2^63 nanoseconds.
    ///
    /// The function multiplies, because a division by a number that the compiler does not know takes several times as
    /// long. With `p = 2^shift`, the least power of two that is not below `tick`, the multiplier is `2^63 * p / tick`,
    /// rounded up. So the quotient is too large by less than `1 / p`, which does not reach the next whole number.
    #[inline]
    fn divide(&self, nanos: u64) -> u64 {
        let product = u128::from(nanos << 1) * u128::from(self.multiplier);
        (product >> 64) as u64 >> self.shift
    }

    /// Returns the current tick. The function rounds the current time down.
    pub(crate) fn now(&self) -> Tick {
        self.divide(self.elapsed().min(REACH))
    }

    /// Returns the number of nanoseconds from the origin to now.
    #[inline]
    pub(crate) fn elapsed(&self) -> u64 {
        self.since(Instant::now())
    }

    /// Returns the first tick that is not before `deadline`. The function rounds `deadline` up.
    ///
    /// Returns [`NEVER`] for a deadline beyond the clock's reach.
    #[inline]
    pub(crate) fn deadline(&self, deadline: Instant) -> Tick {
        self.deadline_after(self.since(deadline), 0)
    }

    /// Returns the first tick that is not before [`elapsed`](Self::elapsed) plus `timeout`, in nanoseconds.
    #[inline]
    pub(crate) fn deadline_after(&self, elapsed: u64, timeout: u64) -> Tick {
        match elapsed.saturating_add(timeout) {
            nanos @ ..REACH => self.divide(nanos + (self.tick - 1)),
            _ => NEVER,
        }
    }

    /// Returns the instant at which `tick` begins, or `None` if no [`Instant`] can express it.
    #[inline]
    pub(crate) fn instant(&self, tick: Tick) -> Option<Instant> {
        let nanos = tick.checked_mul(self.tick)?;
        self.origin.checked_add(Duration::from_nanos(nanos))
    }

    /// Returns the instant at which `tick` begins, or an instant at least a century ahead if no [`Instant`] can express it.
    #[inline]
    pub(crate) fn saturating_instant(&self, tick: Tick) -> Instant {
        let nanos = tick.saturating_mul(self.tick);
        saturating_add(self.origin, Duration::from_nanos(nanos))
    }

    /// Returns the number of nanoseconds from the origin to `instant`, or 0 if `instant` is before the origin.
    #[inline]
    fn since(&self, instant: Instant) -> u64 {
        nanos(instant.saturating_duration_since(self.origin))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: u64 = 3_600_000_000_000;

    proptest! {
        #[test]
        fn deadlines_round_up_and_the_clock_down(tick in 1..=HOUR, nanos in 0..REACH) {
            let clock = Clock::new(Duration::from_nanos(tick));
            let instant = clock.origin + Duration::from_nanos(nanos);
            let deadline = clock.deadline(instant);
            let reached = clock.instant(deadline).expect("the deadline is within reach");
            prop_assert!(reached >= instant);
            prop_assert!(reached - instant < Duration::from_nanos(tick));
            prop_assert!(clock.since(instant) / tick <= deadline);
            for nanos in [nanos, nanos / tick * tick, (nanos / tick * tick).saturating_sub(1)] {
                prop_assert_eq!(clock.divide(nanos), nanos / tick);
            }
            for timeout in [0, 1, nanos / 2, nanos] {
                let elapsed = nanos.saturating_sub(timeout);
                prop_assert_eq!(clock.deadline_after(elapsed, nanos - elapsed), deadline);
            }
        }
    }

    #[test]
    fn every_duration_saturates() {
        let clock = Clock::new(Duration::from_millis(1));
        for (elapsed, timeout) in [(0, REACH), (REACH - 1, 1), (5, u64::MAX), (REACH, u64::MAX)] {
            assert_eq!(clock.deadline_after(elapsed, timeout), NEVER);
        }
        assert_eq!(clock.instant(NEVER), None);
        let decades = Instant::now() + Duration::from_secs(30 * 365 * 86_400);
        assert!(clock.saturating_instant(NEVER) > decades);
        assert!(clock.deadline(clock.saturating_instant(NEVER)) > clock.now());
    }

    #[test]
    fn instants_before_the_origin_are_tick_zero() {
        let clock = Clock::new(Duration::from_millis(1));
        if let Some(before) = clock.origin.checked_sub(Duration::from_secs(1)) {
            assert_eq!(clock.deadline(before), 0);
        }
    }
}
