//! What a wheel keeps of a future: its task, and the place in the program's source that made the future.

#[cfg(feature = "call-sites")]
use std::panic::Location;
use std::task::Waker;

/// The place that called `sleep`, `timeout` or `interval`. Has no size without the feature `call-sites`.
#[derive(Clone, Copy)]
pub(crate) struct Site {
    #[cfg(feature = "call-sites")]
    pub(crate) location: &'static Location<'static>,
}

impl Site {
    #[inline]
    #[cfg_attr(feature = "call-sites", track_caller)]
    pub(crate) fn of_caller() -> Self {
        Self {
            #[cfg(feature = "call-sites")]
            location: Location::caller(),
        }
    }
}

/// The task of a future, and the future's place.
pub(crate) type Owner<'a> = (&'a Waker, Site);

/// An entry of a wheel.
pub(crate) struct Entry {
    pub(crate) waker: Waker,
    pub(crate) site: Site,
}

impl Entry {
    #[inline]
    pub(crate) fn new((waker, site): Owner<'_>) -> Self {
        let waker = waker.clone();
        Self { waker, site }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl From<Waker> for Entry {
        fn from(waker: Waker) -> Self {
            let site = Site::of_caller();
            Self { waker, site }
        }
    }
}
