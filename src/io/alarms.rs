//! The alarms of a stream: one that both directions share, until two tasks wait at a time.
//!
//! * While an operation waits, its alarm is registered for its task, at its limit or earlier; or
//!   the task was woken after it last polled the operation. So an operation may set an alarm that has
//!   fired without regard to the other direction.
//! * An alarm may be earlier than each limit: it stays where it is when an operation ends and when a
//!   limit moves back. Then it fires for nothing, and is set to what is true by then.
//! * An operation takes no alarm from another task whose operation waits. Each direction then gets an
//!   alarm of its own, and keeps it.
//!
//! `tests/io/sharing.rs` and `tests/io/duplex.rs` prove the first and the last, `tests/io/bookkeeping.rs` the
//! second.

use std::{
    mem,
    task::{Context, Poll, ready},
};

use super::{
    direction::Direction,
    moment::{Moment, Span},
};
use crate::{futures::Registration, timer::Timer};

/// A `Sleep` whose deadline takes half the memory. An alarm that no operation has set has the deadline
/// [`NEVER`](Moment::NEVER), which is later than any limit.
type Alarm = Registration<Moment>;

#[derive(Debug)]
pub(super) enum Alarms {
    Shared(Alarm),
    /// The alarm of the reads, and the alarm of the writes.
    Apart(Box<[Alarm; 2]>),
}

impl Alarms {
    /// Creates the alarms of a stream of `timer`, or of the default timer.
    pub(super) fn new(timer: Option<&Timer>) -> Self {
        let registrar = timer.map(Timer::registrar);
        Self::Shared(Alarm::new(registrar, Moment::NEVER))
    }

    /// Returns the time. On a coarse timer returns a later time, which costs less, if no limit is short:
    /// `shortest` is the shortest one. The limits of a stream read the time here alone.
    #[inline]
    pub(super) fn present(&self, shortest: Span) -> Moment {
        let alarm = match self {
            Self::Shared(alarm) => alarm,
            Self::Apart(alarms) => &alarms[0],
        };
        Moment::at(alarm.present_for(shortest))
    }

    /// Polls an operation that waits: ready when `due` is reached. `other_waits` says whether an
    /// operation of the other direction waits as well.
    #[inline]
    #[track_caller]
    pub(super) fn poll(
        &mut self,
        direction: Direction,
        due: Moment,
        other_waits: bool,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        if let (true, Self::Shared(alarm)) = (other_waits, &*self) {
            match alarm.wakes(cx.waker()) {
                Some(true) if alarm.deadline() <= due => return Poll::Pending,
                Some(false) => self.separate(direction),
                _ => {}
            }
        }
        let alarm = self.of(direction);
        if alarm.deadline() > due {
            alarm.reset(due);
        }
        loop {
            ready!(alarm.poll(cx));
            if alarm.deadline() == due {
                return Poll::Ready(());
            }
            alarm.reset(due);
        }
    }

    /// Wakes the task whose operation waits in a direction. The call wakes it, and not the driver
    /// later: the other direction may take the alarm before the driver looks.
    pub(super) fn wake(&mut self, direction: Direction) {
        self.of(direction).fire(Moment::NEVER);
    }

    #[inline]
    fn of(&mut self, direction: Direction) -> &mut Alarm {
        match self {
            Self::Shared(alarm) => alarm,
            Self::Apart(alarms) => &mut alarms[direction as usize],
        }
    }

    /// Gives `direction` an alarm of its own, and leaves the shared one to the other direction.
    #[cold]
    fn separate(&mut self, direction: Direction) {
        if let Self::Shared(alarm) = self {
            let new = alarm.of_this_timer(Moment::NEVER);
            let old = mem::replace(alarm, new);
            let new = old.of_this_timer(Moment::NEVER);
            *self = Self::Apart(Box::new(match direction {
                Direction::Read => [new, old],
                Direction::Write => [old, new],
            }));
        }
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use super::*;

    /// `docs/migration.md` has this figure. `tests/io/` tests the size of a stream with one alarm.
    #[test]
    fn alarms_of_two_tasks_take_as_much_memory_as_documented() {
        assert_eq!(size_of::<[Alarm; 2]>(), 48);
        assert_eq!(size_of::<Alarms>(), size_of::<Alarm>());
    }
}
