//! The source from which a clock reads the time.

use std::time::Duration;

use tokio::time::Instant;

#[cfg(all(feature = "coarse", target_os = "linux"))]
use super::coarse::{Coarse, is_long};

/// The source of the time. Each registrar has a copy of the source, so reading the time needs no indirection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// [`Instant::now`], which follows a paused clock.
    Tokio,
    /// The kernel's coarse clock for long durations, and [`Instant::now`] for all other readings.
    #[cfg(all(feature = "coarse", target_os = "linux"))]
    Coarse(&'static Coarse),
    /// A clock that a test moves.
    #[cfg(test)]
    Manual(super::manual::Manual),
}

impl Source {
    /// Returns the current time.
    #[inline]
    pub(super) fn now(&self) -> Instant {
        match self {
            Self::Tokio => Instant::now(),
            #[cfg(all(feature = "coarse", target_os = "linux"))]
            Self::Coarse(_) => Instant::now(),
            #[cfg(test)]
            Self::Manual(manual) => manual.now(),
        }
    }

    /// Returns whether the source shows the system's time. After a pause, tokio's clock differs from the
    /// system's clock.
    pub(super) fn is_real(&self) -> bool {
        match self {
            Self::Tokio => is_real_time(),
            #[cfg(all(feature = "coarse", target_os = "linux"))]
            Self::Coarse(_) => true,
            #[cfg(test)]
            Self::Manual(manual) => manual.is_real(),
        }
    }

    /// Returns the instant from which `duration` is measured.
    ///
    /// For a long duration on a coarse clock, the function returns the coarse time plus the margin. This
    /// instant is slightly after the current time. In all other cases, it returns the current time.
    #[inline]
    #[cfg_attr(
        not(all(feature = "coarse", target_os = "linux")),
        expect(unused_variables, reason = "no clock is coarse")
    )]
    pub(super) fn present_for(&self, duration: Duration) -> Instant {
        match self {
            #[cfg(all(feature = "coarse", target_os = "linux"))]
            Self::Coarse(coarse) if is_long(duration) => coarse.present_for(duration),
            _ => self.now(),
        }
    }
}

/// Returns whether [`Instant::now`] is the system's time.
///
/// Returns `false` if tokio's clock is or was paused. A paused clock falls behind the system's time, unless a
/// test moves it ahead.
pub(crate) fn is_real_time() -> bool {
    let before = std::time::Instant::now();
    let now = Instant::now().into_std();
    before <= now && now <= std::time::Instant::now()
}
