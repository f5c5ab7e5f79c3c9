//! How much a turn of the driver may do.
//!
//! A turn ends when nothing is due, when it may wake no more tasks (see [`room`](super::room)), or when it has occupied the
//! worker for about a [millisecond](LENGTH). So lateness depends on the number of expired entries, and not on the number
//! of pending entries (tests: `timer::starved`).

use std::{task::Waker, time::Duration};

use bounded_wheel::{Order, Tick};
use tokio::time::Instant;

use crate::{
    driver::{
        clock::Clock,
        room::{Allowance, LATE, Room},
    },
    ground::{unwind, waker},
};

/// The maximum number of steps that the driver does while it holds the lock of a shard.
///
/// These steps take about 25 µs. A thread may hold the lock for at most 50 µs. In a wheel with very many
/// entries, a step costs two or three cache misses, which take about 0.2 µs.
pub(crate) const HOLD: usize = 128;

/// The time after which a turn ends.
const LENGTH: Duration = Duration::from_millis(1);

/// The number of steps after which a turn ends, even on a clock that stands still, such as a paused clock. In
/// unit tests, turns are short.
pub(crate) const STEPS: usize = if cfg!(test) { 4_096 } else { 16_384 };

/// A turn: the time, the work that it may still do, and the wakers that it has taken out of a wheel.
pub(crate) struct Turn<'a> {
    /// The tick that the clock has reached.
    pub(crate) now: Tick,
    /// An entry with this deadline or an earlier deadline is late.
    pub(crate) late_until: Tick,
    pub(crate) order: Order,
    /// The number of entries and slots that the turn may still visit.
    pub(crate) steps: usize,
    /// The tasks that the turn may still wake. Consecutive wakers of one task count as one.
    pub(crate) wakes: Allowance,
    /// The instant at which the turn ends.
    end: Instant,
    pub(crate) has_fired: bool,
    /// The wakers of entries that have fired. The turn wakes them after each visit of a shard.
    pub(crate) expired: &'a mut Vec<Waker>,
    /// The wakers of [spare entries](super::spare), which the turn drops after each visit.
    pub(crate) unused: &'a mut Vec<Waker>,
}

impl<'a> Turn<'a> {
    /// Begins a turn. The buffers must have room for what one visit takes out of a wheel.
    pub(crate) fn begin(
        clock: &Clock,
        room: &mut Room,
        expired: &'a mut Vec<Waker>,
        unused: &'a mut Vec<Waker>,
    ) -> Self {
        let (start, is_real) = clock.look();
        let late = start.checked_sub(LATE).filter(|_| is_real);
        Self {
            now: clock.reached(start),
            late_until: late.map_or(0, |late| clock.reached(late)),
            // Tests with a paused clock rely on the strict order, even when the clock jumps ahead. There the
            // strict order makes no entry late, because the clock stands still while a task runs.
            order: if is_real {
                Order::DueFirst
            } else {
                Order::Strict
            },
            steps: STEPS,
            wakes: room.for_turn(start),
            end: start + LENGTH,
            has_fired: false,
            expired,
            unused,
        }
    }

    /// Returns whether the turn may wake another task, whose entry has this deadline.
    pub(crate) fn may_wake(&self, deadline: Tick) -> bool {
        let Allowance { early, all } = self.wakes;
        all > 0 && (early > 0 || deadline <= self.late_until)
    }

    /// Takes the waker of an entry that fires.
    pub(crate) fn fire(&mut self, deadline: Tick, waker: Waker) {
        let last = self.expired.last();
        if !last.is_some_and(|last| last.will_wake(&waker)) {
            let Allowance { early, all } = &mut self.wakes;
            *all = all.saturating_sub(1);
            *early = early.saturating_sub((deadline > self.late_until).into());
        }
        self.expired.push(waker);
    }

    /// Wakes the tasks of the entries that have fired, and reads the clock. Returns the number of these entries.
    ///
    /// Costs one step, so that visits which find nothing to do come to an end as well.
    pub(crate) fn wake(&mut self, clock: &Clock) -> usize {
        let fired = self.expired.len();
        self.has_fired |= fired > 0;
        self.expired.drain(..).for_each(waker::wake);
        self.unused.drain(..).for_each(unwind::discard);
        self.steps = self.steps.saturating_sub(1);
        // A paused clock stands still.
        if self.order == Order::DueFirst {
            let present = clock.present();
            self.now = clock.reached(present);
            if present >= self.end {
                self.steps = 0;
            }
        }
        fired
    }
}
