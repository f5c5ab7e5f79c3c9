//! The compared timers.

use std::{
    future::{Pending, pending},
    pin::Pin,
};

use clap::ValueEnum;
use futures_util::FutureExt as _;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tokio_wheel_benches::peer::{Bare, Timeouts, Tokio, TokioWheel};

/// The timers that keep a server's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Timer {
    /// tokio-wheel.
    Wheel,
    /// tokio::time.
    Tokio,
    /// No limits.
    None,
}

/// All timers, in the order of the tables.
pub(crate) const TIMERS: [Timer; 3] = [Timer::None, Timer::Tokio, Timer::Wheel];

impl Timer {
    /// Returns the name on the command line.
    pub(crate) fn argument(self) -> &'static str {
        match self {
            Self::Wheel => "wheel",
            Self::Tokio => "tokio",
            Self::None => "none",
        }
    }

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

/// A timer whose functions take deadlines.
pub(crate) trait Deadlines: Timeouts<Elapsed: Send> {
    /// The type of a sleep.
    type Sleep: Future<Output = ()> + Send;

    /// Returns the peer's `sleep_until`.
    fn sleep_until(deadline: Instant) -> Self::Sleep;

    /// Moves the deadline of a sleep.
    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant);

    /// Returns the peer's `timeout_at`.
    fn timeout_at<F: Future + Send>(
        deadline: Instant,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send;
}

impl Deadlines for TokioWheel {
    type Sleep = tokio_wheel::Sleep;

    fn sleep_until(deadline: Instant) -> Self::Sleep {
        tokio_wheel::sleep_until(deadline)
    }

    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant) {
        sleep.reset(deadline);
    }

    fn timeout_at<F: Future + Send>(
        deadline: Instant,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send {
        tokio_wheel::timeout_at(deadline, future)
    }
}

impl Deadlines for Tokio {
    type Sleep = tokio::time::Sleep;

    fn sleep_until(deadline: Instant) -> Self::Sleep {
        tokio::time::sleep_until(deadline)
    }

    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant) {
        sleep.reset(deadline);
    }

    fn timeout_at<F: Future + Send>(
        deadline: Instant,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send {
        tokio::time::timeout_at(deadline, future)
    }
}

impl Deadlines for Bare {
    type Sleep = Pending<()>;

    fn sleep_until(_: Instant) -> Self::Sleep {
        pending()
    }

    fn reset(_: Pin<&mut Self::Sleep>, _: Instant) {}

    fn timeout_at<F: Future + Send>(
        _: Instant,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send {
        future.map(Ok)
    }
}
