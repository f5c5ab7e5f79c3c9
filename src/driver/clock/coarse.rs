//! The kernel's coarse monotonic clock. Reading the exact clock takes five times as long.
//!
//! The kernel sets the coarse clock at each timer interrupt. So the clock lags behind the exact clock by up
//! to one interval of these interrupts. An interval lasts 1 to 10 ms. If an interrupt is late, the clock also
//! lags by the delay of the interrupt. An entry must not fire early. So the crate measures a long duration
//! from the coarse time plus a [`margin`].
//!
//! The margin grows with the duration, up to [`MAX_MARGIN`]. Only a [long](is_long) duration is measured from
//! the coarse clock. The margin of a long duration is longer than six intervals of 10 ms.
//!
//! A sleep is early only if the coarse clock lags by more than the margin when the sleep is created. The
//! clock lags so far only if the host has delayed a timer interrupt by more than the margin minus one
//! interval. Test: `a_lag_below_the_margin_makes_nothing_early`.

use std::{sync::OnceLock, time::Duration};

use rustix::time::{ClockId, Timespec, clock_gettime};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    time::Instant,
};

/// The shortest duration that is measured from the coarse clock. Its margin is 62.5 ms.
const LONG: Duration = Duration::from_secs(2);

/// The number by which a duration is divided to get its margin.
const MARGIN_DIVISOR: u32 = 32;

/// The longest margin. Durations of 3.2 s and more have this margin.
const MAX_MARGIN: Duration = Duration::from_millis(100);

/// Returns whether a duration is measured from the coarse clock.
#[inline]
pub(crate) fn is_long(duration: Duration) -> bool {
    duration >= LONG
}

/// Returns how far the coarse clock may lag without making a deadline early.
#[inline]
pub(super) fn margin(duration: Duration) -> Duration {
    if duration >= MAX_MARGIN * MARGIN_DIVISOR {
        return MAX_MARGIN;
    }
    duration / MARGIN_DIVISOR
}

/// Converts readings of the coarse clock to instants.
#[derive(Debug)]
pub(crate) struct Coarse {
    /// The instant from which readings are converted.
    origin: Instant,
    /// The origin plus [`MAX_MARGIN`]. Most durations have this margin.
    late_origin: Instant,
    /// The reading of the exact monotonic clock at the origin, or shortly before the origin.
    reading: Duration,
}

impl Coarse {
    /// Returns the coarse clock, if a timer of `runtime` may use it.
    ///
    /// Returns `None` for a current-thread runtime. The clock of such a runtime can be paused at any time.
    /// The kernel's clock cannot be paused.
    pub(crate) fn new(runtime: &Handle) -> Option<&'static Self> {
        static COARSE: OnceLock<Coarse> = OnceLock::new();
        (runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
            .then(|| COARSE.get_or_init(Self::calibrate))
    }

    /// Reads the kernel's exact clock and tokio's clock a hundred times. Uses the pair of readings with the
    /// least time between them.
    ///
    /// For each pair, the function reads the kernel's clock first. So the time between the two readings makes
    /// deadlines slightly later, but never earlier.
    fn calibrate() -> Self {
        let pair = |_| {
            let reading = to_duration(clock_gettime(ClockId::Monotonic));
            let origin = Instant::now();
            let apart = to_duration(clock_gettime(ClockId::Monotonic)) - reading;
            (apart, reading, origin)
        };
        let pairs = (0..100).map(pair);
        let (_, reading, origin) = pairs.min().expect("the range has a hundred numbers");
        Self::at(origin, reading)
    }

    fn at(origin: Instant, reading: Duration) -> Self {
        Self {
            origin,
            late_origin: origin + MAX_MARGIN,
            reading,
        }
    }

    /// Returns the coarse time plus the margin. A [long](is_long) `duration` is measured from this instant.
    #[inline]
    pub(crate) fn present_for(&self, duration: Duration) -> Instant {
        self.after_reading(read(), duration)
    }

    /// Returns the coarse time. The coarse time lags behind the exact time by at most a margin.
    #[cfg(feature = "idle")]
    #[inline]
    pub(super) fn present(&self) -> Instant {
        self.instant(read())
    }

    #[inline]
    fn after_reading(&self, reading: Duration, duration: Duration) -> Instant {
        match margin(duration) {
            MAX_MARGIN => self.late_origin + reading.saturating_sub(self.reading),
            margin => self.instant(reading) + margin,
        }
    }

    #[inline]
    fn instant(&self, reading: Duration) -> Instant {
        self.origin + reading.saturating_sub(self.reading)
    }
}

#[inline]
fn read() -> Duration {
    to_duration(clock_gettime(ClockId::MonotonicCoarse))
}

#[inline]
fn to_duration(time: Timespec) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(all(test, not(tokio_wheel_loom)))]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Asserts that long durations are measured from the coarse clock, and short durations from the exact
    /// clock. `make` returns the deadline of a sleep that starts now.
    pub(crate) fn assert_coarse_by_distance(mut make: impl FnMut(Duration) -> Instant) {
        for duration in [MS, 10 * MS, LONG - Duration::from_nanos(1)] {
            let before = Instant::now();
            let deadline = make(duration);
            assert!(deadline >= before + duration, "{duration:?} is early");
            // The slack of 1 ms is longer than a tick.
            assert!(deadline < Instant::now() + duration + MS, "{duration:?}");
        }
        for duration in [LONG, 3 * LONG, 1_000 * LONG] {
            // A deadline from the exact clock is never this late. A deadline from the coarse clock may look
            // exact if the system interrupts the thread. So the test tries a hundred times.
            let is_coarse = (0..100).any(|_| {
                let deadline = make(duration);
                let now = Instant::now();
                assert!(deadline < now + duration + margin(duration) + MS);
                deadline > now + duration + MS
            });
            assert!(is_coarse, "{duration:?} counts from the exact clock");
        }
    }

    #[test]
    fn the_margin_is_a_part_of_the_duration_and_limited() {
        assert!(!is_long(Duration::ZERO));
        assert!(!is_long(LONG - Duration::from_nanos(1)));
        assert!(is_long(LONG));
        assert_eq!(margin(LONG), Duration::from_micros(62_500));
        assert_eq!(
            margin(Duration::from_millis(3_199)),
            Duration::from_nanos(99_968_750)
        );
        for millis in [3_200, 3_201, 30_000] {
            assert_eq!(margin(Duration::from_millis(millis)), 100 * MS);
        }
        assert_eq!(margin(Duration::MAX), 100 * MS);
    }

    proptest! {
        /// The test sets both clocks. `lag` is the lag of the coarse clock, divided by the margin.
        #[test]
        fn a_lag_below_the_margin_makes_nothing_early(
            uptime in 0..1_000_000_000_000_000_u64,
            since in 0..1_000_000_000_000_000_u64,
            duration in 2_000_000_000..10_000_000_000_u64,
            lag in 0.0..=1.0,
        ) {
            let [uptime, since, duration] = [uptime, since, duration].map(Duration::from_nanos);
            let coarse = Coarse::at(Instant::now(), uptime);
            let now = coarse.origin + since;
            let lag = margin(duration).mul_f64(lag);
            let present = coarse.after_reading((uptime + since).saturating_sub(lag), duration);
            prop_assert!(present >= now, "early by {:?}", now - present);
            // The clock treats a reading before the origin as the origin.
            prop_assert!(present <= now + margin(duration));
        }
    }
}
