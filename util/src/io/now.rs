//! `Now`: the current time during one poll. A poll reads the clock at most once.

use std::cell::Cell;

use tokio::time::Instant;

use super::moment::Moment;

/// The current time. The first use reads the clock.
///
/// The value is `NEVER` before the first use.
pub(super) struct Now(Cell<Moment>);

impl Now {
    #[inline]
    pub(super) fn new() -> Self {
        Self(Cell::new(Moment::NEVER))
    }

    /// Returns the current time.
    #[inline]
    pub(super) fn get(&self) -> Moment {
        match self.0.get() {
            Moment::NEVER => self.read(),
            read => read,
        }
    }

    #[inline(never)]
    fn read(&self) -> Moment {
        let read = Moment::at(Instant::now());
        self.0.set(read);
        read
    }
}
