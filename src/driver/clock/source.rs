//! What a clock reads the time from.

use tokio::time::Instant;

#[cfg(all(feature = "coarse", target_os = "linux"))]
use super::coarse::Coarse;

/// Where the time comes from. Copied into every registrar and read without indirection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// [`Instant::now`], which obeys a paused clock.
    Tokio,
    /// The same for what must be exact, and for the rest the kernel's coarse clock.
    #[cfg(all(feature = "coarse", target_os = "linux"))]
    Coarse(Coarse),
    /// A test, which sets it.
    #[cfg(test)]
    Manual(super::manual::Manual),
}

impl Source {
    /// The present.
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

    /// Returns whether this is the system's time. A clock that is paused, or was paused before, shows
    /// another time.
    pub(super) fn is_real(&self) -> bool {
        match self {
            Self::Tokio => is_real_time(),
            #[cfg(all(feature = "coarse", target_os = "linux"))]
            Self::Coarse(_) => true,
            #[cfg(test)]
            Self::Manual(manual) => manual.is_real(),
        }
    }

    /// The present or somewhat later, which costs less: what a deadline counts from.
    #[inline]
    pub(super) fn upper_bound(&self) -> Instant {
        match self {
            #[cfg(all(feature = "coarse", target_os = "linux"))]
            Self::Coarse(coarse) => coarse.upper_bound(),
            _ => self.now(),
        }
    }
}

/// Whether [`Instant::now`] is the system's time. A paused clock falls behind or was moved ahead.
pub(crate) fn is_real_time() -> bool {
    let before = std::time::Instant::now();
    let now = Instant::now().into_std();
    before <= now && now <= std::time::Instant::now()
}
