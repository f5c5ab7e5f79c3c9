//! The time of an operation, which is read when it is first used.

use std::cell::Cell;

use super::{
    alarms::Alarms,
    moment::{Moment, Span},
};

pub(super) struct Now<'a> {
    alarms: &'a Alarms,
    /// `NEVER` before it is read.
    read: Cell<Moment>,
}

impl<'a> Now<'a> {
    #[inline]
    pub(super) fn new(alarms: &'a Alarms) -> Self {
        let read = Cell::new(Moment::NEVER);
        Self { alarms, read }
    }

    /// Returns the time, for a stream whose shortest limit is given.
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

    /// Returns the time, for a stream that has a rate.
    #[inline]
    pub(super) fn exact(&self) -> Moment {
        self.get(Span::ZERO)
    }
}
