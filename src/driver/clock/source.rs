//! The source from which a clock reads the time.

use std::time::Duration;

use tokio::time::Instant;

#[cfg(all(feature = "coarse", target_os = "linux"))]
use super::coarse::{Coarse, is_long};

/// The source of the time. Every registrar has a copy, and reads it without indirection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// [`Instant::now`], which follows a paused clock.
    Tokio,
    /// The kernel's coarse clock for long durations, and [`Instant::now`] for everything else.
    #[cfg(all(feature = "coarse", target_os = "linux"))]
    Coarse(&'static Coarse),
    /// A clock that a test sets.
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

    /// Returns whether this is the system's time. A clock that is paused, or was paused before, shows another
    /// time.
    pub(super) fn is_real(&self) -> bool {
        match self {
            Self::Tokio => is_real_time(),
            #[cfg(all(feature = "coarse", target_os = "linux"))]
            Self::Coarse(_) => true,
            #[cfg(test)]
            Self::Manual(manual) => manual.is_real(),
        }
    }

    /// Returns the instant from which `duration` counts.
    ///
    /// This is the current time. For a long duration on a coarse clock it is a slightly later instant, which
    /// includes the margin.
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

/// Returns whether [`Instant::now`] is the system's time. A paused clock falls behind, or was moved ahead.
pub(crate) fn is_real_time() -> bool {
    let before = std::time::Instant::now();
    let now = Instant::now().into_std();
    before <= now && now <= std::time::Instant::now()
}
