//! The current time of one poll, which reads the clock at most once.

use std::cell::Cell;

use super::{
    alarms::Alarms,
    moment::{Moment, Span},
};

/// A clock that is read on first use.
pub(super) struct Now<'a> {
    alarms: &'a Alarms,
    /// `NEVER` until the clock is read.
    read: Cell<Moment>,
}

impl<'a> Now<'a> {
    #[inline]
    pub(super) fn new(alarms: &'a Alarms) -> Self {
        let read = Cell::new(Moment::NEVER);
        Self { alarms, read }
    }

    /// Returns the current time. A coarse timer may return a later time if `shortest` is long: see
    /// [`Alarms::present`].
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
