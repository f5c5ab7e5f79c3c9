//! The alarms of a stream. They wake the tasks of waiting operations.
//!
//! Both directions share one alarm until two tasks wait at the same time. Three rules hold:
//!
//! 1. While an operation waits, an alarm is registered that wakes the task at the limit of the operation, or
//!    earlier. There is one exception: the task was woken, and has not polled the operation since. An
//!    operation may therefore move a fired alarm without a check of the other direction.
//! 2. An alarm does not move when an operation ends or when a limit becomes later. An alarm may therefore be
//!    earlier than every limit. Such an alarm wakes its task without need, and the next poll corrects the
//!    deadline of the alarm.
//! 3. While the operation of another task waits for the shared alarm, an operation must not take this alarm.
//!    Instead, each direction gets its own alarm and keeps it.
//!
//! `tests/io/sharing.rs` and `tests/io/duplex.rs` prove rules 1 and 3. `tests/io/bookkeeping.rs` proves
//! rule 2.

use std::{
    mem,
    task::{Context, Poll, ready},
};

use super::{direction::Direction, moment::Moment};
use crate::{futures::Registration, timer::Timer};

/// Works like a `Sleep`, but its deadline takes only half the memory. An unused alarm has the deadline
/// [`NEVER`](Moment::NEVER), which is later than any limit.
type Alarm = Registration<Moment>;

#[derive(Debug)]
pub(super) enum Alarms {
    /// One alarm for both directions.
    Shared(Alarm),
    /// One alarm for the reads, and one alarm for the writes.
    Apart(Box<[Alarm; 2]>),
}

impl Alarms {
    /// Creates an alarm that both directions share. `None` stands for the default timer.
    pub(super) fn new(timer: Option<&Timer>) -> Self {
        let registrar = timer.map(Timer::registrar);
        Self::Shared(Alarm::new(registrar, Moment::NEVER))
    }

    /// Polls the alarm of an operation that waits until `due`. `other_waits` is true if an operation of the
    /// other direction waits too.
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

    /// Wakes the task whose operation waits in `direction`.
    ///
    /// This function wakes the task immediately. If the driver woke the task later, the other direction could
    /// take the alarm before this wake.
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

    /// Gives `direction` a new alarm, and leaves the shared alarm to the other direction.
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

    /// The documentation of `io` and `docs/migration.md` state this size. `tests/io/bookkeeping.rs` tests
    /// the size of a stream with one alarm.
    #[test]
    fn alarms_of_two_tasks_take_as_much_memory_as_documented() {
        assert_eq!(size_of::<[Alarm; 2]>(), 48);
        assert_eq!(size_of::<Alarms>(), size_of::<Alarm>());
    }
}
