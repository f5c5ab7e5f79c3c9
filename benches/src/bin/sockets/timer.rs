//! The compared timers.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use tokio_wheel_benches::{
    peer::{Peer, TokioAlt, alternative},
    plot,
};

pub(crate) const WORKERS: usize = 2;

/// The timers that keep a server's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Timer {
    None,
    Tokio,
    /// tokio's alternative timer, in a build of its own.
    Alternative,
    Wheel,
}

impl Timer {
    /// Returns the timers that exist here, in the order of the tables. The tables compare each timer
    /// with the first, and the last timer with each other.
    pub(crate) fn all() -> &'static [Self] {
        static ALL: LazyLock<Vec<Timer>> = LazyLock::new(|| {
            let mut all = vec![Timer::None, Timer::Tokio, Timer::Alternative, Timer::Wheel];
            all.retain(|&timer| timer != Timer::Alternative || alternative().is_some());
            all
        });
        &ALL
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "no limits",
            Self::Tokio => "tokio::time",
            Self::Alternative => plot::title(TokioAlt::NAME),
            Self::Wheel => "tokio_wheel",
        }
    }
}

macro_rules! with_timer {
    ($timer:expr, $P:ident => $body:expr) => {
        $crate::timer::with_timer!(@arms $timer, $P, $body;
            None Bare, Tokio Tokio, Alternative TokioAlt, Wheel TokioWheel)
    };
    (@arms $timer:expr, $P:ident, $body:expr; $($timers:ident $peer:ident),+) => {
        match $timer {
            $($crate::timer::Timer::$timers => {
                type $P = tokio_wheel_benches::peer::$peer;
                $body
            })+
        }
    };
}
pub(crate) use with_timer;
