//! The kernel's coarse monotonic clock, which costs a fifth of the exact clock to read.
//!
//! The kernel sets this clock at each of its timer interrupts. The clock lags behind the exact one by up to
//! one interval, which is 1 to 10 ms, and by as much more as the interrupt is late. A deadline
//! must not be early, so it counts from the coarse clock and a [`margin`].
//!
//! The margin grows with the duration, up to [`MAX_MARGIN`]. So only a [long](is_long) duration counts from
//! this clock: its margin is above two of the longest intervals. A sleep is early if the clock lags behind
//! by more than the margin at the moment at which the sleep is made. That takes a host that holds the
//! kernel's timer interrupt back for as long. Test: `a_lag_below_the_margin_makes_nothing_early`.

use std::{sync::OnceLock, time::Duration};

use rustix::time::{ClockId, Timespec, clock_gettime};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    time::Instant,
};

/// The shortest duration that counts from the coarse clock. Its margin is 62.5 ms.
const LONG: Duration = Duration::from_secs(2);

/// The part of a duration that its margin is.
const MARGIN_DIVISOR: u32 = 32;

/// The margin of 3.2 s and of every longer duration.
const MAX_MARGIN: Duration = Duration::from_millis(100);

/// Returns whether a duration counts from the coarse clock.
#[inline]
pub(crate) fn is_long(duration: Duration) -> bool {
    duration >= LONG
}

/// Returns how far the coarse clock may lag behind without making a deadline early.
#[inline]
pub(super) fn margin(duration: Duration) -> Duration {
    if duration >= MAX_MARGIN * MARGIN_DIVISOR {
        return MAX_MARGIN;
    }
    duration / MARGIN_DIVISOR
}

/// Turns a reading of the coarse clock into an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coarse {
    origin: Instant,
    /// What the exact monotonic clock read at the origin, or shortly before it.
    reading: Duration,
}

impl Coarse {
    /// Returns the coarse clock, for a timer of the runtime that the calling thread is in.
    ///
    /// Returns `None` on a current-thread runtime: its clock can be paused at any time, and the kernel's
    /// clock cannot.
    pub(crate) fn new(runtime: &Handle) -> Option<Self> {
        static COARSE: OnceLock<Coarse> = OnceLock::new();
        (runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
            .then(|| *COARSE.get_or_init(Self::calibrate))
    }

    /// Reads both clocks a hundred times and takes the closest pair. The origin is read last, so the time
    /// between the two readings makes deadlines later.
    fn calibrate() -> Self {
        let pair = |_| {
            let reading = to_duration(clock_gettime(ClockId::Monotonic));
            let origin = Instant::now();
            let apart = to_duration(clock_gettime(ClockId::Monotonic)) - reading;
            (apart, reading, origin)
        };
        let pairs = (0..100).map(pair);
        let (_, reading, origin) = pairs.min().expect("there are a hundred");
        Self { origin, reading }
    }

    /// Returns an instant shortly after the present for a [long](is_long) duration: the clock and the
    /// duration's margin.
    #[inline]
    pub(crate) fn present_for(&self, duration: Duration) -> Instant {
        self.present() + margin(duration)
    }

    /// Returns the clock's present, which is up to a margin before the exact one.
    #[inline]
    pub(super) fn present(&self) -> Instant {
        self.instant(to_duration(clock_gettime(ClockId::MonotonicCoarse)))
    }

    #[inline]
    fn instant(&self, reading: Duration) -> Instant {
        self.origin + reading.saturating_sub(self.reading)
    }
}

#[inline]
fn to_duration(time: Timespec) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
