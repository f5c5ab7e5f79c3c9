//! The compared timers.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use tokio_wheel_benches::{
    peer::{Bare, Peer, Tokio, TokioAlt, TokioWheel, alternative},
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

    /// Returns the [`NAME`](Peer::NAME) of the peer.
    pub(crate) fn peer(self) -> &'static str {
        match self {
            Self::None => Bare::NAME,
            Self::Tokio => Tokio::NAME,
            Self::Alternative => TokioAlt::NAME,
            Self::Wheel => TokioWheel::NAME,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "no limits",
            _ => plot::title(self.peer()),
        }
    }
}
