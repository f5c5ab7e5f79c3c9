//! One visit of the driver to a [shard](super::shard): what it does under one hold of the lock.

use std::{ops::ControlFlow, task::Waker};

use bounded_wheel::{NEVER, Order, Removed, Tick};

use crate::driver::{
    left::Leavers,
    room::Allowance,
    shard::{Shard, State},
};

/// The time of a visit, in ticks.
pub(crate) struct Time {
    /// The tick that the clock has reached.
    pub(crate) now: Tick,
    /// An entry with this deadline or an earlier deadline is late.
    pub(crate) late_until: Tick,
    pub(crate) order: Order,
}

/// The work that the driver may still do in this turn: see [`turn`](crate::driver::turn).
pub(crate) struct Budget {
    pub(crate) steps: usize,
    /// The tasks that the driver may still wake. Consecutive wakers of one task count as one.
    pub(crate) wakes: Allowance,
}

/// The wakers that a visit takes out of the wheel under the lock of a shard, where the buffers must not grow. The driver
/// empties them after each visit.
pub(crate) struct Wakers {
    /// The wakers of entries that have fired.
    pub(crate) expired: Vec<Waker>,
    /// The wakers of entries that dropped futures have [left](super::left).
    pub(crate) unused: Vec<Waker>,
}

impl Wakers {
    /// Creates buffers for a visit of at most `steps` steps.
    pub(crate) fn new(steps: usize) -> Self {
        Self {
            expired: Vec::with_capacity(steps),
            // A visit drops left entries twice. In between, the workers may leave others.
            unused: Vec::with_capacity(2 * Leavers::MAX_LEFT),
        }
    }
}

/// The result of one visit of the driver to a shard. The driver takes the lock once for each visit.
pub(crate) struct Visited {
    /// Whether the wheel has entries that must cascade.
    pub(crate) has_cascades: bool,
    /// Whether the wheel has unused memory, which the driver must free.
    pub(crate) has_unused: bool,
}

/// While coarse slots of a wheel wait for their cascade, one step out of this many steps of a visit belongs to
/// them. Otherwise a crowd of late entries could stop the cascades, and with them all entries of these slots.
const BACKLOG_SHARE: usize = 4;

impl Shard {
    /// Fires entries that have expired, and cascades. Takes their wakers out of the wheel.
    ///
    /// Does at most `hold` steps, and subtracts these steps from `budget`. A step is a few memory accesses. If the budget
    /// has no wakes left, the visit fires no entry, or only entries that are late.
    ///
    /// The caller wakes the expired wakers, and drops the unused wakers. Then, if `has_unused` of the result is true, the
    /// caller [frees](Self::free_unused) the unused memory.
    pub(crate) fn visit(
        &self,
        time: &Time,
        hold: usize,
        budget: &mut Budget,
        wakers: &mut Wakers,
    ) -> Visited {
        let given = hold.min(budget.steps);
        let mut held = self.lock();
        held.is_paused = time.order == Order::Strict;
        held.drop_left(time.now, &mut wakers.unused);
        let reserved = match held.wheel.has_cascades() {
            true => given / BACKLOG_SHARE,
            false => 0,
        };
        let mut steps = given - reserved;
        if budget.wakes.is_left(self.published() <= time.late_until) {
            held.fire(time, &mut steps, &mut budget.wakes, &mut wakers.expired);
        }
        steps += reserved;
        // The next visit does what is left.
        let _ = held.wheel.cascade_backlog(&mut steps);
        budget.steps -= given - steps;
        if wakers.expired.is_empty() {
            held.drop_left(NEVER, &mut wakers.unused);
        }
        held.raise();
        Visited {
            has_cascades: held.wheel.has_cascades(),
            has_unused: held.wheel.has_unused(),
        }
    }
}

impl State {
    /// Removes the entries with a deadline up to `until` that dropped futures have left. Takes their wakers.
    pub(super) fn drop_left(&mut self, until: Tick, unused: &mut Vec<Waker>) {
        self.leavers.expire(&mut self.wheel, until, unused);
    }

    /// Advances the wheel to the time, and takes the wakers of the entries that fire.
    fn fire(
        &mut self,
        time: &Time,
        steps: &mut usize,
        wakes: &mut Allowance,
        expired: &mut Vec<Waker>,
    ) {
        let lateness = &mut self.lateness;
        let fire = |entry: Removed<Waker>| {
            lateness.count(time.now.saturating_sub(entry.deadline));
            let is_late = entry.deadline <= time.late_until;
            let last = expired.last();
            if !last.is_some_and(|last| last.will_wake(&entry.value)) {
                wakes.count(is_late);
            }
            expired.push(entry.value);
            match wakes.is_left(is_late) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        };
        // The next visit does what is left.
        let _ = self.wheel.advance(time.now, time.order, steps, fire);
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use std::iter;

    use bounded_wheel::Key;

    use super::*;

    /// A worker needs no lock to leave an entry. So it may leave entries while the driver drops others.
    #[test]
    fn entries_that_are_left_during_a_visit_allocate_no_memory_under_the_lock() {
        let shard = Shard::new();
        let workers: Vec<_> = iter::from_fn(|| shard.admit()).collect();
        let leave_all = |keys: &[Key]| {
            let mut keys = keys.iter();
            for left in &workers {
                while left.keys().count() < Leavers::MAX_LEFT / workers.len() {
                    left.add(*keys.next().unwrap());
                }
            }
        };
        let register = |_| shard.register(None, 5, Waker::noop().clone()).unwrap().0;
        let keys: Vec<_> = (0..2 * Leavers::MAX_LEFT).map(register).collect();
        let (first, second) = keys.split_at(Leavers::MAX_LEFT);
        let mut unused = Wakers::new(1).unused;
        let capacity = unused.capacity();
        leave_all(first);
        let mut held = shard.lock();
        held.drop_left(5, &mut unused);
        leave_all(second);
        held.drop_left(NEVER, &mut unused);
        assert_eq!((unused.len(), unused.capacity()), (keys.len(), capacity));
    }
}
