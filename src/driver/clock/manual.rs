//! A clock that tests move by hand.

use std::{sync::Mutex, time::Duration};

use tokio::time::Instant;

use super::Clock;
use crate::ground::sync::{AtomicU64, Ordering};

/// A clock that stands still until a test moves it. All copies share one time, whose memory is never freed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manual {
    origin: Instant,
    nanos: &'static AtomicU64,
    is_real: bool,
}

/// Marks a clock whose next reading panics.
const BROKEN: u64 = 1 << 63;

/// All manual clocks of the process. The list keeps them reachable, so that `.ci/run sanitize` does not report
/// them as leaks.
static CLOCKS: Mutex<Vec<&AtomicU64>> = Mutex::new(Vec::new());

impl Clock {
    /// Creates a clock that shows the time of `manual`.
    pub(crate) fn by_hand(tick: Duration, manual: Manual) -> Self {
        Self {
            origin: manual.now(),
            manual: Some(manual),
            ..Self::new(tick)
        }
    }
}

impl Manual {
    /// Creates a clock that starts now.
    ///
    /// If `is_real` is true, a timer treats the clock like the system's clock. Otherwise, a timer treats the
    /// clock like a paused clock.
    pub(crate) fn new(is_real: bool) -> Self {
        let nanos = Box::leak(Box::new(AtomicU64::new(0)));
        CLOCKS.lock().unwrap().push(nanos);
        Self {
            origin: Instant::now(),
            nanos,
            is_real,
        }
    }

    pub(super) fn is_real(&self) -> bool {
        self.is_real
    }

    pub(crate) fn now(&self) -> Instant {
        let nanos = self.nanos.load(Ordering::Relaxed);
        if nanos >= BROKEN {
            self.nanos.fetch_sub(BROKEN, Ordering::Relaxed);
            panic!("the clock is broken");
        }
        self.origin + Duration::from_nanos(nanos)
    }

    /// Makes the next reading panic.
    #[cfg(not(tokio_wheel_loom))]
    pub(crate) fn break_once(&self) {
        self.nanos.fetch_add(BROKEN, Ordering::Relaxed);
    }

    pub(crate) fn advance(&self, by: Duration) {
        let nanos = by
            .as_nanos()
            .try_into()
            .expect("the duration is at most 584 years");
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}
