//! The compared timers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::{runtime::Runtime, time::Instant};
use tokio_wheel_benches::peer::Peer;

use crate::net;

/// The timers that keep a server's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Timer {
    /// No limits.
    None,
    Tokio,
    Wheel,
}

impl Timer {
    /// All timers, in the order of the tables.
    pub(crate) const ALL: [Self; 3] = [Self::None, Self::Tokio, Self::Wheel];

    /// Returns the name in tables and plots.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Wheel => "tokio_wheel",
            Self::Tokio => "tokio::time",
            Self::None => "no limits",
        }
    }
}

/// Evaluates an expression with a type alias bound to the peer of a [`Timer`].
macro_rules! with_timer {
    ($timer:expr, $P:ident => $body:expr) => {
        match $timer {
            $crate::timer::Timer::Wheel => {
                type $P = tokio_wheel_benches::peer::TokioWheel;
                $body
            }
            $crate::timer::Timer::Tokio => {
                type $P = tokio_wheel_benches::peer::Tokio;
                $body
            }
            $crate::timer::Timer::None => {
                type $P = tokio_wheel_benches::peer::Bare;
                $body
            }
        }
    };
}
pub(crate) use with_timer;

/// Starts timers that belong to no connection, and waits until all are set. The `i`th timer calls
/// `fired` after its deadline.
pub(crate) fn start<P: Peer>(
    runtime: &Runtime,
    timers: u64,
    deadline: impl Fn(u64) -> u64 + Copy + Send + 'static,
    fired: impl Fn(u64, Instant) + Clone + Send + 'static,
) {
    let started = Arc::new(AtomicU64::new(0));
    let counter = started.clone();
    runtime.spawn(async move {
        for i in 0..timers {
            let (counter, fired) = (counter.clone(), fired.clone());
            tokio::spawn(async move {
                let deadline = net::instant(deadline(i));
                counter.fetch_add(1, Relaxed);
                P::sleep(deadline.saturating_duration_since(Instant::now())).await;
                fired(i, deadline);
            });
        }
    });
    while started.load(Relaxed) < timers {
        thread::sleep(Duration::from_millis(1));
    }
}
