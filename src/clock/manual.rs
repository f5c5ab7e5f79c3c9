//! A clock that tests set by hand.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::Instant;

/// A clock that stands still until it is set. Copies are the same clock, which is never freed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manual {
    origin: Instant,
    nanos: &'static AtomicU64,
}

impl Manual {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            nanos: Box::leak(Box::default()),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.origin + Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }

    pub(crate) fn advance(&self, by: Duration) {
        let nanos = by.as_nanos().try_into().expect("at most 584 years");
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}
