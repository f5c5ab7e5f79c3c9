//! The kernel's coarse monotonic clock, which costs a fifth of an exact look at the time.
//!
//! It says when the kernel's timer interrupt last came: it is behind by up to one interval of that,
//! and by as much again as the interrupt is late. Deadlines must not be early, so they count from
//! what it says and [two intervals](MARGIN) more. Seen on a virtual machine whose interval is 4 ms:
//! 5.7 ms. Where the machine keeps the interrupt from the kernel for longer, as a hypervisor can, a
//! deadline counts from as much too early.

use std::{sync::OnceLock, time::Duration};

use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    time::Instant,
};

/// Intervals of the clock by which it may be behind.
const MARGIN: u32 = 2;

/// What turns a reading of the coarse clock into an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coarse {
    /// A moment and the margin after it.
    origin: Instant,
    /// The same moment as the monotonic clock puts it.
    reading: Duration,
}

impl Coarse {
    /// The coarse clock, for a timer of the runtime that the calling thread is in.
    ///
    /// `None` on a current-thread runtime: its clock can be paused at any time, which this one
    /// would not know of.
    pub(crate) fn new(runtime: &Handle) -> Option<Self> {
        static COARSE: OnceLock<Coarse> = OnceLock::new();
        (runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
            .then(|| *COARSE.get_or_init(Self::calibrate))
    }

    /// Both clocks cannot be read at once. The origin is read last, so that what lies between makes
    /// deadlines later, and the closest of several pairs is taken.
    fn calibrate() -> Self {
        let pair = |_| {
            let reading = to_duration(clock_gettime(ClockId::Monotonic));
            let origin = Instant::now();
            let apart = to_duration(clock_gettime(ClockId::Monotonic)) - reading;
            (apart, reading, origin)
        };
        let pairs = (0..100).map(pair);
        let (_, reading, origin) = pairs.min().expect("there are a hundred");
        let margin = to_duration(clock_getres(ClockId::MonotonicCoarse)) * MARGIN;
        Self {
            origin: origin + margin,
            reading,
        }
    }

    /// The present or somewhat later.
    #[inline]
    pub(crate) fn upper_bound(&self) -> Instant {
        let reading = to_duration(clock_gettime(ClockId::MonotonicCoarse));
        self.origin + reading.saturating_sub(self.reading)
    }
}

#[inline]
fn to_duration(time: Timespec) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
