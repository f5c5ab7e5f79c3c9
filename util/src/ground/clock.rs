//! Conversions between ticks and instants.
//!
//! The clock rounds a deadline up to a tick, and rounds the current time down. So no entry fires before its
//! deadline. Test: `deadlines_round_up_and_the_clock_down`.

use bounded_wheel::{NEVER, Tick};
use tokio::time::Instant;
use tokio_wheel::Duration;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// The time since its origin that a clock can represent: 292 years. So a tick is less than 2^63.
const REACH: Duration = Duration::from_secs((1 << 63) / NANOS_PER_SEC);

/// Converts between instants and the ticks of one service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// The instant of tick 0.
    origin: Instant,
    /// The length of a tick in nanoseconds, from 1 ns to 1 h.
    tick: u64,
}

impl Clock {
    /// Creates a clock that starts now. `tick` is the tick of a timer, or a constant.
    pub(crate) fn new(tick: Duration) -> Self {
        Self {
            origin: Instant::now(),
            tick: tick.as_nanos() as u64,
        }
    }

    /// Returns the current tick. The function rounds the current time down.
    pub(crate) fn now(&self) -> Tick {
        self.nanos(Instant::now()) / self.tick
    }

    /// Returns the first tick that is not before `deadline`. The function rounds `deadline` up.
    ///
    /// Returns [`NEVER`] for a deadline beyond the clock's reach.
    #[inline]
    pub(crate) fn deadline(&self, deadline: Instant) -> Tick {
        match self.nanos(deadline) {
            u64::MAX => NEVER,
            nanos => nanos.div_ceil(self.tick),
        }
    }

    /// Returns the first tick that is not before the end of `timeout`, which starts now.
    #[inline]
    pub(crate) fn deadline_after(&self, timeout: Duration) -> Tick {
        match Instant::now().checked_add(timeout) {
            Some(deadline) => self.deadline(deadline),
            None => NEVER,
        }
    }

    /// Returns the instant at which `tick` begins, or `None` if no [`Instant`] can express it.
    pub(crate) fn instant(&self, tick: Tick) -> Option<Instant> {
        let nanos = tick.checked_mul(self.tick)?;
        self.origin.checked_add(Duration::from_nanos(nanos))
    }

    /// Returns the instant at which `tick` begins, or an instant decades ahead if no [`Instant`] can express it.
    pub(crate) fn saturating_instant(&self, tick: Tick) -> Instant {
        // The range of `Instant` depends on the platform. The standard library has no function that returns the
        // range. So this code finds the range within a factor of two.
        let after = |half| {
            self.origin
                .checked_add(Duration::from_secs(u64::MAX >> half))
        };
        let far = || (0..u64::BITS).find_map(after);
        self.instant(tick).or_else(far).unwrap_or(self.origin)
    }

    /// Returns the number of nanoseconds from the origin to `instant`.
    ///
    /// Returns 0 if `instant` is before the origin. Returns [`u64::MAX`] if `instant` is beyond the clock's reach.
    #[inline]
    fn nanos(&self, instant: Instant) -> u64 {
        let since = instant.saturating_duration_since(self.origin);
        if since >= REACH {
            return u64::MAX;
        }
        since.as_secs() * NANOS_PER_SEC + u64::from(since.subsec_nanos())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn deadlines_round_up_and_the_clock_down(
            tick in 1..=3_600 * NANOS_PER_SEC,
            nanos in 0..REACH.as_nanos() as u64,
        ) {
            let clock = Clock::new(Duration::from_nanos(tick));
            let instant = clock.origin + Duration::from_nanos(nanos);
            let deadline = clock.deadline(instant);
            let reached = clock.instant(deadline).expect("the deadline is within reach");
            prop_assert!(reached >= instant);
            prop_assert!(reached - instant < Duration::from_nanos(tick));
            prop_assert!(clock.nanos(instant) / tick <= deadline);
        }
    }

    #[test]
    fn every_duration_saturates() {
        let clock = Clock::new(Duration::from_millis(1));
        assert_eq!(clock.deadline_after(Duration::MAX), NEVER);
        assert_eq!(clock.deadline_after(REACH), NEVER);
        assert_eq!(clock.instant(NEVER), None);
        let decades = Instant::now() + Duration::from_secs(30 * 365 * 86_400);
        assert!(clock.saturating_instant(NEVER) > decades);
    }

    #[test]
    fn instants_before_the_origin_are_tick_zero() {
        let clock = Clock::new(Duration::from_millis(1));
        if let Some(before) = clock.origin.checked_sub(Duration::from_secs(1)) {
            assert_eq!(clock.deadline(before), 0);
        }
    }
}
