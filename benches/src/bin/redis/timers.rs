//! The timers that keep the timeouts of the requests.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The timer that keeps the timeouts of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Timer {
    /// No timeouts.
    None,
    /// tokio::time.
    Tokio,
    /// tokio_wheel.
    Wheel,
    /// tokio::time a second time, to show differences that have no cause.
    Control,
}

impl Timer {
    /// The timers that are always measured.
    pub(crate) const ALL: [Self; 3] = [Self::None, Self::Tokio, Self::Wheel];

    /// Returns the name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Tokio => "tokio::time",
            Self::Wheel => "tokio_wheel",
            Self::Control => "tokio::time again",
        }
    }

    /// Returns the name on the command line.
    pub(crate) fn to_arg(self) -> String {
        let value = self.to_possible_value().expect("no timer is skipped");
        value.get_name().to_owned()
    }
}

/// Evaluates an expression with a type alias bound to the peer of a timer.
macro_rules! with_timer {
    ($timer:expr, $P:ident => $body:expr) => {
        match $timer {
            $crate::timers::Timer::None => {
                type $P = tokio_wheel_benches::peer::Bare;
                $body
            }
            $crate::timers::Timer::Tokio | $crate::timers::Timer::Control => {
                type $P = tokio_wheel_benches::peer::Tokio;
                $body
            }
            $crate::timers::Timer::Wheel => {
                type $P = tokio_wheel_benches::peer::TokioWheel;
                $body
            }
        }
    };
}
pub(crate) use with_timer;
