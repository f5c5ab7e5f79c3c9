//! Conversions between ticks and instants. Only this module rounds times.
//!
//! The clock rounds a deadline up to a tick, and rounds the current time down. So no entry fires before its
//! deadline. Test: `deadlines_round_up_and_the_clock_down`. The clock reads the time from a [`Source`].

#[cfg(all(feature = "coarse", target_os = "linux"))]
mod coarse;
#[cfg(test)]
pub(crate) mod manual;
mod source;

#[cfg(all(test, feature = "coarse", target_os = "linux", not(tokio_wheel_loom)))]
pub(crate) use coarse::tests::assert_coarse_by_distance;
#[cfg(all(feature = "coarse", target_os = "linux"))]
pub(crate) use coarse::{Coarse, is_long};
pub(crate) use source::{Source, is_real_time};

use std::time::Duration;

use tokio::time::Instant;

use crate::wheel::{Order, Tick};

/// The tick of a timer whose builder sets no tick: 1/64 ms, which is 15.625 µs.
///
/// The driver's alarm rounds up to whole milliseconds, and 64 ticks make one millisecond. So a deadline that
/// is rounded up to a tick is seldom later than the millisecond at which the alarm goes off. A paused clock
/// moves in whole milliseconds. So on a paused clock, a rounded deadline is never later than the millisecond
/// at which the alarm goes off. A finer tick costs no additional wake-ups, because the alarm limits the
/// number of wake-ups.
pub(crate) const DEFAULT_TICK: Duration = Duration::from_nanos(15_625);

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// The longest time since its origin that a clock can represent: 292 years, in nanoseconds.
const REACH: u64 = (1 << 63) - NANOS_PER_SEC * 3_600;

/// A reading of a clock, in nanoseconds since its origin.
#[cfg(feature = "idle")]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reading {
    Exact(u64),
    /// A reading of the coarse clock. It does not include the margin.
    #[cfg(all(feature = "coarse", target_os = "linux"))]
    Coarse(u64),
}

/// Converts between instants and the ticks of one timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// The instant of tick 0.
    origin: Instant,
    /// The length of a tick in nanoseconds, from 1 ns to 1 h.
    tick: u64,
    /// The factor by which [`divide`](Self::divide) multiplies, because a division by `tick` would be slow.
    multiplier: u64,
    /// [`divide`](Self::divide) shifts the product to the right by `64 + shift` bits.
    shift: u32,
    source: Source,
}

impl Clock {
    /// Creates a clock that starts now. The builder has checked that the tick is from 1 ns to 1 h.
    pub(crate) fn new(tick: Duration, source: Source) -> Self {
        let tick = u64::try_from(tick.as_nanos()).unwrap_or(u64::MAX).max(1);
        let shift = tick.next_power_of_two().ilog2();
        Self {
            origin: source.now(),
            tick,
            multiplier: (1_u128 << (63 + shift)).div_ceil(u128::from(tick)) as u64,
            shift,
            source,
        }
    }

    /// Returns the current tick. The function rounds the current time down.
    pub(crate) fn now(&self) -> Tick {
        self.reached(self.present())
    }

    /// Returns the order in which the driver fires entries.
    ///
    /// Tests with a paused clock rely on the strict order, even when the clock jumps ahead. On a paused clock
    /// the strict order makes no entry late, because the clock stands still while a task runs.
    pub(crate) fn order(&self) -> Order {
        if self.source.is_real() {
            Order::DueFirst
        } else {
            Order::Strict
        }
    }

    /// Returns the current time.
    pub(crate) fn present(&self) -> Instant {
        self.source.now()
    }

    /// Returns the coarse clock, if long durations are measured from it.
    #[cfg(all(feature = "coarse", target_os = "linux"))]
    pub(crate) fn coarse(&self) -> Option<&'static Coarse> {
        match self.source {
            Source::Coarse(coarse) => Some(coarse),
            _ => None,
        }
    }

    /// Returns the instant from which `duration` is measured.
    ///
    /// For a long duration on a coarse clock, the function returns the coarse time plus the margin. This
    /// instant is slightly after the current time. In all other cases, it returns the current time.
    #[inline]
    pub(crate) fn present_for(&self, duration: Duration) -> Instant {
        self.source.present_for(duration)
    }

    /// Returns the sum of `duration` and the instant that [`present_for`](Self::present_for) returns.
    ///
    /// If [`Instant`] cannot represent the sum, the function returns an earlier instant: see
    /// [`after`](fn@after).
    #[inline]
    pub(crate) fn after(&self, duration: Duration) -> Instant {
        saturating_add(self.present_for(duration), duration)
    }

    /// Returns the tick of `instant`. The function rounds `instant` down.
    pub(crate) fn reached(&self, instant: Instant) -> Tick {
        let nanos = self.nanos(instant).unwrap_or(REACH);
        Tick(self.divide(nanos))
    }

    /// Returns the first tick that is not before `deadline`. The function rounds `deadline` up.
    ///
    /// Returns [`Tick::NEVER`] for a deadline beyond the clock's reach.
    #[inline]
    pub(crate) fn deadline(&self, deadline: Instant) -> Tick {
        match self.nanos(deadline) {
            Some(nanos) => Tick(self.divide(nanos + (self.tick - 1))),
            None => Tick::NEVER,
        }
    }

    /// Returns the length of `ticks` ticks.
    pub(crate) fn duration(&self, ticks: u64) -> Duration {
        Duration::from_nanos(ticks.saturating_mul(self.tick))
    }

    /// Reads the clock for [`deadline_after`](Self::deadline_after).
    ///
    /// The caller does not know the timeout yet. `expected` is the most likely timeout.
    #[cfg(feature = "idle")]
    #[inline]
    #[cfg_attr(
        not(all(feature = "coarse", target_os = "linux")),
        expect(unused_variables, reason = "no clock is coarse")
    )]
    pub(crate) fn read_for(&self, expected: Duration) -> Reading {
        #[cfg(all(feature = "coarse", target_os = "linux"))]
        if let Source::Coarse(coarse) = &self.source {
            return self.read_coarse_for(coarse, expected);
        }
        Reading::Exact(self.nanos(self.present()).unwrap_or(REACH))
    }

    /// Returns the first tick that is not before `reading` plus `timeout` nanoseconds.
    ///
    /// This function is faster than [`deadline`](Self::deadline). It treats a coarse reading as follows:
    ///
    /// * For a long `timeout`, the function adds the margin to the reading.
    /// * For a short `timeout`, the function reads the exact clock instead.
    #[cfg(feature = "idle")]
    #[inline]
    pub(crate) fn deadline_after(&self, reading: Reading, timeout: u64) -> Tick {
        match self.start_of(reading, timeout).saturating_add(timeout) {
            nanos @ ..REACH => Tick(self.divide(nanos + (self.tick - 1))),
            _ => Tick::NEVER,
        }
    }

    /// Returns the reading from which `timeout` is measured.
    #[cfg(feature = "idle")]
    #[inline]
    #[cfg_attr(
        not(all(feature = "coarse", target_os = "linux")),
        expect(unused_variables, reason = "no clock is coarse")
    )]
    fn start_of(&self, reading: Reading, timeout: u64) -> u64 {
        match reading {
            Reading::Exact(elapsed) => elapsed,
            #[cfg(all(feature = "coarse", target_os = "linux"))]
            Reading::Coarse(elapsed) => self.with_margin(elapsed, timeout),
        }
    }

    // This function and the next function are not inlined, so that they do not slow down a touch on the exact
    // clock.
    #[cfg(all(feature = "coarse", feature = "idle", target_os = "linux"))]
    #[cold]
    fn read_coarse_for(&self, coarse: &Coarse, expected: Duration) -> Reading {
        if is_long(expected) {
            Reading::Coarse(self.nanos(coarse.present()).unwrap_or(REACH))
        } else {
            Reading::Exact(self.nanos(self.present()).unwrap_or(REACH))
        }
    }

    /// Returns the reading from which `timeout` is measured.
    ///
    /// For a long `timeout`, this is the coarse reading plus the margin. For a short `timeout`, this is a new
    /// reading of the exact clock.
    #[cfg(all(feature = "coarse", feature = "idle", target_os = "linux"))]
    #[cold]
    fn with_margin(&self, elapsed: u64, timeout: u64) -> u64 {
        let timeout = Duration::from_nanos(timeout);
        if is_long(timeout) {
            elapsed + coarse::margin(timeout).as_nanos() as u64
        } else {
            self.nanos(self.present()).unwrap_or(REACH)
        }
    }

    /// Returns the instant at which `tick` begins, or `None` if the tick is beyond the clock's reach.
    pub(crate) fn instant(&self, tick: Tick) -> Option<Instant> {
        let nanos = tick.0.checked_mul(self.tick)?;
        self.origin.checked_add(Duration::from_nanos(nanos))
    }

    /// Returns the instant at which `tick` begins, or a far instant if the tick is beyond the clock's reach.
    pub(crate) fn saturating_instant(&self, tick: Tick) -> Instant {
        let far = || saturating_add(self.origin, Duration::MAX);
        self.instant(tick).unwrap_or_else(far)
    }

    /// Returns the number of nanoseconds from the origin to `instant`.
    ///
    /// Returns 0 if `instant` is before the origin. Returns `None` if `instant` is beyond the clock's reach.
    #[inline]
    fn nanos(&self, instant: Instant) -> Option<u64> {
        let since = instant.saturating_duration_since(self.origin);
        if since.as_secs() >= REACH / NANOS_PER_SEC {
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
    match instant.checked_add(duration) {
        Some(sum) => sum,
        None => far_future(instant, duration),
    }
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
            let clock = Clock::new(Duration::from_nanos(tick), Source::Tokio);
            // Rounding errors appear first around a multiple of the tick.
            let multiple = nanos / tick * tick;
            for nanos in [nanos, multiple, multiple.saturating_sub(1)] {
                prop_assert_eq!(clock.divide(nanos), nanos / tick);
            }
        }

        #[test]
        fn deadlines_round_up_and_the_clock_down(
            tick in 1..=3_600 * NANOS_PER_SEC,
            nanos in 0..REACH,
        ) {
            let clock = Clock::new(Duration::from_nanos(tick), Source::Tokio);
            let instant = clock.origin + Duration::from_nanos(nanos);
            let deadline = clock.deadline(instant);
            prop_assume!(nanos / NANOS_PER_SEC < REACH / NANOS_PER_SEC);
            let reached = clock.instant(deadline).expect("the deadline is within reach");
            prop_assert!(reached >= instant);
            prop_assert!(reached - instant < Duration::from_nanos(tick));
            prop_assert!(clock.reached(instant) <= deadline);
            prop_assert!(clock.divide(nanos) <= deadline.0);
            #[cfg(feature = "idle")]
            for timeout in [0, 1, nanos / 2, nanos] {
                let reading = Reading::Exact(nanos - timeout);
                prop_assert_eq!(clock.deadline_after(reading, timeout), deadline);
            }
        }
    }

    #[test]
    fn every_duration_saturates() {
        let clock = Clock::new(Duration::from_millis(1), Source::Tokio);
        let far = after(Duration::MAX);
        assert!(far > Instant::now() + Duration::from_secs(30 * 365 * 86_400));
        assert!(clock.deadline(far) > clock.now());
        assert_eq!(clock.instant(Tick::NEVER), None);
        #[cfg(feature = "idle")]
        for (elapsed, timeout) in [(0, REACH), (REACH - 1, 1), (5, u64::MAX), (REACH, u64::MAX)] {
            let reading = Reading::Exact(elapsed);
            assert_eq!(clock.deadline_after(reading, timeout), Tick::NEVER);
        }
    }

    #[test]
    fn instants_before_the_origin_are_tick_zero() {
        let clock = Clock::new(Duration::from_millis(1), Source::Tokio);
        if let Some(before) = clock.origin.checked_sub(Duration::from_secs(1)) {
            assert_eq!(clock.deadline(before), Tick(0));
        }
    }

    #[cfg(all(feature = "coarse", target_os = "linux"))]
    mod coarse {
        use super::*;

        fn coarse() -> Clock {
            let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
            let coarse = Coarse::new(runtime.handle()).expect("the runtime is multi-threaded");
            Clock::new(DEFAULT_TICK, Source::Coarse(coarse))
        }

        #[test]
        fn what_counts_from_it() {
            let clock = coarse();
            assert_coarse_by_distance(|duration| clock.after(duration));
            assert_coarse_by_distance(|duration| clock.present_for(duration) + duration);
            assert!(clock.after(Duration::ZERO) <= Instant::now());
            let decades = Duration::from_secs(30 * 365 * 86_400);
            assert!(clock.after(Duration::MAX) > Instant::now() + decades);
        }

        #[cfg(feature = "idle")]
        #[test]
        fn the_timeout_decides_and_not_what_was_expected() {
            let clock = coarse();
            for expected in [1, 60].map(Duration::from_secs) {
                let deadline = |timeout: Duration| {
                    let reading = clock.read_for(expected);
                    let tick = clock.deadline_after(reading, timeout.as_nanos() as u64);
                    clock.instant(tick).unwrap()
                };
                let second = Duration::from_secs(1);
                let before = Instant::now();
                let deadline_of_short = deadline(second);
                assert!(deadline_of_short >= before + second);
                assert!(deadline_of_short < Instant::now() + second + Duration::from_millis(1));
            }
            assert_coarse_by_distance(|timeout| {
                let reading = clock.read_for(timeout);
                let tick = clock.deadline_after(reading, timeout.as_nanos() as u64);
                clock.instant(tick).unwrap()
            });
            let never = clock.deadline_after(clock.read_for(Duration::MAX), u64::MAX);
            assert_eq!(never, Tick::NEVER);
        }

        #[cfg(feature = "idle")]
        #[test]
        fn a_coarse_reading_gets_the_margin_of_the_timeout() {
            let clock = coarse();
            for (timeout, margin) in [(2_000_000_000, 62_500_000), (5_000_000_000, 100_000_000)] {
                assert_eq!(
                    clock.deadline_after(Reading::Coarse(1_000), timeout),
                    clock.deadline_after(Reading::Exact(1_000 + margin), timeout)
                );
            }
        }
    }
}
