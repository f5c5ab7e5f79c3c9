//! `Now`: the current time during one poll. A poll reads the clock at most once.

use std::cell::Cell;

use super::{
    alarms::Alarms,
    moment::{Moment, Span},
};

/// The current time. The first use reads the clock.
pub(super) struct Now<'a> {
    alarms: &'a Alarms,
    /// The time that the clock returned. It is `NEVER` before the first use.
    read: Cell<Moment>,
}

impl<'a> Now<'a> {
    #[inline]
    pub(super) fn new(alarms: &'a Alarms) -> Self {
        let read = Cell::new(Moment::NEVER);
        Self { alarms, read }
    }

    /// Returns the current time. If the timer is coarse and `shortest` is long, the result is slightly later:
    /// see [`Alarms::present`].
    #[inline]
    pub(super) fn get(&self, shortest: Span) -> Moment {
        match self.read.get() {
            Moment::NEVER => self.read(shortest),
            read => read,
        }
    }

    #[inline(never)]
    fn read(&self, shortest: Span) -> Moment {
        let read = self.alarms.present(shortest);
        self.read.set(read);
        read
    }

    /// Returns the exact current time, which a minimum rate needs.
    #[inline]
    pub(super) fn exact(&self) -> Moment {
        self.get(Span::ZERO)
    }
}
